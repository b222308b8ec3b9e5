# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Kernels, headers and compilers of real machines: `uname -r`, dpkg's status, /proc/version."""

from __future__ import annotations

import pytest
from ansible_collections.gpulab.kubernetes.plugins.module_utils._apt.dpkg import Database, read_status
from ansible_collections.gpulab.kubernetes.plugins.module_utils._host import kernel_packages as kernels
from hypothesis import given
from hypothesis import strategies as st


def database(packages: dict[str, str], absent: tuple[str, ...] = ()) -> Database:
    """Return installed packages with their dependencies; of those in ``absent`` only the configuration is left."""
    states = [(name, depends, "install ok installed") for name, depends in packages.items()]
    states += [(name, "", "deinstall ok config-files") for name in absent]
    paragraphs = [
        f"Package: {name}\nStatus: {state}\nArchitecture: amd64\nVersion: 1\n" + f"Depends: {depends}\n" * bool(depends)
        for name, depends, state in states
    ]
    return Database(read_status("\n".join(paragraphs)), "amd64")


DEBIAN = {
    "linux-image-amd64": "linux-image-6.12.43+deb13-amd64 (= 6.12.43-1)",
    "linux-image-6.12.43+deb13-amd64": "kmod, initramfs-tools (>= 0.120+deb8u2) | linux-initramfs-tool",
}
CLOUD = {
    "linux-image-cloud-amd64": "linux-image-6.12.43+deb13-cloud-amd64 (= 6.12.43-1)",
    "linux-image-6.12.43+deb13-cloud-amd64": "kmod",
}
HWE = {
    "linux-generic-hwe-24.04": "linux-image-generic-hwe-24.04 (= 6.14.0-24.24~24.04.3)",
    "linux-image-generic-hwe-24.04": "linux-image-6.14.0-24-generic, linux-firmware",
    "linux-image-6.14.0-24-generic": "kmod",
}
GA_BESIDE = {**HWE, "linux-image-generic": "linux-image-6.8.0-63-generic", "linux-image-6.8.0-63-generic": "kmod"}
AWS_LTS = {
    "linux-aws-lts-24.04": "linux-image-aws-lts-24.04 (= 6.8.0.1032.34), linux-headers-aws-lts-24.04 (= 6.8.0.1032.34)",
    "linux-image-aws-lts-24.04": "linux-image-6.8.0-1032-aws",
    "linux-image-6.8.0-1032-aws": "kmod",
}
NVIDIA = {
    "linux-image-nvidia-hwe-24.04": "linux-image-nvidia-6.14",
    "linux-image-nvidia-6.14": "linux-image-6.14.0-1003-nvidia",
    "linux-image-6.14.0-1003-nvidia": "kmod",
}
BOOKWORM = {
    "linux-image-amd64": "linux-image-6.1.0-40-amd64 (= 6.1.153-1)",
    "linux-image-6.1.0-40-amd64": "kmod",
    "linux-image-6.1.0-37-amd64": "kmod",
}
UNSIGNED = {"linux-image-generic": "linux-image-unsigned-6.8.0-63-generic", "linux-image-unsigned-6.8.0-63-generic": ""}


@pytest.mark.parametrize(
    ("running", "packages", "twin"),
    [
        ("6.12.43+deb13-amd64", DEBIAN, "linux-headers-amd64"),
        ("6.12.43+deb13-cloud-amd64", CLOUD, "linux-headers-cloud-amd64"),
        ("6.14.0-24-generic", HWE, "linux-headers-generic-hwe-24.04"),
        ("6.14.0-24-generic", GA_BESIDE, "linux-headers-generic-hwe-24.04"),
        ("6.8.0-63-generic", GA_BESIDE, "linux-headers-generic"),
        ("6.8.0-1032-aws", AWS_LTS, "linux-headers-aws-lts-24.04"),
        ("6.14.0-1003-nvidia", NVIDIA, "linux-headers-nvidia-hwe-24.04"),
        ("6.8.0-63-generic", UNSIGNED, "linux-headers-generic"),
        # A kernel upgrade is pending until a reboot: the meta package depends on the next kernel.
        ("6.1.0-37-amd64", BOOKWORM, "linux-headers-amd64"),
        ("6.14.0-20-generic", HWE, "linux-headers-generic-hwe-24.04"),
        # No package installs the next kernel of this flavor, so the headers would be for another kernel.
        ("6.8.0-1032-aws", HWE, ""),
        ("6.1.0-40-amd64", {"linux-image-6.1.0-40-amd64": ""}, ""),
        ("6.18.5", {}, ""),
        ("5.15.167.4-microsoft-standard-WSL2", HWE, ""),
    ],
)
def test_the_headers_follow_the_meta_package_of_the_image(running: str, packages: dict[str, str], twin: str) -> None:
    found = kernels.read(database(packages), running, "", "ubuntu")
    assert found["headers"] == [f"linux-headers-{running}", *([twin] if twin else [])]
    assert bool(found["image"]) == any(name.endswith(running) for name in packages)


PROXMOX = {
    "proxmox-default-kernel": "proxmox-kernel-6.14",
    "proxmox-kernel-6.14": "proxmox-kernel-6.14.8-2-pve-signed | proxmox-kernel-6.14.8-2-pve",
    "proxmox-kernel-6.14.8-2-pve-signed": "",
}
XANMOD = {"linux-xanmod-x64v3": "linux-image-6.16.3-x64v3-xanmod1", "linux-image-6.16.3-x64v3-xanmod1": ""}


@pytest.mark.parametrize(
    ("running", "packages", "image", "headers"),
    [
        (
            "6.14.8-2-pve",
            PROXMOX,
            "proxmox-kernel-6.14.8-2-pve-signed",
            ["proxmox-headers-6.14.8-2-pve", "proxmox-default-headers"],
        ),
        ("6.14.8-2-pve", {}, "", ["proxmox-headers-6.14.8-2-pve"]),
        ("6.2.16-20-pve", {"pve-kernel-6.2.16-20-pve": ""}, "pve-kernel-6.2.16-20-pve", ["pve-headers-6.2.16-20-pve"]),
        (
            "6.16.3-x64v3-xanmod1",
            XANMOD,
            "linux-image-6.16.3-x64v3-xanmod1",
            ["linux-headers-6.16.3-x64v3-xanmod1"],
        ),
        (
            "6.14.0-061400-generic",
            {"linux-image-unsigned-6.14.0-061400-generic": ""},
            "linux-image-unsigned-6.14.0-061400-generic",
            ["linux-headers-6.14.0-061400-generic"],
        ),
    ],
)
def test_kernels_of_other_vendors_have_other_package_names(
    running: str, packages: dict[str, str], image: str, headers: list[str]
) -> None:
    found = kernels.read(database(packages), running, "", "debian")
    assert (found["image"], found["headers"]) == (image, headers)


def test_an_installed_headers_package_decides_between_two_meta_packages() -> None:
    kernel = "linux-image-6.8.0-63-generic"
    both = {"linux-image-generic": kernel, "linux-image-virtual": kernel, kernel: "kmod"}
    running = "6.8.0-63-generic"
    assert kernels.meta_image(database(both), running) == "linux-image-generic"
    assert kernels.meta_image(database({**both, "linux-headers-virtual": ""}), running) == "linux-image-virtual"
    # The configuration files of a removed package do not count.
    assert kernels.meta_image(database(both, ("linux-headers-virtual",)), running) == "linux-image-generic"


def test_kernels_without_headers_that_the_next_boot_starts_are_found() -> None:
    packages = {**BOOKWORM, "linux-image-6.1.0-41-amd64": "", "linux-headers-6.1.0-40-amd64": ""}
    found = kernels.read(database(packages), "6.1.0-37-amd64", "", "debian")
    assert found["newer_without_headers"] == ["6.1.0-41-amd64"]


PROC = {
    "jammy_hwe": "Linux version 6.8.0-1032-aws (buildd@lcy02-amd64-042) (x86_64-linux-gnu-gcc-12 "
    "(Ubuntu 12.3.0-1ubuntu1~22.04) 12.3.0, GNU ld (GNU Binutils for Ubuntu) 2.38) #34~22.04.1-Ubuntu SMP",
    "jammy": "Linux version 5.15.0-139-generic (buildd@lcy02-amd64-112) (gcc (Ubuntu 11.4.0-1ubuntu1~22.04) 11.4.0, "
    "GNU ld (GNU Binutils for Ubuntu) 2.38) #149-Ubuntu SMP",
    "noble": "Linux version 6.8.0-63-generic (buildd@lcy02-amd64-047) (x86_64-linux-gnu-gcc-13 "
    "(Ubuntu 13.3.0-6ubuntu2~24.04) 13.3.0, GNU ld (GNU Binutils for Ubuntu) 2.42) #66-Ubuntu SMP",
    "trixie": "Linux version 6.12.43+deb13-amd64 (debian-kernel@lists.debian.org) (x86_64-linux-gnu-gcc-14 "
    "(Debian 14.2.0-19) 14.2.0, GNU ld (GNU Binutils for Debian) 2.44) #1 SMP PREEMPT_DYNAMIC",
    "bookworm": "Linux version 6.1.0-40-amd64 (debian-kernel@lists.debian.org) (gcc-12 (Debian 12.2.0-14+deb12u1) "
    "12.2.0, GNU ld (GNU Binutils for Debian) 2.40) #1 SMP PREEMPT_DYNAMIC",
    "own": "Linux version 6.18.5 (me@box) (gcc (GCC) 11.5.0, GNU ld version 2.35) #1 SMP",
    "clang": "Linux version 6.9.0 (me@box) (Ubuntu clang version 18.1.3 (1ubuntu1), Ubuntu LLD 18.1.3) #1 SMP",
}


@pytest.mark.parametrize(
    ("text", "distribution", "package"),
    [
        ("jammy_hwe", "ubuntu", "gcc-12"),
        ("jammy", "ubuntu", "gcc-11"),
        ("noble", "ubuntu", "gcc-13"),
        ("trixie", "debian", "gcc-14"),
        ("bookworm", "debian", "gcc-12"),
        # A container sees the kernel of its host, for whose compiler it may have no package.
        ("jammy_hwe", "debian", ""),
        ("own", "debian", ""),
        ("clang", "ubuntu", ""),
    ],
)
def test_the_compiler_of_the_running_kernel_is_found(text: str, distribution: str, package: str) -> None:
    assert kernels.compiler(PROC[text], distribution) == package


@given(st.text(), st.text(), st.text())
def test_any_text_is_read_without_an_error(status: str, running: str, proc: str) -> None:
    found = kernels.read(Database(read_status(status), "amd64"), running, proc, "debian")
    assert found["headers"][0] == f"linux-headers-{running}"
