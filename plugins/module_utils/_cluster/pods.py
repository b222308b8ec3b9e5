# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Common parts of pods that a module runs on a chosen node. Pure functions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .objects import Object


def pod_on(
    node: str, name: str, namespace: str, labels: Mapping[str, str], deadline: int, spec: Mapping[str, Any]
) -> dict[str, Any]:
    """Return a pod for this node that tolerates all taints. ``spec`` contains at least the containers.

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
    """Return the node that the pod was created for."""
    required = pod["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    node: str = required["nodeSelectorTerms"][0]["matchFields"][0]["values"][0]
    return node


def retry_pod(pod: Object) -> dict[str, Any]:
    """Return the same pod under another name, because the first name is taken until its pod is gone."""
    return {**pod, "metadata": {**pod["metadata"], "name": f"{pod['metadata']['name'][:247]}-again"}}
