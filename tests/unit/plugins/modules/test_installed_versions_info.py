# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

RELEASE = os.uname().release


def package(name: str, version: str, want: str = "hold", state: str = "installed") -> str:
    return f"Package: {name}\nStatus: {want} ok {state}\nArchitecture: amd64\nVersion: {version}\n\n"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for name in ("var/lib/dpkg", "proc/driver/nvidia", "usr/lib/x86_64-linux-gnu", "boot"):
        (tmp_path / "host" / name).mkdir(parents=True)
    return tmp_path / "host"


def test_a_bare_host(root: Path, run_module: Any) -> None:
    found = run_module("installed_versions_info", {"packages": ["kubelet"], "root": str(root)})
    assert found["packages"] == {}
    assert found["driver"] == {"loaded": "", "library": "", "packages": {}}
    assert found["kernel"] == {
        "running": RELEASE,
        "newest": RELEASE,
        "newest_has_driver": False,
        "newest_has_headers": False,
    }


def test_what_is_there(root: Path, run_module: Any) -> None:
    (root / "var/lib/dpkg/status").write_text(
        package("kubelet", "1.36.4-1.1")
        + package("containerd.io", "2.3.6-1", "install")
        + package("gone", "1", "deinstall", "config-files")
        + package("nvidia-open-580", "580.178.04-1")
        + package("libnvidia-ml1", "580.200.01-1", "install")
        + package("libnvidia-container1", "1.20.1-1")
        + package("nvidia-container-toolkit", "1.20.1-1")
        + package("linux-image-6.1.0-18-amd64", "6.1.76-1")
    )
    line = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.178.04  Release Build\n"
    (root / "proc/driver/nvidia/version").write_text(line)
    (root / "usr/lib/x86_64-linux-gnu/libnvidia-ml.so.1").symlink_to("libnvidia-ml.so.580.200.01")
    for release, modules in (("5.9.0", ""), ("99.10.0", "updates/dkms/nvidia.ko.xz:"), ("99.9.0", "")):
        (root / f"boot/vmlinuz-{release}").touch()
        (root / f"lib/modules/{release}").mkdir(parents=True)
        (root / f"lib/modules/{release}/modules.dep").write_text(f"kernel/fs/overlayfs/overlay.ko:\n{modules}\n")
    (root / "lib/modules/99.10.0/build").mkdir()
    found = run_module("installed_versions_info", {"packages": ["kubelet", "containerd.io", "gone"], "root": str(root)})
    assert found["packages"] == {
        "kubelet": {"version": "1.36.4-1.1", "held": True},
        "containerd.io": {"version": "2.3.6-1", "held": False},
    }
    assert (found["driver"]["loaded"], found["driver"]["library"]) == ("580.178.04", "580.200.01")
    assert set(found["driver"]["packages"]) == {"nvidia-open-580", "libnvidia-ml1"}
    assert found["kernel"] == {
        "running": RELEASE,
        "newest": "99.10.0",
        "newest_has_driver": True,
        "newest_has_headers": True,
    }
    # What the image leaves behind without its headers, and Debian's name of the open modules.
    (root / "lib/modules/99.10.0/build").rmdir()
    (root / "lib/modules/99.10.0/build").symlink_to("/usr/src/gone")
    (root / "lib/modules/99.10.0/modules.dep").write_text("updates/dkms/nvidia-current-open.ko.xz:\n")
    found = run_module("installed_versions_info", {"packages": [], "root": str(root)})["kernel"]
    assert found["newest_has_driver"] is True and found["newest_has_headers"] is False
