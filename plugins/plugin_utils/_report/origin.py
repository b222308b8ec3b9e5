# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The origin of a report: the cluster's name, the version of this collection, earlier runs."""

from __future__ import annotations

import json
from pathlib import Path, PurePath
from typing import Any

import yaml

from .read import Report, dictionaries, dictionary, number, text, texts
from .states import count_gpus

RUNS = 10
COUNTS = ("gpus", "proven", "in_use", "errors", "warnings")


def collection_version(root: Path) -> str:
    """Return the version of the collection in ``root``, installed or checked out, empty if no file contains it."""
    try:
        if (root / "MANIFEST.json").is_file():
            read = dictionary(json.loads((root / "MANIFEST.json").read_text(encoding="utf-8")))
            return text(dictionary(read.get("collection_info")).get("version"))
        return text(dictionary(yaml.safe_load((root / "galaxy.yml").read_text(encoding="utf-8"))).get("version"))
    except (OSError, ValueError, yaml.YAMLError):
        return ""


def origin(settings: dict[str, Any]) -> dict[str, str]:
    """Return where a report comes from: ``collection`` (version), ``controller``, ``inventory``, its ``options``."""
    sources = texts(settings.get("inventory_sources"))
    inventory = "" if not sources or "," in sources[0] else PurePath(sources[0]).name
    return {
        "collection": text(settings.get("collection_version")),
        "controller": text(settings.get("controller")),
        "inventory": inventory,
        "options": text(settings.get("options")),
    }


def predecessor(report: Report, earlier: Any) -> dict[str, Any]:
    """Return the report that this one replaces, from its text; empty if it is of another cluster or not a report."""
    try:
        before = dictionary(json.loads(earlier)) if isinstance(earlier, str) else {}
    except (ValueError, RecursionError):
        return {}
    endpoints = {text(dictionary(each.get("cluster")).get("endpoint")) for each in (report, before)}
    return before if len(endpoints - {""}) < 2 else {}


def history(report: Report, before: Report) -> list[dict[str, Any]]:
    """Return this run and those before it, newest first."""
    runs, counts = dictionaries(before.get("history")), count_gpus(report)
    gpus = {
        "gpus": sum(counts.values()),
        "proven": counts.get("verified", 0),
        "in_use": counts.get("in_use", 0),
    }
    latest = {"time": text(report.get("observed")), **gpus, **severities(report)}
    known = [{"time": text(run.get("time")), **{key: number(run.get(key)) or 0 for key in COUNTS}} for run in runs]
    return [latest, *known][:RUNS]


def severities(report: Report) -> dict[str, int]:
    """Return the number of errors and of warnings among the actions."""
    found = [text(each.get("severity")) for each in dictionaries(report.get("actions"))]
    return {"errors": found.count("error"), "warnings": found.count("warning")}


def verified(report: Report) -> str:
    """Return when pods last ran for a verification that is still valid, empty if none is."""
    return max((text(entry.get("proven_at")) for entry in report["hosts"].values()), default="")
