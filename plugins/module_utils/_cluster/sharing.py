# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Labels of a node for the sharing of its GPUs, and for a pending change."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from .._nvidia.sharing import EXCLUSIVE, described
from . import nodes, objects
from .records import DISRUPTION, SHARING, key

# The device plugin's own label (cmd/config-manager/main.go of v0.19.0), and ours, which its pods avoid.
CONFIGURATION_LABEL = "nvidia.com/device-plugin.config"
CHANGING_LABEL = key(SHARING)
CHANGING = "changing"


@dataclass(frozen=True)
class Node:
    """Sharing on a node. ``amounts`` are its GPU resources, without those of 0.

    ``drained``: a run has drained it before an interruption, and not released it yet.
    """

    configuration: str = EXCLUSIVE
    changing: bool = False
    drained: bool = False
    amounts: Mapping[str, int] = field(default_factory=dict)


def read(node: Mapping[str, Any]) -> Node:
    """Parse a node from the API."""
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
    """Return descriptions of the node's resources and of ``amounts``."""
    return described(now.amounts), described({resource: int(number) for resource, number in amounts.items()})


def labelled(configuration: str, changing: bool, node: nodes.Object) -> dict[str, Any] | None:
    """Return the merge patch for the labels. A node without a configuration label gets none for the default."""
    labels = nodes.labels_of(node)
    wanted: dict[str, str | None] = {}
    if CONFIGURATION_LABEL in labels or configuration != EXCLUSIVE:
        wanted[CONFIGURATION_LABEL] = configuration
    if not changing:
        wanted[CHANGING_LABEL] = None
    differing = {name: value for name, value in wanted.items() if labels.get(name) != value}
    return {"metadata": {"labels": differing}} if differing else None
