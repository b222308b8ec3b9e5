# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Checks and final steps of the role on this machine: rejected settings, output, and failures."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import report_samples
from support.programs import run_ansible

PLAYBOOK = """
- name: Run a part of the role
  hosts: localhost
  gather_facts: false
  vars: {vars}
  tasks:
    - name: Run it
      ansible.builtin.include_role:
        name: gpulab.kubernetes.{role}
        tasks_from: {part}
"""


def run(folder: Path, role: str, part: str, **variables: Any) -> tuple[int, str]:
    given = {"ansible_python_interpreter": "{{ ansible_playbook_python }}", **variables}
    (folder / "play.yml").write_text(PLAYBOOK.format(vars=json.dumps(given), role=role, part=part))
    code, output = run_ansible(folder, "-i", "localhost,", "-c", "local", "play.yml")
    return code, " ".join(output.split())


def test_empty_interpreter_is_refused_before_any_change(tmp_path: Path) -> None:
    code, output = run(tmp_path, "gpu_benchmark", "check", torch_ddp_python="p", gpu_benchmark_python="")
    assert (code, "must not be empty" in output, "Nothing was changed" in output) == (2, True, True), output


def test_check_mode_without_a_cluster_shows_what_would_be_measured(tmp_path: Path) -> None:
    code, output = run(tmp_path, "gpu_benchmark", "show", gpu_benchmark_result={})
    assert (code, "Every free GPU would be measured." in output) == (0, True), output


def result(*failures: dict[str, str]) -> dict[str, Any]:
    found = {**report_samples.measured()["gpu_benchmark"], "failures": list(failures)}
    return {"result": found, "summary": ["Warning: gpu2 GPU 1 is slow"]}


def test_warning_is_shown_and_does_not_fail_the_run(tmp_path: Path) -> None:
    code, output = run(tmp_path, "gpu_benchmark", "show", gpu_benchmark_result=result())
    assert (code, "Warning: gpu2 GPU 1 is slow" in output) == (0, True), output


def test_figures_are_shown_before_they_are_written() -> None:
    """Otherwise a failed write would lose the figures."""
    tasks = (Path(__file__).resolve().parents[3] / "roles" / "gpu_benchmark" / "tasks" / "main.yml").read_text()
    assert tasks.index("measure.yml") < tasks.index("show.yml") < tasks.index("write.yml") < tasks.index("fail.yml")


def test_pod_without_figures_fails_the_run_at_its_end(tmp_path: Path) -> None:
    failed = result({"node": "gpu1", "pod": "gpu-0-gpu1", "uuid": "", "reason": "ErrImagePull: image x"})
    code, output = run(tmp_path, "gpu_benchmark", "fail", gpu_benchmark_result=failed)
    assert code == 2 and "- gpu1: pod gpu-0-gpu1: ErrImagePull: image x" in output
    assert "ansible-playbook gpulab.kubernetes.benchmark_gpus -i localhost," in output


@pytest.mark.parametrize("there", [True, False])
def test_figures_are_added_to_an_existing_report(tmp_path: Path, there: bool) -> None:
    report, metrics = tmp_path / "gpulab-report.json", tmp_path / "gpulab.prom"
    if there:
        report.write_text(json.dumps(report_samples.well()))
    code, output = run(
        tmp_path,
        "report",
        "gpu_benchmark",
        report_file=str(report),
        report_junit="",
        report_metrics=str(metrics),
        report_configmap=False,
        gpu_benchmark_result=result(),
        report_api_failure="",
    )
    assert code == 0, output
    assert report.exists() == report.with_suffix(".html").exists() == metrics.exists() == there
    if there:
        assert json.loads(report.read_text()) == report_samples.measured()
        assert "How fast each GPU is" in report.with_suffix(".html").read_text()
        assert "gpulab_gpu_memory_bandwidth_bytes_per_second" in metrics.read_text()
        assert f"The page: {report.with_suffix('.html')}" in output
    else:
        assert "is not a report, so no report shows the figures" in output
