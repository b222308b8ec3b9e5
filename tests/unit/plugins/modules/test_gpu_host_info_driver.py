# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The driver's values in gpu_host_info, which are only returned on request."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import smi_texts as smi

XID = {"MESSAGE": "NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus.", "_TRANSPORT": "kernel"}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    top = tmp_path / "host"
    top.mkdir()
    return top


@pytest.fixture
def journal(programs: Any, tmp_path: Path) -> None:
    """A kernel log with one Xid at 2026-11-22T05:06:25Z."""
    (tmp_path / "journal").write_text(json.dumps({**XID, "__REALTIME_TIMESTAMP": "1795323985000000"}) + "\n")
    programs.add("journalctl", f"cat {tmp_path}/journal")


@pytest.mark.parametrize(
    ("pci", "nvidia_smi", "asked"),
    [
        (True, None, False),
        (True, {}, True),
        (False, {}, False),
        (False, {"expected_gpus": 0}, False),
        (False, {"expected_gpus": 2}, True),
        (True, {"expected_gpus": 2}, True),
    ],
)
def test_the_driver_is_queried_if_gpus_exist_or_are_expected(
    root: Path, run_module: Any, programs: Any, journal: None, pci: bool, nvidia_smi: Any, asked: bool
) -> None:
    programs.add("nvidia-smi", f'echo "$*" >>{root}/log\ncat {root}/smi')
    (root / "smi").write_text(smi.xml())
    if pci:
        device = root / "sys/bus/pci/devices/0000:3b:00.0"
        device.mkdir(parents=True)
        for name, value in (("vendor", "0x10de"), ("class", "0x030200"), ("device", "0x1eb8")):
            (device / name).write_text(f"{value}\n")
    found = run_module("gpu_host_info", {"root": str(root), "nvidia_smi": nvidia_smi})["nvidia_smi"]
    assert (root / "log").exists() is bool(found) is asked
    if asked:
        assert (found["state"], found["count"], len(found["xids"])) == ("degraded", 4, 1)
        assert "topo -m" in (root / "log").read_text()


def test_the_values_of_the_driver_are_the_same_as_in_nvidia_smi_info(
    root: Path, run_module: Any, programs: Any, journal: None
) -> None:
    (root / "smi").write_text(smi.xml())
    programs.add("nvidia-smi", f"cat {root}/smi")
    found = run_module("gpu_host_info", {"root": str(root), "nvidia_smi": {"expected_gpus": 4}})["nvidia_smi"]
    whole = run_module("nvidia_smi_info", {"gather": ["gpus", "mig", "topology", "xids"]})
    for result in (found, whole):
        assert result.pop("xids_read")
    assert found == {name: value for name, value in whole.items() if name in found}
    assert set(whole) - set(found) <= {"changed", "failed", "invocation"}


@pytest.mark.parametrize(
    ("given_back", "since", "kept"),
    [
        ("", "", 1),
        ("2026-11-22T05:06:26Z", "", 0),
        ("2026-11-22T05:06:24Z", "", 1),
        ("2026-11-22T05:06:26Z", "2026-11-22T05:06:24Z", 1),
        ("", "2026-11-22T05:06:26Z", 0),
        # The clock was ahead.
        ("2126-11-22T05:06:26Z", "", 1),
        ("", "2126-11-22T05:06:26Z", 1),
    ],
)
def test_xids_count_since_a_given_time_or_since_the_last_release_of_the_gpus(
    root: Path, run_module: Any, programs: Any, journal: None, given_back: str, since: str, kept: int
) -> None:
    (root / "var/lib/gpulab").mkdir(parents=True)
    (root / "var/lib/gpulab/gpus-given-back").write_text(given_back)
    programs.add("nvidia-smi", "exit 1")
    options = {"root": str(root), "nvidia_smi": {"expected_gpus": 1, "xids_since": since}}
    assert len(run_module("gpu_host_info", options)["nvidia_smi"]["xids"]) == kept


def test_a_driver_in_another_root_directory_is_queried(
    root: Path, run_module: Any, journal: None, tmp_path: Path
) -> None:
    program = tmp_path / "driver/usr/bin/nvidia-smi"
    program.parent.mkdir(parents=True)
    (tmp_path / "smi").write_text(smi.xml())
    program.write_text(f"#!/bin/sh\ncat {tmp_path}/smi\n")
    program.chmod(0o755)
    asked = {"expected_gpus": 4, "driver_root": str(tmp_path / "driver")}
    assert run_module("gpu_host_info", {"root": str(root), "nvidia_smi": asked})["nvidia_smi"]["count"] == 4


def test_a_driver_error_is_a_state_and_an_invalid_time_is_a_failure(root: Path, run_module: Any, programs: Any) -> None:
    words, rc, state = smi.MESSAGES[1]
    (root / "smi").write_text(words)
    programs.add("nvidia-smi", f"cat {root}/smi\nexit {rc}")
    asked = {"expected_gpus": 1}
    found = run_module("gpu_host_info", {"root": str(root), "nvidia_smi": asked})
    assert (found["failed"], found["nvidia_smi"]["state"], found["nvidia_smi"]["rc"]) == (False, state, rc)
    wrong = run_module("gpu_host_info", {"root": str(root), "nvidia_smi": {**asked, "xids_since": "yesterday"}})
    assert wrong["failed"] and "write it as in 2026-11-22T05:06:25Z" in wrong["msg"]
