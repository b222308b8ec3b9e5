"""A GPU with an Xid: reported with a remedy, its node isolated, and released only after a verification."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from conftest import Built
from support.play import Run, play

PLAYBOOK = "playbooks/isolate_gpu.yml"
TAINT = "gpulab.io/gpu-isolated"
NOTE = "gpulab.io/gpu-isolation"


def isolate(built: Built, *arguments: str, **variables: str) -> Run:
    extra = [word for name, value in variables.items() for word in ("-e", f"gpu_isolation_{name}={value}")]
    return play(built.lab.path, *arguments, *extra, playbook=PLAYBOOK)


def node(built: Built, name: str) -> dict[str, Any]:
    found: dict[str, Any] = built.cluster.get("node", name)
    return found


def taints(built: Built, name: str) -> set[str]:
    return {taint["key"] for taint in node(built, name)["spec"].get("taints", [])}


def note(built: Built, name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(node(built, name)["metadata"].get("annotations", {}).get(NOTE, "{}"))
    return found


def report(built: Built) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(built.lab.report.read_text())
    return found


@pytest.fixture(scope="module")
def ill(built: Built) -> Iterator[str]:
    """Return a host whose GPU 0 has an uncleared Xid 48 during these tests."""
    name = sorted(built.inventory.expected_gpus())[0]
    built.lab.fault(name, "xid:48", "--gpu", "0")
    yield name
    built.lab.fault(name, "clear")


def test_an_xid_fails_the_verification_and_the_report_has_the_remedy(built: Built, ill: str) -> None:
    run = play(built.lab.path, playbook="playbooks/verify.yml")
    assert run.status != 0
    assert "Xid 48: uncorrectable memory error" in run.failures()
    assert "nvidia-smi --gpu-reset" in run.failures()
    found = report(built)
    device = next(each for each in found["hosts"][ill]["devices"] if each["index"] == 0)
    assert device["healthy"] is False
    assert [each["xid"] for each in found["hosts"][ill]["xids"]] == [48]
    (action,) = [each for each in found["actions"] if each["kind"] == "unhealthy"]
    assert (action["host"], "nvidia-smi --gpu-reset" in action["do"]) == (ill, True)
    page = built.lab.report.with_suffix(".html").read_text()
    assert "Errors in the kernel log" in page and "uncorrectable memory error" in page
    others = [name for name in built.inventory.expected_gpus() if name != ill]
    assert all(each["healthy"] for name in others for each in found["hosts"][name]["devices"])


def test_only_the_node_with_the_unhealthy_gpu_is_isolated(built: Built, ill: str) -> None:
    predicted = isolate(built, "--check").expect_success()
    assert {host for host, _task in predicted.changed()} == {ill}
    assert TAINT not in taints(built, ill)
    first = isolate(built).expect_success()
    assert {host for host, _task in first.changed()} == {ill}
    assert TAINT in taints(built, ill)
    assert note(built, ill)["failure"] == "GPU 0: Xid 48: uncorrectable memory error (double bit ECC)"
    assert all(TAINT not in taints(built, name) for name in built.inventory.hosts if name != ill)
    isolate(built).expect_unchanged()


def test_isolation_by_cordon_keeps_an_earlier_cordon(built: Built, ill: str) -> None:
    other = next(name for name in built.inventory.expected_gpus() if name != ill)
    built.cluster.kubectl("cordon", other)
    isolate(built, "--limit", other, state="isolated", policy="cordon", reason="fan").expect_success()
    assert note(built, other)["cordoned"] is True
    isolate(built, "--limit", other, state="returned").expect_success()
    assert node(built, other)["spec"].get("unschedulable") is True
    assert note(built, other) == {}
    built.cluster.kubectl("uncordon", other)


def test_a_node_with_a_lost_gpu_is_not_released(built: Built, ill: str) -> None:
    built.lab.fault(ill, "lost", "--gpu", "1")
    run = isolate(built, "--limit", ill, state="returned")
    assert run.status != 0
    assert "it stays isolated" in run.failures() and "GPU is lost" in run.failures()
    assert TAINT in taints(built, ill)
    built.lab.fault(ill, "clear")
    built.lab.fault(ill, "xid:48", "--gpu", "0")


def test_a_verified_node_is_released_and_its_handled_faults_no_longer_count(built: Built, ill: str) -> None:
    predicted = isolate(built, "--check", "--limit", ill, state="returned").expect_success()
    assert predicted.changed() and TAINT in taints(built, ill)
    isolate(built, "--limit", ill, state="returned").expect_success()
    assert TAINT not in taints(built, ill)
    assert note(built, ill) == {}
    isolate(built, "--limit", ill, state="returned").expect_unchanged()
    isolate(built).expect_unchanged()
    play(built.lab.path, playbook="playbooks/verify.yml").expect_success()
    found = report(built)
    assert found["totals"]["proven"] == sum(built.inventory.expected_gpus().values())
    assert found["hosts"][ill]["xids"] == []


def test_a_pending_memory_repair_that_needs_a_reset_is_reported(built: Built, ill: str) -> None:
    built.lab.fault(ill, "pending", "--gpu", "1")
    run = play(built.lab.path, playbook="playbooks/verify.yml")
    built.lab.fault(ill, "clear")
    assert run.status != 0
    assert "defective memory will be disabled by the next reset" in run.failures()
    play(built.lab.path, playbook="playbooks/verify.yml").expect_success()
