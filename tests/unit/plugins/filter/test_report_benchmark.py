# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Benchmark figures of GPUs in the report: kept by later runs, shown on the page, and exported as metrics."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import report_samples
from ansible_collections.gpulab.kubernetes.plugins.filter.report import FilterModule
from ansible_collections.gpulab.kubernetes.plugins.filter.report import FilterModule as Metrics
from ansible_collections.gpulab.kubernetes.plugins.filter.report import FilterModule as Page
from ansible_collections.gpulab.kubernetes.plugins.filter.report import FilterModule as State
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
# GPUs of the sample report.
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


def test_figures_are_added_to_the_report() -> None:
    well, measured = report_samples.well(), report_samples.measured()
    assert add(json.dumps(well), measured["gpu_benchmark"]) == measured


def test_later_run_replaces_figures_of_measured_gpus() -> None:
    report = report_samples.measured()
    again = report_samples.speed("gpu2", report["hosts"]["gpu2"]["devices"][1], 1550)
    found = add(report, {"gpus": [again], "left_out": []})
    assert rows(found) == [SLOW, FAST]
    assert found["gpu_benchmark"]["gpus"][0]["figures"]["memory_bytes_per_s"] == 1550e9


@pytest.mark.parametrize("text", ["", "no JSON", "[]", '{"hosts": {}}'])
def test_figures_are_not_added_to_an_invalid_report(text: str) -> None:
    assert add(text, {"gpus": []}) == {}


def failure(place: tuple[str, int], **more: str) -> dict[str, Any]:
    node, index = place
    own = {"node": node, "index": index, "uuid": uuid(place), "name": "NVIDIA A100-SXM4-40GB"}
    return {**own, "pod": "gpu-1-gpu2", "reason": "CUDA error", "measured": "2026-11-22T05:00:00Z", **more}


def table_of(report: dict[str, Any]) -> Any:
    [table] = benchmark_tables(report)
    return table


@pytest.mark.parametrize(
    "before", [report_samples.measured, report_samples.well], ids=["measured before", "never measured"]
)
def test_failed_pod_replaces_the_last_figures_of_its_gpu(before: Any) -> None:
    found = add(before(), {"nodes": ["gpu2"], "gpus": [], "failures": [failure(SLOW)]})
    assert SLOW not in rows(found)
    row = table_of(found).rows[0]
    assert [cell.text for cell in row] == [
        "gpu2 GPU 1",
        *[""] * 5,
        "2026-11-22 05:00 UTC",
        "not measured: CUDA error",
    ]
    assert row[-1].state == "bad"
    assert f'uuid="{uuid(SLOW)}",model="NVIDIA A100-SXM4-40GB"}} 9000' not in metrics(found)


def test_failed_pod_without_a_known_gpu_is_shown_with_its_node() -> None:
    unknown = failure(SLOW, uuid="", reason="ErrImagePull: image x")
    found = add(report_samples.well(), {"nodes": ["gpu2"], "gpus": [], "failures": [{**unknown, "index": None}]})
    [row] = table_of(found).rows
    assert (row[0].text, row[0].below, row[-1].text) == (
        "gpu2",
        "pod gpu-1-gpu2",
        "not measured: ErrImagePull: image x",
    )


def test_new_figures_replace_an_earlier_failure() -> None:
    failed = add(report_samples.measured(), {"nodes": ["gpu2"], "gpus": [], "failures": [failure(SLOW)]})
    again = report_samples.speed("gpu2", failed["hosts"]["gpu2"]["devices"][1], 1550)
    found = add(failed, {"nodes": ["gpu2"], "gpus": [again], "failures": []})
    assert (found["gpu_benchmark"]["failures"], table_of(found).rows) == ([], ())


def test_run_for_one_node_keeps_the_results_of_others() -> None:
    before = add(report_samples.measured(), {"nodes": ["gpu2"], "gpus": [], "failures": [failure(FAST)]})
    again = report_samples.speed("cp1", {**report_samples.device(0), "uuid": "GPU-other"}, 300)
    found = add(before, {"nodes": ["cp1"], "gpus": [again], "failures": [], "left_out": [], "warnings": ["slow"]})
    kept, earlier = found["gpu_benchmark"], report_samples.measured()["gpu_benchmark"]
    assert (kept["failures"], kept["left_out"]) == ([failure(FAST)], earlier["left_out"])
    assert (kept["warnings"], kept["nodes"]) == (["slow", *earlier["warnings"]], ["cp1", "gpu1", "gpu2"])


@pytest.mark.parametrize(
    ("peers", "words", "results"),
    [
        ((1, 1), "No GPU is slower than others of its kind.", ["no warning", "no warning"]),
        ((1, 0), "No GPU is slower than others of its kind, but 1 GPU had no peers.", ["no warning", "no peers"]),
        ((0, 0), "No GPU had peers to compare with.", ["no peers", "no peers"]),
        ((None, "1"), "No GPU had peers to compare with.", ["no peers", "no peers"]),
    ],
    ids=str,
)
def test_gpu_without_peers_is_not_compared(peers: Any, words: str, results: list[str]) -> None:
    report = report_samples.measured()
    for row, count in zip(report["gpu_benchmark"]["gpus"], peers):
        row |= {"warnings": [], "peers": count}
    table = table_of(report)
    assert (table.rows, table.words) == ((), words)
    assert [row[-1].text for row in table.fold.rows[:2]] == results
    assert {row[-1].state for row in table.fold.rows[:2]} == {
        "ok" if result == "no warning" else "unknown" for result in results
    }


def test_failed_figure_is_shown() -> None:
    report = report_samples.measured()
    report["gpu_benchmark"]["gpus"][0]["notes"] = ["fp32_flop_per_s: CUDA error"]
    row = next(row for row in table_of(report).rows if row[0].text == "gpu2 GPU 0")
    assert (row[-1].text, row[-1].state) == ("fp32_flop_per_s: CUDA error", "warn")


@pytest.mark.parametrize("value", [10**400, float("nan"), float("inf"), -1, "4", True, [1]], ids=str)
def test_impossible_values_are_not_shown(value: Any) -> None:
    report = report_samples.measured()
    for row in report["gpu_benchmark"]["gpus"]:
        row["facts"] = {"pcie_generation": value, "pcie_width": 8}
        row["figures"] = {"memory_bytes_per_s": value if value != -1 else 10**400}
    assert [cell.text for cell in table_of(report).rows[0]][1:6] == [""] * 5
    assert "bandwidth" not in metrics(report)


def test_skipped_gpu_without_a_uuid_is_shown() -> None:
    left_out = {
        "node": "gpu2",
        "index": None,
        "uuid": "",
        "name": "",
        "reason": "nvidia-smi lists only 2 of the 3 GPUs",
    }
    found = add(report_samples.well(), {"nodes": ["gpu2"], "gpus": [], "left_out": [left_out]})
    assert table_of(found).fold.rows[0][0].text == "gpu2 GPU without a UUID"


def kept(change: Any = None, endpoint: str = "https://192.0.2.11:6443") -> dict[str, Any]:
    """Return the figures that are kept by a run of another playbook, after ``change`` has modified its report."""
    before, now = report_samples.measured(), report_samples.well()
    before["cluster"]["endpoint"] = endpoint
    if change:
        change(now)
    found: dict[str, Any] = state(now, {}, {**SETTINGS, "earlier": json.dumps(before)})["gpu_benchmark"]
    return found


def test_other_playbooks_keep_the_figures_and_their_time() -> None:
    assert kept() == report_samples.measured()["gpu_benchmark"]


def test_figures_of_a_removed_gpu_are_dropped() -> None:
    found = kept(lambda report: report["hosts"]["gpu2"]["devices"].pop())
    assert rows({"gpu_benchmark": found}) == [FAST]


def test_partial_run_keeps_figures_of_other_hosts_without_showing_them() -> None:
    found = kept(lambda report: report["hosts"].pop("gpu2"))
    assert rows({"gpu_benchmark": found}) == [FAST, SLOW]
    report = {**report_samples.well(), "gpu_benchmark": found}
    del report["hosts"]["gpu2"]
    assert "gpu2" not in str(benchmark_tables(report)) and "bandwidth" not in metrics(report)


def test_failures_are_kept_like_figures() -> None:
    def fail(report: dict[str, Any]) -> None:
        report["gpu_benchmark"]["failures"] = [failure(SLOW), failure(FAST, uuid="")]

    before = report_samples.measured()
    fail(before)
    found = state(report_samples.well(), {}, {**SETTINGS, "earlier": json.dumps(before)})["gpu_benchmark"]
    assert found["failures"] == before["gpu_benchmark"]["failures"]


def test_figures_of_another_cluster_are_not_kept() -> None:
    assert kept(endpoint="https://192.0.2.99:6443") == {}


def test_report_without_the_api_keeps_its_figures() -> None:
    before = report_samples.measured()
    found = state(before, {}, {**SETTINGS, "earlier": json.dumps(before), "api_failure": "no answer"})
    assert found["gpu_benchmark"] == before["gpu_benchmark"]


def test_page_shows_slow_gpus_and_folds_the_others() -> None:
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


def test_slow_gpu_changes_neither_verdict_nor_actions() -> None:
    well, measured = page(report_samples.well()), page(report_samples.measured())
    assert (measured.title, measured.state, measured.todo) == (well.title, well.state, well.todo)
    assert state(report_samples.measured(), {}, SETTINGS)["actions"] == []


def test_report_without_figures_has_no_benchmark_table() -> None:
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


def test_figures_of_a_cpu_are_not_exported_as_metrics() -> None:
    assert metrics(on_cpu()) == metrics(report_samples.well())


@given(ANYTHING | st.fixed_dictionaries({"gpus": st.lists(ANYTHING), "left_out": st.lists(ANYTHING)}))
@settings(max_examples=50, deadline=None)
def test_any_benchmark_in_a_report_is_shown_or_ignored(value: Any) -> None:
    report = {**report_samples.well(), "gpu_benchmark": value}
    render(report, TEMPLATES)
    metrics(report)
    state(report, {}, {**SETTINGS, "earlier": json.dumps(report)})


@given(st.dictionaries(st.sampled_from(sorted(report_samples.speed("n", report_samples.device(0), 1))), ANYTHING))
@settings(max_examples=50, deadline=None)
def test_any_row_of_a_benchmark_is_shown_or_ignored(changes: dict[str, Any]) -> None:
    report = report_samples.measured()
    report["gpu_benchmark"]["gpus"][0] |= {**changes, "uuid": uuid(FAST)}
    render(report, TEMPLATES)
    metrics(report)
