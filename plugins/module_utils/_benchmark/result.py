# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Build the result of a benchmark, for programs and for a terminal. Pure functions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from .figures import FIGURES, ON_CPU, Measurement, label
from .peers import compare, count_peers, pcie
from .run import Failure
from .targets import LeftOut, Place


def result(
    measurements: Sequence[Measurement],
    failures: Iterable[Failure],
    left_out: Iterable[LeftOut],
    nodes: Iterable[str],
    now: str,
) -> dict[str, Any]:
    """Return the content of the result file, described in the role's README. ``nodes`` are all nodes of this run."""
    ordered = sorted(measurements, key=lambda each: (each.gpu.node, each.gpu.index or 0))
    warned, peers = compare(ordered), count_peers(ordered)
    return {
        "measured": now,
        "nodes": sorted(nodes),
        "gpus": [
            {
                **_row(each, now),
                "peers": peers.get(each.gpu.uuid, 0),
                "warnings": [warning.text for warning in warned if each.gpu.uuid in warning.uuids],
            }
            for each in ordered
        ],
        "left_out": [each.fields() for each in left_out],
        "failures": [{**each.fields(), "measured": now} for each in failures],
        "warnings": [each.text for each in warned],
    }


def _row(measured: Measurement, now: str) -> dict[str, Any]:
    reading = measured.reading
    return {
        **measured.gpu.fields(),
        "measured": now,
        "device": reading.device,
        "torch": reading.torch,
        "figures": dict(reading.figures),
        "facts": dict(reading.facts),
        "notes": list(reading.notes),
    }


def describe_plan(places: Iterable[Place], left_out: Iterable[LeftOut]) -> list[str]:
    """Return the lines that check mode shows."""
    lines = [
        f"Would measure {each.count} of {len(each.gpus)} free GPUs on {each.node}"
        + (f"; the rest: {each.rest}" if each.rest else "")
        for each in places
    ]
    return lines + [_left_out_line(each.fields()) for each in left_out]


def summary(found: Mapping[str, Any]) -> list[str]:
    """Return one line per GPU, then warnings and failures."""
    lines = [_line(row) for row in found["gpus"]]
    lines += map(_left_out_line, found["left_out"])
    lines += [f"{_failed(each)}: {each['reason']}" for each in found["failures"]]
    lines += [f"Warning: {text}" for text in found["warnings"]]
    alone = [_label(row) for row in found["gpus"] if row["device"] == "cuda" and not row["peers"]]
    if alone:
        lines.append(f"Note: compared with no peers: {', '.join(alone)}.")
    if any(row["device"] == "cpu" for row in found["gpus"]):
        lines.append(f"Note: {ON_CPU}.")
    return lines or ["There are no GPUs to measure."]


def _line(row: Mapping[str, Any]) -> str:
    figures = row["figures"]
    said = [f"{each.short} {each.format(figures[each.key])}" for each in FIGURES if each.key in figures]
    link = pcie(row["facts"])
    said += [f"PCIe {link}"] * bool(link) + [*row["notes"]]
    cpu = "on the CPU: " if row["device"] == "cpu" else ""
    return f"{_label(row)} ({row['name']}): {cpu}{', '.join(said)}"


def _left_out_line(row: Mapping[str, Any]) -> str:
    return f"{_label(row)}: left out, {row['reason']}"


def _failed(row: Mapping[str, Any]) -> str:
    """Return the GPU on which a pod failed, its node if the GPU is unknown."""
    return f"{_label(row) if row['uuid'] else row['node']}: pod {row['pod']}"


def _label(row: Mapping[str, Any]) -> str:
    return label(row["node"], row["index"], row["uuid"])
