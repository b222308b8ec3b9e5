# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Says on a node how its GPUs are shared, and keeps the programs that hold them away while that changes."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ansible_collections.gpulab.kubernetes.plugins.module_utils import _pods
from ansible_collections.gpulab.kubernetes.plugins.module_utils._api import Api
from ansible_collections.gpulab.kubernetes.plugins.module_utils._errors import DomainError
from ansible_collections.gpulab.kubernetes.plugins.module_utils._gpu_sharing import EXCLUSIVE
from ansible_collections.gpulab.kubernetes.plugins.module_utils._rollout_wait import pauses

# The device plugin's own label (cmd/config-manager/main.go of v0.19.0), and ours, which its pods keep away from.
CONFIGURATION_LABEL = "nvidia.com/device-plugin.config"
CHANGING_LABEL = "gpulab.io/gpu-sharing"
CHANGING = "changing"
# Other labels of a node have other owners.
_MANAGER = "gpulab.kubernetes-sharing"


@dataclass(frozen=True)
class Node:
    """What a node says. ``amounts`` are the GPU resources that it has, those of 0 left out."""

    configuration: str = EXCLUSIVE
    changing: bool = False
    labelled: bool = False
    amounts: Mapping[str, int] = field(default_factory=dict)


def read(node: Mapping[str, Any]) -> Node:
    """From a node as the API gives it."""
    labels = (node.get("metadata") or {}).get("labels") or {}
    capacity = (node.get("status") or {}).get("capacity") or {}
    return Node(
        configuration=labels.get(CONFIGURATION_LABEL, EXCLUSIVE),
        changing=CHANGING_LABEL in labels,
        labelled=CONFIGURATION_LABEL in labels,
        amounts={
            name: int(amount)
            for name, amount in capacity.items()
            if name.startswith((_pods.GPU, _pods.MIG)) and str(amount).isdecimal() and int(amount)
        },
    )


class Labels:
    """The two labels of one node."""

    def __init__(self, api: Api, name: str) -> None:
        self._api = api
        self._name = name
        self._path = f"/api/v1/nodes/{name}"

    def read(self) -> Node | None:
        """What the node says now, None when the cluster has no such node."""
        found = self._api.find(self._path)
        return None if found is None else read(found)

    def write(self, now: Node, configuration: str, changing: bool) -> None:
        """A node that never had the label of a configuration gets none for the default one."""
        labels = {CONFIGURATION_LABEL: configuration} if now.labelled or configuration != EXCLUSIVE else {}
        if changing:
            labels[CHANGING_LABEL] = CHANGING
        body = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": self._name, "labels": labels}}
        self._api.apply(self._path, body, _MANAGER)

    def wait_until_left(self, namespace: str, apps: list[str], timeout: float) -> None:
        """Raises DomainError when pods with these labels ``app`` are still on the node after the time."""
        end = time.monotonic() + timeout
        for pause in pauses():
            pods = self._api.items(
                f"/api/v1/namespaces/{namespace}/pods",
                labelSelector=f"app in ({','.join(apps)})",
                fieldSelector=f"spec.nodeName={self._name}",
            )
            # A pod on another node shows that the API was not asked for this one.
            here = [_pods.name(pod) for pod in pods if _pods.node_of(pod) == self._name]
            if not here:
                return
            if time.monotonic() >= end:
                raise DomainError(
                    f"Error while keeping the users of the GPUs away from {self._name}: {', '.join(here)} in namespace "
                    f"{namespace} are still there after {timeout:.0f} s. See kubectl --namespace {namespace} describe "
                    f"pod {here[0]}; the GPUs were not touched, and the next run goes on."
                )
            time.sleep(pause)
