# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.gpulab.kubernetes.plugins.test.api_unavailable import TestModule as Plugin

unavailable = Plugin().tests()["api_unavailable"]
POOL = "HTTPSConnectionPool(host='10.0.0.1', port=6443): Max retries exceeded with url: /version (Caused by "
STATUS = '{"kind":"Status","apiVersion":"v1","status":"Failure","message":"etcdserver: leader changed","code":500}'


@pytest.mark.parametrize(
    ("msg", "expected"),
    [
        (f"Failed to get client due to {POOL}NewConnectionError('Connection refused'))", True),
        ("Failed to get client due to ('Connection aborted.', RemoteDisconnected('Remote end closed'))", True),
        (f"Failed to retrieve requested object: b'{STATUS}'", True),
        ("Failed to get client due to (503)\nReason: Service Unavailable\nHTTP response headers: ...", True),
        ("Failed to apply object: 429\nReason: Too Many Requests", True),
        ('Error: Kubernetes cluster unreachable: Get "https://cp1:6443/version": EOF', True),
        ("Error: UPGRADE FAILED: read tcp 10.0.0.2:1->10.0.0.1:6443: connection reset by peer", True),
        (f"Failed to get client due to {POOL}SSLError(SSLCertVerificationError('certificate verify failed')))", False),
        ('Failed to delete object: {"reason":"Forbidden","code":403}', False),
        (r"""b'{"message":"nodes is forbidden: User \"kubernetes-admin\" cannot list resource \"nodes\""}'""", True),
        ('pods is forbidden: User "system:serviceaccount:team:user" cannot list resource "pods"', False),
        ('Failed to delete object: {"code":429,"details":{"causes":[{"reason":"DisruptionBudget"}]}}', False),
        ("Error: UPGRADE FAILED: timed out waiting for the condition", False),
        ("Timed out waiting on resource", False),
        ("", False),
    ],
)
def test_only_temporary_api_failures_are_unavailable(msg: str, expected: bool) -> None:
    assert unavailable({"failed": True, "msg": msg}) is expected
    assert unavailable({"failed": True, "msg": "Failure when executing Helm command", "stderr": msg}) is expected
    assert unavailable({"failed": False, "msg": msg}) is False


@pytest.mark.parametrize("result", [None, "failed", [], {}, {"failed": True}, {"failed": True, "msg": 5}])
def test_any_other_result_is_not_unavailable(result: Any) -> None:
    assert unavailable(result) is False
