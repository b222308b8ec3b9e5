# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpulab.kubernetes.plugins.module_utils._nvidia.dkms import parse_status, telling_lines

VERSION, KERNEL = "580.178.04", "6.12.48+deb13-amd64"
LOG = f"""DKMS make.log for nvidia/{VERSION} for kernel {KERNEL} (x86_64)
Sun Nov 22 05:00:00 UTC 2026
make[1]: Entering directory '/usr/src/linux-headers-{KERNEL}'
  CC [M]  /var/lib/dkms/nvidia/{VERSION}/build/nvidia/nv-mmap.o
/var/lib/dkms/nvidia/{VERSION}/build/common/inc/nv-mm.h:88:25: error: too few arguments to function 'get_user_pages'
/var/lib/dkms/nvidia/{VERSION}/build/common/inc/nv-mm.h:90:1: warning: this error is not one
make[3]: *** [/usr/src/scripts/Makefile.build:229: nvidia/nv-mmap.o] Error 1
make[1]: Leaving directory '/usr/src/linux-headers-{KERNEL}'
make: *** [Makefile:80: modules] Error 2
"""


# The ends of two logs of nvidia-open-kernel-dkms 550.163.01 on Debian 13 with the kernel 6.12.117: as it fails by
# itself, and with the compiler moved away.
TREE = "/var/lib/dkms/nvidia-current-open/550.163.01/build"
TRIXIE = f"""  CC [M]  {TREE}/nvidia/nv-pci.o
{TREE}/nvidia/nv-pci.c: In function 'nv_resize_pcie_bars':
{TREE}/nvidia/nv-pci.c:237:9: error: too few arguments to function 'pci_resize_resource'
  237 |     r = pci_resize_resource(pci_dev, NV_GPU_BAR1, requested_size);
      |         ^~~~~~~~~~~~~~~~~~~
make[4]: *** [/usr/src/linux-headers-6.12.117+deb13-common/scripts/Makefile.build:210: {TREE}/nvidia/nv-pci.o] Error 1
make[4]: *** Waiting for unfinished jobs....
make[3]: *** [/usr/src/linux-headers-6.12.117+deb13-common/Makefile:2039: {TREE}] Error 2
make[3]: Leaving directory '/usr/src/linux-headers-6.12.117+deb13-cloud-amd64'
"""
NO_COMPILER = """make: Entering directory '/usr/src'
*** Failed CC sanity check. Bailing out! ***
The C compiler 'x86_64-linux-gnu-gcc-14' does not appear to be able to create object files, even though
make[4]: *** [Makefile:80: modules] Error 1
make[4]: *** Waiting for unfinished jobs....
"""
OTHER_COMPILER = """The compiler 'gcc-11' does not match the compiler used to build the kernel
make: *** [Makefile:107: modules] Error 1
"""


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (f"nvidia/{VERSION}, {KERNEL}, x86_64: installed", ("nvidia", VERSION, KERNEL, "installed", "")),
        (f"nvidia, {VERSION}, {KERNEL}, x86_64: installed", ("nvidia", VERSION, KERNEL, "installed", "")),
        (f"nvidia/{VERSION}: added", ("nvidia", VERSION, "", "added", "")),
        (f"nvidia-current/535.1, {KERNEL}, x86_64: built", ("nvidia-current", "535.1", KERNEL, "built", "")),
        (
            f"nvidia/{VERSION}, {KERNEL}, x86_64: installed (WARNING! Diff between built and installed module!)",
            ("nvidia", VERSION, KERNEL, "installed", "WARNING! Diff between built and installed module!"),
        ),
    ],
)
def test_status(line: str, expected: tuple[str, ...]) -> None:
    (build,) = parse_status(f"Deprecated feature: REMAKE_INITRD\n{line}\n\n")
    assert (build.module, build.version, build.kernel, build.state, build.notes) == expected


@pytest.mark.parametrize(
    ("log", "lines"),
    [
        (LOG, [f"/var/lib/dkms/nvidia/{VERSION}/build/common/inc/nv-mm.h:88:25: error: too few arguments to function "
               "'get_user_pages'"]),
        (TRIXIE, [f"{TREE}/nvidia/nv-pci.c:237:9: error: too few arguments to function 'pci_resize_resource'"]),
        (NO_COMPILER, [
            "*** Failed CC sanity check. Bailing out! ***",
            "The C compiler 'x86_64-linux-gnu-gcc-14' does not appear to be able to create object files, even though",
        ]),
        (OTHER_COMPILER, ["The compiler 'gcc-11' does not match the compiler used to build the kernel"]),
        ("Killed\nmake: *** [x] Error 137\n", ["Killed"]),
        ("make: *** [x] Error 2\n", ["make: *** [x] Error 2"]),
        ("one\ntwo\n\nthree\nfour\n", ["two", "three", "four"]),
        ("", []),
    ],
)  # fmt: skip
def test_lines_that_tell(log: str, lines: list[str]) -> None:
    assert telling_lines(log) == lines


@pytest.fixture
def info(tmp_path: Path, run_module: Any) -> Any:
    def call(**options: Any) -> Any:
        return run_module("nvidia_dkms_info", {"root": str(tmp_path / "host"), "kernel": KERNEL, **options})

    return call


def write_log(root: Path, where: str) -> Path:
    path = root / "host/var/lib/dkms" / where
    path.parent.mkdir(parents=True)
    path.write_text(LOG)
    return path


@pytest.mark.parametrize(
    "note", ["Differences between built and installed modules", "WARNING! Diff between built and installed module!"]
)
def test_another_module_than_the_one_that_was_built_is_not_it(info: Any, programs: Any, note: str) -> None:
    programs.add("dkms", f"echo 'nvidia/{VERSION}, {KERNEL}, x86_64: installed ({note})'")
    result = info(version=VERSION)
    assert result["installed"] is False and result["differs"] is True
    programs.add("dkms", f"echo 'nvidia/{VERSION}, {KERNEL}, x86_64: installed (original module exists)'")
    result = info(version=VERSION)
    assert result["installed"] is True and result["differs"] is False


def test_without_dkms_nothing_is_known(info: Any) -> None:
    result = info(version=VERSION)
    assert (result["builds"], result["installed"], result["reason"]) == ([], None, [])


def test_a_module_that_is_there_needs_no_reason(info: Any, programs: Any, tmp_path: Path) -> None:
    programs.add("dkms", f"echo 'nvidia/{VERSION}, {KERNEL}, x86_64: installed'; echo 'zfs/2.3, x, x86_64: built'")
    write_log(tmp_path, f"nvidia/{VERSION}/{KERNEL}/x86_64/log/make.log")
    result = info(version=VERSION)
    assert result["installed"] is True and result["reason"] == [] and result["log"] == ""
    assert [build["module"] for build in result["builds"]] == ["nvidia"]
    assert info()["installed"] is None


@pytest.mark.parametrize(
    "where", [f"nvidia/{VERSION}/build/make.log", f"nvidia/{VERSION}/{KERNEL}/x86_64/log/make.log"]
)
def test_a_failed_build_is_explained(info: Any, programs: Any, tmp_path: Path, where: str) -> None:
    programs.add("dkms", f"echo 'nvidia/{VERSION}: added'")
    path = write_log(tmp_path, where)
    result = info(version=VERSION)
    assert result["installed"] is False and result["log"] == str(path)
    assert "too few arguments" in result["reason"][0]
