"""All-reduce from pod to pod against host to host, over flannel's two backends, in two labs one after the other."""

from __future__ import annotations

import json
from typing import Any

import pytest
from support.hosts import ROOT
from support.lab import Lab, lab_command, running
from support.play import play

SPEC = ROOT / "tests" / "integration" / "specs" / "training.yml"
FIGURES: dict[str, dict[str, Any]] = {}


def measured(lab: Lab, backend: str) -> dict[str, Any]:
    """Make a cluster with this backend, and return what the benchmark wrote there."""
    play(lab.path, "-e", f"flannel_backend={backend}").expect_success()
    play(lab.path, playbook="playbooks/benchmark_network.yml").expect_success()
    read: dict[str, Any] = json.loads((lab.directory / "gpulab-network-report.json").read_text())
    return read


@pytest.fixture(scope="module", autouse=True)
def image() -> None:
    lab_command("build", "--with", "torch")


@pytest.mark.parametrize("backend", ["vxlan", "host-gw"])
def test_both_networks_are_measured(backend: str) -> None:
    with running("vxlan", SPEC) if backend == "vxlan" else running("host-gw", SPEC) as lab:
        found = FIGURES[backend] = measured(lab, backend)
    assert (found["pod_network"], found["backend"], found["nodes"]) == (backend, "gloo", 2)
    for where in ("pods", "hosts"):
        assert [each["mib"] for each in found[where]] == [1, 8, 64]
        assert all(each["bus_gb_per_s"] > 0 for each in found[where])
    assert found["pods_to_hosts"] == pytest.approx(found["bus_gb_per_s"]["pods"] / found["bus_gb_per_s"]["hosts"], 0.01)


def test_the_two_are_compared() -> None:
    """The figures of both, as JSON, for whoever looks. On a busy machine they vary too much for more than that."""
    directory = ROOT / ".cache" / "labs"
    (directory / "network.json").write_text(json.dumps(FIGURES, indent=2))
    assert set(FIGURES) == {"vxlan", "host-gw"}
    assert all(figures["pods_to_hosts"] > 0 for figures in FIGURES.values())
