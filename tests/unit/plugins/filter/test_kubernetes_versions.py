# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The version of a cluster decides what its hosts get, whatever the inventory says."""

from __future__ import annotations

import base64
from typing import Any

import pytest
from ansible_collections.gpulab.kubernetes.plugins.plugin_utils._nodes.kubernetes import (
    cluster_version,
    kubelet_change,
    kubernetes_packages,
    minors_behind,
    node_version,
    only_programs_are_newer,
    pending_upgrade,
    release,
)
from hypothesis import given
from hypothesis import strategies as st

TABLE = ["1.35.8", "1.36.5", "1.37.2"]


def control_plane(configured: str = "", answers: str = "") -> dict[str, Any]:
    text = f"kind: ClusterConfiguration\nkubernetesVersion: {configured}\n" if configured else ""
    return {"preflight_host": {"control_plane": {"texts": {"ClusterConfiguration": text}, "version": answers}}}


@pytest.mark.parametrize(
    ("hosts", "version"),
    [
        ({"cp1": control_plane("v1.36.5", "v1.36.5")}, "1.36.5"),
        ({"cp1": control_plane("v1.36.5", "v1.37.2")}, "1.36.5"),
        ({"cp1": control_plane("", "v1.36.5")}, "1.36.5"),
        ({"cp1": {}, "cp2": control_plane("v1.36.5")}, "1.36.5"),
        ({"cp1": control_plane("v1.34.1")}, "1.37.2"),
        ({"cp1": {"preflight_host": {"control_plane": {}}}}, "1.37.2"),
        # Its API does not answer.
        ({"cp1": {"preflight_host": {"control_plane": {"components": {"kube-apiserver": "v1.36.5"}}}}}, "1.36.5"),
        ({"cp1": {}}, "1.37.2"),
        ({}, "1.37.2"),
    ],
)
def test_the_clusters_own_version_decides(hosts: dict[str, Any], version: str) -> None:
    assert cluster_version(hosts, hosts, "1.37.2", TABLE) == version


def test_a_playbook_without_preflight_reads_the_version_in_a_manifest() -> None:
    pod = "spec: {containers: [{name: kube-apiserver, image: 'registry.k8s.io/kube-apiserver:v1.36.5', command: [x]}]}"
    read = {"content": base64.b64encode(pod.encode()).decode()}
    assert cluster_version(["cp1"], {"cp1": {}}, "1.37.2", TABLE, read) == "1.36.5"
    assert cluster_version(["cp1"], {"cp1": {"cluster_api_manifest": read}}, "1.37.2", TABLE) == "1.36.5"
    for damaged in ({"content": "x"}, {"content": "AAAA"}, {"failed": True}, None):
        assert cluster_version(["cp1"], {"cp1": {}}, "1.37.2", TABLE, damaged) == "1.37.2"


@pytest.mark.parametrize(
    ("package", "finished", "version"),
    [
        ("1.35.8-1.1", True, "1.35.8"),
        ("1.35.8-1.1", False, "1.36.5"),
        ("1.37.2-1.1", True, "1.36.5"),
        ("1.34.1-1.1", True, "1.36.5"),
        ("9:1.35.8+lab", True, "1.35.8"),
        ("newest", True, "1.36.5"),
        (None, True, "1.36.5"),
    ],
)
def test_a_node_that_is_behind_keeps_its_version(package: Any, finished: bool, version: str) -> None:
    host = {"installed": {"kubelet": package}, "cluster": {"finished": finished}}
    assert node_version(host, "1.36.5", TABLE) == version
    assert node_version({}, "1.36.5", TABLE) == "1.36.5"


PACKAGES = {
    version: {"packages": dict.fromkeys(("kubelet", "kubeadm", "cri-tools"), f"{version}-1.1")} for version in TABLE
}


@pytest.mark.parametrize(
    ("node", "cluster", "control_plane", "kubelet", "kubeadm"),
    [
        ("1.36.5", "1.36.5", True, "1.36.5-1.1", "1.36.5-1.1"),
        # The kubelet was deferred: kubeadm must know the version of the control plane.
        ("1.35.8", "1.36.5", True, "1.35.8-1.1", "1.36.5-1.1"),
        ("1.35.8", "1.36.5", False, "1.35.8-1.1", "1.35.8-1.1"),
        # While the cluster is upgraded.
        ("1.37.2", "1.36.5", True, "1.37.2-1.1", "1.37.2-1.1"),
    ],
)
def test_packages_of_a_host(node: str, cluster: str, control_plane: bool, kubelet: str, kubeadm: str) -> None:
    found = kubernetes_packages(PACKAGES, node, cluster, control_plane)
    assert found == {"kubelet": kubelet, "kubeadm": kubeadm, "cri-tools": kubeadm}
    assert kubernetes_packages(PACKAGES, "1.99.0", cluster, False) == {}


@pytest.mark.parametrize(
    ("installed", "may"),
    [
        ({"kubelet": "1.36.5-1.1", "kubeadm": "1.37.2-1.1"}, True),
        ({"kubelet": "1.37.2-1.1", "kubeadm": "1.37.2-1.1"}, False),
        ({"kubelet": "1.36.5-1.1", "kubeadm": "1.36.5-1.1"}, False),
        ({"kubelet": "newest"}, False),
        (None, False),
    ],
)
def test_only_programs_are_downgraded(installed: Any, may: bool) -> None:
    assert only_programs_are_newer(installed, kubernetes_packages(PACKAGES, "1.36.5", "1.36.5", True)) is may


@pytest.mark.parametrize(
    ("node", "package", "pending"),
    [
        ({"kubelet": "v1.36.5"}, "1.36.5", []),
        ({"kubelet": "v1.35.8"}, "1.35.8", ["kubelet 1.35.8 -> 1.36.5"]),
        # It was installed, but has not restarted.
        ({"kubelet": "v1.35.8"}, "1.36.5", ["kubelet 1.35.8 -> 1.36.5"]),
        ({"kubelet": "v1.36.5", "upgrading": True}, "1.36.5", ["kubelet 1.36.5"]),
        ({}, "1.35.8", ["kubelet 1.35.8 -> 1.36.5"]),
    ],
)
def test_a_node_that_was_left_or_interrupted_is_pending(node: dict[str, Any], package: str, pending: list[str]) -> None:
    api_host = {"control_plane": {"nodes": [{"name": "gpu1", **node}, {"name": "gpu2", "kubelet": "v1.34.1"}]}}
    host = {"node_name": "gpu1", "installed": {"kubelet": f"{package}-1.1"}, "cluster": {"finished": True}}
    found = pending_upgrade(host, api_host, "1.36.5")
    assert found == ({"kubernetes_upgrade": pending} if pending else {})
    assert pending_upgrade({**host, "cluster": {}}, api_host, "1.36.5") == {}


def kubelet(running: str = "v1.36.5", record: str = "", **amounts: str) -> dict[str, Any]:
    annotations = {"gpulab.io/kubernetes-upgrade": record} if record else {}
    status = {"nodeInfo": {"kubeletVersion": running}, "capacity": {"cpu": "4", **amounts}}
    return {"metadata": {"name": "gpu1", "annotations": annotations}, "status": status}


RECORD = '{"cordoned": false, "data": {"from": "1.36.5", "to": "1.37.2", "offered": {"nvidia.com/gpu": "2"}}}'


@pytest.mark.parametrize(
    ("node", "installed", "pending", "interrupted", "offered"),
    [
        (kubelet(**{"nvidia.com/gpu": "2"}), "1.36.5-1.1", True, False, {"nvidia.com/gpu": "2"}),
        (kubelet("v1.37.2"), "1.37.2-1.1", False, False, {}),
        # The device plugin has not registered again: the record knows what it offered.
        (kubelet("v1.37.2", RECORD, **{"nvidia.com/gpu": "0"}), "1.37.2-1.1", False, True, {"nvidia.com/gpu": "2"}),
        (kubelet("v1.36.5", RECORD), "1.37.2-1.1", True, False, {"nvidia.com/gpu": "2"}),
        (kubelet("v1.36.5", "damaged"), "1.36.5-1.1", True, False, {}),
        ({}, "1.36.5-1.1", True, False, {}),
        # Another revision of the package is not another version.
        (kubelet("v1.37.2"), "1.37.2-2.1", False, False, {}),
    ],
)
def test_what_an_upgrade_changes_on_a_node(
    node: dict[str, Any], installed: str, pending: bool, interrupted: bool, offered: dict[str, str]
) -> None:
    found = kubelet_change(node, {"kubelet": installed}, "1.37.2", True)
    assert (found["pending"], found["interrupted"], found["offered"]) == (pending, interrupted, offered)
    assert kubelet_change(node, {"kubelet": installed}, "1.37.2", False)["offered"] == {}


@given(st.from_type(type) | st.text() | st.integers() | st.none())
def test_any_text_is_a_release_or_none(text: Any) -> None:
    assert release(text) == "" or release(f"v{release(text)}") == release(text)


def test_minors_are_counted() -> None:
    assert [minors_behind(node, "1.37.2") for node in ("1.35.8", "1.37.0", "1.38.0")] == [2, 0, 0]
