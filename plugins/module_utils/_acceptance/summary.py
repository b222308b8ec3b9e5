# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The report as text for a terminal. Pure functions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .._problem import together
from .._words import counted

Report = Mapping[str, Any]


def summary(report: Report) -> list[str]:
    """Return a few lines: what was verified, where, with which checks."""
    totals = report["totals"]
    with_gpus = {name: entry for name, entry in report["hosts"].items() if entry["gpus"]["expected"]}
    line = f"{totals['proven']} of {totals['gpus']} GPUs verified on {counted(len(with_gpus), 'host')}"
    if totals["in_use"]:
        line += f", {totals['in_use']} in use by others"
    lines = [line + _kept(report)]
    if report["simulated"]:
        lines.append("Simulated GPUs: this run shows that the parts fit together. It doesn't show that a GPU computes.")
    if report["checks"]:
        lines.append(f"Output of each check: {' / '.join(report['checks'])}")
    lines += [_host(name, entry) for name, entry in with_gpus.items()]
    if report["network"]:
        lines.append(_network(report["network"]))
    if report["isolation"]:
        lines.append(f"Isolation: {_isolation(report)}")
    return lines


def _isolation(report: Report) -> str:
    leaking = [name for name, entry in report["hosts"].items() if entry["isolation"].get("saw")]
    if leaking:
        return f"a pod that requests no GPUs sees some on {', '.join(leaking)}"
    return "a pod that requests no GPUs sees none" if all(report["isolation"].values()) else "NOT verified"


def problems(report: Report) -> list[str]:
    """Return all problems, one line for each host and cause, with the GPUs concerned."""
    return [": ".join(filter(None, (each.host, each.gpu, each.what))) for each in together(report["problems"])]


def warnings(report: Report) -> list[str]:
    """Return the warnings, as sentences with advice."""
    return [f"{each.what}: {each.gpu} ({each.host}). {each.do}" for each in together(report["warnings"])]


def remedies(report: Report) -> list[str]:
    """Return the remedies without duplicates."""
    return list(dict.fromkeys(each.do for each in together(report["problems"]) if each.do))


def _host(name: str, entry: Mapping[str, Any]) -> str:
    gpus = entry["gpus"]
    models = sorted({device["name"] for device in entry["devices"]})
    line = f"{name}: {gpus['proven']} of {gpus['expected']} verified"
    if gpus["in_use"]:
        pods = sorted({device["pod"] for device in entry["devices"] if device["state"] == "in_use"})
        line += f", {gpus['in_use']} in use by {', '.join(pods)}"
    driver = f"driver {entry['driver'] or 'unknown'}"
    return f"{line} ({', '.join([*models, driver])})"


def _network(network: Mapping[str, Any]) -> str:
    across = network["pod_to_pod"]
    good = sum(1 for each in across if each["ok"])
    reached = f"{good} of {len(across)}" if across else "not tested, there is only one node"
    words = {True: "ok", False: "NOT ok"}
    return f"Network: pod to pod {reached}, Service {words[network['service']]}, DNS {words[network['dns']]}"


def _kept(report: Report) -> str:
    moments = sorted({entry["proven_at"] for entry in report["hosts"].values() if entry["kept"]})
    if not moments:
        return ""
    if report["kept"]:
        return f" (kept from the verification of {moments[0]}; nothing has changed since)"
    return " (partly kept from an earlier verification)"
