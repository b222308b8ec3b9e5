# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Head and sections of the page."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import report_samples
from ansible_collections.gpulab.kubernetes.plugins.filter.report import FilterModule
from ansible_collections.gpulab.kubernetes.plugins.plugin_utils._report.view import page

TEMPLATES = str(Path(__file__).resolve().parents[4] / "roles" / "report" / "templates")
make = FilterModule().filters()["report_page"]


def figures(report: dict[str, Any]) -> list[tuple[str, str, str]]:
    return [(each.value, each.what, each.state) for each in page(report).figures]


def test_figures_have_readable_labels() -> None:
    assert figures(report_samples.well()) == [
        ("6/6", "GPUs verified", "ok"),
        ("3/3", "hosts reached", "ok"),
        ("All", "versions as pinned", "ok"),
        ("364 days", "until a certificate expires", "ok"),
    ]
    assert figures(report_samples.ill()) == [
        ("8/12", "6 verified, 2 in use", "bad"),
        ("3/4", "hosts reached", "bad"),
        ("1", "version differs on 1 host", "warn"),
        ("21 days", "ago a certificate expired", "bad"),
    ]
    assert figures(report_samples.fleet())[2][:2] == ("1", "version differs on 5 hosts")
    busy = report_samples.fleet(problems=False)
    assert figures(busy)[0] == ("320/320", "318 verified, 2 in use", "ok")


def missing_gpu(report: dict[str, Any]) -> dict[str, Any]:
    del report["hosts"]["gpu2"]["devices"][0]
    return report


def with_actions(report: dict[str, Any], *severities: str) -> dict[str, Any]:
    return {**report, "actions": [{"severity": each, "what": each} for each in severities]}


@pytest.mark.parametrize(
    ("report", "state", "title"),
    [
        (report_samples.well(), "ok", "6 of 6 GPUs verified"),
        (report_samples.fleet(problems=False), "ok", "318 of 320 GPUs verified, 2 in use"),
        (with_actions(report_samples.well(), "warning"), "warn", "1 warning; 6 of 6 GPUs verified"),
        (
            report_samples.ill(),
            "bad",
            "4 errors, 2 warnings; 6 of 12 GPUs verified, 2 in use, 1 unhealthy, 1 not verified, 2 unknown",
        ),
        (
            report_samples.fleet(),
            "bad",
            "2 errors, 6 warnings; 309 of 320 GPUs verified, 2 in use, 1 unhealthy, 8 unknown",
        ),
        (
            with_actions(missing_gpu(report_samples.well()), "error"),
            "bad",
            "1 error; 5 of 6 GPUs verified, 1 not found",
        ),
        ({"hosts": {}, "totals": {}, "problems": []}, "ok", "No GPUs found"),
    ],
)
def test_title_counts_problems_and_gpus(report: dict[str, Any], state: str, title: str) -> None:
    shown = page(report)
    assert (shown.state, shown.title) == (state, title)
    assert sum(share.number for share in shown.gpus) == report["totals"].get("gpus", 0)
    assert f"{title} \N{EN DASH} GPU cluster report" in make(report, TEMPLATES)


def test_head_shows_the_origin_of_the_report() -> None:
    report = report_samples.well()
    report["kept"] = True
    report["hosts"]["gpu1"]["proven_at"] = "2026-11-21T03:38:00Z"
    assert dict(page(report).facts) == {
        "Verified": "2026-11-21 03:38 UTC (reused)",
        "Hosts checked": "2026-11-22 02:00 UTC",
        "API": "https://192.0.2.11:6443",
        "Kubernetes": "v1.36.4",
        "Written by": "gpulab.kubernetes 0.2.0",
        "Inventory": "lab.ini",
        "Controller": "admin@workstation",
    }


def listed(report: dict[str, Any]) -> dict[str, list[str]]:
    return {title: [table.key for table in tables_] for _key, title, tables_ in page(report).quiet}


def test_passed_and_unchecked_topics_have_a_section_each() -> None:
    everything = ["health", "xids", "versions", "certificates", "network"]
    assert [table.key for table in page(report_samples.well()).tables] == []
    assert listed(report_samples.well()) == {"Passed": everything}
    assert [table.key for table in page(report_samples.ill()).tables] == everything
    assert listed(report_samples.ill()) == {}
    assert listed(report_samples.fleet()) == {"Not checked": ["xids"], "Passed": ["certificates", "network"]}
    silent = report_samples.well()
    silent["hosts"]["gpu1"]["reachable"] = False
    assert listed(silent) == {"Not checked": ["health", "xids", "versions"], "Passed": ["certificates", "network"]}
    empty: dict[str, Any] = {"hosts": {}, "totals": {}, "problems": []}
    assert listed(empty) == {"Not checked": ["health", "versions", "certificates", "network"], "Passed": ["xids"]}
    page_of_all = make(report_samples.well(), TEMPLATES)
    assert page_of_all.count("<section") == 6 and "All 6 GPUs are healthy." in page_of_all
