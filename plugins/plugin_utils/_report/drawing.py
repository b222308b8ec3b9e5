# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Draw the cluster: nodes with a problem in full; in a fleet, healthy nodes by pool. Pure."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ...module_utils._words import counted
from . import words
from .links import Links, links
from .read import Report, dictionaries, dictionary, number, text, texts
from .states import WORDS, count_states, gpu_state

# Up to this number of nodes, each GPU is a tile with text.
FEW_NODES = 10
_IN_FULL = ("unhealthy", "unverified")
_WORST_FIRST = ("bad", "unknown", "warn", "ok")


@dataclass(frozen=True)
class Slice:
    """A MIG device. ``share`` is its number of compute slices, 1 if its profile does not show it."""

    profile: str
    share: int


@dataclass(frozen=True)
class Tile:
    """A GPU. ``note`` is what uses it or what is wrong, ``slices`` are its MIG devices."""

    label: str
    name: str
    uuid: str
    state: str
    note: str
    memory: str
    slices: tuple[Slice, ...] = ()

    @property
    def word(self) -> str:
        return WORDS[self.state]


@dataclass(frozen=True)
class Node:
    """A host; ``link`` is the state of its pod network: ok, broken or unknown.

    GPUs are ``tiles``, in a fleet only those with a problem; the others are ``dots`` (states), which ``said`` counts.
    """

    name: str
    roles: tuple[str, ...]
    system: str
    pool: str
    state: str
    word: str
    link: str
    tiles: tuple[Tile, ...]
    dots: tuple[str, ...]
    links: Links | None

    @property
    def said(self) -> str:
        return count_states(self.dots, "other GPU" if self.tiles else "GPU")


@dataclass(frozen=True)
class Pool:
    """Healthy nodes of a pool, or with the same GPUs."""

    name: str
    what: str
    nodes: tuple[Node, ...]


@dataclass(frozen=True)
class Drawing:
    nodes: tuple[Node, ...]
    pools: tuple[Pool, ...]
    legend: tuple[tuple[str, str], ...]


def drawing(report: Report, actions: list[dict[str, str]]) -> Drawing:
    fleet = is_fleet(report)
    errors = Counter(each["host"] for each in actions if each["severity"] == "error")
    network = words.link_states(dictionary(report.get("network")))
    nodes = [_node(name, entry, fleet, errors, network) for name, entry in report["hosts"].items()]
    nodes.sort(key=lambda node: _WORST_FIRST.index(node.state))
    shown = {state for node in nodes for state in (*node.dots, *(tile.state for tile in node.tiles))}
    legend = tuple((state, word) for state, word in WORDS.items() if state in shown)
    return Drawing(
        nodes=tuple(node for node in nodes if not fleet or node.state != "ok"),
        pools=_pools([node for node in nodes if node.state == "ok"]) if fleet else (),
        legend=legend if len(legend) > 1 else (),
    )


def is_fleet(report: Report) -> bool:
    return len(report["hosts"]) > FEW_NODES


def _pools(nodes: list[Node]) -> tuple[Pool, ...]:
    grouped: dict[str, list[Node]] = {}
    for node in nodes:
        grouped.setdefault(node.pool, []).append(node)
    # Pools without GPUs come last.
    names = sorted(grouped, key=lambda name: not any(node.dots for node in grouped[name]))
    return tuple(
        Pool(name, ", ".join([counted(len(found), "node"), *[count_states(states)][: len(states)]]), tuple(found))
        for name in names
        for found in [grouped[name]]
        for states in [[state for node in found for state in node.dots]]
    )


def _node(name: str, entry: dict[str, Any], fleet: bool, errors: Mapping[str, int], network: Mapping[str, str]) -> Node:
    reachable = entry.get("reachable") is not False
    sharing = words.sharing(dictionary(entry.get("labels")))
    devices = dictionaries(entry.get("devices"))
    tiles = tuple(_tile(place, device, reachable, sharing) for place, device in enumerate(devices))
    link = network.get(name, "unknown")
    if not reachable:
        link = link if link == "broken" else "unknown"
        state, word = "unknown", "not reached"
    elif link == "broken":
        state, word = "bad", "pod network broken"
    elif entry.get("problems") or any(tile.state in _IN_FULL for tile in tiles):
        state, word = "bad", counted(max(1, errors.get(name, 0)), "problem")
    elif dictionary(entry.get("isolated")):
        state, word = "warn", "isolated"
    else:
        state, word = "ok", "healthy"
    return Node(
        name=name,
        roles=tuple(role.replace("_", " ") for role in texts(entry.get("roles"))),
        system=text(entry.get("os")),
        pool=text(entry.get("pool")) or (tiles[0].name if tiles else "Without GPUs"),
        state=state,
        word=word,
        link=link,
        tiles=tuple(tile for tile in tiles if not fleet or tile.state in _IN_FULL),
        dots=tuple(tile.state for tile in tiles if fleet and tile.state not in _IN_FULL),
        links=None if fleet else links(dictionary(entry.get("topology"))),
    )


def _tile(place: int, device: dict[str, Any], reachable: bool, sharing: str) -> Tile:
    index = number(device.get("index"))
    state, note = gpu_state(device, reachable), text(device.get("reason"))
    if state == "unknown":
        note = "the host could not be reached"
    elif state == "unhealthy":
        note = "; ".join(texts(device.get("health"))) or note
    elif state == "in_use":
        note = text(device.get("pod"))
    if sharing and state in ("verified", "in_use"):
        state, note = "shared", f"{sharing}; {note if state == 'in_use' else WORDS[state]}"
    memory = number(device.get("memory_total_mib"))
    return Tile(
        label=f"GPU {place if index is None else index}",
        name=text(device.get("name")).removeprefix("NVIDIA ") or "unknown model",
        uuid=text(device.get("uuid")),
        state=state,
        note=note,
        memory=f"{memory / 1024:.0f} GiB" if memory else "",
        slices=tuple(_slice(text(each.get("profile"))) for each in dictionaries(device.get("mig"))),
    )


def _slice(profile: str) -> Slice:
    """Parse a profile: 1c.3g.20gb is one compute slice of a GPU instance, 3g.20gb are three."""
    found = re.match(r"(\d)[cg]\.", profile)
    return Slice(profile or "MIG", max(1, int(found[1])) if found else 1)
