# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read apt's sources and fetched indexes on this host."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from pathlib import Path

from .._files import read_file
from .dpkg import native_architecture
from .sources_list import FILE_NAME, Source, read_sources

_QUOTED = re.compile(r"[\\|{}\[\]<>\"^~_=!@#$%&*]")
_DAY_S = 86400
# Distributions' own hooks also update this file after an update.
_STAMP = "update-success-stamp"


def sources_of(etc: Path) -> Iterator[tuple[Path, list[Source]]]:
    """Yield each file with apt sources and its entries."""
    parts = sorted((etc / "sources.list.d").glob("*"))
    for path in [etc / "sources.list", *(part for part in parts if FILE_NAME.match(part.name))]:
        data = read_file(path) if path.is_file() else None
        if data is not None:
            yield path, read_sources(data.decode("utf-8", "replace"), str(path))


def components(etc: Path) -> list[str]:
    """Return the components of enabled package sources, such as main."""
    entries = [entry for _path, entries in sources_of(etc) for entry in entries]
    return sorted({name for entry in entries if entry.enabled and "deb" in entry.types for name in entry.components})


def release_file(lists: Path, uri: str, suite: str) -> Path | None:
    """Return apt's file with the signed index of a suite (named by URItoFileName), None if there is none."""
    architecture = native_architecture()
    uri, suite = uri.replace("$(ARCH)", architecture).rstrip("/"), suite.replace("$(ARCH)", architecture)
    path = suite.lstrip("/") if suite.endswith("/") else f"dists/{suite}/"
    full = f"{uri}/{path}".partition("://")[2].rpartition("@")[2]
    name = _quoted(full)
    found = [lists / f"{name}{kind}" for kind in ("InRelease", "Release")]
    if not uri.startswith(("http://", "https://")):
        # For mirror lists, discs and similar, the beginning of the name depends on the method, but not its end.
        ends = tuple(_quoted(f"/{path}{kind}") for kind in ("InRelease", "Release"))
        found = [file for file in lists.glob("*Release") if file.name.endswith(ends)]
    return next((file for file in found if file.is_file()), None)


def indexes_fresh(etc: Path, lists: Path, now: float) -> bool:
    """Return whether apt has every source's index and refreshed them within the last day.

    The files' own times are useless: archives keep an index for months, and a new image may contain last year's.
    """
    complete = all(
        release_file(lists, uri, suite)
        for _path, sources in sources_of(etc)
        for source in sources
        if source.enabled and "deb" in source.types
        for uri in source.uris
        for suite in source.suites
    )
    try:
        return complete and (lists.parent / "periodic" / _STAMP).stat().st_mtime > now - _DAY_S
    except OSError:
        return False


def note_refresh(lists: Path) -> None:
    """Record that all indexes were fetched now; unchanged indexes keep their old times."""
    stamp = lists.parent / "periodic" / _STAMP
    with contextlib.suppress(OSError):
        stamp.parent.mkdir(exist_ok=True)
        stamp.touch()


def _quoted(text: str) -> str:
    return _QUOTED.sub(lambda match: f"%{ord(match.group()):02x}", text).replace("/", "_")
