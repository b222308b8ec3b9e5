# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs of the role on this machine, with a simulated nvidia-smi, kernel log, and API with one node."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import smi_texts as smi
from fake_node import FakeNode
from stubbed_site import Site
from support.programs import run_ansible

REPOSITORY = Path(__file__).resolve().parents[3]
PLAY = """
- name: Isolate
  hosts: localhost
  connection: local
  gather_facts: false
  module_defaults:
    group/gpulab.kubernetes.api:
      kubeconfig: "{{ cluster_api_kubeconfig }}"
  roles:
    - role: gpulab.kubernetes.gpu_isolation
"""
Isolate = Callable[..., str]


class Machine:
    """Simulated nvidia-smi and kernel log of this machine."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.bin = folder / "bin"
        self.bin.mkdir()
        self.say(smi.xml((smi.Gpu(0), smi.Gpu(1))))
        self.log()

    def say(self, text: str) -> None:
        (self.folder / "smi").write_text(text)
        self._program("nvidia-smi", f"cat {self.folder}/smi")

    def log(self, *lines: str) -> None:
        entries = [json.dumps({"MESSAGE": line, "_TRANSPORT": "kernel"}) for line in lines]
        (self.folder / "journal").write_text("".join(f"{entry}\n" for entry in entries))
        self._program("journalctl", f"cat {self.folder}/journal")

    def _program(self, name: str, body: str) -> None:
        path = self.bin / name
        path.write_text(f"#!/bin/sh\n{body}\n")
        path.chmod(0o755)


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


@pytest.fixture
def node() -> FakeNode:
    found = FakeNode()
    found.body["status"] = {"addresses": [{"type": "InternalIP", "address": "192.0.2.11"}]}
    return found


@pytest.fixture
def isolate(machine: Machine, node: FakeNode, tmp_path: Path) -> Iterator[Isolate]:
    (tmp_path / "play.yml").write_text(PLAY)
    with node.serve(tmp_path) as kubeconfig:
        known = {
            "cluster_api_kubeconfig": str(kubeconfig),
            "cluster_node_name": "gpu1",
            "cluster_node_address": "192.0.2.11",
            "cluster_expected_gpus": 2,
            "ansible_become": False,
            "ansible_python_interpreter": sys.executable,
        }

        def run(*arguments: str, **variables: Any) -> str:
            status, output = run_ansible(
                tmp_path,
                *("play.yml", "-i", "localhost,", "-e", json.dumps({**known, **variables}), *arguments),
                PATH=f"{machine.bin}{os.pathsep}{os.environ['PATH']}",
            )
            assert status == 0, output
            return " ".join(output.split())

        yield run


def changes(said: str) -> int:
    return int(re.findall(r"changed=(\d+)", said)[-1])


def reason(node: FakeNode) -> str | None:
    record = json.loads((node.body["metadata"].get("annotations") or {}).get("gpulab.io/gpu-isolation", "{}"))
    found: str | None = record.get("failure")
    return found


XID = f"NVRM: Xid (PCI:{smi.Gpu(1).bus[4:-2].lower()}): 79, GPU has fallen off the bus."


def test_healthy_node_is_not_changed(node: FakeNode, isolate: Isolate) -> None:
    assert changes(isolate()) == 0
    assert node.body["spec"] == {}


def test_critical_xid_isolates_the_node_once(machine: Machine, node: FakeNode, isolate: Isolate) -> None:
    machine.log(XID, "NVRM: Xid (PCI:0000:10:00): 31, MMU Fault")
    assert changes(isolate("--check")) == 1
    assert node.patches == 0
    said = isolate()
    assert changes(said) == 1
    assert reason(node) == "GPU 1: Xid 79: the GPU has fallen off the bus"
    assert [taint["key"] for taint in node.body["spec"]["taints"]] == ["gpulab.io/gpu-isolated"]
    assert "Reboot the host" in said and "-e gpu_isolation_state=returned --limit localhost" in said
    machine.log(XID, XID)
    assert changes(isolate()) == 0
    assert changes(isolate(gpu_isolation_policy="cordon")) == 1
    assert node.body["spec"] == {"unschedulable": True}


def test_missing_gpu_isolates_a_node_with_an_expected_number(node: FakeNode, isolate: Isolate) -> None:
    assert changes(isolate(cluster_expected_gpus=3)) == 1
    assert reason(node) == "nvidia-smi lists 2 of 3 GPUs"


def test_node_in_maintenance_is_only_isolated_by_hand(machine: Machine, node: FakeNode, isolate: Isolate) -> None:
    machine.log(XID)
    node.body["metadata"]["annotations"] = {"gpulab.io/driver-upgrade": "{}"}
    node.body["spec"]["unschedulable"] = True
    said = isolate()
    assert changes(said) == 0 and reason(node) is None
    assert "left as it is" in said and "gpulab.io/driver-upgrade" in said
    assert changes(isolate(gpu_isolation_state="isolated")) == 1
    assert "left as it is" not in isolate()


def test_node_that_was_uncordoned_by_hand_is_not_in_maintenance(
    machine: Machine, node: FakeNode, isolate: Isolate
) -> None:
    machine.log(XID)
    node.body["metadata"]["annotations"] = {"gpulab.io/driver-upgrade": "{}"}
    assert changes(isolate()) == 1
    assert reason(node) is not None


def test_manual_isolation_records_the_reason(node: FakeNode, isolate: Isolate) -> None:
    assert changes(isolate(gpu_isolation_state="isolated", gpu_isolation_reason="fan noise")) == 1
    assert reason(node) == "fan noise"
    assert changes(isolate(gpu_isolation_state="isolated", gpu_isolation_reason="fan noise")) == 0


@pytest.mark.parametrize(("hosts", "refused"), [("all", True), ("gpu1", False)])
def test_manual_isolation_of_the_whole_cluster_is_refused(tmp_path: Path, hosts: str, refused: bool) -> None:
    site = Site(tmp_path)
    site.answer("gpu_host_info", {"changed": False, "pci": [], "given_back": ""})
    status, output = site.play(
        PLAY.replace("localhost", hosts),
        {"cluster_api_kubeconfig": "", "gpu_isolation_state": "isolated", "ansible_become": False},
    )
    assert (status != 0) is refused, output
    said = " ".join(output.split())
    assert all((word in said) is refused for word in ("all nodes of the cluster (cp1, gpu1)", "--limit"))
    assert any(event["event"] == "call" for event in site.events()) is not refused


def test_driver_that_does_not_answer_isolates_the_node(machine: Machine, node: FakeNode, isolate: Isolate) -> None:
    words, status, state = smi.MESSAGES[1]
    machine.say(words)
    (machine.bin / "nvidia-smi").write_text(f"#!/bin/sh\ncat {machine.folder}/smi\nexit {status}\n")
    assert changes(isolate()) == 1
    assert state in (reason(node) or "")


def test_requested_release_changes_nothing_in_this_role(machine: Machine, node: FakeNode, isolate: Isolate) -> None:
    machine.log(XID)
    isolate()
    assert changes(isolate(gpu_isolation_state="returned")) == 0
    assert reason(node) is not None
