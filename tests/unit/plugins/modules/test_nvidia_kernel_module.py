# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

import pytest
from fake_host import FakeHost

VERSION = "580.178.04"
RELEASE, NEWER = os.uname().release, "99.0.0-1-generic"
LOADING = ["modprobe nvidia", "modprobe nvidia_modeset", "modprobe nvidia_uvm"]
OPEN = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  {0}  Release Build  (dvs-builder@U22)\n"
PROPRIETARY = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  {0}  Tue Aug 11 07:00:00 UTC 2026\n"

MODPROBE = """
echo "modprobe $*" >> {root}/log
case "$*" in
  nvidia) [ -z "{error}" ] || {{ echo "{error}" >&2; exit 1; }}
          printf '%s' '{loads}' > {root}/proc/driver/nvidia/version ;;
  nvidia_modeset|nvidia_uvm) touch "{root}/dev/nvidia-${{1#nvidia_}}" ;;
  "-r nvidia_modeset"|"-r nvidia_uvm") rm -f "{root}/dev/nvidia-${{2#nvidia_}}" ;;
  "-r nvidia") [ -z "{busy}" ] || {{ echo "modprobe: FATAL: Module nvidia is in use." >&2; exit 1; }}
          rm -f {root}/proc/driver/nvidia/version ;;
  "-r nouveau") [ -z "{busy}" ] || {{ echo "modprobe: FATAL: Module nouveau is in use." >&2; exit 1; }} ;;
esac
"""


class Host(FakeHost):  # type: ignore[misc]
    def __init__(self, root: Path, programs: Any, run: Any) -> None:
        super().__init__(root, programs, run)
        for name in ("proc/driver/nvidia", "dev", "boot", "etc/modprobe.d", f"lib/modules/{RELEASE}"):
            (root / name).mkdir(parents=True)
        (root / "proc/modules").write_text("overlay 200704 0 - Live 0x0\n")
        self.modprobe()
        programs.add(
            "update-initramfs", f'echo "update-initramfs $*" >> {root}/log; touch {root}/boot/initrd.img-{RELEASE}'
        )

    def modprobe(self, loads: str = OPEN.format(VERSION), error: str = "", busy: str = "") -> None:
        self.programs.add("modprobe", MODPROBE.format(root=self.root, loads=loads.strip(), error=error, busy=busy))

    def loaded(self, text: str) -> None:
        for name in ("modeset", "uvm"):
            (self.root / f"dev/nvidia-{name}").touch()
        (self.root / "proc/driver/nvidia/version").write_text(text)

    def run(self, check: bool = False, **options: Any) -> dict[str, Any]:
        args = {"version": VERSION, "root": str(self.root), **options}
        result: dict[str, Any] = self._run("nvidia_kernel_module", args, check=check)
        return result


@pytest.fixture
def host(tmp_path: Path, programs: Any, run_module: Any) -> Host:
    return Host(tmp_path / "host", programs, run_module)


def test_the_module_is_loaded_once(host: Host) -> None:
    assert host.run(check=True)["changed"] and host.log == []
    result = host.run()
    assert result["changed"] and result["loaded_version"] == VERSION and not result["reboot_required"]
    again = host.run()
    assert not again["changed"] and again["loaded_before"] == VERSION
    assert host.log == LOADING


@pytest.mark.parametrize("text", [OPEN, PROPRIETARY])
def test_versions_of_open_and_proprietary_modules_are_read(host: Host, text: str) -> None:
    host.loaded(text.format(VERSION))
    assert not host.run()["changed"]


def test_another_version_is_unloaded_first(host: Host) -> None:
    host.loaded(PROPRIETARY.format("570.10"))
    (host.root / "proc/modules").write_text("nvidia 1 2 nvidia_uvm - x\nnvidia_uvm 1 0 - x\n")
    result = host.run()
    assert result["loaded_version"] == VERSION and result["loaded_before"] == "570.10"
    assert host.log == ["modprobe -r nvidia_uvm", "modprobe -r nvidia", *LOADING]


def test_another_version_in_use_requires_a_reboot(host: Host) -> None:
    host.loaded(PROPRIETARY.format("570.10"))
    host.modprobe(busy="yes")
    result = host.run()
    assert not result["failed"] and not result["changed"] and result["reboot_required"]
    assert "570.10" in result["reason"] and "in use" in result["reason"]
    assert result["loaded_version"] == "570.10"


def test_nouveau_is_unloaded_or_requires_a_reboot(host: Host) -> None:
    (host.root / "proc/modules").write_text("nouveau 1 0 - x\n")
    host.modprobe(busy="yes")
    result = host.run()
    assert result["reboot_required"] and "nouveau" in result["reason"]
    host.modprobe()
    assert host.run()["loaded_version"] == VERSION


@pytest.mark.parametrize(
    ("said", "advice"),
    [
        ("modprobe: FATAL: Module nvidia not found in directory /lib/modules/6.1.0", f"linux-headers-{RELEASE}"),
        ("modprobe: ERROR: could not insert 'nvidia': Key was rejected by service", "Secure Boot"),
        ("modprobe: ERROR: could not insert 'nvidia': No such device", "NVRM"),
        ("modprobe: ERROR: could not insert 'nvidia': Invalid argument", "grep -r nvidia /etc/modprobe.d"),
        ("modprobe: ERROR: could not insert 'nvidia': Operation not permitted", "kernel.modules_disabled"),
        ("modprobe: ERROR: could not insert 'nvidia': Exec format error", f"another compiler than {RELEASE}"),
        ("modprobe: ERROR: could not insert 'nvidia': Invalid module format", f"another compiler than {RELEASE}"),
        (
            "modprobe: ERROR: could not insert 'nvidia': Unknown symbol in module, or unknown parameter (see dmesg)",
            "option",
        ),
        ("modprobe: ERROR: could not insert 'nvidia': Device or resource busy", "lspci -k"),
        ("modprobe: ERROR: could not insert 'nvidia': Cannot allocate memory", "free -m"),
        ("modprobe: ERROR: could not insert 'nvidia': Permission denied", "become"),
        ("modprobe: FATAL: could not open /lib/modules/6.1.0/modules.dep.bin: No such file or directory", "depmod -a"),
        (
            "modprobe: FATAL: Error running install command 'false' for module nvidia: retcode 1",
            "beginning with install",
        ),
        ("modprobe: ERROR: could not insert 'nvidia': Level 2 halted", "dkms status"),
    ],
)
def test_each_failure_has_its_remedy(host: Host, said: str, advice: str) -> None:
    host.modprobe(error=said)
    result = host.run()
    assert result["failed"] and said in result["msg"] and advice in result["msg"] and VERSION in result["msg"]


@pytest.mark.parametrize(
    "said",
    [
        "Operation not permitted",
        "Key was rejected by service",
        "Required key not available",
        "Key has been revoked",
        "Loading of unsigned module is rejected",
        "Lockdown: modprobe: unsigned module loading is restricted; see man kernel_lockdown.7",
        "Lockdown: modprobe: direct PCI access is restricted",
    ],
)
def test_a_module_without_a_trusted_signature_is_reported_with_how_to_enroll_the_key(host: Host, said: str) -> None:
    host.modprobe(error=f"modprobe: ERROR: could not insert 'nvidia': {said}")
    advice = host.run()["msg"].partition(said)[2]
    assert 0 < advice.index("Secure Boot") < advice.index("mokutil --import /var/lib/dkms/mok.pub")
    assert advice.partition("on the host itself")[0].endswith("Only if this is a container: load the module ") or (
        "on the host itself" not in advice
    )


@pytest.mark.parametrize("since", ["before the call", "by this call"])
def test_a_module_that_finds_no_gpu_fails_with_the_kernels_reason(host: Host, since: str) -> None:
    record = {
        "MESSAGE": "NVRM: The NVIDIA GPU 0000:3b:00.0 (PCI ID: 10de:2bb1)\nNVRM: installed in this system requires use "
        "of the NVIDIA open kernel modules.",
        "_TRANSPORT": "kernel",
        "__REALTIME_TIMESTAMP": str(int((time.time() + (60 if since == "by this call" else -60)) * 1e6)),
    }
    (host.root / "journal").write_text(json.dumps(record))
    host.programs.add("journalctl", f"cat {host.root}/journal")
    host.modprobe(error="modprobe: ERROR: could not insert 'nvidia': No such device")
    message = host.run()["msg"]
    told = "GPU 00000000:3B:00.0: requires NVIDIA's open kernel modules" in message
    assert told == ("nvidia_driver_modules=open" in message) == (since == "by this call")


def test_a_part_of_the_driver_that_cannot_be_loaded_is_named(host: Host) -> None:
    host.programs.add(
        "modprobe",
        f"""[ "$1" != nvidia_uvm ] || {{ echo "modprobe: FATAL: Module nvidia_uvm not found" >&2; exit 1; }}
printf '%s' '{OPEN.format(VERSION).strip()}' > {host.root}/proc/driver/nvidia/version""",
    )
    result = host.run()
    assert result["failed"]
    assert result["msg"].startswith(f"Error while loading nvidia_uvm of the NVIDIA driver {VERSION}: modprobe: FATAL")


def test_the_success_of_modprobe_alone_is_not_sufficient(host: Host) -> None:
    host.programs.add("modprobe", "exit 0")
    result = host.run()
    assert result["failed"] and "/proc/driver/nvidia/version" in result["msg"]


def test_a_module_of_another_version_is_named(host: Host) -> None:
    host.modprobe(loads=OPEN.format("595.91.07"))
    result = host.run()
    assert result["failed"] and "595.91.07" in result["msg"]


def test_the_initial_ramdisk_is_only_updated_if_necessary(host: Host) -> None:
    host.loaded(OPEN.format(VERSION))
    image, blacklist = host.root / f"boot/initrd.img-{RELEASE}", host.root / "etc/modprobe.d/b.conf"
    image.write_text("")
    os.utime(image, (1, 1))
    blacklist.write_text("blacklist nouveau\n")
    options: dict[str, Any] = {"blacklist": "/etc/modprobe.d/b.conf"}
    assert not host.run(**options)["changed"], "nouveau is not among this kernel's modules"
    (host.root / f"lib/modules/{RELEASE}/modules.dep").write_text("kernel/drivers/gpu/drm/nouveau/nouveau.ko.xz: x\n")
    assert host.run(check=True, **options)["changed"]
    assert host.run(**options)["changed"]
    assert not host.run(**options)["changed"]
    assert host.log == [f"update-initramfs -u -k {RELEASE}"]


def test_the_initial_ramdisks_of_the_running_and_the_newest_kernel_are_updated(host: Host) -> None:
    """``update-initramfs -u`` alone only updates the newest kernel's."""
    host.programs.add(
        "update-initramfs",
        f'echo "update-initramfs $*" >> {host.root}/log; touch {host.root}/boot/initrd.img-"${{3:-{NEWER}}}"',
    )
    host.loaded(OPEN.format(VERSION))
    (host.root / "etc/modprobe.d/b.conf").write_text("blacklist nouveau\n")
    for release in ("1.2.3", RELEASE, NEWER):
        (host.root / f"lib/modules/{release}").mkdir(parents=True, exist_ok=True)
        (host.root / f"lib/modules/{release}/modules.dep").write_text("kernel/drivers/gpu/drm/nouveau/nouveau.ko: x\n")
        (host.root / f"boot/initrd.img-{release}").write_text("")
        os.utime(host.root / f"boot/initrd.img-{release}", (1, 1))
    # A copy made by DKMS.
    (host.root / f"boot/initrd.img-{NEWER}.old-dkms").write_text("")
    os.utime(host.root / f"boot/initrd.img-{NEWER}.old-dkms", (1, 1))
    options: dict[str, Any] = {"blacklist": "/etc/modprobe.d/b.conf"}
    assert host.run(**options)["changed"]
    assert host.log == [f"update-initramfs -u -k {RELEASE}", f"update-initramfs -u -k {NEWER}"]
    assert not host.run(**options)["changed"]


def test_modules_of_the_other_kind_are_replaced_even_in_the_same_version(host: Host) -> None:
    host.loaded(PROPRIETARY.format(VERSION))
    (host.root / "proc/modules").write_text("nvidia 1 0 - x\n")
    assert not host.run(modules="proprietary")["changed"] and not host.run()["changed"]
    assert host.run(modules="open", check=True)["changed"] and host.log == []
    result = host.run(modules="open")
    assert result["changed"] and host.log == ["modprobe -r nvidia", *LOADING]
    assert not host.run(modules="open")["changed"]


def test_modules_of_the_other_kind_that_are_in_use_require_a_reboot(host: Host) -> None:
    host.loaded(PROPRIETARY.format(VERSION))
    host.modprobe(busy="yes")
    result = host.run(modules="open")
    assert result["reboot_required"] and f"driver {VERSION} is in use" in result["reason"]
    assert "to load its open modules" in result["reason"]


@pytest.mark.parametrize(
    ("files", "path"),
    [
        ({"etc/os-release": "ID=debian\n"}, "/var/lib/dkms/mok.pub"),
        ({"etc/os-release": 'NAME="Ubuntu"\nID=ubuntu\n'}, "/var/lib/shim-signed/mok/MOK.der"),
        ({"etc/dkms/framework.conf": "# mok_certificate=/a\nmok_certificate=/root/own.der\n"}, "/root/own.der"),
        ({"etc/dkms/framework.conf.d/9.conf": 'mok_certificate="/root/own.der"\n'}, "/root/own.der"),
    ],
)
def test_the_key_that_dkms_signs_with_is_named(host: Host, files: dict[str, str], path: str) -> None:
    for name, text in files.items():
        (host.root / name).parent.mkdir(parents=True, exist_ok=True)
        (host.root / name).write_text(text)
    host.modprobe(error="modprobe: ERROR: could not insert 'nvidia': Key was rejected by service")
    assert f"mokutil --import {path}," in host.run()["msg"]


def test_any_version_can_be_unloaded(host: Host) -> None:
    host.loaded(PROPRIETARY.format("570.10"))
    assert host.run(state="absent", check=True)["changed"] and host.log == []
    result = host.run(state="absent")
    assert result["changed"] and result["loaded_before"] == "570.10" and result["loaded_version"] == ""
    assert host.log == ["modprobe -r nvidia_uvm", "modprobe -r nvidia_modeset", "modprobe -r nvidia"]
    assert not host.run(state="absent")["changed"]


def test_a_driver_in_use_is_not_partly_unloaded(host: Host) -> None:
    host.loaded(PROPRIETARY.format("570.10"))
    host.modprobe(busy="yes")
    result = host.run(state="absent")
    assert not result["failed"] and not result["changed"] and result["reboot_required"]
    assert "driver 570.10 is in use" in result["reason"] and result["loaded_version"] == "570.10"
    assert host.log[-2:] == LOADING[1:]


def test_modules_that_an_interrupted_run_did_not_load_are_loaded(host: Host) -> None:
    host.loaded(OPEN.format(VERSION))
    (host.root / "dev/nvidia-uvm").unlink()
    assert host.run(check=True)["changed"] and host.log == []
    assert host.run()["changed"] and host.log == ["modprobe nvidia_uvm"]
    assert not host.run()["changed"]


def test_unmanaged_modules_that_had_to_be_unloaded_are_loaded_again(host: Host) -> None:
    host.loaded(OPEN.format("570.1"))
    (host.root / "proc/modules").write_text(
        "nvidia_peermem 1 0 - Live 0x0\nnvidia_uvm 1 0 - Live 0x0\nnvidia 1 2 - Live 0x0\n"
    )
    assert host.run(state="absent")["modules"] == ["nvidia_peermem"]
    (host.root / "proc/modules").write_text("overlay 200704 0 - Live 0x0\n")
    host.run(further=["nvidia_peermem"])
    assert host.log[-1] == "modprobe nvidia_peermem"


def test_a_driver_in_use_keeps_unmanaged_modules(host: Host) -> None:
    host.loaded(OPEN.format("570.1"))
    host.modprobe(busy="yes")
    # Unloading them has succeeded, so the list is read again.
    (host.root / "proc/modules").write_text("nvidia_peermem 1 0 - Live 0x0\nnvidia 1 1 - Live 0x0\n")
    host.programs.add(
        "modprobe",
        f'echo "modprobe $*" >> {host.root}/log\n'
        f'[ "$*" != "-r nvidia_peermem" ] || echo "nvidia 1 0 - Live 0x0" > {host.root}/proc/modules\n'
        '[ "$*" != "-r nvidia" ] || { echo "modprobe: FATAL: Module nvidia is in use." >&2; exit 1; }\n'
        '[ "$*" != nvidia_peermem ] || { echo "modprobe: ERROR: no such symbol" >&2; exit 1; }\n',
    )
    result = host.run(state="absent")
    assert result["reboot_required"] and host.log[-1] == "modprobe nvidia_peermem"
