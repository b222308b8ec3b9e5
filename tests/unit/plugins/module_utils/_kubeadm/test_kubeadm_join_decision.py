# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.gpulab.kubernetes.plugins.module_utils._kubeadm.join_decision import (
    CLEAN,
    DELETED,
    JOIN,
    JOINED,
    KNOWN,
    REFUSE,
    REFUSED,
    SILENT,
    UNASKED,
    Evidence,
    decide,
)

OURS, OTHER = "sha256:" + "1a" * 32, "sha256:" + "2b" * 32
MEMBER: dict[str, Any] = {
    "kubelet_conf": True,
    "server": "https://a:1",
    "ca_cert_hashes": (OURS,),
    "node": "gpu1",
    "api": KNOWN,
}
# kubelet.conf is empty, the CA is not.
CUT: dict[str, Any] = {"damaged": ("/etc/kubernetes/kubelet.conf",), "ca_cert_hashes": (OURS,)}
CONFIG: dict[str, Any] = {**MEMBER, "damaged": ("/var/lib/kubelet/config.yaml",)}
RUNS: dict[str, Any] = {**CONFIG, "kubelet_runs": True}

TABLE = [
    ("bare host", {}, [OURS], JOIN, False),
    ("interrupted join", {"leftovers": ("/etc/kubernetes/pki/ca.crt",)}, [OURS], CLEAN, False),
    ("member", MEMBER, [OURS], JOINED, False),
    ("member, hashes in capitals", MEMBER, [OURS.upper().replace("SHA", "sha")], JOINED, False),
    ("member, CA being replaced", {**MEMBER, "ca_cert_hashes": (OTHER, OURS)}, [OURS], JOINED, False),
    ("member, nothing to compare with", MEMBER, [], JOINED, False),
    ("member that is a control plane", {**MEMBER, "control_plane": True}, [OURS], JOINED, False),
    ("member, API silent", {**MEMBER, "api": SILENT}, [OURS], JOINED, True),
    ("member whose certificate can't be read", {**MEMBER, "api": UNASKED, "node": None}, [OURS], JOINED, True),
    ("member whose CA can't be read", {**MEMBER, "ca_cert_hashes": ()}, [OURS], JOINED, False),
    ("deleted", {**MEMBER, "api": DELETED}, [OURS], REFUSE, False),
    ("refused", {**MEMBER, "api": REFUSED}, [OURS], REFUSE, False),
    ("other cluster", MEMBER, [OTHER], REFUSE, False),
    ("other cluster, deleted there", {**MEMBER, "api": DELETED}, [OTHER], REFUSE, False),
    ("power failure", CUT, [OURS], CLEAN, False),
    ("power failure, certificate damaged", {**CONFIG, "api": UNASKED, "node": None}, [OURS], CLEAN, False),
    ("power failure, only the configuration is damaged", CONFIG, [OURS], CLEAN, False),
    ("power failure, API silent", {**CONFIG, "api": SILENT}, [OURS], REFUSE, False),
    ("power failure, deleted", {**CONFIG, "api": DELETED}, [OURS], REFUSE, False),
    ("power failure, refused", {**CONFIG, "api": REFUSED}, [OURS], REFUSE, False),
    ("power failure, the CA is empty, too", {**CUT, "ca_cert_hashes": ()}, [OURS], REFUSE, False),
    ("the same, and the kubelet runs", {**CUT, "ca_cert_hashes": (), "kubelet_runs": True}, [OURS], REFUSE, False),
    ("power failure, a copy of admin.conf", {**CUT, "admin_conf": True}, [OURS], CLEAN, False),
    ("admin.conf alone", {"admin_conf": True}, [OURS], REFUSE, False),
    ("power failure, other cluster", CUT, [OTHER], REFUSE, False),
    ("emptied while the kubelet runs", {**CUT, "kubelet_runs": True}, [OURS], JOINED, True),
    ("emptied while the kubelet runs, deleted", {**RUNS, "api": DELETED}, [OURS], REFUSE, False),
    ("emptied while the kubelet runs, API silent", {**RUNS, "api": SILENT}, [OURS], JOINED, True),
    ("a kubelet runs, but never joined", {**RUNS, "kubelet_conf": False}, [OURS], CLEAN, False),
    ("emptied while the kubelet runs, other cluster", {**CUT, "kubelet_runs": True}, [OTHER], REFUSE, False),
    ("power failure of a control plane", {**CUT, "control_plane": True}, [OURS], REFUSE, False),
    ("unfinished control plane", {"control_plane": True}, [OURS], REFUSE, False),
    ("unfinished control plane with leftovers", {"control_plane": True, "leftovers": ("x",)}, [OURS], REFUSE, False),
]


@pytest.mark.parametrize(("name", "found", "hashes", "action", "warned"), TABLE, ids=[row[0] for row in TABLE])
def test_each_state_of_a_host_has_its_decision(
    name: str, found: dict[str, Any], hashes: list[str], action: str, warned: bool
) -> None:
    verdict = decide(Evidence(**found), hashes)
    assert (verdict.action, bool(verdict.warnings)) == (action, warned)
    assert bool(verdict.advice) == (action == REFUSE)
    assert verdict.reason


def test_an_expired_certificate_is_replaced_before_anything_is_reset() -> None:
    advice = decide(Evidence(**{**MEMBER, "api": REFUSED}), [OURS]).advice
    assert 0 < advice.find("gpulab.kubernetes.renew_certificates") < advice.find("kubeadm reset")


def test_a_node_that_never_registered_is_not_said_to_come_back() -> None:
    verdict = decide(Evidence(**{**CONFIG, "api": DELETED}), [OURS])
    assert "the cluster at https://a:1 has no node gpu1" in verdict.reason and "config.yaml" in verdict.reason
    assert "kubeadm reset" in verdict.advice and "restart kubelet" not in verdict.advice
