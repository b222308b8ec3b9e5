# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpulab.kubernetes.plugins.module_utils._nvidia.device_users import (
    driver_devices,
    unit_of_cgroup,
)

UID = "0f1f2a5e-3f61-4e3e-8a51-6b0f2b1a9d10"
POD = f"0::/kubepods.slice/kubepods-pod{UID.replace('-', '_')}.slice/cri-containerd-1.scope\n"
V1 = "12:devices:/system.slice/x.service\n1:name=systemd:/system.slice/nvidia-dcgm.service\n"
HYBRID = "4:devices:/a.service\n1:name=systemd:/b.slice/b.service\n0::/system.slice/nvidia-persistenced.service\n"


@pytest.mark.parametrize(
    ("text", "unit"),
    [
        ("0::/system.slice/nvidia-persistenced.service\n", "nvidia-persistenced.service"),
        ("0::/system.slice/system-getty.slice/getty@tty1.service\n", "getty@tty1.service"),
        (V1, "nvidia-dcgm.service"),
        (HYBRID, "nvidia-persistenced.service"),
        (POD, ""),
        ("0::/user.slice/user-1000.slice/session-2.scope\n", ""),
        ("0::/user.slice/user-1000.slice/user@1000.service/app.slice/jupyter.service\n", "jupyter.service"),
        ("0::/user.slice/user-1000.slice/user@1000.service\n", ""),
        ("", ""),
    ],
)
def test_the_unit_of_a_cgroup_is_found(text: str, unit: str) -> None:
    assert unit_of_cgroup(text) == unit


def test_device_nodes_of_the_driver_are_recognized() -> None:
    links = ["/dev/nvidia0", "/dev/nvidiactl", "/dev/nvidia-caps/nvidia-cap21", "/dev/nvidia0", "/dev/null"]
    others = ["/dev/nvidia-uvm (deleted)", "/dev/nvidia0extra", "/home/dev/nvidia0", "socket:[1]", "/dev/nvidia.log"]
    assert driver_devices(links) == ["/dev/nvidia-caps/nvidia-cap21", "/dev/nvidia0", "/dev/nvidiactl"]
    assert driver_devices(others) == ["/dev/nvidia-uvm"]


class Host:
    def __init__(self, root: Path, programs: Any, run: Any) -> None:
        self.root = root
        self._run = run
        (root / "proc/self").mkdir(parents=True)
        (root / "pods" / f"research_train-0_{UID}").mkdir(parents=True)
        programs.add(
            "systemctl",
            """case "$*" in
              *nvidia-persistenced.service|*dcgm.service) echo LoadState=loaded; echo ActiveState=active ;;
              *) echo LoadState=not-found; echo ActiveState=inactive ;;
            esac""",
        )

    def process(self, pid: int, name: str, cgroup: str, *links: str) -> None:
        directory = self.root / f"proc/{pid}"
        (directory / "fd").mkdir(parents=True)
        (directory / "cgroup").write_text(cgroup)
        (directory / "comm").write_text(f"{name}\n")
        for number, link in enumerate(links):
            (directory / f"fd/{number}").symlink_to(link)

    def run(self) -> dict[str, Any]:
        args = {
            "proc": str(self.root / "proc"),
            "pod_logs": str(self.root / "pods"),
            "services": ["nvidia-persistenced", "nvidia-fabricmanager"],
        }
        result: dict[str, Any] = self._run("nvidia_driver_users_info", args)
        return result


@pytest.fixture
def host(tmp_path: Path, programs: Any, run_module: Any) -> Host:
    return Host(tmp_path / "host", programs, run_module)


def test_without_users_the_list_is_empty(host: Host) -> None:
    host.process(1, "init", "0::/init.scope\n", "/dev/null")
    result = host.run()
    assert result["users"] == [] and result["services"] == ["nvidia-persistenced.service"]


def test_processes_are_returned_with_their_units_and_pods(host: Host) -> None:
    host.process(20, "python3", POD, "/dev/nvidia1", "/dev/nvidiactl", "/dev/null")
    host.process(9, "nv-hostengine", "0::/system.slice/dcgm.service\n", "/dev/nvidiactl")
    host.process(30, "python3", POD.replace(UID[:4], "ffff"), "/dev/nvidia0")
    (host.root / "proc/40/fd").mkdir(parents=True)
    result = host.run()
    shown = [(user["pid"], user["unit"], user["pod"]) for user in result["users"]]
    assert shown == [
        (9, "dcgm.service", ""),
        (20, "", "research/train-0"),
        (30, "", UID.replace(UID[:4], "ffff")),
    ]
    assert result["users"][1]["devices"] == ["/dev/nvidia1", "/dev/nvidiactl"]
    assert result["services"] == ["nvidia-persistenced.service", "dcgm.service"]
