# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Find what enables swap at boot in files: fstab, systemd, zram-generator, services, Azure's agent, cloud-init."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from .._files import read_text, text_or_nothing, under
from . import swap_state as swap

MASKS = "/etc/systemd/system"
WAAGENT = "/etc/waagent.conf"
_UNIT_DIRECTORIES = (
    MASKS,
    "/run/systemd/system",
    "/run/systemd/generator.early",
    "/run/systemd/generator",
    "/usr/local/lib/systemd/system",
    "/usr/lib/systemd/system",
    "/lib/systemd/system",
    "/run/systemd/generator.late",
)
_CONFIGURATION_DIRECTORIES = ("/etc/systemd", "/run/systemd", "/usr/local/lib/systemd", "/usr/lib/systemd")
# systemd 257 names units of partitions by a disk number that changes at each boot, so the target that starts them is
# masked instead.
_PASSING_NAME = r"-disk-by\x2ddiskseq-"
_TARGET = "swap.target"
_GENERATOR = "/usr/lib/systemd/system-generators/zram-generator"
_WHAT = re.compile(r"^What[ \t]*=[ \t]*(\S+)", re.MULTILINE)
# cloud-init's configuration from the image and the user data of this instance.
_CLOUD = ("/etc/cloud/cloud.cfg", "/etc/cloud/cloud.cfg.d/*.cfg", "/var/lib/cloud/instance/cloud-config.txt")
_CLOUD_SWAP = re.compile(r"^swap:[ \t]*(?:\{(?P<flow>[^}]*)\}|(?:#.*)?\n(?P<block>(?:[ \t]+.*\n?)+))", re.MULTILINE)
_CLOUD_MOUNT = re.compile(
    r"^[ \t]*-[ \t]*\[[ \t]*[\"']?(?P<area>[^,\]\"'\s]+)[\"']?[ \t]*,[^,\]\n]+,[ \t]*[\"']?swap[\"']?[ \t]*[,\]]",
    re.MULTILINE,
)
_SCRIPTS = ("/etc/rc.local", "/var/lib/cloud/scripts/per-boot/*")
_SWAPON = re.compile(r"^[^#\n]*\bswapon\b(?![ \t]+(?:-[shV]|--(?:show|summary|help|version))\b)", re.MULTILINE)


@dataclass(frozen=True)
class Origin:
    """Something that enables swap; ``area`` is None if the file does not name it.

    ``kept_off``: the module swap disables it. Without ``at_boot`` it only runs on a new instance, like cloud-init's.
    """

    by: str
    file: str
    area: str | None = None
    kept_off: bool = True
    at_boot: bool = True

    def __str__(self) -> str:
        return f"{self.by} ({self.file})"


def origins(root: str) -> list[Origin]:
    """Return all origins of swap that files show. Unreadable files (not root) are skipped."""
    fstab = swap.fstab_swaps(text_or_nothing(root, "/etc/fstab"))
    found = [Origin("fstab", "/etc/fstab", entry.spec if entry.spec.startswith("/") else None) for entry in fstab]
    for name, path in _units(root).items():
        text = text_or_nothing(root, _host_path(root, path))
        what = _WHAT.search(text)
        found.append(Origin(_maker(name, text), _host_path(root, path), _device(root, what[1]) if what else None))
    found += [
        Origin("zram-generator", "zram-generator.conf", f"/dev/{name[len('dev-') : -len('.swap')]}")
        for name in _zram_units(root)
        if not any(origin.file.endswith(f"/{name}") for origin in found) and not _is_masked(root, name)
    ]
    area = swap.azure_swap(text_or_nothing(root, WAAGENT))
    found += [Origin("Azure's agent", WAAGENT, area)] if area else []
    found += _of_cloud_init(root)
    for script in _files(root, _SCRIPTS):
        if _SWAPON.search(text_or_nothing(root, script)):
            found.append(Origin("a script", script, kept_off=False))
    return found


def blamed(area: str, found: Iterable[Origin]) -> str:
    """Return what may have enabled an area; empty if unknown."""
    found = list(found)
    exact = [origin for origin in found if origin.area == area]
    return ", ".join(dict.fromkeys(map(str, exact or [origin for origin in found if origin.area is None])))


def units_to_mask(root: str) -> list[str]:
    """Return the units and services that enable swap by themselves. Raise DomainError if a file can't be read."""
    names = {_TARGET if _PASSING_NAME in name else name for name in _units(root)}
    return sorted(names.union(name for name in _zram_units(root) if not _is_masked(root, name)))


def _units(root: str) -> dict[str, Path]:
    found: dict[str, Path] = {}
    for directory in _UNIT_DIRECTORIES:
        for pattern in ("*.swap", *swap.SWAP_SERVICES):
            for path in under(root, directory).glob(pattern):
                found.setdefault(path.name, path)
    off = _is_dev_null(under(root, f"{MASKS}/{_TARGET}"))
    return {name: path for name, path in found.items() if not _harmless(path) and not (off and _PASSING_NAME in name)}


def _device(root: str, path: str) -> str:
    """Return the kernel's name of the device that a link in /dev/disk refers to."""
    is_link = path.startswith("/dev/disk/") and under(root, path).exists()
    return _host_path(root, under(root, path).resolve()) if is_link else path


def _maker(unit: str, text: str) -> str:
    if unit.startswith("dev-zram"):
        return "zram-generator"
    if swap.made_from_partition_table(text):
        return "the partition table"
    return "systemd" if unit.endswith(".swap") else unit


def _is_masked(root: str, name: str) -> bool:
    return any(os.path.lexists(under(root, f"{directory}/{name}")) for directory in _UNIT_DIRECTORIES)


def _harmless(path: Path) -> bool:
    if _is_dev_null(path):
        return True
    text = read_text(path) if path.is_file() else ""
    return not text or (path.suffix == ".swap" and swap.made_from_fstab(text))


def _is_dev_null(path: Path) -> bool:
    return path.is_symlink() and str(path.readlink()) == os.devnull


def _zram_units(root: str) -> list[str]:
    if not under(root, _GENERATOR).exists():
        return []
    places = [under(root, directory) for directory in _CONFIGURATION_DIRECTORIES]
    main = (place / "zram-generator.conf" for place in places)
    parts = [path for path in main if path.exists()][:1]
    parts += [path for place in places for path in place.glob("zram-generator.conf.d/*.conf")]
    return swap.zram_swap_units("\n".join(read_text(path) or "" for path in parts if path.is_file()))


def _of_cloud_init(root: str) -> Iterator[Origin]:
    for path in _files(root, _CLOUD):
        text = text_or_nothing(root, path)
        for match in _CLOUD_SWAP.finditer(text):
            body = match["flow"] or match["block"] or ""
            size = re.search(r"\bsize[\"']?:[ \t]*[\"']?([\w.]+)", body)
            name = re.search(r"\bfilename[\"']?:[ \t]*[\"']?([^\s,\"'}]+)", body)
            if size and not re.fullmatch(r"0+\w?", size[1]):
                yield Origin("cloud-init", path, name[1] if name else "/swap.img", at_boot=False)
        for match in _CLOUD_MOUNT.finditer(text):
            yield Origin("cloud-init", path, match["area"], at_boot=False)


def _files(root: str, patterns: Iterable[str]) -> Iterator[str]:
    for pattern in patterns:
        for path in sorted(Path(root).glob(pattern.lstrip("/"))):
            if path.is_file():
                yield _host_path(root, path)


def _host_path(root: str, path: Path) -> str:
    return f"/{path.relative_to(root)}"
