# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Wanted packages compared with dpkg's database and apt's simulation. Pure functions."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from .._errors import DomainError
from .dpkg import Database

_INST = re.compile(r"^Inst (\S+) (?:\[([^\]]*)\] )?\((\S+)")
_SCRIPT_FAILED = re.compile(
    r"error processing package ([^\s:]+)\S* \(--configure\):\s*\n.*post-installation script", re.MULTILINE
)
_REMV = re.compile(r"^(?:Remv|Purg) (\S+) \[([^\]]*)\]")


class PackageError(DomainError):
    """The packages can't be installed as requested."""


@dataclass(frozen=True)
class PackageSpec:
    """A wanted package; an empty version accepts any. ``hold`` None uses the policy; ``gone`` removes the package."""

    name: str
    version: str = ""
    optional: bool = False
    hold: bool | None = None
    gone: bool = False

    def __str__(self) -> str:
        return f"{self.name} (removed)" if self.gone else f"{self.name} {self.version}".rstrip()

    def fits(self, version: str) -> bool:
        """Return whether a version, without its epoch, begins with this version up to the asterisk."""
        return version.rpartition(":")[2].startswith(self.version.rstrip("*"))

    @property
    def word(self) -> str:
        if self.gone:
            return f"{self.name}-"
        return f"{self.name}={self.version}" if self.version else self.name


@dataclass(frozen=True)
class Policy:
    hold: bool = True
    allow_downgrade: bool = False
    allow_change_held: bool = True
    allow_removal: bool = False

    def flags(self) -> list[str]:
        flags = {
            "--no-remove": not self.allow_removal,
            "--allow-downgrades": self.allow_downgrade,
            "--allow-change-held-packages": self.allow_change_held,
        }
        return ["--no-install-recommends", *(flag for flag, given in flags.items() if given)]


@dataclass(frozen=True)
class Release:
    """A release: installed packages in one of the versions ``replaces`` are changed to ``version``."""

    version: str = ""
    replaces: tuple[str, ...] = ()

    def names(self, specs: Sequence[PackageSpec], database: Database) -> list[str]:
        asked = {spec.name for spec in specs}
        old = {version for version in self.replaces if version != self.version}
        return [name for name in database.names() if name not in asked and database.version(name) in old]


@dataclass
class Outcome:
    """Versions before and after, of all packages that were changed or requested."""

    changed: bool = False
    before: dict[str, str] = field(default_factory=dict)
    after: dict[str, str] = field(default_factory=dict)
    held_before: set[str] = field(default_factory=set)
    held: set[str] = field(default_factory=set)
    missing: list[str] = field(default_factory=list)

    def show(self, before: Mapping[str, str], after: Mapping[str, str], specs: Sequence[PackageSpec]) -> None:
        """Keep the versions of requested and changed packages."""
        names = {spec.name for spec in specs} | {n for n in {*before, *after} if before.get(n) != after.get(n)}
        self.before = {name: before[name] for name in names if name in before}
        self.after = {name: after[name] for name in names if name in after}

    def diff(self) -> dict[str, str]:
        def lines(versions: Mapping[str, str], held: set[str]) -> str:
            return "".join(f"{name} {versions[name]}{' held' * (name in held)}\n" for name in sorted(versions))

        return {"before": lines(self.before, self.held_before), "after": lines(self.after, self.held)}


def read_simulation(text: str, versions: Mapping[str, str]) -> dict[str, str]:
    """Return the versions by package after the changes that ``apt-get -s`` announces."""
    after = dict(versions)
    for line in text.splitlines():
        install, remove = _INST.match(line), _REMV.match(line)
        if install:
            after[install.group(1).partition(":")[0]] = install.group(3)
        elif remove:
            after.pop(remove.group(1).partition(":")[0], None)
    return after


def pending_specs(specs: Sequence[PackageSpec], database: Database) -> list[PackageSpec]:
    """Return the pending packages."""
    packages = [(spec, database.get(spec.name)) for spec in specs]
    return [
        spec
        for spec, found in packages
        if (found if spec.gone else not (found and found.installed and spec.version in ("", found.version)))
    ]


def failed_for_good(output: str, specs: Sequence[PackageSpec], database: Database) -> list[str]:
    """Return packages whose script failed when dpkg configured them, and that would not be replaced.

    ``output`` is that of ``dpkg --configure -a``. Installing the wanted packages would run the same script again.
    """
    failed = [name for name in _SCRIPT_FAILED.findall(output) if database.get(name)]
    pending = pending_specs(specs, database)
    in_place = [spec.name for spec in pending if _is_unpacked(spec, database)]
    if pending and len(in_place) == len(pending) and not database.broken:
        return failed
    return [name for name in failed if name in in_place]


def _is_unpacked(spec: PackageSpec, database: Database) -> bool:
    version = database.version(spec.name)
    return bool(version) and not spec.gone and spec.version in ("", version)


def held_of(specs: Sequence[PackageSpec], database: Database) -> set[str]:
    packages = (database.get(spec.name) for spec in specs)
    return {package.name for package in packages if package and package.held}


def versions_of(database: Database) -> dict[str, str]:
    return {name: database.version(name) or "" for name in database.names()}


def unknown_text(unknown: Mapping[PackageSpec, Sequence[str]]) -> str:
    return "; ".join(
        f"no repository of this host has {spec}, "
        + (f"they hold {', '.join(known[:12])}" if known else "nor any other version of it")
        for spec, known in unknown.items()
    )


def removal_advice(text: str) -> str:
    if "remove is disabled" not in text:
        return ""
    return "\nThe packages that apt would remove may be in use: remove them yourself, or allow it (allow_removal: true)"
