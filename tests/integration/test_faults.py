"""Faults of GPUs: never passed over in silence; host, GPU and cause are named."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from conftest import Built
from support.play import play


def report(built: Built) -> dict[str, Any]:
    read: dict[str, Any] = json.loads(built.lab.report.read_text())
    return read


@pytest.fixture
def lost(built: Built) -> Iterator[str]:
    """Return a host whose GPU 0 fell off the bus."""
    node = sorted(built.inventory.expected_gpus())[0]
    built.lab.fault(node, "lost", "--gpu", "0")
    yield node
    built.lab.fault(node, "clear")


def test_a_lost_gpu_fails_the_proof_and_is_named(built: Built, lost: str) -> None:
    run = play(built.lab.path, playbook="playbooks/verify.yml")
    assert run.status != 0
    assert lost in run.failures()
    assert "lost" in run.failures()
    found = report(built)
    expected = built.inventory.expected_gpus()
    assert found["totals"]["proven"] < sum(expected.values())
    missing = [d for d in found["hosts"][lost]["devices"] if d["state"] == "missing"]
    assert len(missing) == 1
    assert missing[0]["uuid"].startswith("GPU-")
    assert missing[0]["reason"]


def test_when_the_fault_is_gone_the_proof_passes_again(built: Built) -> None:
    play(built.lab.path, playbook="playbooks/verify.yml").expect_success()
    assert report(built)["totals"]["proven"] == sum(built.inventory.expected_gpus().values())


def test_zero_allocatable_gpus_never_pass(built: Built) -> None:
    plugin = [
        (item["metadata"]["namespace"], item["metadata"]["name"])
        for item in built.cluster.get("daemonsets", "--all-namespaces")["items"]
        if "device-plugin" in item["metadata"]["name"]
    ]
    ((namespace, name),) = plugin
    nowhere = '{"spec":{"template":{"spec":{"nodeSelector":{"nowhere":"true"}}}}}'
    built.cluster.kubectl("patch", "daemonset", name, "--namespace", namespace, "--patch", nowhere)
    built.cluster.kubectl("rollout", "status", f"daemonset/{name}", "--namespace", namespace, "--timeout=120s")
    run = play(built.lab.path, playbook="playbooks/verify.yml")
    assert run.status != 0
    assert set(built.inventory.expected_gpus()) <= set(run.failures().replace(":", " ").split())
    play(built.lab.path).expect_success()
    assert report(built)["totals"]["proven"] == sum(built.inventory.expected_gpus().values())
