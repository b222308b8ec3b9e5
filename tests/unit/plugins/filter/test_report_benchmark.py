# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The figures of the GPUs in the report: kept from run to run, shown on the page, and as metrics."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import report_samples
from ansible_collections.gpulab.kubernetes.plugins.filter.report_benchmark import FilterModule
from ansible_collections.gpulab.kubernetes.plugins.filter.report_metrics import FilterModule as Metrics
from ansible_collections.gpulab.kubernetes.plugins.filter.report_page import FilterModule as Page
from ansible_collections.gpulab.kubernetes.plugins.filter.report_state import FilterModule as State
from ansible_collections.gpulab.kubernetes.plugins.plugin_utils._report.benchmark import benchmark_tables
from ansible_collections.gpulab.kubernetes.plugins.plugin_utils._report.view import page
from hypothesis import given, settings
from hypothesis import strategies as st

add = FilterModule().filters()["report_benchmark"]
metrics = Metrics().filters()["report_metrics"]
render = Page().filters()["report_page"]
state = State().filters()["report_state"]
TEMPLATES = str(Path(__file__).resolve().parents[4] / "roles" / "report" / "templates")
SETTINGS: dict[str, Any] = {"observed": "2026-11-22T02:00:00Z", "now": 160.5, "certificate_days": 30}
ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
# GPUs of the sample.
FAST, SLOW = ("gpu2", 0), ("gpu2", 1)


def uuid(place: tuple[str, int]) -> str:
    node, index = place
    return str(report_samples.well()["hosts"][node]["devices"][index]["uuid"])


def rows(report: dict[str, Any]) -> list[tuple[str, int]]:
    return [(row["node"], row["index"]) for row in report["gpu_benchmark"]["gpus"]]


def on_cpu() -> dict[str, Any]:
    report: dict[str, Any] = report_samples.measured()
    for row in report["gpu_benchmark"]["gpus"]:
        row |= {"device": "cpu", "warnings": []}
    return report


def test_the_figures_are_added_to_the_report() -> None:
    well, measured = report_samples.well(), report_samples.measured()
    assert add(json.dumps(well), measured["gpu_benchmark"]) == measured


def test_a_later_run_replaces_the_figures_of_the_gpus_that_it_measured() -> None:
    report = report_samples.measured()
    again = report_samples.speed("gpu2", report["hosts"]["gpu2"]["devices"][1], 1550)
    found = add(report, {"gpus": [again], "left_out": []})
    assert rows(found) == [SLOW, FAST]
    assert found["gpu_benchmark"]["gpus"][0]["figures"]["memory_bytes_per_s"] == 1550e9


@pytest.mark.parametrize("text", ["", "no JSON", "[]", '{"hosts": {}}'])
def test_what_is_not_a_report_gets_no_figures(text: str) -> None:
    assert add(text, {"gpus": []}) == {}


def carried(change: Any = None, endpoint: str = "https://192.0.2.11:6443") -> dict[str, Any]:
    """What is left after the next run of another playbook, which changed something."""
    before, now = report_samples.measured(), report_samples.well()
    before["cluster"]["endpoint"] = endpoint
    if change:
        change(now)
    found: dict[str, Any] = state(now, {}, {**SETTINGS, "earlier": json.dumps(before)})["gpu_benchmark"]
    return found


def test_other_playbooks_keep_the_last_figures_with_their_time() -> None:
    assert carried() == report_samples.measured()["gpu_benchmark"]


def test_a_gpu_that_is_gone_takes_its_figures_along() -> None:
    found = carried(lambda report: report["hosts"]["gpu2"]["devices"].pop())
    assert rows({"gpu_benchmark": found}) == [FAST]


def test_a_run_for_some_hosts_loses_nothing_of_the_others_and_does_not_show_them() -> None:
    found = carried(lambda report: report["hosts"].pop("gpu2"))
    assert rows({"gpu_benchmark": found}) == [FAST, SLOW]
    report = {**report_samples.well(), "gpu_benchmark": found}
    del report["hosts"]["gpu2"]
    assert "gpu2" not in str(benchmark_tables(report)) and "bandwidth" not in metrics(report)


def test_figures_of_another_cluster_are_not_kept() -> None:
    assert carried(endpoint="https://192.0.2.99:6443") == {}


def test_a_report_without_the_api_keeps_its_own_figures() -> None:
    before = report_samples.measured()
    found = state(before, {}, {**SETTINGS, "earlier": json.dumps(before), "api_failure": "no answer"})
    assert found["gpu_benchmark"] == before["gpu_benchmark"]


def test_the_page_shows_slow_gpus_and_folds_the_others() -> None:
    [table] = benchmark_tables(report_samples.measured())
    assert (table.title, table.fold.label) == ("How fast each GPU is", "1 GPU, 1 left out")
    assert [[cell.text for cell in row] for row in table.rows] == [
        [
            "gpu2 GPU 1",
            "900 GB/s",
            "240 TFLOP/s",
            "19 TFLOP/s",
            "",
            "Gen3 x16 of Gen4 x16",
            "2026-11-21 05:00 UTC",
            "gpu2 GPU 1: memory bandwidth 900 GB/s is 58 % of the median. No cause was found",
        ]
    ]
    assert [row[-1].text for row in table.fold.rows] == ["no warning", "left out: in use by team/notebook"]
    assert "CPU" not in str(table)


def test_a_slow_gpu_changes_neither_the_verdict_nor_the_actions() -> None:
    well, measured = page(report_samples.well()), page(report_samples.measured())
    assert (measured.verdict, measured.state, measured.todo) == (well.verdict, well.state, well.todo)
    assert state(report_samples.measured(), {}, SETTINGS)["actions"] == []


def test_a_report_without_figures_has_no_such_table() -> None:
    assert benchmark_tables(report_samples.well()) == ()


def test_figures_of_a_cpu_are_labelled_on_the_page() -> None:
    [table] = benchmark_tables(on_cpu())
    assert table.note.endswith(
        "Figures marked CPU were measured on the CPU (no CUDA): these figures say nothing about the GPU."
    )
    assert table.rows == () and table.words.startswith("No GPU was measured.")
    assert [cell.text for cell in table.fold.rows[0]][1:4] == [
        "1555 GB/s (CPU)",
        "240 TFLOP/s (CPU)",
        "19 TFLOP/s (CPU)",
    ]
    assert table.fold.rows[0][-1].text == "measured on the CPU"


def test_figures_are_metrics_in_base_units() -> None:
    text = metrics(report_samples.measured())
    labels = f'{{cluster="lab",node="gpu2",gpu="1",uuid="{uuid(SLOW)}",model="NVIDIA A100-SXM4-40GB"}}'
    assert f"gpulab_gpu_memory_bandwidth_bytes_per_second{labels} 900000000000\n" in text
    assert f"gpulab_gpu_bf16_flops_per_second{labels} 240000000000000\n" in text
    assert f"gpulab_gpu_fp32_flops_per_second{labels} 19000000000000\n" in text
    assert f"gpulab_gpu_benchmark_timestamp_seconds{labels} 1795237200\n" in text
    assert "gpulab_gpu_host_to_device_bytes_per_second" not in text
    assert text.count("gpulab_gpu_benchmark_timestamp_seconds{") == 2


def test_figures_of_a_cpu_are_no_metrics() -> None:
    assert metrics(on_cpu()) == metrics(report_samples.well())


@given(ANYTHING | st.fixed_dictionaries({"gpus": st.lists(ANYTHING), "left_out": st.lists(ANYTHING)}))
@settings(max_examples=50, deadline=None)
def test_whatever_a_report_has_there_is_shown_or_left_out(value: Any) -> None:
    report = {**report_samples.well(), "gpu_benchmark": value}
    render(report, TEMPLATES)
    metrics(report)
    state(report, {}, {**SETTINGS, "earlier": json.dumps(report)})


@given(st.dictionaries(st.sampled_from(sorted(report_samples.speed("n", report_samples.device(0), 1))), ANYTHING))
@settings(max_examples=50, deadline=None)
def test_whatever_a_row_has_is_shown_or_left_out(changes: dict[str, Any]) -> None:
    report = report_samples.measured()
    report["gpu_benchmark"]["gpus"][0] |= {**changes, "uuid": uuid(FAST)}
    render(report, TEMPLATES)
    metrics(report)
