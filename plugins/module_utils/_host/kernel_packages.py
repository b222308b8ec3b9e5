# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which packages build modules for a host's kernels: headers and the compiler. Pure."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Iterator
from typing import Any

from .._apt.dpkg import Database
from .._versions import compare_versions

# How the packages of kernels and of their headers are called: by Debian and Ubuntu, by Proxmox VE 8 and later, before.
_NAMES = {
    "linux-image-": "linux-headers-",
    "proxmox-kernel-": "proxmox-headers-",
    "pve-kernel-": "pve-headers-",
}
_PREFIXES = tuple(_NAMES)
# Metapackages of kernels whose names have no such beginning.
_OTHER_METAS = ("proxmox-default-kernel",)
_RELEASE = re.compile(r"(?:unsigned-)?(\d+\.\d+\.\d+\S*?)(?:-signed(?:-template)?)?\Z")
# 6.8.0-1032-aws, 6.12.43+deb13-cloud-amd64, 6.1.0-40-amd64, 5.10.0-0.deb10.28-amd64
_FLAVOR = re.compile(r"\d+(?:\.\d+)*(?:-\d[\w.]*)?(?:\+[\w.~]+)?-([a-z][\w-]*)\Z")
# "(x86_64-linux-gnu-gcc-12 (Ubuntu 12.3.0-1ubuntu1~22.04) 12.3.0, ..." or "(gcc-14 (Debian 14.2.0-19) 14.2.0, ..."
_COMPILER = re.compile(r"gcc(?:-\d+)? \((Debian|Ubuntu) (\d+)[^)]*\)")


def flavor(release: str) -> str:
    """What a kernel's release ends with, such as ``generic`` or ``cloud-amd64``; empty when it has no such end."""
    match = _FLAVOR.match(release)
    return match.group(1) if match else ""


def compiler(proc_version: str, distribution: str) -> str:
    """The package of the compiler that built the running kernel, ``gcc-12``; empty unless the distribution built it."""
    match = _COMPILER.search(proc_version)
    return f"gcc-{match.group(2)}" if match and match.group(1).lower() == distribution else ""


def image_releases(names: Iterable[str]) -> dict[str, str]:
    """Release -> package of the kernels among these packages, meta packages left out."""
    found = {}
    for name in names:
        match = _RELEASE.match(name.removeprefix(_prefix(name))) if name.startswith(_PREFIXES) else None
        if match:
            found[match.group(1)] = name
    return found


def headers_of(release: str, image: str) -> str:
    """Return the package with the headers of a kernel, whose ``image`` package is empty if none brought it."""
    return f"{_NAMES[_prefix(image or ('proxmox-kernel-' if release.endswith('-pve') else 'linux-image-'))]}{release}"


def meta_image(database: Database, running: str) -> str:
    """The installed meta package that brings the running kernel, or the next one of its flavor; empty if there is none.

    A kernel upgrade before the reboot moves the meta package on to a kernel that does not run yet.
    """
    images = image_releases(database.names())
    metas = [
        name
        for name in database.names()
        if (name.startswith(_PREFIXES) or name in _OTHER_METAS) and name not in images.values()
    ]
    closures = {name: _closure(database, name) for name in metas}
    reached = {name: {release for release, image in images.items() if image in closures[name]} for name in metas}
    exact = [name for name in metas if running in reached[name]]
    same = [name for name in metas if any(flavor(release) == flavor(running) != "" for release in reached[name])]
    inner = set().union(*closures.values())
    # Several are alike but for what else they bring (linux-image-virtual); one whose headers are installed was chosen.
    order = sorted(exact or same, key=lambda name: (not database.version(_twin(name)), name in inner, name))
    return next(iter(order), "")


def read(database: Database, running: str, proc_version: str, distribution: str) -> dict[str, Any]:
    """The field kernel_packages of the module preflight_info."""
    images = image_releases(database.names())
    meta = meta_image(database, running)
    return {
        "image": images.get(running, ""),
        "meta": meta,
        "headers": [headers_of(running, images.get(running, "")), *([_twin(meta)] if meta else [])],
        "compiler": compiler(proc_version, distribution),
        "newer_without_headers": list(_newer_without_headers(database, images, running)),
    }


def _newer_without_headers(database: Database, images: dict[str, str], running: str) -> Iterator[str]:
    for release in sorted(images, key=functools.cmp_to_key(compare_versions)):
        if compare_versions(release, running) > 0 and not database.version(headers_of(release, images[release])):
            yield release


def _twin(meta: str) -> str:
    if meta in _OTHER_METAS:
        return meta.replace("-kernel", "-headers")
    return _NAMES[_prefix(meta)] + meta.removeprefix(_prefix(meta))


def _prefix(name: str) -> str:
    return next((prefix for prefix in _PREFIXES if name.startswith(prefix)), "")


def _closure(database: Database, name: str) -> set[str]:
    """The packages that one needs, and those that these need; kernels need nothing that matters here."""
    found: set[str] = set()
    waiting = [name]
    while waiting:
        package = database.get(waiting.pop())
        new = [
            each for each in (package.depends if package else ()) if each.startswith(_PREFIXES) and each not in found
        ]
        found.update(new)
        waiting += new
    return found
