# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Texts in a report: times, the pod network, GPU sharing. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from .read import dictionaries, number, text

_SHARING = "nvidia.com/gpu.sharing-strategy"
_REPLICAS = "nvidia.com/gpu.replicas"


@dataclass(frozen=True)
class Phase:
    name: str
    time: str
    share: float


def sharing(labels: dict[str, Any]) -> str:
    """Return how pods share a node's GPUs according to GPU feature discovery, empty if they don't."""
    strategy, replicas = text(labels.get(_SHARING)), text(labels.get(_REPLICAS))
    return f"{strategy} by {replicas}" if strategy not in ("", "none") and replicas not in ("", "0", "1") else ""


def link_states(network: dict[str, Any]) -> dict[str, str]:
    """Return ok or broken for each node at an end of a path in the pod network.

    A failed path is attributed to an end that reaches no other node, if there is one.
    """
    paths = [({text(each.get("from")), text(each.get("to"))}, each.get("ok") is True) for each in _paths(network)]
    connected = {end for ends, ok in paths if ok for end in ends}
    broken = {end for ends, ok in paths if not ok for end in ends - connected or ends}
    return {end: "broken" if end in broken else "ok" for ends, _ok in paths for end in ends}


def _paths(network: dict[str, Any]) -> list[dict[str, Any]]:
    return dictionaries(network.get("pod_to_pod"))


def network(network: dict[str, Any]) -> str:
    paths = _paths(network)
    good = sum(1 for each in paths if each.get("ok") is True)
    if not network:
        return "not tested"
    across = f"{good} of {len(paths)} paths" if paths else "one node"
    words = {True: "ok", False: "not ok"}
    return f"{across}, Service {words[network.get('service') is True]}, DNS {words[network.get('dns') is True]}"


def isolation(found: dict[str, Any]) -> str:
    seeing = ", ".join(name for name, ok in found.items() if ok is not True)
    if not found:
        return "not tested"
    return f"a pod that requests no GPUs sees some on {seeing}" if seeing else "a pod that requests no GPUs sees none"


def phases(rows: list[dict[str, Any]]) -> tuple[tuple[Phase, ...], str]:
    """Return the phases in order, the longest bar at 100 percent, and the total time."""
    told = [(text(row.get("name")), row.get("seconds")) for row in rows]
    timed = [(name, float(each)) for name, each in told if number(each) is not None and isinstance(each, (int, float))]
    longest = max((seconds for _name, seconds in timed), default=0.0) or 1.0
    found = tuple(Phase(name, duration(each), round(max(each, 0) * 100 / longest, 1)) for name, each in timed)
    return found, duration(sum(seconds for _name, seconds in timed))


def moment(written: str) -> str:
    """Return 2026-11-21T04:00:00Z in readable form, anything else unchanged."""
    return re.sub(r"\A(\d{4}-\d\d-\d\d)T(\d\d:\d\d):\d\d(\.\d+)?Z\Z", r"\1 \2 UTC", written)


def duration(seconds: float) -> str:
    if seconds < 60:
        return f"{seconds:.1f} s"
    return f"{int(seconds) // 60} min {int(seconds) % 60} s"
