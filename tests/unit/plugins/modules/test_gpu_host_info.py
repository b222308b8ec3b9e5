# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpulab.kubernetes.plugins.module_utils._apt.keyring import armored
from openpgp_keys import public_key

UID = "0f1f2a5e-3f61-4e3e-8a51-6b0f2b1a9d10"
RELEASE = os.uname().release


def package(name: str, version: str, want: str = "hold", state: str = "installed") -> str:
    return f"Package: {name}\nStatus: {want} ok {state}\nArchitecture: amd64\nVersion: {version}\n\n"


def device(root: Path, address: str, vendor: str, kind: str, model: str) -> None:
    directory = root / "sys/bus/pci/devices" / address
    directory.mkdir(parents=True)
    for name, value in (("vendor", vendor), ("class", kind), ("device", model)):
        (directory / name).write_text(f"{value}\n")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    top = tmp_path / "host"
    for name in ("var/lib/dpkg", "proc/driver/nvidia", "usr/lib/x86_64-linux-gnu", "boot"):
        (top / name).mkdir(parents=True)
    return top


def test_gpus_on_the_pci_bus_are_counted(root: Path, run_module: Callable[..., dict[str, Any]]) -> None:
    device(root, "0000:3b:00.0", "0x10de", "0x030200", "0x1eb8")
    device(root, "0000:3b:00.1", "0x10de", "0x040300", "0x10f8")
    device(root, "0000:00:02.0", "0x1234", "0x030000", "0x1111")
    device(root, "0000:02:00.0", "0x10DE", "0x030000", "0x20B0")
    result = run_module("gpu_host_info", {"root": str(root)})
    assert result["pci"] == [
        {"address": "0000:02:00.0", "device_id": "0x20b0"},
        {"address": "0000:3b:00.0", "device_id": "0x1eb8"},
    ]


def test_expiring_keys_of_own_apt_sources_are_returned(root: Path, run_module: Callable[..., dict[str, Any]]) -> None:
    assert run_module("gpu_host_info", {"root": str(root)})["apt_keys"] == []
    keyrings = root / "etc/apt/keyrings"
    keyrings.mkdir(parents=True)
    for name, days_left in (("gpulab-a", None), ("gpulab-b", 61), ("gpulab-c", 59), ("gpulab-d", -5), ("mine", 1)):
        (keyrings / f"{name}.asc").write_text(armored(public_key(1, days_left)))
    (keyrings / "gpulab-e.asc").write_text("no key")
    found = run_module("gpu_host_info", {"root": str(root)})["apt_keys"]
    assert [(key["name"], key["days_left"]) for key in found] == [("gpulab-c", 58), ("gpulab-d", -6)]
    assert all(key["expires"].endswith("Z") for key in found)


def test_sriov_functions_do_not_count_as_gpus(root: Path, run_module: Callable[..., dict[str, Any]]) -> None:
    device(root, "0000:3b:00.0", "0x10de", "0x030200", "0x20b5")
    device(root, "0000:3b:00.4", "0x10de", "0x030200", "0x20b5")
    (root / "sys/bus/pci/devices/0000:3b:00.4/physfn").symlink_to("../0000:3b:00.0")
    result = run_module("gpu_host_info", {"root": str(root)})
    assert [gpu["address"] for gpu in result["pci"]] == ["0000:3b:00.0"]
    assert result["kernel"]["newest"] == result["kernel"]["running"]


def test_only_running_pods_hold_gpus(root: Path, run_module: Callable[..., dict[str, Any]]) -> None:
    entry = {"PodUID": UID, "ResourceName": "nvidia.com/gpu", "DeviceIDs": {"0": ["GPU-1"]}}
    checkpoint = root / "var/lib/kubelet/device-plugins/kubelet_internal_checkpoint"
    checkpoint.parent.mkdir(parents=True)
    checkpoint.write_text(json.dumps({"Data": {"PodDeviceEntries": [entry]}}))
    (root / f"var/log/pods/research_train-0_{UID}").mkdir(parents=True)
    assert run_module("gpu_host_info", {"root": str(root)})["held"] == {}
    process = root / "proc/42"
    process.mkdir()
    (process / "cgroup").write_text(f"0::/kubepods.slice/kubepods-pod{UID.replace('-', '_')}.slice/x.scope\n")
    assert run_module("gpu_host_info", {"root": str(root)})["held"] == {"GPU-1": "research/train-0"}


def test_a_bare_host_has_no_values(root: Path, run_module: Callable[..., dict[str, Any]]) -> None:
    result = run_module("gpu_host_info", {"root": str(root)}, check=True)
    assert (result["pci"], result["packages"], result["held"]) == ([], {}, {})
    assert result["containerd_files"] == []


def test_containerd_files_are_read_on_request(root: Path, run_module: Callable[..., dict[str, Any]]) -> None:
    (root / "etc/containerd/conf.d").mkdir(parents=True)
    (root / "etc/containerd/config.toml").write_text("imports = ['/etc/containerd/conf.d/a.toml']\n")
    for name in "ab":
        (root / f"etc/containerd/conf.d/{name}.toml").write_text("[x.auth]\npassword = 'hunter2'\n")
    options = {"root": str(root), "containerd_config": "/etc/containerd/config.toml"}
    files = run_module("gpu_host_info", options)["containerd_files"]
    assert [(file["path"], file["imported"]) for file in files] == [
        ("/etc/containerd/config.toml", True),
        ("/etc/containerd/conf.d/a.toml", True),
        ("/etc/containerd/conf.d/b.toml", False),
    ]
    assert "hunter2" not in str(files)


@pytest.mark.parametrize(
    ("text", "given_back"),
    [
        ("2026-11-22T05:06:25Z\n", "2026-11-22T05:06:25Z"),
        ("2026-11-22T05:06:25Z this-boot\n", "2026-11-22T05:06:25Z"),
        ("2026-11-22T05:06:25Z an-earlier-boot\n", ""),
        ("yesterday\n", ""),
        ("", ""),
        (None, ""),
    ],
)
def test_the_time_of_the_last_release_of_gpus_is_returned(
    root: Path, run_module: Callable[..., dict[str, Any]], text: str | None, given_back: str
) -> None:
    (root / "proc/sys/kernel/random").mkdir(parents=True)
    (root / "proc/sys/kernel/random/boot_id").write_text("this-boot\n")
    if text is not None:
        (root / "var/lib/gpulab").mkdir()
        (root / "var/lib/gpulab/gpus-given-back").write_text(text)
    assert run_module("gpu_host_info", {"root": str(root)})["given_back"] == given_back


def test_files_that_were_moved_aside_are_named(root: Path, run_module: Any) -> None:
    assert run_module("gpu_host_info", {"root": str(root)})["moved_aside"] == []
    for name in ("aside-20261121T000000.000000Z", "aside-20261120T210001.000000Z", "local-path"):
        (root / "var/lib/gpulab" / name).mkdir(parents=True)
    (root / "var/lib/gpulab/aside-file").touch()
    found = run_module("gpu_host_info", {"root": str(root)})["moved_aside"]
    assert found == ["20261120T210001.000000Z", "20261121T000000.000000Z"]


def test_the_newest_backup_is_returned_with_its_age(root: Path, run_module: Any) -> None:
    def read() -> Any:
        return run_module("gpu_host_info", {"root": str(root)})["backup"]

    assert read() == {}
    settings = root / "etc/gpulab/backup/settings.json"
    settings.parent.mkdir(parents=True)
    settings.write_text("{}")
    os.utime(settings, (time.time() - 7200,) * 2)
    assert (read()["hours"], read()["taken"], read()["error"]) == (2, "", "")
    state = root / "var/lib/gpulab/backup.json"
    state.parent.mkdir(exist_ok=True)
    taken = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() - 3700))
    good = {"taken": taken, "archive": "/x.tar", "revision": 4, "keys": 3, "size": 5, "places": {"nas:x": "no answer"}}
    state.write_text(json.dumps({"attempt": {"time": taken, "step": "copy", "error": "no answer"}, "good": good}))
    found = read()
    assert (found["hours"], found["taken"], found["step"], found["error"]) == (1, taken, "copy", "no answer")
    assert found["places"] == [{"place": "nas:x", "failure": "no answer"}]
    state.write_text("half")
    assert "it is not valid JSON" in read()["error"]


@pytest.mark.parametrize(
    ("data", "text"), [(None, ""), (b"{}", "{}"), (b"\xff", "\ufffd"), (b"x" * 10**6, "x" * 65537)]
)
def test_the_record_of_deferred_changes_is_text_of_limited_length(
    root: Path, run_module: Any, data: bytes | None, text: str
) -> None:
    if data is not None:
        (root / "var/lib/gpulab").mkdir()
        (root / "var/lib/gpulab/deferred.json").write_bytes(data)
    assert run_module("gpu_host_info", {"root": str(root)})["deferred"] == text


def test_a_bare_host_has_no_versions(root: Path, run_module: Any) -> None:
    found = run_module("gpu_host_info", {"packages": ["kubelet"], "root": str(root)})
    assert found["packages"] == {}
    assert found["driver"] == {"loaded": "", "library": "", "packages": {}}
    assert found["kernel"] == {
        "running": RELEASE,
        "newest": RELEASE,
        "newest_has_driver": False,
        "newest_has_headers": False,
    }


def test_versions_of_driver_and_kernels_are_returned(root: Path, run_module: Any) -> None:
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
    found = run_module("gpu_host_info", {"packages": ["kubelet", "containerd.io", "gone"], "root": str(root)})
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
    # Remains of a kernel package without headers, and Debian's name of the open modules.
    (root / "lib/modules/99.10.0/build").rmdir()
    (root / "lib/modules/99.10.0/build").symlink_to("/usr/src/gone")
    (root / "lib/modules/99.10.0/modules.dep").write_text("updates/dkms/nvidia-current-open.ko.xz:\n")
    found = run_module("gpu_host_info", {"packages": [], "root": str(root)})["kernel"]
    assert found["newest_has_driver"] is True and found["newest_has_headers"] is False
