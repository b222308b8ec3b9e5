# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from fake_cluster import FakeCluster, FakeNode

HOSTS = [
    {"name": "cp1"},
    {
        "name": "gpu1",
        "gpus": [{"index": 0, "uuid": "GPU-1"}, {"index": 1, "uuid": "GPU-2", "problems": ["GPU is lost"]}],
    },
]
METRICS = "/api/v1/namespaces/team/pods/exporter-x:9400/proxy/metrics"
ONE, TWO = (f'DCGM_FI_DEV_GPU_TEMP{{gpu="{number - 1}",UUID="GPU-{number}"}} 33\n' for number in (1, 2))


@pytest.fixture
def state() -> FakeCluster:
    made = FakeCluster(FakeNode("cp1"), FakeNode("gpu1", ["GPU-1", "GPU-2"]))
    pod = made.user_pod("exporter-x", "gpu1", gpus=0)
    pod["metadata"]["labels"] = {"app": "dcgm-exporter"}
    pod["status"]["conditions"] = [{"type": "Ready", "status": "True"}]
    return made


@pytest.fixture
def verify(run_module: Callable[..., Any], state: FakeCluster, tmp_path: Path) -> Iterator[Callable[[], Any]]:
    with state.serve(tmp_path) as kubeconfig:
        arguments = {"kubeconfig": str(kubeconfig), "namespace": "team", "hosts": HOSTS, "timeout": 0}
        yield lambda: run_module("gpu_metrics_acceptance", arguments)


def test_all_gpus_with_metrics_are_named(state: FakeCluster, verify: Callable[[], Any]) -> None:
    state.objects[METRICS] = ONE + TWO
    result = verify()
    assert (result["failed"], result["changed"], result["summary"]) == (False, False, ["gpu1: metrics of 2 GPUs"])


def test_a_missing_gpu_is_named_with_its_host_and_the_drivers_message(
    state: FakeCluster, verify: Callable[[], Any]
) -> None:
    state.objects[METRICS] = ONE
    result = verify()
    assert result["failed"]
    found = [line for line in result["msg"].splitlines() if line.startswith("- ")]
    assert found == ["- gpu1: its exporter exporter-x has no metrics of GPU 1 (GPU-2). The driver says: GPU is lost"]


def test_an_exporter_that_does_not_respond_is_an_error(verify: Callable[[], Any]) -> None:
    assert "gpu1: its exporter exporter-x does not answer: Error while asking the API" in verify()["msg"]


def test_an_exporter_that_is_not_ready_is_an_error(state: FakeCluster, verify: Callable[[], Any]) -> None:
    state.pods["team/exporter-x"]["status"]["conditions"] = []
    assert "gpu1: no exporter is ready there" in verify()["msg"]
