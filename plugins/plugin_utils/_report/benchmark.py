# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Keep the latest figures of each GPU from report to report, and show them as a table. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...module_utils._benchmark.figures import FIGURES, ON_CPU, label
from ...module_utils._benchmark.log import read_facts, read_figures
from ...module_utils._benchmark.peers import pcie
from ...module_utils._words import counted
from .read import Report, dictionaries, dictionary, number, text, texts
from .table import MOST_ROWS, Cell, Fold, Row, Table
from .words import moment

_COLUMNS = ("GPU", "Memory", "bf16", "fp32", "Host to device", "PCIe under load", "Measured", "Result")


def add_result(report: Report, result: dict[str, Any]) -> Report:
    """Return the report with the result of a benchmark.

    GPUs that were not measured keep their latest figures unless their pod failed; all figures of nodes that were not
    included are kept.
    """
    rows, failures = dictionaries(result.get("gpus")), dictionaries(result.get("failures"))
    now = {uuid for row in (*rows, *failures) if (uuid := text(row.get("uuid")))}
    covered, before = set(texts(result.get("nodes"))), _benchmark(report)

    def earlier(key: str) -> list[dict[str, Any]]:
        return [row for row in dictionaries(before.get(key)) if text(row.get("uuid")) not in now]

    kept = earlier("gpus")
    found = {**result, "gpus": [*rows, *kept]}
    for key in ("failures", "left_out"):
        others = [row for row in earlier(key) if text(row.get("node")) not in covered]
        found[key] = [*dictionaries(result.get(key)), *others]
    warnings = [*texts(result.get("warnings")), *(each for row in kept for each in texts(row.get("warnings")))]
    found["warnings"] = list(dict.fromkeys(warnings))
    found["nodes"] = sorted(covered | set(texts(before.get("nodes"))))
    return {**report, "gpu_benchmark": found}


def keep_figures(report: Report, before: Report) -> dict[str, Any]:
    """Return an earlier report's figures of GPUs that still exist, and of all nodes that this report lacks."""
    found, known = _benchmark(before), _keys(report)
    if not found:
        return {}

    def is_there(row: dict[str, Any]) -> bool:
        return _key(row) in known or not row.get("uuid") or text(row.get("node")) not in report["hosts"]

    kept = {key: list(filter(is_there, dictionaries(found.get(key)))) for key in ("gpus", "left_out", "failures")}
    return {**found, **kept}


def measured_rows(report: Report) -> list[dict[str, Any]]:
    """Return the rows of the GPUs that are in the report."""
    known = _keys(report)
    return [row for row in dictionaries(_benchmark(report).get("gpus")) if _key(row) in known]


def benchmark_tables(report: Report) -> tuple[Table, ...]:
    """Return one table, or none if no GPU was measured or skipped."""
    rows, failed = measured_rows(report), _others(report, "failures")
    out = _others(report, "left_out")
    if not rows and not out and not failed:
        return ()
    conspicuous = [row for row in rows if row.get("device") == "cuda" and _complaints(row)]
    rest = [_row(row) for row in rows if row not in conspicuous] + [_left_out(row) for row in out]
    counts = counted(len(rows) - len(conspicuous), "GPU") + (f", {len(out)} left out" if out else "")
    gpus = [row for row in rows if row.get("device") == "cuda"]
    note = "Measured by benchmark_gpus.yml, and compared with GPUs of the same name and memory."
    on_cpu = "" if len(gpus) == len(rows) else f" Figures marked CPU were {ON_CPU}."
    return (
        Table(
            "speed",
            "How fast each GPU is",
            note + on_cpu,
            _COLUMNS,
            (*map(_failed, failed), *map(_row, conspicuous)),
            _verdict(gpus) if gpus else f"No GPU was measured{on_cpu and '.' + on_cpu}",
            wide=True,
            fold=Fold(counts, _COLUMNS, tuple(rest[:MOST_ROWS])),
            unchecked=not any(map(_has_peers, gpus)),
        ),
    )


def _verdict(gpus: Sequence[dict[str, Any]]) -> str:
    """Return a summary if no GPU failed and none is slower than its peers, if it has any."""
    alone = sum(not _has_peers(row) for row in gpus)
    if alone == len(gpus):
        return "No GPU had peers to compare with."
    return "No GPU is slower than others of its kind" + (
        f", but {counted(alone, 'GPU')} had no peers." if alone else "."
    )


def _complaints(row: dict[str, Any]) -> str:
    return " ".join([*texts(row.get("warnings")), *texts(row.get("notes"))])


def _has_peers(row: dict[str, Any]) -> bool:
    return bool(number(row.get("peers")))


def _others(report: Report, key: str) -> list[dict[str, Any]]:
    """Return the rows of GPUs without figures, or of nodes if the GPU is unknown."""
    without = _keys(report) - set(map(_key, measured_rows(report)))
    return [
        row
        for row in dictionaries(_benchmark(report).get(key))
        if _key(row) in without or (not row.get("uuid") and text(row.get("node")) in report["hosts"])
    ]


def _row(row: dict[str, Any]) -> Row:
    cpu = "" if row.get("device") == "cuda" else " (CPU)"
    figures = read_figures(row.get("figures"))
    shown = [Cell(f"{each.format(figures[each.key])}{cpu}" if each.key in figures else "") for each in FIGURES]
    when = Cell(moment(text(row.get("measured"))))
    return (_name(row), *shown, Cell(pcie(read_facts(row.get("facts")))), when, _result(row))


def _result(row: dict[str, Any]) -> Cell:
    complaints = _complaints(row)
    if row.get("device") != "cuda":
        return Cell("measured on the CPU" + (f". {complaints}" if complaints else ""), "unknown")
    if complaints:
        return Cell(complaints, "warn")
    return Cell("no warning", "ok") if _has_peers(row) else Cell("no peers", "unknown")


def _left_out(row: dict[str, Any]) -> Row:
    empty = (Cell(""),) * (len(FIGURES) + 2)
    return (_name(row), *empty, Cell(f"left out: {text(row.get('reason'))}", "unknown"))


def _failed(row: dict[str, Any]) -> Row:
    empty, when = (Cell(""),) * (len(FIGURES) + 1), Cell(moment(text(row.get("measured"))))
    name = _name(row) if row.get("uuid") else Cell(text(row.get("node")), below=f"pod {text(row.get('pod'))}")
    return (name, *empty, when, Cell(f"not measured: {text(row.get('reason'))}", "bad"))


def _name(row: dict[str, Any]) -> Cell:
    named = label(text(row.get("node")), text(row.get("index")), text(row.get("uuid")))
    return Cell(named, below=text(row.get("name")))


def _keys(report: Report) -> set[tuple[str, str]]:
    """Return the GPUs in the report by node and UUID; a GPU that was moved to another node must be measured again."""
    return {
        (node, text(device.get("uuid")))
        for node, entry in report["hosts"].items()
        for device in dictionaries(entry.get("devices"))
        if device.get("uuid")
    }


def _key(row: dict[str, Any]) -> tuple[str, str]:
    return text(row.get("node")), text(row.get("uuid"))


def _benchmark(report: Report) -> dict[str, Any]:
    return dictionary(report.get("gpu_benchmark"))
