# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What all pods have in common that a module runs on a node of its choice. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .objects import Object


def pod_on(
    node: str, name: str, namespace: str, labels: Mapping[str, str], deadline: int, spec: Mapping[str, Any]
) -> dict[str, Any]:
    """A pod for this node, whatever taints it has. ``spec`` has at least the containers.

    If the module is killed, the pod ends after ``deadline`` seconds.
    """
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace, "labels": dict(labels)},
        "spec": {
            "affinity": {
                "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
            },
            "tolerations": [{"operator": "Exists"}],
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": 0,
            "activeDeadlineSeconds": deadline,
            "automountServiceAccountToken": False,
            "enableServiceLinks": False,
            **spec,
        },
    }


def node_of(pod: Object) -> str:
    """The node that such a pod is for."""
    required = pod["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    node: str = required["nodeSelectorTerms"][0]["matchFields"][0]["values"][0]
    return node


def retry_pod(pod: Object) -> dict[str, Any]:
    """The same pod under another name, since the former one is taken until its pod is gone."""
    return {**pod, "metadata": {**pod["metadata"], "name": f"{pod['metadata']['name'][:247]}-again"}}
