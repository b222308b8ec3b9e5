# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Callable

from ..module_utils._words import counted
from ..plugin_utils._inventory import access
from ..plugin_utils._report.benchmark import add_result
from ..plugin_utils._report.drift import Row, compare, deferral_of, resolve_auto
from ..plugin_utils._report.junit import junit
from ..plugin_utils._report.metrics import metrics
from ..plugin_utils._report.origin import collection_version
from ..plugin_utils._report.page import render
from ..plugin_utils._report.read import ReportError, read_report, read_seen
from ..plugin_utils._report.state import complete
from ..plugin_utils._report.summary import summary

DOCUMENTATION = r"""
name: report
short_description: Internal filters for the report
extends_documentation_fragment: gpulab.kubernetes.internal
"""

_SEVERITIES = {"never": (), "error": ("error",), "warning": ("error", "warning")}


def drift(hosts: Mapping[str, Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Compare hosts with their pinned state."""
    return [
        {
            "host": host,
            **row.fields(),
            "deferred": bool(why),
            "text": f"WARNING: {host}: {row.text}. {why}." if why else f"{host}: {row.text}. {row.advice}",
        }
        for host, entry in resolve_auto(hosts).items()
        for row in _drift_rows(entry)
        if row.drift
        for why in (deferral_of(row, entry["seen"], entry["wanted"]),)
    ]


def _drift_rows(entry: Mapping[str, Any]) -> Iterator[Row]:
    failure = entry["seen"].get("failure")
    if failure:
        yield Row("host", "an answer", failure, advice="Make the host reachable, and run this again.")
    else:
        yield from compare(entry["seen"], entry["wanted"])


def report_benchmark(report: Any, result: Mapping[str, Any]) -> dict[str, Any]:
    """Add the figures of the GPUs to a report."""
    try:
        found = read_report(report)
    except ReportError:
        return {}
    return add_result(found, read_seen(result))


def report_failure(report: Mapping[str, Any], fail_on: str) -> str:
    """Decide whether the problems in a report make a run fail."""
    found = [each for each in report.get("actions", []) if each["severity"] in _SEVERITIES[fail_on]]
    if not found:
        return ""
    named = "; ".join(f"{each['host'] or 'cluster'}: {each['what'].rstrip('.')}" for each in found)
    count = counted(len(found), "problem")
    return f"Error while reporting the present state: {count} (report_fail_on is {fail_on}): {named}."


def report_junit(report: Any) -> str:
    """Return a report as JUnit XML."""
    return junit(read_report(report))


def report_metrics(report: Any) -> str:
    """Return a report as metrics for Prometheus."""
    return metrics(read_report(report))


def report_page(report: Any, templates: str) -> str:
    """Render a report as an HTML page."""
    return render(report, Path(templates))


def report_prefix(sources: Sequence[str], directory: str) -> str:
    """Choose how the paths of reports begin."""
    return access.report_prefix([str(source) for source in sources], str(directory))


def report_state(report: Any, seen: Mapping[str, Any], settings: Mapping[str, Any]) -> dict[str, Any]:
    """Add the current state of the hosts to a report."""
    version = {"collection_version": collection_version(Path(__file__).resolve().parents[2])}
    return complete(read_report(report), read_seen(seen), {**version, **read_seen(settings)})


def report_summary(report: Any) -> dict[str, Any]:
    """Return the verdict, totals and problems of a report."""
    return summary(read_report(report))


def report_targets(report: Mapping[str, Any], settings: Mapping[str, Any]) -> dict[str, bool]:
    """Decide where a report is kept, and whether writing it is a change."""
    answered = bool(settings["kubeconfig"]) and not settings["api_failure"]
    return {
        "junit": bool(report and settings["junit"]),
        "metrics": bool(report and settings["metrics"]),
        "config_map": bool(report and settings["config_map"] and answered),
        "changed": settings["verified"] or settings["kubeconfig"] == "",
    }


class FilterModule:
    def filters(self) -> dict[str, Callable[..., Any]]:
        return {
            "drift": drift,
            "report_benchmark": report_benchmark,
            "report_failure": report_failure,
            "report_junit": report_junit,
            "report_metrics": report_metrics,
            "report_page": report_page,
            "report_prefix": report_prefix,
            "report_state": report_state,
            "report_summary": report_summary,
            "report_targets": report_targets,
        }
