# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A report as the page shows it: what is drawn, and the words at the top. Pure; nothing here is HTML."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

from ...module_utils._problem import read
from . import tables, words
from .links import Links, links
from .read import Report, dictionaries, dictionary, number, text, texts

# State of a GPU -> its word. The page has a colour, a pattern and a sign for each, so that no one depends on colours.
WORDS = {
    "proven": "proven",
    "in_use": "in use",
    "shared": "shared",
    "unhealthy": "unhealthy",
    "unproven": "not proven",
    "unknown": "unknown",
}


_ACTION = ("severity", "problem", "host", "gpu", "what", "do")


@dataclass(frozen=True)
class Slice:
    """A MIG device. ``share`` is its number of compute slices, 1 when its profile does not tell."""

    profile: str
    share: int


@dataclass(frozen=True)
class Tile:
    """One GPU. ``note`` says who uses it or what is wrong, ``slices`` are its MIG devices."""

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
    """One host; ``link`` is its place in the pod network: ok, broken or unknown."""

    name: str
    roles: tuple[str, ...]
    system: str
    state: str
    word: str
    link: str
    tiles: tuple[Tile, ...]
    links: Links | None


@dataclass(frozen=True)
class Figure:
    """A number at the top. ``state`` is ok, warn, bad or unknown."""

    value: str
    what: str
    state: str


@dataclass(frozen=True)
class Page:
    verdict: str
    state: str
    simulated: bool
    kept: bool
    generated: str
    observed: str
    endpoint: str
    version: str
    figures: tuple[Figure, ...]
    actions: tuple[dict[str, str], ...]
    nodes: tuple[Node, ...]
    legend: tuple[tuple[str, str], ...]
    network: str
    isolation: str
    tables: tuple[tables.Table, ...]
    phases: tuple[words.Phase, ...]
    total: str
    checks: tuple[str, ...] = field(default=())


def page(report: Report) -> Page:
    """What to show of a report, whatever is missing in it."""
    cluster, totals = dictionary(report.get("cluster")), report["totals"]
    nodes = tuple(_node(report, name, entry) for name, entry in report["hosts"].items())
    todo = _actions(report)
    proven, gpus = number(totals.get("proven")) or 0, number(totals.get("gpus")) or 0
    bad = any(each["severity"] == "error" for each in todo)
    shown = {tile.state for node in nodes for tile in node.tiles}
    phases, total = words.phases(dictionaries(report.get("phases")))
    return Page(
        verdict=_verdict(proven, gpus, number(totals.get("in_use")) or 0),
        state="bad" if bad else "warn" if todo else "ok",
        simulated=report.get("simulated") is True,
        kept=report.get("kept") is True,
        generated=words.moment(text(report.get("generated"))),
        observed=words.moment(text(report.get("observed"))),
        endpoint=text(cluster.get("endpoint")),
        version=text(cluster.get("kubernetes_version")),
        figures=_figures(report, nodes, proven, gpus),
        actions=tuple(todo),
        nodes=nodes,
        legend=tuple((state, word) for state, word in WORDS.items() if state in shown),
        network=words.network(dictionary(report.get("network"))),
        isolation=words.isolation(dictionary(report.get("isolation"))),
        tables=tables.of(report),
        phases=phases,
        total=total,
        checks=tuple(texts(report.get("checks"))),
    )


def _actions(report: Report) -> list[dict[str, str]]:
    """What to do; of a report that was written before there was such a list, its problems."""
    if "actions" in report:
        return [{key: text(each.get(key)) for key in _ACTION} for each in dictionaries(report["actions"])]
    return [
        {"severity": "error", "problem": each.kind, "gpu": "", **each.fields()}
        for each in map(read, dictionaries(report["problems"]))
    ]


def _verdict(proven: int, gpus: int, in_use: int) -> str:
    if not gpus:
        return "There are no GPUs"
    used = f", {in_use} in use" if in_use else ""
    return f"{proven} of {gpus} {'GPU' if gpus == 1 else 'GPUs'} proven{used}"


def _node(report: Report, name: str, entry: dict[str, Any]) -> Node:
    reachable = entry.get("reachable") is not False
    sharing = words.sharing(dictionary(entry.get("labels")))
    devices = dictionaries(entry.get("devices"))
    tiles = tuple(_tile(place, device, reachable, sharing) for place, device in enumerate(devices))
    link = words.link(dictionary(report.get("network")), name, reachable)
    isolated = dictionary(entry.get("isolated"))
    if not reachable:
        state, word = "unknown", "not reached"
    elif link == "broken":
        state, word = "bad", "pod network broken"
    elif entry.get("problems") or any(tile.state in ("unhealthy", "unproven") for tile in tiles):
        state, word = "bad", "something is wrong"
    elif isolated:
        state, word = "warn", "isolated"
    else:
        state, word = "ok", "well"
    return Node(
        name=name,
        roles=tuple(role.replace("_", " ") for role in texts(entry.get("roles"))),
        system=text(entry.get("os")),
        state=state,
        word=word,
        link=link,
        tiles=tiles,
        links=links(dictionary(entry.get("topology"))),
    )


def _tile(place: int, device: dict[str, Any], reachable: bool, sharing: str) -> Tile:
    index = number(device.get("index"))
    state, note = text(device.get("state")), text(device.get("reason"))
    if not reachable:
        state, note = "unknown", "the host was not reached"
    elif device.get("healthy") is False:
        state, note = "unhealthy", "; ".join(texts(device.get("health"))) or note
    elif state in ("proven", "in_use") and sharing:
        state, note = "shared", f"{sharing}; {'proven' if state == 'proven' else text(device.get('pod'))}"
    elif state == "in_use":
        note = text(device.get("pod"))
    elif state != "proven":
        state = "unproven"
    memory = number(device.get("memory_total_mib"))
    return Tile(
        label=f"GPU {place if index is None else index}",
        name=text(device.get("name")) or "unknown model",
        uuid=text(device.get("uuid")),
        state=state,
        note=note,
        memory=f"{memory / 1024:.0f} GiB" if memory else "",
        slices=tuple(_slice(text(each.get("profile"))) for each in dictionaries(device.get("mig"))),
    )


def _slice(profile: str) -> Slice:
    """1c.3g.20gb is one compute slice of a GPU instance, 3g.20gb are three."""
    found = re.match(r"(\d)[cg]\.", profile)
    return Slice(profile or "MIG", max(1, int(found[1])) if found else 1)


def _figures(report: Report, nodes: tuple[Node, ...], proven: int, gpus: int) -> tuple[Figure, ...]:
    in_use = number(report["totals"].get("in_use")) or 0
    reached = sum(1 for node in nodes if node.state != "unknown")
    drift = tables.drift(report)
    days = tables.days_left(report)
    found = [
        Figure(f"{proven}/{gpus}", "GPUs proven", "ok" if proven + in_use >= gpus else "bad"),
        Figure(f"{reached}/{len(nodes)}", "hosts reached", "ok" if reached == len(nodes) else "bad"),
    ]
    if any("versions" in entry for entry in report["hosts"].values()):
        found.append(Figure(str(drift), "versions drifted", "warn" if drift else "ok"))
    if days is not None:
        found.append(
            Figure(str(days), "days of certificates left", "ok" if days >= 30 else "warn" if days > 6 else "bad")
        )
    return tuple(found)
