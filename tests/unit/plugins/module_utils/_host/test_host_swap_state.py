# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import contextlib
import time

import pytest
from ansible_collections.gpulab.kubernetes.plugins.module_utils._errors import DomainError
from ansible_collections.gpulab.kubernetes.plugins.module_utils._host import swap_state as swap
from hypothesis import given
from hypothesis import strategies as st

HEADER = "Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority\n"

SWAP_LINES = [
    "/dev/sda2 none swap sw 0 0",
    "UUID=29234997-6cc2-4c94-ba4b-8a5f635bf940\tnone\tswap\tsw,pri=5 \t0\t0",
    "LABEL=swap none swap defaults",
    "PARTLABEL=SWAP swap swap discard,x-systemd.device-timeout=10 0 0",
    "PARTUUID=1234-05 none swap",
    "/dev/mapper/vg-swap none swap nofail,x-systemd.makefs 0 0",
    "  /swap.img\tnone\tswap\tsw\t0\t0 # made by the installer",
    "/swap\\040file none swap sw 0 0",
    "/dev/zram0 none swap defaults,pri=100 0 0",
    "/dev/sdb1 none swap noauto 0 0",
    "/dev/disk/by-id/nvme-X_1-part3 none swap sw,discard=once,nofail,x-systemd.requires=luks.service 0 0",
    "/dev/sda2 /mnt/swap swap sw 0 0",
    "ID=x swap swap",
    '\tUUID="1" none\t \tswap \t sw',
]
OTHER_LINES = [
    "",
    "   ",
    "#/swapfile none swap sw 0 0",
    "  # /swapfile none swap sw 0 0",
    "#\tswap was on /dev/sda5 during installation",
    "/dev/sda3 /mnt/swap ext4 defaults 0 2",
    "UUID=1 / btrfs rw,subvol=@swap 0 0",
    "/dev/sda4 swap ext4 defaults 0 0",
    "none swap",
    "tmpfs /tmp tmpfs size=1g 0 0",
    "swap /srv none bind,x-swap 0 0",
    "UUID=1 /mnt/swap ext4 defaults,x-systemd.automount 0 0",
    "swap swap swapfs swap 0 0",
    "/dev/sda2 none SWAP sw 0 0",
    "/dev/sda2\u00a0none\u00a0swap sw 0 0",
    "/dev/sda2 none swap,ext4 sw 0 0",
    "#!swap swap swap",
]


@pytest.mark.parametrize("ending", ["\n", "", "\r\n"])
@pytest.mark.parametrize("line", SWAP_LINES)
def test_a_swap_line_in_fstab_is_commented_out(line: str, ending: str) -> None:
    text = f"# first\n{line}{ending}"
    (entry,) = swap.fstab_swaps(text)
    assert (entry.line, entry.text) == (2, line)
    assert swap.without_swap(text) == f"# first\n# {line}{ending}"
    assert swap.fstab_swaps(swap.without_swap(text)) == []


@pytest.mark.parametrize("line", OTHER_LINES)
def test_other_lines_in_fstab_stay(line: str) -> None:
    assert swap.fstab_swaps(line + "\n") == []
    assert swap.without_swap(line + "\n") == line + "\n"


def test_the_fields_of_an_fstab_entry_are_parsed() -> None:
    (entry,) = swap.fstab_swaps("/swapfile\tnone swap\n")
    assert (entry.spec, entry.file, entry.options, entry.fields) == ("/swapfile", "none", None, 3)


@given(st.lists(st.sampled_from(SWAP_LINES + OTHER_LINES) | st.text(max_size=30)), st.sampled_from(["\n", "\r\n"]))
def test_every_other_byte_of_fstab_is_kept(lines: list[str], ending: str) -> None:
    text = ending.join(lines)
    after = swap.without_swap(text)
    assert swap.fstab_swaps(after) == []
    assert swap.without_swap(after) == after
    removed = len(swap.fstab_swaps(text))
    assert len(after) == len(text) + 2 * removed
    assert [line.removeprefix("# ") for line in after.split("\n")] == [
        line.removeprefix("# ") for line in text.split("\n")
    ]


@given(st.lists(st.sampled_from([line.encode() for line in SWAP_LINES + OTHER_LINES]) | st.binary(max_size=20)))
def test_invalid_utf8_in_fstab_is_kept(lines: list[bytes]) -> None:
    data = b"\n".join(lines)
    text = data.decode("utf-8", "surrogateescape")
    numbers = {entry.line for entry in swap.fstab_swaps(text)}
    before = data.split(b"\n")
    after = swap.without_swap(text).encode("utf-8", "surrogateescape").split(b"\n")
    assert after == [b"# " + line if number in numbers else line for number, line in enumerate(before, start=1)]


@pytest.mark.parametrize(
    "unit", [" ", "\t", "#", "a", "a swap ", "swap\n", "/a none swap sw\n", "[zram0]\n", "[", "\\040", "1 "]
)
def test_garbage_is_read_in_linear_time(unit: str) -> None:
    begun = time.process_time()
    for start in ("", "/a none swap ", "MemAvailable:", "SourcePath=", "mount-point"):
        text = start + unit * (1_000_000 // len(unit))
        swap.without_swap(text)
        with contextlib.suppress(DomainError):
            swap.active_swaps(text)
        swap.zram_swap_units(text)
        swap.made_from_fstab(text)
        swap.available_mib(text)
    assert time.process_time() - begun < 10


def test_active_swap_areas_are_read() -> None:
    text = HEADER + "/dev/sda2 partition\t2097148\t\t1024\t\t-2\n/swap\\040f\\303\\244il file 1048572 0 5\n"
    assert swap.active_swaps(text) == [
        swap.ActiveSwap("/dev/sda2", "partition", 2097148, 1024, -2),
        swap.ActiveSwap("/swap fäil", "file", 1048572, 0, 5),
    ]


@pytest.mark.parametrize("text", ["", HEADER, "\n"])
def test_an_empty_list_means_no_active_swap(text: str) -> None:
    assert swap.active_swaps(text) == []


@pytest.mark.parametrize("text", ["garbage\n", HEADER + "/dev/sda2 partition\n", HEADER + "/a b c d e\n"])
def test_another_kind_of_text_is_an_error(text: str) -> None:
    with pytest.raises(DomainError, match="is not a line of /proc/swaps"):
        swap.active_swaps(text)


@given(st.text())
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        for area in swap.active_swaps(text):
            assert area.name
    except DomainError:
        pass


@pytest.mark.parametrize(
    ("name", "used_kib", "available_kib", "missing"),
    [
        ("/dev/sda2", 1024, 4096, None),
        ("/dev/sda2", 4096, 4096, None),
        ("/dev/sda2", 4097, 4096, 1),
        ("/dev/sda2", 3 * 1024 * 1024, 1024 * 1024, 2048),
        ("/dev/zram0", 3 * 1024 * 1024, 1024, None),
    ],
)
def test_missing_memory_is_calculated(name: str, used_kib: int, available_kib: int, missing: int | None) -> None:
    area = swap.ActiveSwap(name, "partition", 4 * 1024 * 1024, used_kib, -2)
    assert swap.shortage_mib([area], f"MemFree: 1 kB\nMemAvailable:   {available_kib} kB\n") == missing


def test_available_memory_is_read() -> None:
    assert swap.available_mib("MemTotal: 9 kB\nMemAvailable:    2049 kB\n") == 2
    assert swap.available_mib("MemAvailable: many kB\n") is None


def test_the_shortage_is_unknown_without_meminfo() -> None:
    assert swap.shortage_mib([swap.ActiveSwap("/a", "file", 9, 9, 1)], "") is None


def test_zram_devices_used_as_swap_are_found() -> None:
    text = """# comment
[zram0]
zram-size = ram / 2
[zram1]
mount-point = /var/compressed
 [zram12]
compression-algorithm=zstd
[other]
"""
    assert swap.zram_swap_units(text) == ["dev-zram0.swap", "dev-zram12.swap"]
    assert swap.zram_swap_units("") == []


def test_units_generated_from_fstab_are_recognized() -> None:
    assert swap.made_from_fstab("# Automatically generated\n[Unit]\nSourcePath=/etc/fstab\n")
    assert not swap.made_from_fstab("[Unit]\nDescription=see SourcePath=/etc/fstab in fstab\n[Swap]\nWhat=/dev/sda2\n")
