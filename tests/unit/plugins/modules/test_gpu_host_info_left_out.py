# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Excluded GPUs do not count: on the bus, in the state, and in messages of the kernel."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import smi_texts as smi
import yaml
from ansible_collections.gpulab.kubernetes.plugins.filter.acceptance import acceptance_seen
from ansible_collections.gpulab.kubernetes.plugins.module_utils._acceptance.hosts import read_hosts
from ansible_collections.gpulab.kubernetes.plugins.module_utils._acceptance.target import targets
from ansible_collections.gpulab.kubernetes.plugins.module_utils._acceptance.verdict import host_entry
from ansible_collections.gpulab.kubernetes.plugins.module_utils._cluster.dra import NO_CLAIMS

CONSOLE = "0000:65:00.0"
UNSUPPORTED = (
    f"NVRM: The NVIDIA GPU {CONSOLE} (PCI ID: 10de:128b) installed in this system is not supported by open nvidia.ko"
)
PROBE = f"nvidia: probe of {CONSOLE} failed with error -1"
LOST = f"NVRM: Xid (PCI:{CONSOLE[:-2]}): 79, GPU has fallen off the bus."


@pytest.fixture
def root(tmp_path: Path) -> Path:
    top = tmp_path / "host"
    for gpu in smi.FOUR:
        device(top, f"{gpu.bus[4:].lower()}", "0x20b5")
    return top


def device(root: Path, address: str, model: str, driver: str = "") -> None:
    directory = root / "sys/bus/pci/devices" / address
    directory.mkdir(parents=True)
    for name, value in (("vendor", "0x10de"), ("class", "0x030200"), ("device", model)):
        (directory / name).write_text(f"{value}\n")
    if driver:
        (directory / "driver").symlink_to(f"../../../bus/pci/drivers/{driver}")


def read(root: Path, run_module: Any, programs: Any, message: str, **options: Any) -> dict[str, Any]:
    (root / "smi").write_text(smi.xml())
    programs.add("nvidia-smi", f"cat {root}/smi")
    record = {"MESSAGE": message, "_TRANSPORT": "kernel", "__REALTIME_TIMESTAMP": "1795323985000000"}
    (root / "journal").write_text(json.dumps(record) + "\n")
    programs.add("journalctl", f"cat {root}/journal")
    found: dict[str, Any] = run_module("gpu_host_info", {"root": str(root), "nvidia_smi": {}, **options})
    return found


def verdict(found: dict[str, Any], expected: int | None) -> list[str]:
    settings = {"node": "gpu1", "roles": ["worker"], "pins": {}, "sharing": {"mode": "exclusive"}, "own_plugin": True}
    seen = acceptance_seen(found, {**settings, "expected": expected, "containerd_own": []})["host"]
    node = {
        "metadata": {"name": "gpu1", "uid": "n"},
        "status": {
            "conditions": [{"type": "Ready", "status": "True"}],
            **{kind: {"nvidia.com/gpu": "4"} for kind in ("capacity", "allocatable")},
        },
    }
    (target,) = targets(read_hosts([seen]), [node], [], NO_CLAIMS, "acceptance")
    return [each["kind"] for each in host_entry(target, [], "image")["problems"]]


@pytest.mark.parametrize("expected", [None, 4])
@pytest.mark.parametrize("message", ["nothing", UNSUPPORTED, PROBE, LOST])
@pytest.mark.parametrize(
    ("driver", "ignored"),
    [("", [CONSOLE]), ("nouveau", ["10de:128b"]), ("vfio-pci", []), ("vfio-pci", [CONSOLE])],
)
def test_an_excluded_gpu_is_not_a_problem(
    root: Path,
    run_module: Any,
    programs: Any,
    driver: str,
    ignored: list[str],
    message: str,
    expected: int | None,
) -> None:
    before = verdict(read(root, run_module, programs, "nothing"), expected)
    device(root, CONSOLE, "0x128b", driver)
    found = read(root, run_module, programs, message, ignored_gpus=ignored)
    assert len(found["pci"]) == 4 and CONSOLE not in str(found["pci"])
    assert (found["nvidia_smi"]["state"], found["nvidia_smi"]["problems"]) == ("ok", [])
    assert verdict(found, expected) == before
    assert not {"gpu_not_visible", "gpu_count_differs", "gpus_not_allocatable", "driver_not_ok"} & set(before)


@pytest.mark.parametrize("message", [UNSUPPORTED, PROBE, LOST])
def test_kernel_messages_about_other_gpus_are_kept(root: Path, run_module: Any, programs: Any, message: str) -> None:
    device(root, CONSOLE, "0x128b")
    found = read(root, run_module, programs, message)
    assert len(found["pci"]) == 5 and found["nvidia_smi"]["state"] == "degraded"
    assert {"gpu_not_visible", "driver_not_ok"} & set(verdict(found, None))


def test_messages_of_a_gpu_that_nvidia_smi_lists_are_kept(root: Path, run_module: Any, programs: Any) -> None:
    address = smi.FOUR[1].bus[4:].lower()
    lost = LOST.replace(CONSOLE[:-2], address[:-2])
    found = read(root, run_module, programs, lost, ignored_gpus=[address])
    assert found["nvidia_smi"]["state"] == "degraded" and len(found["nvidia_smi"]["xids"]) == 1


@pytest.mark.parametrize(("ignored", "state"), [([CONSOLE], "ok"), ([], "degraded"), (["0000:99:00.0"], "degraded")])
def test_nvidia_smi_info_excludes_them_too(
    root: Path, run_module: Any, programs: Any, ignored: list[str], state: str
) -> None:
    read(root, run_module, programs, UNSUPPORTED)
    assert run_module("nvidia_smi_info", {"gather": ["gpus", "xids"], "ignored_gpus": ignored})["state"] == state


ROLES = Path(__file__).parents[4] / "roles"
READERS = {"gpulab.kubernetes.gpu_host_info", "gpulab.kubernetes.nvidia_smi_info"}
CALLS = [
    (path.relative_to(ROLES), task[name])
    for path in sorted(ROLES.glob("*/tasks/*.yml"))
    for task in yaml.safe_load(path.read_text()) or []
    for name in READERS & set(task)
]


@pytest.mark.parametrize(("path", "options"), CALLS, ids=lambda value: str(value) if isinstance(value, Path) else "")
def test_every_role_passes_the_excluded_gpus(path: Path, options: dict[str, Any] | None) -> None:
    query = "_acceptance_query" if path.parts[0] == "acceptance" else "cluster"
    assert query in (options or {}).get("ignored_gpus", "") and len(CALLS) >= 10
