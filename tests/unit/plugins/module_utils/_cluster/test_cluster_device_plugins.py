# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.gpulab.kubernetes.plugins.filter.sharing import FilterModule
from ansible_collections.gpulab.kubernetes.plugins.module_utils._cluster.device_plugins import (
    managed,
    plugins,
    shared,
)

SOCKETS = [{"name": "d", "hostPath": {"path": "/var/lib/kubelet/device-plugins"}}]
SPEC: dict[str, Any] = {
    "containers": [{"name": "nvidia-device-plugin", "image": "nvcr.io/nvidia/k8s-device-plugin:v0.19.0"}],
    "volumes": SOCKETS,
}


def daemonset(namespace: str, name: str, spec: dict[str, Any] | None = None, owner: str = "") -> dict[str, Any]:
    owners = [{"kind": "ClusterPolicy", "name": owner}] if owner else []
    return {
        "metadata": {"namespace": namespace, "name": name, "ownerReferences": owners},
        "spec": {"template": {"spec": spec or SPEC}},
    }


def pod(namespace: str, owner: str, node: str, phase: str = "Running", **spec: Any) -> dict[str, Any]:
    owners = [{"kind": "DaemonSet", "name": owner}] if owner else []
    return {
        "metadata": {"namespace": namespace, "name": f"{owner}-x", "ownerReferences": owners},
        "spec": {**SPEC, "nodeName": node, **spec},
        "status": {"phase": phase},
    }


def told(daemonsets: list[Any], pods: list[Any]) -> list[tuple[str, str, str, list[str]]]:
    return [(p.namespace, p.name, p.policy, p.nodes) for p in plugins(daemonsets, pods)]


@pytest.mark.parametrize(
    ("daemonsets", "pods", "expected"),
    [
        ([], [], []),
        ([daemonset("ours", "p")], [pod("ours", "p", "gpu1")], [("ours", "p", "", ["gpu1"])]),
        ([daemonset("ours", "p")], [], [("ours", "p", "", [])]),
        ([daemonset("op", "p", owner="cluster-policy")], [], [("op", "p", "cluster-policy", [])]),
        # Pods that have outlived their DaemonSet, and a pod without a DaemonSet.
        ([], [pod("ours", "p", "gpu2"), pod("ours", "p", "gpu1")], [("ours", "p", "", ["gpu1", "gpu2"])]),
        ([], [pod("ours", "", "gpu1")], [("ours", "-x", "", ["gpu1"])]),
        # A finished pod, and a pod that is not bound to a node yet.
        ([], [pod("ours", "p", "gpu1", phase="Succeeded"), pod("ours", "p", "")], []),
        # Feature discovery uses the same image; plugins of other vendors use the same directory.
        ([daemonset("ours", "gfd", {**SPEC, "volumes": [{"name": "s", "hostPath": {"path": "/sys"}}]})], [], []),
        ([daemonset("x", "rdma", {**SPEC, "containers": [{"name": "rdma", "image": "mellanox/rdma"}]})], [], []),
        ([daemonset("x", "p", {"containers": [{"name": "nvidia"}]})], [], []),
    ],
)
def test_device_plugins_are_distinguished_from_similar_pods(
    daemonsets: list[Any], pods: list[Any], expected: list[Any]
) -> None:
    assert told(daemonsets, pods) == expected


def test_a_node_with_two_device_plugins_is_named() -> None:
    found = plugins([], [pod("a", "p", "gpu1"), pod("b", "p", "gpu1"), pod("b", "p", "gpu2")])
    assert shared(found) == {"gpu1": ["a/p", "b/p"]}
    assert shared(plugins([], [pod("a", "p", "gpu1"), pod("b", "p", "gpu2")])) == {}


OWNER = {"kind": "DaemonSet", "name": "nvidia-device-plugin", "controller": True}


@pytest.mark.parametrize(
    ("namespace", "app", "owners", "found"),
    [
        ("plugins", "nvidia-device-plugin", [OWNER], "nvidia-device-plugin"),
        (
            "plugins",
            "nvidia-device-plugin",
            [{**OWNER, "name": "nvidia-device-plugin-mps"}],
            "nvidia-device-plugin-mps",
        ),
        (
            "plugins",
            "nvidia-device-plugin-daemonset",
            [{**OWNER, "name": "nvidia-device-plugin-daemonset"}],
            "nvidia-device-plugin-daemonset",
        ),
        # Everyone who may create a pod in any namespace can set the label.
        ("team", "nvidia-device-plugin", [OWNER], ""),
        ("plugins", "nvidia-device-plugin", [], ""),
        ("plugins", "nvidia-device-plugin", [{**OWNER, "controller": False}], ""),
        ("plugins", "nvidia-device-plugin", [{**OWNER, "kind": "ReplicaSet"}], ""),
        ("plugins", "nvidia-device-plugin", [{**OWNER, "name": "nvidia-device-plugins"}], ""),
        ("plugins", "web", [{**OWNER, "name": "web"}], ""),
        ("plugins", "", [{**OWNER, "name": ""}], ""),
    ],
)
def test_a_pod_with_only_the_label_of_the_device_plugin_is_not_the_device_plugin(
    namespace: str, app: str, owners: list[Any], found: str
) -> None:
    meta = {"namespace": namespace, "name": "x", "labels": {"app": app}, "ownerReferences": owners}
    expected = [{"namespace": namespace, "name": "x", "daemonset": found}] if found else []
    assert FilterModule().filters()["device_plugin_pods"]([{"metadata": meta}], ["plugins", "operator"]) == expected


def test_a_bare_pod_without_labels_is_not_the_device_plugin() -> None:
    assert list(managed([{"metadata": {"namespace": "plugins", "name": "x"}}], ["plugins"])) == []
