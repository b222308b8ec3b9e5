# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How a node says that its GPUs are shared, and that this is about to change."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from .._nvidia.sharing import EXCLUSIVE, described
from . import nodes, objects
from .records import DISRUPTION, SHARING, key

# The device plugin's own label (cmd/config-manager/main.go of v0.19.0), and ours, which its pods keep away from.
CONFIGURATION_LABEL = "nvidia.com/device-plugin.config"
CHANGING_LABEL = key(SHARING)
CHANGING = "changing"


@dataclass(frozen=True)
class Node:
    """What a node says. ``amounts`` are the GPU resources that it has, those of 0 left out.

    ``drained``: a run has drained it before it would interrupt pods, and not given it back.
    """

    configuration: str = EXCLUSIVE
    changing: bool = False
    drained: bool = False
    amounts: Mapping[str, int] = field(default_factory=dict)


def read(node: Mapping[str, Any]) -> Node:
    """From a node as the API gives it."""
    labels = nodes.labels_of(node)
    capacity = (node.get("status") or {}).get("capacity") or {}
    return Node(
        configuration=labels.get(CONFIGURATION_LABEL, EXCLUSIVE),
        changing=CHANGING_LABEL in labels,
        drained=key(DISRUPTION) in nodes.annotations_of(node),
        amounts={
            name: int(amount)
            for name, amount in capacity.items()
            if name.startswith((objects.GPU, objects.MIG)) and str(amount).isdecimal() and int(amount)
        },
    )


def resources(now: Node, amounts: Mapping[str, Any]) -> tuple[str, str]:
    """The resources that the node says, and these, in words."""
    return described(now.amounts), described({resource: int(number) for resource, number in amounts.items()})


def labelled(configuration: str, changing: bool, node: nodes.Object) -> dict[str, Any] | None:
    """The merge patch for the labels. A node that never had the one of a configuration gets none for the default."""
    labels = nodes.labels_of(node)
    wanted: dict[str, str | None] = {}
    if CONFIGURATION_LABEL in labels or configuration != EXCLUSIVE:
        wanted[CONFIGURATION_LABEL] = configuration
    if not changing:
        wanted[CHANGING_LABEL] = None
    differing = {name: value for name, value in wanted.items() if labels.get(name) != value}
    return {"metadata": {"labels": differing}} if differing else None
