# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Find the packages for building modules for a host's kernels: headers and compiler. Pure functions."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Iterator
from typing import Any

from .._apt.dpkg import Database
from .._versions import compare_versions

# Name prefixes of kernel and header packages: Debian and Ubuntu; Proxmox VE since 8; Proxmox VE before 8.
_NAMES = {
    "linux-image-": "linux-headers-",
    "proxmox-kernel-": "proxmox-headers-",
    "pve-kernel-": "pve-headers-",
}
_PREFIXES = tuple(_NAMES)
# Kernel metapackages without these prefixes.
_OTHER_METAS = ("proxmox-default-kernel",)
_RELEASE = re.compile(r"(?:unsigned-)?(\d+\.\d+\.\d+\S*?)(?:-signed(?:-template)?)?\Z")
# 6.8.0-1032-aws, 6.12.43+deb13-cloud-amd64, 6.1.0-40-amd64, 5.10.0-0.deb10.28-amd64
_FLAVOR = re.compile(r"\d+(?:\.\d+)*(?:-\d[\w.]*)?(?:\+[\w.~]+)?-([a-z][\w-]*)\Z")
# "(x86_64-linux-gnu-gcc-12 (Ubuntu 12.3.0-1ubuntu1~22.04) 12.3.0, ..." or "(gcc-14 (Debian 14.2.0-19) 14.2.0, ..."
_COMPILER = re.compile(r"gcc(?:-\d+)? \((Debian|Ubuntu) (\d+)[^)]*\)")


def flavor(release: str) -> str:
    """Return the flavor of a kernel release, such as ``generic`` or ``cloud-amd64``; empty if it has none."""
    match = _FLAVOR.match(release)
    return match.group(1) if match else ""


def compiler(proc_version: str, distribution: str) -> str:
    """Return the compiler package of the running kernel, such as ``gcc-12``; empty for kernels from elsewhere."""
    match = _COMPILER.search(proc_version)
    return f"gcc-{match.group(2)}" if match and match.group(1).lower() == distribution else ""


def image_releases(names: Iterable[str]) -> dict[str, str]:
    """Return release -> package of the kernels in ``names``, without metapackages."""
    found = {}
    for name in names:
        match = _RELEASE.match(name.removeprefix(_prefix(name))) if name.startswith(_PREFIXES) else None
        if match:
            found[match.group(1)] = name
    return found


def headers_of(release: str, image: str) -> str:
    """Return the package with a kernel's headers; ``image`` is the kernel's package, empty if it has none."""
    return f"{_NAMES[_prefix(image or ('proxmox-kernel-' if release.endswith('-pve') else 'linux-image-'))]}{release}"


def meta_image(database: Database, running: str) -> str:
    """Return the installed metapackage of the running kernel or its flavor's next kernel, empty if there is none.

    After a kernel upgrade, before the reboot, the metapackage depends on a kernel that is not running yet.
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
    # Some metapackages differ only in other dependencies (linux-image-virtual); prefer one with installed headers.
    order = sorted(exact or same, key=lambda name: (not database.version(_twin(name)), name in inner, name))
    return next(iter(order), "")


def read(database: Database, running: str, proc_version: str, distribution: str) -> dict[str, Any]:
    """Return the field kernel_packages of the module preflight_info."""
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
    """Return the direct and indirect dependencies of a package, as far as they are kernel packages."""
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
