# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The content of a report's page: drawings, and the text at the top. Pure; no HTML."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from ...module_utils._words import counted
from . import tables, words
from .actions import listed
from .drawing import Drawing, drawing, is_fleet
from .origin import COUNTS, verified
from .read import Report, dictionaries, dictionary, number, text, texts
from .states import Share, count_gpus, shares
from .table import Table
from .todo import Todo, todo

# Further actions are folded.
MOST_TODO = 20
# Key, title and tables.
Section = tuple[str, str, tuple[Table, ...]]


@dataclass(frozen=True)
class Figure:
    """A number at the top; ``state`` is ok, warn, bad or unknown."""

    value: str
    what: str
    state: str


@dataclass(frozen=True)
class Run:
    """A line of the history."""

    time: str
    verdict: str
    problems: str
    state: str


@dataclass(frozen=True)
class Page:
    """The page; ``facts`` are name and value; ``contents`` are key, title and number of problems of each section.

    ``problems`` (their number) is empty if there are none; ``gpus`` add up to all GPUs. ``tables`` show problems;
    ``quiet`` are key, title and tables of the sections without any.
    """

    name: str
    problems: str
    gpus: tuple[Share, ...]
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
    quiet: tuple[Section, ...]
    phases: tuple[words.Phase, ...]
    total: str
    history: tuple[Run, ...]
    checks: tuple[str, ...]

    @property
    def verified(self) -> str:
        return ", ".join(share.words for share in self.gpus) or "No GPUs found"

    @property
    def title(self) -> str:
        return "; ".join(filter(None, (self.problems, self.verified)))

    @property
    def first(self) -> tuple[Todo, ...]:
        return self.todo[:MOST_TODO]

    @property
    def rest(self) -> tuple[Todo, ...]:
        return self.todo[MOST_TODO:]


def page(report: Report) -> Page:
    """Return the content of a report's page, whatever fields are missing."""
    actions = listed(report)
    drawn, every = drawing(report, actions), tables.report_tables(report, is_fleet(report))
    shown = tuple(table for table in every if table.rows)
    quiet = tuple(_quiet([table for table in every if not table.rows]))
    errors = sum(each["severity"] == "error" for each in actions)
    phases, total = words.phases(dictionaries(report.get("phases")))
    options = text(dictionary(report.get("origin")).get("options"))
    found, gpus = todo(actions, options), count_gpus(report)
    return Page(
        name=text(dictionary(report.get("cluster")).get("name")),
        problems=_problems(errors, len(actions) - errors),
        gpus=tuple(shares(gpus)),
        state=_state(errors, len(actions)),
        simulated=report.get("simulated") is True,
        facts=tuple(fact for fact in _facts(report) if fact[1]),
        figures=tuple(_figures(report, gpus)),
        todo=found,
        contents=tuple(_contents(found, drawn, shown, quiet)) if found else (),
        drawing=drawn,
        network=words.network(dictionary(report.get("network"))),
        isolation=words.isolation(dictionary(report.get("isolation"))),
        tables=shown,
        quiet=quiet,
        phases=phases,
        total=total,
        history=_history(report),
        checks=tuple(texts(report.get("checks"))),
    )


def _problems(errors: int, warnings: int) -> str:
    found = ((errors, "error"), (warnings, "warning"))
    return ", ".join(counted(amount, noun) for amount, noun in found if amount)


def _state(errors: int, problems: int) -> str:
    return "bad" if errors else "warn" if problems else "ok"


def _quiet(without_rows: Sequence[Table]) -> Iterator[Section]:
    for key, title, unchecked in (("unchecked", "Not checked", True), ("passed", "Passed", False)):
        if own := tuple(table for table in without_rows if table.unchecked is unchecked):
            yield key, title, own


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


def _figures(report: Report, gpus: dict[str, int]) -> Iterator[Figure]:
    whole, used = sum(gpus.values()), gpus.get("in_use", 0)
    verified = gpus.get("verified", 0)
    what = f"{verified} verified, {used} in use" if used else "GPUs verified"
    yield Figure(f"{verified + used}/{whole}", what, "ok" if verified + used == whole else "bad")
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


def _contents(
    found: tuple[Todo, ...],
    drawn: Drawing,
    shown: tuple[Table, ...],
    quiet: tuple[Section, ...],
) -> Iterator[tuple[str, str, int]]:
    yield "actions", "What to do", len(found)
    yield "cluster", "The cluster", sum(1 for node in drawn.nodes if node.state != "ok")
    for table in shown:
        yield table.key, table.title, len(table.rows)
    for key, title, _tables in quiet:
        yield key, title, 0


def _history(report: Report) -> tuple[Run, ...]:
    """Return the history, empty after a single run, which the whole page is about."""
    runs = dictionaries(report.get("history"))
    return tuple(map(_run, runs)) if len(runs) > 1 else ()


def _run(run: dict[str, Any]) -> Run:
    gpus, verified, used, errors, warnings = (number(run.get(key)) or 0 for key in COUNTS)
    verdict = "No GPUs found"
    if gpus:
        verdict = f"{verified} of {counted(gpus, 'GPU')} verified{f', {used} in use' * bool(used)}"
    found = _problems(errors, warnings) or "no problems"
    return Run(words.moment(text(run.get("time"))), verdict, found, _state(errors, errors + warnings))
