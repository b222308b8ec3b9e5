# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Objects from manifests, and several states in one module, with a small API server."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from fake_cluster import FakeCluster, FakeNode

NAMESPACE = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "net"}}
CONFIG = {
    "apiVersion": "v1",
    "kind": "ConfigMap",
    "metadata": {"name": "c", "namespace": "net"},
    "data": {"mtu": "1450"},
}
RULE = {"apiVersion": "nfd.k8s-sigs.io/v1alpha1", "kind": "NodeFeatureRule", "metadata": {"name": "r"}, "spec": {}}


class Lab:
    def __init__(self, run: Callable[..., dict[str, Any]], kubeconfig: Path, cluster: FakeCluster) -> None:
        self._run = run
        self.kubeconfig = str(kubeconfig)
        self.cluster = cluster

    def apply(self, *definitions: dict[str, Any], **more: Any) -> dict[str, Any]:
        return self._run("cluster_objects", {"kubeconfig": self.kubeconfig, "definitions": list(definitions)}, **more)

    def states(self, *states: dict[str, Any], **more: Any) -> dict[str, Any]:
        return self._run("cluster_state", {"kubeconfig": self.kubeconfig, "states": list(states)}, **more)


@pytest.fixture
def lab(run_module: Callable[..., dict[str, Any]], tmp_path: Path) -> Iterator[Lab]:
    cluster = FakeCluster(FakeNode("gpu1", ["GPU-0"]))
    cluster.strict = True
    cluster.resources["/api/v1"] = [
        ("Namespace", "namespaces", False),
        ("ConfigMap", "configmaps", True),
        ("Secret", "secrets", True),
        ("Pod", "pods/log", True),
    ]
    with ExitStack() as stack:
        yield Lab(run_module, stack.enter_context(cluster.serve(tmp_path)), cluster)


def test_objects_are_created_once(lab: Lab) -> None:
    assert lab.apply(NAMESPACE, CONFIG)["changes"] == ["Namespace net", "ConfigMap net/c"]
    again = lab.apply(NAMESPACE, CONFIG)
    assert (again["changed"], again["changes"]) == (False, [])


def test_only_differences_are_changed_and_shown(lab: Lab) -> None:
    lab.apply(NAMESPACE, CONFIG)
    other = {**CONFIG, "data": {"mtu": "9000"}}
    result = lab.apply(NAMESPACE, other, diff=True)
    assert result["changes"] == ["ConfigMap net/c"]
    assert "1450" in str(result["diff"]["before"])
    assert "9000" in str(result["diff"]["after"])
    assert "Namespace" not in str(result["diff"]["after"])


def test_a_secret_is_shown_without_its_content(lab: Lab) -> None:
    token = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "t", "namespace": "net"},
        "data": {"a": "c2VjcmV0"},
    }
    lab.apply(NAMESPACE, token)
    changed = {**token, "data": {"a": "c2VjcmV0", "b": "bW9yZQ=="}}
    result = lab.apply(NAMESPACE, changed, diff=True)
    assert result["changes"] == ["Secret net/t"]
    assert "hidden" in str(result["diff"]["after"])
    assert "c2VjcmV0" not in str(result["diff"]) and "bW9yZQ==" not in str(result["diff"])


def test_fields_added_by_the_api_are_not_a_change(lab: Lab) -> None:
    lab.apply(NAMESPACE)
    path = "/api/v1/namespaces/net"
    own = {"uid": "u", "resourceVersion": "7", "managedFields": [{}], "creationTimestamp": "2026-11-22T02:00:00Z"}
    stored = {**NAMESPACE, "metadata": {"name": "net", **own}, "status": {"phase": "Active"}}
    lab.cluster.objects[path] = lab.cluster.namespaces["net"] = stored
    assert not lab.apply(NAMESPACE)["changed"]


def test_check_mode_predicts_objects_without_a_namespace_or_kind_and_creates_nothing(lab: Lab) -> None:
    result = lab.apply(NAMESPACE, CONFIG, RULE, check=True)
    assert result["changes"] == ["Namespace net", "ConfigMap net/c", "NodeFeatureRule r"]
    assert "net" not in lab.cluster.namespaces


def test_a_missing_namespace_is_an_error_in_a_real_run(lab: Lab) -> None:
    result = lab.apply(CONFIG)
    assert result["failed"]
    assert 'namespaces "net" not found' in result["msg"]


def test_several_states_are_read_together(lab: Lab) -> None:
    pools = {"nodes": [{"name": "gpu1", "labels": {"gpulab.io/pool": "a100"}}]}
    result = lab.states(
        {"name": "pools", "module": "node_pools", "args": pools},
        {"name": "network", "module": "cluster_objects", "args": {"definitions": [NAMESPACE]}},
        {"name": "plugins", "module": "gpu_plugins_info"},
        {"name": "never", "module": "gpu_plugins_info", "when": False},
        check=True,
    )
    assert result["changed"]
    assert list(result["states"]["pools"]["changes"]) == ["gpu1"]
    assert result["states"]["network"]["changes"] == ["Namespace net"]
    assert result["states"]["plugins"]["installers"] == []
    assert "never" not in result["states"]


def test_an_invalid_argument_is_reported_before_anything_is_read(lab: Lab) -> None:
    result = lab.states(
        {"name": "network", "module": "cluster_objects", "args": {"definitions": [NAMESPACE]}},
        {"name": "pools", "module": "node_pools", "args": {"nods": []}},
    )
    assert result["failed"]
    assert "pools" in result["msg"]
    assert "net" not in lab.cluster.namespaces
