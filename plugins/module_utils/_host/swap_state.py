# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Parse everything that configures swap: /proc/swaps, fstab, systemd units, zram-generator."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice

from .._errors import DomainError

# Services that create swap at boot, from packages with the same names.
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
    """One line of /proc/swaps. Sizes are in KiB."""

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
    """A line of fstab with the file system type swap. ``line`` starts at 1; ``options`` may be None."""

    line: int
    text: str
    spec: str
    file: str
    options: str | None
    fields: int


def active_swaps(proc_swaps: str) -> list[ActiveSwap]:
    """Return the active swap areas from the text of /proc/swaps. Raise DomainError for other text."""
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
    """Return the lines of fstab that enable swap; mounts with "swap" in their name or options are skipped."""
    found = []
    for number, line in enumerate(_lines(fstab), start=1):
        first = [field[0] for field in islice(_FIELD.finditer(line), 3)]
        if len(first) == 3 and not first[0].startswith("#") and first[2] == "swap":
            fields = _FIELD.findall(line)
            options = fields[3] if len(fields) > 3 else None
            found.append(FstabSwap(number, line.rstrip("\r\n"), fields[0], fields[1], options, len(fields)))
    return found


def without_swap(fstab: str) -> str:
    """Return fstab with its swap lines commented out and all other bytes unchanged."""
    lines = _lines(fstab)
    for entry in fstab_swaps(fstab):
        lines[entry.line - 1] = "# " + lines[entry.line - 1]
    return "".join(lines)


def azure_swap(waagent: str) -> str | None:
    """Return the swap file that Azure's agent creates at each boot according to waagent.conf, None if none.

    The agent (azurelinuxagent/common/conf.py) uses the last line with a key; a number sign ends a value. Only a
    resource disk that it formats gets a swap file (daemon/resourcedisk/default.py).
    """
    values = {key: value for _line, key, value in _waagent_entries(waagent)}
    switches = [values.get(f"ResourceDisk.{name}", "").lower() for name in ("Format", "EnableSwap")]
    place = values.get("ResourceDisk.MountPoint", "") or "/mnt/resource"
    return f"{place.rstrip('/')}/swapfile" if switches == ["y", "y"] else None


def without_azure_swap(waagent: str) -> str:
    """Return waagent.conf with swap disabled and all other bytes unchanged."""
    if azure_swap(waagent) is None:
        return waagent
    lines = _lines(waagent)
    for number, key, _value in _waagent_entries(waagent):
        if key == "ResourceDisk.EnableSwap":
            lines[number] = lines[number].replace(lines[number].rstrip("\r\n"), "ResourceDisk.EnableSwap=n")
    return "".join(lines)


def shortage_mib(swaps: Iterable[ActiveSwap], meminfo: str) -> int | None:
    """Return the missing memory for disabling swap, in MiB; None if it suffices or is unknown.

    Swap on zram is already in memory and not counted.
    """
    available = _available_kib(meminfo)
    if available is None:
        return None
    used = sum(swap.used_kib for swap in swaps if not swap.name.startswith("/dev/zram"))
    missing = used - available
    return -(-missing // 1024) if missing > 0 else None


def available_mib(meminfo: str) -> int | None:
    """Return the memory available to programs from the text of /proc/meminfo, in MiB; None if unknown."""
    available = _available_kib(meminfo)
    return None if available is None else available // 1024


def made_from_fstab(unit: str) -> bool:
    """Return whether systemd created the unit from fstab; without the line it is not created again."""
    return bool(re.search(r"^SourcePath=.*/fstab\s*$", unit, re.MULTILINE))


def made_from_partition_table(unit: str) -> bool:
    """Return whether systemd created the unit because of a partition of type swap on the system disk."""
    return bool(re.search(r"^# Automatically generated by systemd-gpt-auto-generator", unit, re.MULTILINE))


def zram_swap_units(configuration: str) -> list[str]:
    """Return the swap units of zram-generator's configuration; mounted devices are not swap."""
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
    # Only \n ends a line of fstab; splitlines() also splits at other characters.
    return [line for line in _LINE_END.split(text) if line]


def _unescape(name: str) -> str:
    raw = name.encode("utf-8", "surrogateescape")
    return _OCTAL.sub(lambda match: bytes([int(match[1], 8)]), raw).decode("utf-8", "surrogateescape")
