# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A report as the page shows it: what is drawn, and the words at the top. Pure; nothing here is HTML."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from ...module_utils._acceptance.summary import counted
from ...module_utils._problem import read
from . import tables, words
from .drawing import Drawing, drawing, is_fleet
from .origin import verified
from .read import Report, dictionaries, dictionary, number, text, texts
from .table import Table
from .todo import Todo, todo

# More than these are folded.
MOST_TODO = 20
_ACTION = ("severity", "problem", "host", "gpu", "what", "do")


@dataclass(frozen=True)
class Figure:
    """A number at the top. ``state`` is ok, warn, bad or unknown."""

    value: str
    what: str
    state: str


@dataclass(frozen=True)
class Run:
    """One line of the history."""

    time: str
    verdict: str
    problems: str
    state: str


@dataclass(frozen=True)
class Page:
    """``facts`` are name and value; ``contents`` are key, title and number of problems of each section."""

    name: str
    verdict: str
    state: str
    simulated: bool
    facts: tuple[tuple[str, str], ...]
    figures: tuple[Figure, ...]
    todo: tuple[Todo, ...]
    contents: tuple[tuple[str, str, int], ...]
    drawing: Drawing
    network: str
    isolation: str
    tables: tuple[Table, ...]
    phases: tuple[words.Phase, ...]
    total: str
    history: tuple[Run, ...]
    checks: tuple[str, ...]

    @property
    def first(self) -> tuple[Todo, ...]:
        return self.todo[:MOST_TODO]

    @property
    def rest(self) -> tuple[Todo, ...]:
        return self.todo[MOST_TODO:]


def page(report: Report) -> Page:
    """What to show of a report, whatever is missing in it."""
    totals, actions = report["totals"], _actions(report)
    drawn, shown = drawing(report, actions), tables.of(report, is_fleet(report))
    bad = any(each["severity"] == "error" for each in actions)
    phases, total = words.phases(dictionaries(report.get("phases")))
    found = todo(actions)
    return Page(
        name=text(dictionary(report.get("cluster")).get("name")),
        verdict=_verdict(totals),
        state="bad" if bad else "warn" if actions else "ok",
        simulated=report.get("simulated") is True,
        facts=tuple(fact for fact in _facts(report) if fact[1]),
        figures=tuple(_figures(report)),
        todo=found,
        contents=tuple(_contents(found, shown, drawn)) if found else (),
        drawing=drawn,
        network=words.network(dictionary(report.get("network"))),
        isolation=words.isolation(dictionary(report.get("isolation"))),
        tables=shown,
        phases=phases,
        total=total,
        history=_history(report),
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


def _verdict(totals: dict[str, Any]) -> str:
    proven, gpus, in_use = (number(totals.get(key)) or 0 for key in ("proven", "gpus", "in_use"))
    if not gpus:
        return "No GPUs found"
    used = f", {in_use} in use" if in_use else ""
    return f"{proven} of {counted(gpus, 'GPU')} proven{used}"


def _facts(report: Report) -> Iterator[tuple[str, str]]:
    cluster, origin = dictionary(report.get("cluster")), dictionary(report.get("origin"))
    reused = " (reused)" if report.get("kept") is True else ""
    moment = words.moment(verified(report) or text(report.get("generated")))
    yield "Verified", f"{moment}{reused}" if moment else ""
    yield "Hosts checked", words.moment(text(report.get("observed")))
    yield "API", text(cluster.get("endpoint"))
    yield "Kubernetes", text(cluster.get("kubernetes_version"))
    version = text(origin.get("collection"))
    yield "Written by", f"gpulab.kubernetes {version}" if version else ""
    yield "Inventory", text(origin.get("inventory"))
    yield "Controller", text(origin.get("controller"))


def _figures(report: Report) -> Iterator[Figure]:
    proven, gpus, in_use = (number(report["totals"].get(key)) or 0 for key in ("proven", "gpus", "in_use"))
    yield Figure(f"{proven}/{gpus}", "GPUs proven", "ok" if proven + in_use >= gpus else "bad")
    hosts = report["hosts"].values()
    reached = sum(1 for entry in hosts if entry.get("reachable") is not False)
    yield Figure(f"{reached}/{len(hosts)}", "hosts reached", "ok" if reached == len(hosts) else "bad")
    if any("versions" in entry for entry in hosts):
        differing, where = tables.differing(report)
        differ = f"{'version differs' if differing == 1 else 'versions differ'} on {counted(where, 'host')}"
        yield Figure(str(differing), differ, "warn") if differing else Figure("All", "versions as pinned", "ok")
    days = tables.days_left(report)
    if days is not None:
        when = "until a certificate expires" if days >= 0 else "ago a certificate expired"
        yield Figure(counted(abs(days), "day"), when, tables.urgency(days))


def _contents(found: tuple[Todo, ...], shown: tuple[Table, ...], drawn: Drawing) -> Iterator[tuple[str, str, int]]:
    yield "actions", "What to do", len(found)
    yield "cluster", "The cluster", sum(1 for node in drawn.nodes if node.state != "ok")
    for table in shown:
        yield table.key, table.title, len(table.rows)


def _history(report: Report) -> tuple[Run, ...]:
    """Nothing when there was one run only: the page is about it."""
    runs = dictionaries(report.get("history"))
    return tuple(map(_run, runs)) if len(runs) > 1 else ()


def _run(run: dict[str, Any]) -> Run:
    errors, warnings = number(run.get("errors")) or 0, number(run.get("warnings")) or 0
    said = [counted(errors, "error")] * bool(errors) + [counted(warnings, "warning")] * bool(warnings)
    state = "bad" if errors else "warn" if warnings else "ok"
    return Run(words.moment(text(run.get("time"))), _verdict(run), ", ".join(said) or "no problems", state)
