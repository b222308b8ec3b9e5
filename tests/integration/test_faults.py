"""GPU faults are never ignored: the error names host, GPU and cause."""

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


def device_plugin(built: Built) -> tuple[str, str]:
    """Return the namespace and the name of the device plugin's DaemonSet."""
    ((namespace, name),) = [
        (item["metadata"]["namespace"], item["metadata"]["name"])
        for item in built.cluster.get("daemonsets", "--all-namespaces")["items"]
        if "device-plugin" in item["metadata"]["name"]
    ]
    return namespace, name


@pytest.fixture
def lost(built: Built) -> Iterator[tuple[str, str]]:
    """Return a host whose GPU 0 fell off the bus, and the GPU's UUID."""
    node = sorted(built.inventory.expected_gpus())[0]
    uuid: str = report(built)["hosts"][node]["devices"][0]["uuid"]
    built.lab.fault(node, "lost", "--gpu", "0")
    yield node, uuid
    built.lab.fault(node, "clear")


def test_a_lost_gpu_fails_the_verification_and_is_named(built: Built, lost: tuple[str, str]) -> None:
    node, uuid = lost
    run = play(built.lab.path, playbook="playbooks/verify.yml")
    assert run.status != 0
    assert node in run.failures()
    assert "GPU is lost" in run.failures()
    found = report(built)
    # The device plugin allocates none of the host's GPUs while it can't read one of them.
    missing = {d["uuid"]: d["reason"] for d in found["hosts"][node]["devices"] if d["state"] == "missing"}
    assert uuid in missing
    assert all(missing.values())
    others = {name: count for name, count in built.inventory.expected_gpus().items() if name != node}
    states = {name: [device["state"] for device in found["hosts"][name]["devices"]] for name in others}
    assert states == {name: ["proven"] * count for name, count in others.items()}


def test_the_verification_passes_again_after_the_fault_is_fixed_as_the_report_advises(built: Built) -> None:
    advice = "persists until the plugin restarts"
    run = play(built.lab.path, playbook="playbooks/verify.yml")
    assert run.status != 0
    assert advice in run.failures()
    namespace, name = device_plugin(built)
    built.cluster.kubectl("rollout", "restart", f"daemonset/{name}", "--namespace", namespace)
    built.cluster.kubectl("rollout", "status", f"daemonset/{name}", "--namespace", namespace, "--timeout=120s")
    play(built.lab.path).expect_success()
    assert report(built)["totals"]["proven"] == sum(built.inventory.expected_gpus().values())


def test_a_node_without_allocatable_gpus_fails_the_verification(built: Built) -> None:
    namespace, name = device_plugin(built)
    where = ("patch", "daemonset", name, "--namespace", namespace, "--patch")
    built.cluster.kubectl(*where, '{"spec":{"template":{"spec":{"nodeSelector":{"nowhere":"true"}}}}}')
    built.cluster.kubectl("rollout", "status", f"daemonset/{name}", "--namespace", namespace, "--timeout=120s")
    run = play(built.lab.path, playbook="playbooks/verify.yml")
    assert run.status != 0
    assert set(built.inventory.expected_gpus()) <= set(run.failures().replace(":", " ").split())
    built.cluster.kubectl(*where, '{"spec":{"template":{"spec":{"nodeSelector":{"nowhere":null}}}}}')
    play(built.lab.path).expect_success()
    assert report(built)["totals"]["proven"] == sum(built.inventory.expected_gpus().values())
