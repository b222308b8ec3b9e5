# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The part of a report that is kept in the cluster: verdict and problems, limited, without changing values. Pure."""

from __future__ import annotations

import json
from typing import Any

from .origin import severities, verified
from .read import Report, dictionaries, dictionary, number, text

# The API refuses a ConfigMap larger than 1 MiB.
PROBLEMS, LETTERS, MOST_BYTES = 100, 500, 256 * 1024
_PROBLEM = ("severity", "problem", "host", "gpu", "what", "do")


def summary(report: Report) -> dict[str, Any]:
    """Return a summary that is equal for equal findings: it contains no temperatures and no time of the run."""
    found = dictionaries(report.get("actions"))
    cluster, totals = dictionary(report.get("cluster")), dictionary(report.get("totals"))
    counts, kept = severities(report), _first(found)
    return {
        "verdict": "error" if counts["errors"] else "warning" if counts["warnings"] else "ok",
        "cluster": {key: text(cluster.get(key)) for key in ("name", "endpoint", "kubernetes_version")},
        "verified": text(report.get("verified")) or verified(report),
        "simulated": report.get("simulated") is True,
        "totals": {**{key: number(totals.get(key)) or 0 for key in ("gpus", "proven", "in_use")}, **counts},
        "problems": kept,
        "problems_left_out": len(found) - len(kept),
    }


def _first(found: list[dict[str, Any]]) -> list[dict[str, str]]:
    """Return as many of the problems as fit."""
    kept, room = [], MOST_BYTES
    for each in found[:PROBLEMS]:
        short = {key: text(each.get(key))[:LETTERS] for key in _PROBLEM}
        room -= len(json.dumps(short))
        if room < 0:
            break
        kept.append(short)
    return kept
