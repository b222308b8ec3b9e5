# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reads dpkg's database and compares versions as dpkg does."""

from __future__ import annotations

import platform
import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path

from .._files import read_text

_FIELD = re.compile(r"^(Package|Status|Version|Architecture|Maintainer|Depends): (.*)$", re.MULTILINE)
_NAME = re.compile(r"[^\s,|(:]+")
_PARTS = re.compile(r"(\D*)(\d*)")
_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64", "ppc64le": "ppc64el", "armv7l": "armhf"}
ABSENT_STATES = frozenset({"not-installed", "config-files"})


@dataclass(frozen=True)
class Package:
    """A package as /var/lib/dpkg/status has it; ``want`` is install, hold, ...; ``state`` as dpkg(1) says."""

    name: str
    version: str
    architecture: str
    want: str
    state: str
    reinstall_required: bool = False
    maintainer: str = ""
    relations: str = ""

    @property
    def depends(self) -> tuple[str, ...]:
        """The names of what it depends on, alternatives one by one, without versions."""
        parts = (_NAME.match(part.strip()) for part in re.split(r"[,|]", self.relations))
        return tuple(match.group() for match in parts if match)

    @property
    def installed(self) -> bool:
        return self.state == "installed" and not self.reinstall_required

    @property
    def held(self) -> bool:
        return self.want == "hold"

    @property
    def unfinished(self) -> bool:
        """dpkg was interrupted in this package, or still owes it something."""
        return self.state not in ABSENT_STATES and not self.installed


class Database:
    """Packages by name; of several architectures the host's own (or "all") comes first."""

    def __init__(self, packages: Iterator[Package], architecture: str = "") -> None:
        self._packages: dict[str, Package] = {}
        self.unfinished: list[str] = []
        self.broken: list[str] = []
        for package in packages:
            if package.reinstall_required:
                self.broken.append(package.name)
            if package.unfinished:
                self.unfinished.append(package.name)
            native = package.architecture in ("all", architecture)
            if package.state not in ABSENT_STATES and (native or package.name not in self._packages):
                self._packages[package.name] = package

    def get(self, name: str) -> Package | None:
        return self._packages.get(name)

    def version(self, name: str) -> str | None:
        """The version of a package that is installed, or half-way so."""
        package = self._packages.get(name)
        return package.version if package else None

    def names(self) -> list[str]:
        return sorted(self._packages)


def native_architecture() -> str:
    """Debian's name of this machine's architecture."""
    machine = platform.machine()
    return _ARCHITECTURES.get(machine, machine)


def read_database(directory: Path) -> Database:
    """dpkg's database in this directory, usually /var/lib/dpkg; empty if there is none. Raises DomainError."""
    return Database(read_status(read_text(directory / "status") or ""), native_architecture())


def read_status(text: str) -> Iterator[Package]:
    """The packages of a dpkg status file; paragraphs that say too little are left out."""
    for paragraph in text.split("\n\n"):
        fields = dict(_FIELD.findall(paragraph))
        words = fields.get("Status", "").split()
        if "Package" in fields and len(words) == 3:
            yield Package(
                name=fields["Package"].strip(),
                version=fields.get("Version", "").strip(),
                architecture=fields.get("Architecture", "").strip(),
                want=words[0],
                state=words[2],
                reinstall_required=words[1] == "reinstreq",
                maintainer=fields.get("Maintainer", ""),
                relations=fields.get("Depends", ""),
            )


def compare_versions(one: str, other: str) -> int:
    """-1, 0 or 1 as the first version is lower than, equal to or higher than the second (deb-version(7))."""
    for left, right in zip(_split(one), _split(other)):
        for (left_text, left_number), (right_text, right_number) in zip_longest(
            _PARTS.findall(left), _PARTS.findall(right), fillvalue=("", "")
        ):
            a = ([*map(_weight, left_text), 0], int(left_number or 0))
            b = ([*map(_weight, right_text), 0], int(right_number or 0))
            if a != b:
                return -1 if a < b else 1
    return 0


def _split(version: str) -> tuple[str, str, str]:
    epoch, colon, rest = version.strip().partition(":")
    if not colon:
        epoch, rest = "0", version.strip()
    upstream, _dash, revision = rest.rpartition("-")
    return (epoch, upstream, revision) if _dash else (epoch, rest, "")


def _weight(character: str) -> int:
    """A tilde sorts before the end of a part, letters before everything else."""
    if character == "~":
        return -1
    return ord(character) if character.isalpha() else ord(character) + 256
