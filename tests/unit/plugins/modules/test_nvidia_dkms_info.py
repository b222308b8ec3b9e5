# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpulab.kubernetes.plugins.module_utils._dkms import parse_status, telling_lines

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
