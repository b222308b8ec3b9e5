# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Summary for the cluster, which is small, has no readings, and is the same for runs with equal results."""

from __future__ import annotations

import json
from typing import Any

import report_samples
from ansible_collections.gpulab.kubernetes.plugins.filter.report import FilterModule
from hypothesis import given
from hypothesis import strategies as st

summary = FilterModule().filters()["report_summary"]
# Size limit of a ConfigMap in the API.
LIMIT = 1024 * 1024


def test_summary_has_verdict_totals_and_problems() -> None:
    found = summary(report_samples.ill())
    assert found["verdict"] == "error"
    assert found["totals"] == {"gpus": 12, "proven": 6, "in_use": 2, "errors": 4, "warnings": 2}
    assert found["cluster"]["name"] == "research"
    assert (found["problems"][0]["host"], found["problems"][0]["severity"]) == ("cp1", "error")
    assert summary(report_samples.well())["verdict"] == "ok"


def test_runs_with_equal_results_have_equal_summaries() -> None:
    first, second = report_samples.ill(), report_samples.ill()
    second |= {"observed": "2027-01-01T00:00:00Z", "generated": "2027-01-01T00:00:00Z", "history": [], "kept": True}
    second["hosts"]["gpu1"]["devices"][0] |= {"temperature_c": 80, "memory_used_mib": 9000, "power_draw_w": 390.0}
    assert summary(first) == summary(second)
    second["hosts"]["gpu1"]["proven_at"] = "2027-01-01T00:00:00Z"
    assert summary(first) != summary(second)


@given(st.text(max_size=3), st.integers(0, 3000))
def test_summary_with_many_problems_fits_into_a_config_map(word: str, amount: int) -> None:
    report: dict[str, Any] = report_samples.well()
    action = {"severity": "error", "what": (word or "x") * 5000, "do": "x" * 5000, "host": "gpu1"}
    report["actions"] = [action] * amount
    found = summary(report)
    assert len(json.dumps(found, indent=2).encode()) < LIMIT
    assert len(found["problems"]) + found["problems_left_out"] == amount
