# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Ensure exact package versions with at most one successful apt-get call."""

from __future__ import annotations

import contextlib
import re
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from .._command import CommandError
from .._first_run import FirstRun
from .._versions import compare_versions
from .cli import Apt
from .dpkg import Database, read_database
from .lists import indexes_fresh, note_refresh
from .specs import (
    Outcome,
    PackageError,
    PackageSpec,
    Policy,
    Release,
    failed_for_good,
    held_of,
    pending_specs,
    read_simulation,
    removal_advice,
    unknown_text,
    versions_of,
)

_STALE = re.compile(r"not installable|unmet dependencies|no installation candidate|Unable to locate|404|fetch|archives")


@dataclass(frozen=True)
class Directories:
    """The directories of dpkg and apt."""

    dpkg: Path = Path("/var/lib/dpkg")
    etc: Path = Path("/etc/apt")
    lists: Path = Path("/var/lib/apt/lists")


class Packages:
    """Ensures the wanted packages on this host."""

    def __init__(self, apt: Apt, policy: Policy, directories: Directories, first_run: FirstRun) -> None:
        self._apt = apt
        self._first_run = first_run
        self._policy = policy
        self._directories = directories
        self._dpkg = directories.dpkg

    def ensure(self, specs: Sequence[PackageSpec], check_mode: bool, release: Release | None = None) -> Outcome:
        first = database = self._read()
        specs = [self._resolve_version(spec, database, check_mode) for spec in specs]
        specs, missing = self._drop_optional(specs, database, check_mode)
        if release:
            specs = [*specs, *self._followers(specs, release, database, check_mode)]
        trouble = ""
        if not check_mode and (self._interrupted() or (database.unfinished and pending_specs(specs, database))):
            # This also waits for a running package manager.
            trouble = self._complete(specs)
            database = self._read()
        pending, not_held = pending_specs(specs, database), self._not_held(specs, database)
        repaired = any(first.get(spec.name) != database.get(spec.name) for spec in specs)
        outcome = Outcome(repaired or bool(pending or not_held), missing=missing, held_before=held_of(specs, first))
        if pending:
            self._refuse(pending, database)
        if check_mode:
            after = self._predict(pending, database)
            outcome.held = outcome.held_before | set(not_held)
        else:
            self._first_run.keep_packages({n: first.get(n) for n in [*(spec.name for spec in pending), *not_held]})
            try:
                after = self._install(pending, trouble) if pending else versions_of(database)
            finally:
                # Only now, even after a failure, is it known which other packages apt has added, replaced and removed.
                now = self._read() if pending else database
                names = {*first.names(), *now.names()}
                self._first_run.keep_packages({n: first.get(n) for n in names if first.version(n) != now.version(n)})
            outcome.held = self._hold(specs)
        outcome.show(versions_of(first), after, specs)
        return outcome

    def _resolve_version(self, spec: PackageSpec, database: Database, check_mode: bool) -> PackageSpec:
        """Resolve a version like ``1.2-*`` to the installed version if it fits, else to the newest that does."""
        if not spec.version.endswith("*"):
            return spec
        found = database.version(spec.name)
        if found and spec.fits(found):
            return replace(spec, version=found)
        for refresh in (False, True):
            if refresh and not check_mode:
                self._try_refresh()
            fitting = [version for version in self._apt.madison([spec.name]).get(spec.name, []) if spec.fits(version)]
            if fitting:
                return replace(spec, version=fitting[0])
        return spec

    def _followers(
        self, specs: Sequence[PackageSpec], release: Release, database: Database, check_mode: bool
    ) -> list[PackageSpec]:
        """Return the packages that follow a release; those missing in that version must be removed."""
        names = release.names(specs, database)
        found = [PackageSpec(name, release.version, hold=False) for name in names]
        unknown = self._unknown(found) if found else {}
        if unknown and not check_mode:
            self._try_refresh()
            unknown = self._unknown(found)
        if unknown and not self._policy.allow_removal:
            raise PackageError(
                f"Error while changing packages to {release.version}: no repository of this host has "
                f"{', '.join(spec.name for spec in unknown)} in that version. Remove these packages yourself, or "
                "allow their removal (allow_removal: true)"
            )
        return [PackageSpec(spec.name, hold=False, gone=True) if spec in unknown else spec for spec in found]

    def _complete(self, specs: Sequence[PackageSpec]) -> str:
        """Complete interrupted work of dpkg. Return errors, which the following installation may resolve."""
        trouble = []
        try:
            self._apt.configure_pending()
        except CommandError as error:
            self._refuse_same_again(error, specs)
            trouble.append(str(error))
        broken = self._read().broken
        if broken:
            asked = {spec.name: spec.word for spec in specs}
            words = [asked.get(name, name) for name in broken]
            doing = f"installing {', '.join(broken)} again, which an interrupted dpkg left half installed"
            try:
                self._apt.install([*self._policy.flags(), "--fix-broken", "--reinstall"], words, doing)
            except CommandError as error:
                trouble.append(str(error))
        return "".join(f"\nBefore that: {text}" for text in trouble)

    def _refuse_same_again(self, error: CommandError, specs: Sequence[PackageSpec]) -> None:
        database = self._read()
        output = f"{error.fields.get('stdout', '')}\n{error.fields.get('stderr', '')}"
        failed = failed_for_good(output, specs, database)
        if failed:
            names = ", ".join(f"{name} {database.version(name)}" for name in failed)
            raise PackageError(
                f"{error}\n{names} is already unpacked in the wanted version, so installing it would fail in the same "
                "way. Fix the cause or choose another version, and run again",
                **error.fields,
            ) from error

    def _read(self) -> Database:
        return read_database(self._dpkg)

    def _interrupted(self) -> bool:
        updates = self._dpkg / "updates"
        return updates.is_dir() and any(entry.name.isdigit() for entry in updates.iterdir())

    def _not_held(self, specs: Sequence[PackageSpec], database: Database) -> list[str]:
        held = held_of(specs, database)
        wanted = [spec.name for spec in specs if (self._policy.hold if spec.hold is None else spec.hold)]
        return [name for name in wanted if name not in held]

    def _refuse(self, pending: Sequence[PackageSpec], database: Database) -> None:
        lower, on_hold = [], []
        for spec in pending:
            package = database.get(spec.name)
            if package and spec.version and compare_versions(spec.version, package.version) < 0:
                lower.append(f"{spec.name} from {package.version} to {spec.version}")
            if package and package.held and (spec.gone or spec.version != package.version):
                on_hold.append(f"{spec.name} at {package.version}")
        if lower and not self._policy.allow_downgrade:
            raise PackageError(
                f"Error while installing packages: this would downgrade {', '.join(lower)}. Request the installed "
                "version, or allow it (allow_downgrade: true)"
            )
        if on_hold and not self._policy.allow_change_held:
            raise PackageError(
                f"Error while installing packages: these are on hold: {', '.join(on_hold)}. Release them with "
                "`apt-mark unhold`, or allow the change (allow_change_held: true)"
            )

    def _unknown(self, pending: Sequence[PackageSpec]) -> dict[PackageSpec, list[str]]:
        """Return the packages that apt can't install, with the versions it knows instead."""
        asked = [spec for spec in pending if not spec.gone]
        known = self._apt.madison([spec.name for spec in asked]) if asked else {}
        return {
            spec: known.get(spec.name, [])
            for spec in asked
            if (spec.version not in known.get(spec.name, []) if spec.version else not known.get(spec.name))
        }

    def _install(self, pending: Sequence[PackageSpec], trouble: str) -> dict[str, str]:
        refreshed = self._make_known(pending)
        flags = [*self._flags(pending), *(["--fix-broken"] if trouble else [])]
        doing = f"installing {', '.join(map(str, pending))}"
        try:
            self._install_fresh(flags, [spec.word for spec in pending], doing, refreshed)
        except CommandError as error:
            raise PackageError(f"{error}{trouble}{removal_advice(str(error))}", **error.fields) from error
        after = self._read()
        missing = [str(spec) for spec in pending_specs(pending, after)]
        if missing:
            raise PackageError(
                f"Error while {doing}: apt reported success, but dpkg does not have {', '.join(missing)}"
            )
        return versions_of(after)

    def _flags(self, pending: Sequence[PackageSpec]) -> list[str]:
        # Configuration that a package leaves in /etc, such as apt's preferences, would remain in effect.
        return [*self._policy.flags(), *(["--purge"] if any(spec.gone for spec in pending) else [])]

    def _install_fresh(self, flags: Sequence[str], words: Sequence[str], doing: str, refreshed: bool) -> None:
        """Install; if that fails because of missing or stale indexes, refresh them and try again."""
        try:
            self._apt.install(flags, words, doing)
        except CommandError as error:
            if refreshed or not _STALE.search(str(error)):
                raise
            self._try_refresh()
            self._apt.install(flags, words, doing)

    def _drop_optional(
        self, specs: Sequence[PackageSpec], database: Database, check_mode: bool
    ) -> tuple[list[PackageSpec], list[str]]:
        """Return the packages without optional ones that are not available, and the names of the latter."""
        pending = pending_specs(specs, database)
        doubtful = [spec for spec in pending if spec.optional]
        unknown = self._unknown(doubtful) if doubtful else {}
        if unknown and check_mode and not self._fresh():
            # A real run would refresh the indexes, and most likely find them.
            return [*specs], []
        # If nothing else is pending, only refresh old indexes. Otherwise every run would refresh them for a package
        # that does not exist.
        if unknown and not check_mode and (len(doubtful) < len(pending) or not self._fresh()):
            self._try_refresh()
            unknown = self._unknown(doubtful)
        return [spec for spec in specs if spec not in unknown], [spec.name for spec in unknown]

    def _fresh(self) -> bool:
        return indexes_fresh(self._directories.etc, self._directories.lists, time.time())

    def _refresh(self) -> None:
        self._apt.update([], "refreshing the package indexes")
        note_refresh(self._directories.lists)

    def _try_refresh(self) -> None:
        """Refresh the indexes. An unreachable source only matters if a package is still unknown afterwards."""
        with contextlib.suppress(CommandError):
            self._refresh()

    def _make_known(self, pending: Sequence[PackageSpec]) -> bool:
        """Refresh the indexes if they lack a wanted version; return whether that was done."""
        if not self._unknown(pending):
            return False
        trouble, fields = "", {}
        try:
            self._refresh()
        except CommandError as error:
            # An unmanaged source may be broken; that only matters if a package is still unknown.
            trouble, fields = f"\n{error}", error.fields
        unknown = self._unknown(pending)
        if unknown:
            raise PackageError(f"Error while installing packages: {unknown_text(unknown)}{trouble}", **fields)
        return True

    def _predict(self, pending: Sequence[PackageSpec], database: Database) -> dict[str, str]:
        after = versions_of(database)
        if pending and not database.unfinished and not self._unknown(pending):
            doing = f"simulating the installation of {', '.join(map(str, pending))}"
            try:
                result = self._apt.install(self._flags(pending), [w.word for w in pending], doing, simulate=True)
                return read_simulation(result.stdout, after)
            except CommandError as error:
                # A real run would refresh the indexes and try again, which check mode must not do.
                if not _STALE.search(str(error)):
                    raise
        after = {name: version for name, version in after.items() if name not in {w.name for w in pending if w.gone}}
        return {**after, **{spec.name: spec.version or "(any version)" for spec in pending if not spec.gone}}

    def _hold(self, specs: Sequence[PackageSpec]) -> set[str]:
        database = self._read()
        not_held = self._not_held(specs, database)
        if not_held:
            self._apt.hold([package for package in map(database.get, not_held) if package])
        return held_of(specs, database) | set(not_held)
