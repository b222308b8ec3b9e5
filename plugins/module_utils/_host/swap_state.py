# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Readers of everything that says where swap is: /proc/swaps, fstab, systemd units, zram-generator."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice

from .._errors import DomainError

# Services that make swap of their own at boot, by the packages of that name.
SWAP_SERVICES = (
    "dphys-swapfile.service",
    "swapspace.service",
    "systemd-swap.service",
    "zram-config.service",
    "zramswap.service",
)

_OCTAL = re.compile(rb"\\([0-3][0-7]{2})")
_LINE_END = re.compile(r"(?<=\n)")
_FIELD = re.compile(r"[^ \t\r\n]+")


@dataclass(frozen=True)
class ActiveSwap:
    """One line of /proc/swaps. Sizes in KiB."""

    name: str
    type: str
    size_kib: int
    used_kib: int
    priority: int

    def facts(self) -> dict[str, object]:
        return {
            "name": self.name,
            "type": self.type,
            "size_mib": self.size_kib // 1024,
            "used_mib": self.used_kib // 1024,
            "priority": self.priority,
        }


@dataclass(frozen=True)
class FstabSwap:
    """A line of fstab whose file system type is swap. ``line`` counts from 1, ``options`` may be missing."""

    line: int
    text: str
    spec: str
    file: str
    options: str | None
    fields: int


def active_swaps(proc_swaps: str) -> list[ActiveSwap]:
    """The swap areas in use, from the text of /proc/swaps. Raises DomainError for text of another kind."""
    found = []
    for line in proc_swaps.splitlines():
        fields = line.rsplit(None, 4)
        if not fields or fields[0] == "Filename":
            continue
        try:
            name, kind, size, used, priority = fields
            found.append(ActiveSwap(_unescape(name.strip()), kind, int(size), int(used), int(priority)))
        except ValueError:
            raise DomainError(f"Error while reading the active swap: {line!r} is not a line of /proc/swaps") from None
    return found


def fstab_swaps(fstab: str) -> list[FstabSwap]:
    """The lines of fstab that turn swap on. A mount that merely has swap in its name or options is none."""
    found = []
    for number, line in enumerate(_lines(fstab), start=1):
        first = [field[0] for field in islice(_FIELD.finditer(line), 3)]
        if len(first) == 3 and not first[0].startswith("#") and first[2] == "swap":
            fields = _FIELD.findall(line)
            options = fields[3] if len(fields) > 3 else None
            found.append(FstabSwap(number, line.rstrip("\r\n"), fields[0], fields[1], options, len(fields)))
    return found


def without_swap(fstab: str) -> str:
    """The same fstab with its swap lines commented out and every other byte kept."""
    lines = _lines(fstab)
    for entry in fstab_swaps(fstab):
        lines[entry.line - 1] = "# " + lines[entry.line - 1]
    return "".join(lines)


def azure_swap(waagent: str) -> str | None:
    """The swap file that Azure's agent makes at each boot, by its waagent.conf; None when it makes none.

    It reads the file as azurelinuxagent/common/conf.py does: the last line with a key counts, a number sign ends a
    value. Only a resource disk that it formats gets one (daemon/resourcedisk/default.py).
    """
    values = {key: value for _line, key, value in _waagent_entries(waagent)}
    switches = [values.get(f"ResourceDisk.{name}", "").lower() for name in ("Format", "EnableSwap")]
    place = values.get("ResourceDisk.MountPoint", "") or "/mnt/resource"
    return f"{place.rstrip('/')}/swapfile" if switches == ["y", "y"] else None


def without_azure_swap(waagent: str) -> str:
    """The same waagent.conf with swap switched off and every other byte kept."""
    if azure_swap(waagent) is None:
        return waagent
    lines = _lines(waagent)
    for number, key, _value in _waagent_entries(waagent):
        if key == "ResourceDisk.EnableSwap":
            lines[number] = lines[number].replace(lines[number].rstrip("\r\n"), "ResourceDisk.EnableSwap=n")
    return "".join(lines)


def shortage_mib(swaps: Iterable[ActiveSwap], meminfo: str) -> int | None:
    """How much memory is missing to take back what lies in swap, in MiB; None when it fits or can't be known.

    Swap on zram already lies in memory and is left out.
    """
    available = _available_kib(meminfo)
    if available is None:
        return None
    used = sum(swap.used_kib for swap in swaps if not swap.name.startswith("/dev/zram"))
    missing = used - available
    return -(-missing // 1024) if missing > 0 else None


def available_mib(meminfo: str) -> int | None:
    """Memory that programs could still get, from the text of /proc/meminfo; None where it doesn't tell."""
    available = _available_kib(meminfo)
    return None if available is None else available // 1024


def made_from_fstab(unit: str) -> bool:
    """Whether systemd made this unit file from fstab, and will not make it again once the line is gone."""
    return bool(re.search(r"^SourcePath=.*/fstab\s*$", unit, re.MULTILINE))


def made_from_partition_table(unit: str) -> bool:
    """Whether systemd made this unit file because a partition of the system's disk has the type of swap."""
    return bool(re.search(r"^# Automatically generated by systemd-gpt-auto-generator", unit, re.MULTILINE))


def zram_swap_units(configuration: str) -> list[str]:
    """The swap units that zram-generator makes from its configuration; devices that are mounted are no swap."""
    units = []
    sections = re.split(r"^[ \t]*\[([^\]\n]*)\][ \t]*$", configuration, flags=re.MULTILINE)
    for name, body in zip(sections[1::2], sections[2::2]):
        mounted = re.search(r"^[ \t]*mount-point[ \t]*=[ \t]*\S", body, re.MULTILINE)
        if re.fullmatch(r"zram\d+", name) and not mounted:
            units.append(f"dev-{name}.swap")
    return units


def _available_kib(meminfo: str) -> int | None:
    found = re.search(r"^MemAvailable:[ \t]+(\d{1,18}) kB", meminfo, re.MULTILINE)
    return int(found[1]) if found else None


def _waagent_entries(text: str) -> Iterator[tuple[int, str, str]]:
    for number, line in enumerate(_lines(text)):
        key, equals, value = line.partition("=")
        if equals and not line.startswith("#"):
            yield number, key.strip(), value.split("#")[0].strip('" \t\r\n')


def _lines(text: str) -> list[str]:
    # Only \n ends a line of fstab; splitlines() knows many more.
    return [line for line in _LINE_END.split(text) if line]


def _unescape(name: str) -> str:
    raw = name.encode("utf-8", "surrogateescape")
    return _OCTAL.sub(lambda match: bytes([int(match[1], 8)]), raw).decode("utf-8", "surrogateescape")
