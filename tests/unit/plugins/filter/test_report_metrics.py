# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Report as metrics. The tests in tests/report read them with Prometheus and node_exporter."""

from __future__ import annotations

import re
from typing import Any

import pytest
import report_samples
from ansible.errors import AnsibleFilterError
from ansible_collections.gpulab.kubernetes.plugins.filter.report import FilterModule
from hypothesis import given, settings
from hypothesis import strategies as st

metrics = FilterModule().filters()["report_metrics"]
LABEL = r'(\w+)="((?:[^"\\\n]|\\[\\n"])*)"'
SAMPLE = re.compile(rf"(gpulab_\w+)\{{({LABEL}(?:,{LABEL})*)\}} (-?\d+)")
ESCAPED = {"\\\\": "\\", "\\n": "\n", '\\"': '"'}
ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)


def read(exposed: str) -> dict[tuple[str, ...], int]:
    """Return the samples by name and label values, without the cluster's label."""
    found: dict[tuple[str, ...], int] = {}
    described: dict[str, str] = {}
    for line in exposed.removesuffix("\n").split("\n") if exposed else []:
        if line.startswith("# "):
            _sign, word, name, rest = line.split(" ", 3)
            assert rest and described.get(name, "") == {"HELP": "", "TYPE": "HELP"}[word]
            described[name] = word
            continue
        sample = SAMPLE.fullmatch(line)
        assert sample and described[sample[1]] == "TYPE", line
        labels = {key: re.sub(r"\\.", lambda each: ESCAPED[each[0]], value) for key, value in re.findall(LABEL, line)}
        cluster = labels.pop("cluster")
        key = (sample[1], *labels.values())
        assert (cluster, *key) not in found
        found[key] = int(sample[sample.lastindex or 0])
    return found


def test_healthy_cluster_has_expected_metrics() -> None:
    found = read(metrics(report_samples.well()))
    assert found["gpulab_gpus_expected",] == found["gpulab_gpus_proven",] == 6
    assert (found["gpulab_gpus_in_use",], found["gpulab_nodes",]) == (0, 3)
    assert (found["gpulab_problems", "error"], found["gpulab_problems", "warning"]) == (0, 0)
    assert found["gpulab_report_timestamp_seconds",] == 1795312800
    device = report_samples.well()["hosts"]["gpu1"]["devices"][1]
    assert found["gpulab_gpu_healthy", "gpu1", "1", device["uuid"], device["name"]] == 1
    assert found["gpulab_version_drift", "gpu1"] == 0
    expires = "gpulab_certificate_expiration_timestamp_seconds"
    assert found[expires, "cp1", "apiserver", "certificate"] == 1826789400
    assert (expires, "cp1", "ca", "authority") in found


def test_problems_are_counted_and_named() -> None:
    found = read(metrics(report_samples.ill()))
    assert (found["gpulab_problems", "error"], found["gpulab_problems", "warning"]) == (4, 2)
    assert [key[1:3] for key, value in found.items() if key[0] == "gpulab_gpu_healthy" and not value] == [("gpu1", "3")]
    assert (found["gpulab_version_drift", "gpu3"], found["gpulab_node_reachable", "gpu3"]) == (1, 1)


def test_missing_gpu_has_a_metric() -> None:
    warnings = [{"kind": "gpu_fewer", "host": "gpu1", "gpu": "GPU-9"}, {"kind": "later", "host": "gpu1"}, 7]
    found = read(metrics({**report_samples.well(), "warnings": warnings}))
    assert {key: value for key, value in found.items() if key[0] == "gpulab_gpu_missing"} == {
        ("gpulab_gpu_missing", "gpu1", "GPU-9"): 1
    }


def test_unreachable_host_has_no_gpu_metrics() -> None:
    found = read(metrics(report_samples.ill()))
    assert found["gpulab_node_reachable", "gpu2"] == 0
    assert not [key for key in found if "gpu2" in key and key[0] != "gpulab_node_reachable"]


def test_cluster_label_is_its_name_or_endpoint() -> None:
    report = report_samples.well()
    assert 'gpulab_nodes{cluster="lab"} 3' in metrics(report)
    del report["cluster"]["name"]
    assert 'gpulab_nodes{cluster="https://192.0.2.11:6443"} 3' in metrics(report)


def test_the_backup_of_a_control_plane_has_its_time_and_outcome() -> None:
    hosts: dict[str, Any] = {
        "cp1": {"backup": {"taken": "2026-11-28T12:00:00Z", "error": ""}},
        "cp2": {"backup": {"taken": "", "error": "no space"}},
        "gpu1": {"backup": {}},
    }
    found = read(metrics({"hosts": hosts, "totals": {}, "problems": []}))
    backups = {key: value for key, value in found.items() if key[0].startswith("gpulab_backup")}
    assert backups == {
        ("gpulab_backup_failed", "cp1"): 0,
        ("gpulab_backup_failed", "cp2"): 1,
        ("gpulab_backup_timestamp_seconds", "cp1"): 1795867200,
    }


def test_unhealthy_gpu_is_kept_among_duplicates() -> None:
    """Duplicate samples would make node_exporter reject the whole file."""
    devices = [{"healthy": True}, {"healthy": False}, {"healthy": True}]
    report = {"hosts": {"a": {"devices": devices}}, "totals": {}, "problems": []}
    assert read(metrics(report))["gpulab_gpu_healthy", "a", "", "", ""] == 0


@given(st.text(max_size=20))
def test_any_name_can_be_read_from_its_label(name: str) -> None:
    report = report_samples.well()
    report["hosts"] = {name: report["hosts"]["gpu1"]}
    assert read(metrics(report))["gpulab_node_reachable", name] == 1


@settings(max_examples=100)
@given(ANYTHING, ANYTHING, ANYTHING)
def test_metrics_of_any_report_can_be_read(first: Any, second: Any, third: Any) -> None:
    host = {"devices": [first, {"healthy": True, "uuid": second}], "certificates": [third], "versions": first}
    times = {"observed": third, "cluster": first, "actions": second}
    report = {"hosts": {"a": host, "b": {"reachable": first}}, "totals": {"gpus": second}, "problems": [], **times}
    assert read(metrics(report))["gpulab_nodes",] == 2


def test_name_with_invalid_unicode_does_not_break_the_file() -> None:
    report = report_samples.well()
    report["hosts"]["\ud800"] = {}
    assert metrics(report).encode()


def test_invalid_report_is_an_error() -> None:
    with pytest.raises(AnsibleFilterError, match="it has no hosts"):
        metrics({})
