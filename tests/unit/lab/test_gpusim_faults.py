"""Faults, injected by real shell commands on a scratch copy of the driver's files."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpulab.kubernetes.plugins.module_utils._nvidia.xid import findings, read_message

from lab.depot.cache import DepotError
from lab.gpusim import fault, models

DRIVER, OTHER = "580.178.04", "595.91.07"
PROC = (
    "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  {}  Release Build  (simulated)\nGCC version:  simulated\n"
)


class Node:
    """A node whose driver files are in a scratch directory; modprobe and the module are recorded, not run."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.ran: list[list[str]] = []
        self.state = root / "state.json"
        self.version = root / "proc/nvidia/version"
        self.version.parent.mkdir(parents=True)
        self.version.write_text(PROC.format(DRIVER))
        self.load(DRIVER)

    def load(self, driver: str) -> None:
        """Write the state like the simulated module."""
        silicon = {"gpus": models.describe(models.T4, 2, "gpu1") if driver else []}
        self.state.write_text(json.dumps({"driver": driver, "faults": [], "silicon": silicon}))

    def __call__(self, argv: Sequence[str]) -> str:
        if argv[0] not in ("sh", "cat"):
            self.ran.append(list(argv))
            return ""
        here = [part.replace("/run/nvidia-simulated", str(self.root)) for part in argv]
        return subprocess.run(here, check=True, text=True, stdout=subprocess.PIPE).stdout

    @property
    def faults(self) -> list[dict[str, Any]]:
        """The faults in the driver's state."""
        found: list[dict[str, Any]] = json.loads(self.state.read_text())["faults"]
        return found


@pytest.fixture
def node(tmp_path: Path) -> Node:
    """A node with two T4 and a loaded driver."""
    return Node(tmp_path)


def test_faults_accumulate_in_the_state_file_that_containers_keep_open(node: Node) -> None:
    with node.state.open() as held:
        assert fault(node, "lost", 1) == "GPU 1 is lost (Xid 79)."
        assert fault(node, "xid:48") == "The driver reported Xid 48 for GPU 0."
        assert json.load(held)["faults"] == node.faults
    first, second = node.faults
    assert (first["kind"], first["gpu"]) == ("lost", 1)
    assert (second["kind"], second["gpu"], second["xid"]) == ("xid", 0, 48)
    assert second["sequence"] > first["sequence"]


@pytest.mark.parametrize(("kind", "xid"), [("lost", 79), ("xid:48", 48), ("xid:31", 31), ("pending", 63)])
def test_the_kernel_log_shows_the_drivers_message_and_marks_the_end_after_a_clear(
    node: Node, kind: str, xid: int
) -> None:
    fault(node, kind, 1)
    fault(node, "clear")
    said = [argv[-1] for argv in node.ran if argv[:3] == ["logger", "--tag", "kernel"]]
    events = [event for event in map(read_message, said) if event]
    bus = "0000" + json.loads(node.state.read_text())["silicon"]["gpus"][1]["bus_id"]
    assert [(event.xid, event.address) for event in events] == [(xid, bus), (154, bus)]
    assert all(each.over for each in findings(events))
    fault(node, "clear")
    assert len(node.ran) == 2


def test_a_fault_after_a_clear_is_newer_than_all_before(node: Node) -> None:
    fault(node, "xid:48")
    former = node.faults[0]["sequence"]
    fault(node, "clear")
    assert node.faults == []
    fault(node, "xid:48")
    assert node.faults[0]["sequence"] > former


def test_a_version_mismatch_is_shown_in_proc_and_can_be_cleared(node: Node) -> None:
    fault(node, "mismatch")
    assert node.faults == [{"kind": "mismatch"}]
    assert node.version.read_text() == PROC.format(OTHER)
    fault(node, "clear")
    assert node.faults == []
    assert node.version.read_text() == PROC.format(DRIVER)


def test_unload_is_forced_and_clear_loads_the_driver_again(node: Node) -> None:
    fault(node, "unload")
    assert node.ran == [["/usr/lib/nvidia-simulated/module", "unload", "--force", "nvidia"]]
    node.load("")
    fault(node, "clear")
    assert node.ran[1:] == [["modprobe", "--all", "nvidia", "nvidia_modeset", "nvidia_uvm"]]


@pytest.mark.parametrize(
    ("kind", "gpu", "words"),
    [
        ("gone", 0, "known faults are lost, xid:<number>"),
        ("xid:0", 0, "known faults"),
        ("lost", 2, r"GPU 2 is not there"),
    ],
)
def test_invalid_requests_change_nothing(node: Node, kind: str, gpu: int, words: str) -> None:
    before = node.state.read_text()
    with pytest.raises(DepotError, match=words):
        fault(node, kind, gpu)
    assert node.state.read_text() == before


@pytest.mark.parametrize("kind", ["lost", "xid:79", "mismatch"])
def test_without_a_driver_a_fault_is_refused(node: Node, kind: str) -> None:
    node.load("")
    with pytest.raises(DepotError, match="not loaded"):
        fault(node, kind)
    node.state.unlink()
    with pytest.raises(DepotError, match="not loaded"):
        fault(node, kind)


def test_a_version_that_fails_to_load_is_noted_until_all_faults_are_cleared(node: Node) -> None:
    assert fault(node, f"load:{OTHER}") == f"The module of {OTHER} is refused by the kernel."
    assert fault(node, f"dkms:{OTHER}") == f"The module of {OTHER} can not be built."
    assert (node.root / "broken").read_text() == f"load {OTHER}\ndkms {OTHER}\n"
    fault(node, "clear")
    assert not (node.root / "broken").exists()
    with pytest.raises(DepotError, match="the lab has the drivers"):
        fault(node, "load:1.2.3")
