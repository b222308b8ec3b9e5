"""All-reduce between pods and between hosts, with flannel's two backends in two consecutive labs.

The first lab also measures the GPUs, on the CPU because they are simulated.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from support.cluster import Cluster, gpu_pod
from support.hosts import ROOT
from support.lab import Lab, lab_command, running
from support.play import play

SPEC = ROOT / "tests" / "integration" / "specs" / "training.yml"
FIGURES: dict[str, dict[str, Any]] = {}


def measured(lab: Lab, backend: str) -> dict[str, Any]:
    """Create a cluster with this backend, and return the benchmark's report."""
    play(lab.path, "-e", f"flannel_backend={backend}").expect_success()
    play(lab.path, playbook="playbooks/benchmark_network.yml").expect_success()
    read: dict[str, Any] = json.loads((lab.directory / "gpulab-network-report.json").read_text())
    return read


def gpus_are_measured(lab: Lab) -> None:
    """Check mode, a run with a GPU in use, a report, which keeps the figures, and a run limited to one host."""
    cluster, written = Cluster.of(lab.inventory()), lab.directory / "gpulab-gpu-benchmark-report.json"
    playbook, label = "playbooks/benchmark_gpus.yml", "measured on the CPU (no CUDA)"
    rehearsal = play(lab.path, "--check", playbook=playbook).expect_success()
    assert "Would measure 2 of 2 free GPUs on gpu1" in rehearsal.output
    assert not written.exists() and "gpulab-gpu-benchmark" not in cluster.kubectl("get", "namespaces")
    cluster.start_gpu_pod("holder", 1, "gpu1")
    leave_behind(cluster)

    run = play(lab.path, playbook=playbook).expect_success()
    assert "left out, in use by default/holder" in run.output and label in run.output
    found = json.loads(written.read_text())
    assert sorted(row["node"] for row in found["gpus"]) == ["cp1", "cp1", "gpu1"]
    [used] = found["left_out"]
    assert (used["node"], used["reason"]) == ("gpu1", "in use by default/holder")
    assert len({row["uuid"] for row in [*found["gpus"], used]}) == 4
    assert all(row["device"] == "cpu" and len(row["figures"]) == 4 for row in found["gpus"])
    assert (found["failures"], found["warnings"]) == ([], [])
    # The simulated driver reports the GPUs, but the CPU computes.
    assert all(row["facts"]["pcie_width"] == row["facts"]["pcie_width_max"] for row in found["gpus"])
    cluster.kubectl("wait", "namespace/gpulab-gpu-benchmark", "--for=delete", "--timeout=60s")

    def expect_shown() -> None:
        assert json.loads(lab.report.read_text())["gpu_benchmark"]["gpus"] == found["gpus"]
        page = lab.report.with_suffix(".html").read_text()
        assert "How fast each GPU is" in page and label in page and "in use by default/holder" in page

    expect_shown()
    metrics = lab.directory / "gpulab.prom"
    play(lab.path, "-e", f"report_metrics={metrics}", playbook="playbooks/report.yml").expect_success()
    expect_shown()
    assert "gpulab_gpu_healthy" in metrics.read_text() and "per_second" not in metrics.read_text()

    cluster.delete_pod("holder")
    play(lab.path, "--limit", "gpu1", playbook=playbook).expect_success()
    again = json.loads(written.read_text())
    assert [(row["node"], row["index"]) for row in again["gpus"]] == [("gpu1", 0), ("gpu1", 1)]
    others = [row for row in found["gpus"] if row["node"] == "cp1"]
    assert json.loads(lab.report.read_text())["gpu_benchmark"]["gpus"] == [*again["gpus"], *others]


def leave_behind(cluster: Cluster) -> None:
    """Create what a run leaves if it is killed with its controller: its namespace, and a pod that holds a GPU."""
    namespace, owner = (
        "gpulab-gpu-benchmark",
        {
            "app.kubernetes.io/managed-by": "gpulab.kubernetes",
            "app.kubernetes.io/part-of": "gpu-benchmark",
        },
    )
    pod = gpu_pod("gpu-0-gpu1", 1, "gpu1")
    pod["metadata"]["namespace"] = namespace
    cluster.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace, "labels": owner}})
    cluster.apply(pod)
    cluster.kubectl("wait", "pod/gpu-0-gpu1", "--namespace", namespace, "--for=condition=Ready", "--timeout=120s")


@pytest.fixture(scope="module", autouse=True)
def image() -> None:
    lab_command("build", "--with", "torch")


@pytest.mark.parametrize("backend", ["vxlan", "host-gw"])
def test_both_flannel_backends_are_measured(backend: str) -> None:
    with running("vxlan", SPEC) if backend == "vxlan" else running("host-gw", SPEC) as lab:
        found = FIGURES[backend] = measured(lab, backend)
        if backend == "vxlan":
            gpus_are_measured(lab)
    assert (found["pod_network"], found["backend"], found["nodes"]) == (backend, "gloo", 2)
    for where in ("pods", "hosts"):
        assert [each["mib"] for each in found[where]] == [1, 8, 64]
        assert all(each["bus_gb_per_s"] > 0 for each in found[where])
    assert found["pods_to_hosts"] == pytest.approx(found["bus_gb_per_s"]["pods"] / found["bus_gb_per_s"]["hosts"], 0.01)


def test_the_backends_are_compared() -> None:
    """Write the figures of both as JSON. They vary too much on a busy machine for stricter assertions."""
    directory = ROOT / ".cache" / "labs"
    (directory / "network.json").write_text(json.dumps(FIGURES, indent=2))
    assert set(FIGURES) == {"vxlan", "host-gw"}
    assert all(figures["pods_to_hosts"] > 0 for figures in FIGURES.values())
