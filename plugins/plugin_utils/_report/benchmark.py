# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The last figures of each GPU, carried from report to report, and shown as a table. Pure."""

from __future__ import annotations

from typing import Any

from ...module_utils._acceptance.summary import counted
from ...module_utils._benchmark.figures import FIGURES, ON_CPU
from ...module_utils._benchmark.peers import pcie
from .read import Report, dictionaries, dictionary, text, texts
from .table import MOST_ROWS, Cell, Fold, Row, Table
from .words import moment

_COLUMNS = ("GPU", "Memory", "bf16", "fp32", "Host to device", "PCIe under load", "Measured", "Result")
_FASTEST = 1e18


def updated(report: Report, result: dict[str, Any]) -> Report:
    """The report with the result of a benchmark. GPUs that were not measured in it keep their last figures."""
    rows = dictionaries(result.get("gpus"))
    now = {text(row.get("uuid")) for row in rows}
    before = [row for row in dictionaries(_of(report).get("gpus")) if text(row.get("uuid")) not in now]
    return {**report, "gpu_benchmark": {**result, "gpus": [*rows, *before]}}


def carried(report: Report, before: Report) -> dict[str, Any]:
    """What an earlier report has of GPUs that still exist. Of a node that is not in this report, nothing is known."""
    found, known = _of(before), _keys(report)
    if not found:
        return {}

    def is_there(row: dict[str, Any]) -> bool:
        return _key(row) in known or text(row.get("node")) not in report["hosts"]

    return {**found, **{key: list(filter(is_there, dictionaries(found.get(key)))) for key in ("gpus", "left_out")}}


def measured(report: Report) -> list[dict[str, Any]]:
    """The rows of the GPUs that are in the report."""
    known = _keys(report)
    return [row for row in dictionaries(_of(report).get("gpus")) if _key(row) in known]


def figure(row: dict[str, Any], key: str) -> float | None:
    value = dictionary(row.get("figures")).get(key)
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    return float(value) if 0 < value <= _FASTEST else None


def benchmark_tables(report: Report) -> tuple[Table, ...]:
    """One table, none if no GPU has been measured or left out."""
    rows = measured(report)
    without = _keys(report) - set(map(_key, rows))
    out = [row for row in dictionaries(_of(report).get("left_out")) if _key(row) in without]
    if not rows and not out:
        return ()
    slow = [row for row in rows if texts(row.get("warnings"))]
    rest = [_row(row) for row in rows if row not in slow] + [_left_out(row) for row in out]
    label = counted(len(rows) - len(slow), "GPU") + (f", {len(out)} left out" if out else "")
    gpus = [row for row in rows if row.get("device") == "cuda"]
    note = "Measured by benchmark_gpus.yml, and compared with GPUs of the same name and memory."
    on_cpu = "" if len(gpus) == len(rows) else f" Figures marked CPU were {ON_CPU}."
    return (
        Table(
            "speed",
            "How fast each GPU is",
            note + on_cpu,
            _COLUMNS,
            tuple(map(_row, slow)),
            "No GPU is slower than others of its kind." if gpus else f"No GPU was measured{on_cpu and '.' + on_cpu}",
            wide=True,
            fold=Fold(label, _COLUMNS, tuple(rest[:MOST_ROWS])),
        ),
    )


def _row(row: dict[str, Any]) -> Row:
    cpu = "" if row.get("device") == "cuda" else " (CPU)"
    values = [(each, figure(row, each.key)) for each in FIGURES]
    shown = [Cell("" if value is None else f"{each.format(value)}{cpu}") for each, value in values]
    facts = {key: value for key, value in dictionary(row.get("facts")).items() if isinstance(value, (int, float))}
    warnings = " ".join(texts(row.get("warnings")))
    result = Cell(warnings, "warn") if warnings else Cell("no warning", "ok")
    if cpu:
        result = Cell("measured on the CPU", "unknown")
    return (_name(row), *shown, Cell(pcie(facts)), Cell(moment(text(row.get("measured")))), result)


def _left_out(row: dict[str, Any]) -> Row:
    empty = (Cell(""),) * (len(FIGURES) + 2)
    return (_name(row), *empty, Cell(f"left out: {text(row.get('reason'))}", "unknown"))


def _name(row: dict[str, Any]) -> Cell:
    return Cell(f"{text(row.get('node'))} GPU {text(row.get('index'))}".rstrip(), below=text(row.get("name")))


def _keys(report: Report) -> set[tuple[str, str]]:
    """The GPUs in the report. One that was moved to another node has to be measured there."""
    return {
        (node, text(device.get("uuid")))
        for node, entry in report["hosts"].items()
        for device in dictionaries(entry.get("devices"))
        if device.get("uuid")
    }


def _key(row: dict[str, Any]) -> tuple[str, str]:
    return text(row.get("node")), text(row.get("uuid"))


def _of(report: Report) -> dict[str, Any]:
    return dictionary(report.get("gpu_benchmark"))
