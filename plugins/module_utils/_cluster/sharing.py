# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Says on a node how its GPUs are shared, and keeps the programs that hold them away while that changes."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from .._errors import DomainError
from .._nvidia.sharing import EXCLUSIVE, described
from . import nodes, objects
from .api import Api
from .waiting import until_gone

# The device plugin's own label (cmd/config-manager/main.go of v0.19.0), and ours, which its pods keep away from.
CONFIGURATION_LABEL = "nvidia.com/device-plugin.config"
CHANGING_LABEL = "gpulab.io/gpu-sharing"
CHANGING = "changing"
# What labels say by which another, such as the GPU Operator, places its pods, as long as they keep away for this.
PAUSED = "paused-for-gpu-sharing"
# Other labels of a node have other owners.
_MANAGER = "gpulab.kubernetes-sharing"


@dataclass(frozen=True)
class Node:
    """What a node says. ``amounts`` are the GPU resources that it has, those of 0 left out.

    ``drained``: a run has drained it before it would interrupt pods, and not given it back.
    """

    configuration: str = EXCLUSIVE
    changing: bool = False
    labelled: bool = False
    drained: bool = False
    amounts: Mapping[str, int] = field(default_factory=dict)


def read(node: Mapping[str, Any]) -> Node:
    """From a node as the API gives it."""
    labels = nodes.labels_of(node)
    capacity = (node.get("status") or {}).get("capacity") or {}
    return Node(
        configuration=labels.get(CONFIGURATION_LABEL, EXCLUSIVE),
        changing=CHANGING_LABEL in labels,
        labelled=CONFIGURATION_LABEL in labels,
        drained=nodes.DISRUPTION in nodes.annotations_of(node),
        amounts={
            name: int(amount)
            for name, amount in capacity.items()
            if name.startswith((objects.GPU, objects.MIG)) and str(amount).isdecimal() and int(amount)
        },
    )


def resources(now: Node, amounts: Mapping[str, Any]) -> tuple[str, str]:
    """The resources that the node says, and these, in words."""
    return described(now.amounts), described({resource: int(number) for resource, number in amounts.items()})


class Labels:
    """The two labels of one node."""

    def __init__(self, api: Api, name: str) -> None:
        self._api = api
        self._name = name
        self._path = nodes.path(name)

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

    def pause(self, names: Collection[str]) -> bool:
        """Let those of these labels that say true say paused; returns whether there were some."""
        return self._change(partial(_relabelled, dict.fromkeys(names, ("true", PAUSED))))

    def resume(self, names: Collection[str]) -> bool:
        """The way back."""
        return self._change(partial(_relabelled, dict.fromkeys(names, (PAUSED, "true"))))

    def _change(self, plan: nodes.Plan) -> bool:
        before, after = nodes.change(self._api, self._name, f"sharing the GPUs of {self._name}", plan)
        return after is not before

    def wait_until_gone(self, namespace: str, apps: list[str], timeout: float) -> None:
        """Raises DomainError when pods with these labels ``app`` are still on the node after the time."""
        left = until_gone(lambda: self._pods(namespace, apps), timeout)
        if left:
            raise DomainError(
                f"Error while keeping the users of the GPUs away from {self._name}: {', '.join(left)} in namespace "
                f"{namespace} are still there after {timeout:.0f} s. See kubectl --namespace {namespace} describe "
                f"pod {left[0]}; the GPUs were not touched, and the next run resumes."
            )

    def _pods(self, namespace: str, apps: list[str]) -> list[str]:
        pods = self._api.items(
            f"/api/v1/namespaces/{namespace}/pods",
            labelSelector=f"app in ({','.join(apps)})",
            fieldSelector=f"spec.nodeName={self._name}",
        )
        # A pod on another node shows that the API was not asked for this one.
        return [objects.name(pod) for pod in pods if objects.node_of(pod) == self._name]


def _relabelled(wanted: Mapping[str, tuple[str, str]], node: Mapping[str, Any]) -> dict[str, Any] | None:
    """The patch for labels that have the first value, and get the second one."""
    labels = nodes.labels_of(node)
    found = {name: value for name, (former, value) in wanted.items() if labels.get(name) == former}
    return {"metadata": {"labels": found}} if found else None
