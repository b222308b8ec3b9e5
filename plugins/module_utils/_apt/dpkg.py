# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read dpkg's database."""

from __future__ import annotations

import platform
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from .._files import read_text

_FIELD = re.compile(r"^(Package|Status|Version|Architecture|Maintainer|Depends): (.*)$", re.MULTILINE)
_NAME = re.compile(r"[^\s,|(:]+")
_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64", "ppc64le": "ppc64el", "armv7l": "armhf"}
ABSENT_STATES = frozenset({"not-installed", "config-files"})


@dataclass(frozen=True)
class Package:
    """A package in /var/lib/dpkg/status; ``want`` is install, hold, ...; ``state`` as in dpkg(1)."""

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
        """The names of the package's dependencies, including all alternatives, without versions."""
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
        """Whether dpkg was interrupted in this package, or must still configure it."""
        return self.state not in ABSENT_STATES and not self.installed


class Database:
    """Packages by name; among several architectures the host's own (or "all") is used."""

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
        """Return the version of a fully or partly installed package."""
        package = self._packages.get(name)
        return package.version if package else None

    def names(self) -> list[str]:
        return sorted(self._packages)


def native_architecture() -> str:
    """Return Debian's name of this machine's architecture."""
    machine = platform.machine()
    return _ARCHITECTURES.get(machine, machine)


def read_database(directory: Path) -> Database:
    """Read dpkg's database, usually in /var/lib/dpkg; empty if there is none. Raise DomainError."""
    return Database(read_status(read_text(directory / "status") or ""), native_architecture())


def read_status(text: str) -> Iterator[Package]:
    """Yield the packages of a dpkg status file; incomplete paragraphs are skipped."""
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
