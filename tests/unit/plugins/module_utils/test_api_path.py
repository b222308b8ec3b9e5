# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from pathlib import Path

import pytest
from ansible_collections.gpulab.kubernetes.plugins.module_utils._api_path import path_problem
from ansible_collections.gpulab.kubernetes.plugins.module_utils._cluster.api import Api, ApiError
from ansible_collections.gpulab.kubernetes.plugins.module_utils._cluster.maintenance import Maintenance
from ansible_collections.gpulab.kubernetes.plugins.module_utils._cluster.records import ISOLATION
from fake_node import FakeNode
from hypothesis import given
from hypothesis import strategies as some
from urllib3.util import parse_url

NODES = "/api/v1/nodes/"


@pytest.mark.parametrize(
    "path",
    [
        "/version",
        "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/gpulab",
        "/api/v1/namespaces/a/pods/agnhost-1:8080/proxy/dial",
        "/apis/rbac.authorization.k8s.io/v1/clusterroles/system:node",
        NODES + "gpu1.example.com",
    ],
)
def test_paths_of_objects_are_valid(path: str) -> None:
    assert path_problem(path) == ""


@pytest.mark.parametrize(
    "path",
    [
        "",
        "version",
        NODES,
        NODES + "../namespaces/kube-system",
        NODES + ".",
        NODES + "%2e%2e/namespaces/kube-system",
        NODES + "gpu1?dryRun=All",
        NODES + "gpu1#",
        NODES + "gpu 1",
        NODES + "gpu1\n",
        NODES + "a//b",
        NODES + "gpu1\\..",
        NODES + "gpü1",
    ],
)
def test_paths_that_lead_elsewhere_are_refused(path: str) -> None:
    assert "not valid in Kubernetes" in path_problem(path)


@given(some.lists(some.text("/.%?#\\ a:-_~;@", max_size=9), max_size=4))
def test_an_accepted_path_is_requested_unchanged(names: list[str]) -> None:
    path = "/" + "/".join(["api", *names])
    if not path_problem(path):
        assert parse_url(f"https://192.0.2.1:6443{path}").request_uri == path


def test_a_node_name_cannot_lead_to_another_object(tmp_path: Path) -> None:
    words = r"GET.*\.\./namespaces/kube-system.*Nothing was sent"
    with FakeNode("gpu1").serve(tmp_path) as kubeconfig, pytest.raises(ApiError, match=words):
        Maintenance(Api(str(kubeconfig)), "../namespaces/kube-system", ISOLATION, check=False)
