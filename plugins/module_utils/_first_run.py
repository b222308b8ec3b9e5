# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The record of the first run: what a host had before this collection changed it.

An entry is written before the first change of an object, and never replaced. The record has a JSON object on each line,
so that damage to one entry leaves the others readable.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import stat
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ._errors import DomainError
from ._files import BACKUP, locked, make_directory, put_file, read_file, sync_path, under
from ._words import listing, written

VERSION = "0.3.0-dev0"
# The root directory for modules that have no option for it.
ROOT = "/"
DIRECTORY = "/var/lib/gpulab/first-run"
RECORD, FILES = "record.jsonl", "files"
SCHEMA = 1
FILE, PACKAGE, SYSCTL, UNIT = "file", "package", "sysctl", "unit"

# Other files are state, data or reports of this collection itself.
_PLACES = ("/etc/", "/usr/local/")
# Where earlier versions kept the original of a file, next to it.
_EARLIER = (".before-gpulab", BACKUP)
_OURS = re.compile(rb"Managed by (?:Ansible \()?gpulab\.kubernetes")
_LONGEST_LINE = 64 * 1024

Before = Mapping[str, Any]


@dataclass(frozen=True)
class Entry:
    """``before`` is None for an object that was absent; ``by`` is the version of the collection that wrote this."""

    kind: str
    name: str
    before: Before | None
    when: str
    by: str


@dataclass(frozen=True)
class Record:
    """The entries by kind and name. ``damage`` says which lines are ignored, and why."""

    entries: Mapping[tuple[str, str], Entry]
    damage: tuple[str, ...] = ()


def read_record(text: str) -> Record:
    """Return the valid entries; the first entry of each object counts."""
    entries: dict[tuple[str, str], Entry] = {}
    damage = []
    for number, line in enumerate(text.split("\n"), start=1):
        try:
            if line:
                entry = _entry(line)
                entries.setdefault((entry.kind, entry.name), entry)
        except ValueError as error:
            damage.append(f"line {number} {error}")
    return Record(entries, tuple(damage))


def _entry(line: str) -> Entry:
    """Raise ValueError, with the end of a sentence, for a line that this version can't have written."""
    try:
        found = json.loads(line) if len(line) <= _LONGEST_LINE else None
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise ValueError("is not a JSON object")
    schema = found.pop("schema", None)
    if isinstance(schema, bool) or schema != SCHEMA:
        raise ValueError("has a schema that this version of the collection does not know")
    if found.keys() != _FIELDS.keys():
        raise ValueError("does not have the fields of an entry")
    for name, is_right in _FIELDS.items():
        if not is_right(found[name]):
            raise ValueError(f"has an invalid {name}")
    kind, before = found["kind"], found["before"]
    if not _NAMES[kind](found["name"]):
        raise ValueError("has an invalid name")
    if before is not None and not any(_has_shape(before, shape) for shape in _SHAPES[kind]):
        raise ValueError("has an invalid before")
    return Entry(**found)


class FirstRun:
    """Adds to the record of a host. ``module`` is an AnsibleModule; in check mode, nothing is written.

    Raises DomainError if the record can't be written, because what it lacks could not be restored. What an ordinary
    user changes, such as a report next to an inventory in /etc/ansible, is not recorded.
    """

    def __init__(self, module: Any, root: str = "") -> None:
        self._module = module
        self._records = os.geteuid() == 0 or (root or ROOT) != "/"
        self._directory = under(root or ROOT, DIRECTORY)

    def copy_of(self, name: str) -> Path:
        """Return the place of the copy of a file that existed before the first run."""
        return self._directory / FILES / name.lstrip("/")

    def keep_file(self, name: str, path: Path) -> str | None:
        """Record a file that is changed through links, and return the path of its copy, None if it was absent."""
        self.keep_files({name: path.resolve()})
        copy = self.copy_of(name)
        return str(copy) if copy.exists() else None

    def keep_files(self, files: Mapping[str, Path]) -> set[str]:
        """Record and copy files that are about to change, by their names on the host.

        Return the files that are changed for the first time.
        """
        return self._keep(FILE, [*filter(_is_file, files)], lambda name: self._copy(name, files[name]))

    def keep_packages(self, packages: Mapping[str, Any]) -> None:
        """Record the state of packages in dpkg's database, None if a package is not installed."""
        self._keep(PACKAGE, packages, lambda name: _package(packages[name]))

    def keep_sysctls(self, values: Mapping[str, str | None]) -> None:
        """Record kernel parameters by their paths below /proc/sys, None for one that the kernel does not have."""
        known = {name: value for name, value in values.items() if _is_sysctl(name)}
        self._keep(SYSCTL, known, lambda name: None if known[name] is None else {"value": known[name]})

    def keep_unit(self, unit: Any, verbs: Collection[str]) -> None:
        """Record a unit if one of these systemctl verbs enables or starts it."""
        names = [unit.name] if {"enable", "start"} & {*verbs} else []
        self._keep(UNIT, names, lambda _name: {"enabled": unit.file_state, "active": unit.active})

    def is_new_unit(self, unit: str, package: str) -> bool:
        """Return whether the unit came with a package that was absent before, and was not handled yet."""
        entries = read_record(self._read().decode("utf-8", "replace")).entries if self._records else {}
        installed = entries.get((PACKAGE, package))
        return installed is not None and installed.before is None and (UNIT, unit) not in entries

    def keep_new_unit(self, unit: str) -> None:
        """Record that a unit was absent. Call this after the change, which is repeated if this run is killed."""
        self._keep(UNIT, [unit], lambda _name: None)

    def _keep(self, kind: str, names: Collection[str], before: Callable[[str], Before | None]) -> set[str]:
        if not names or not self._records:
            return set()
        try:
            if self._module.check_mode:
                return self._new(kind, names, self._read())
            make_directory(self._directory, 0o700)
            with locked(self._directory):
                return self._add(kind, names, before)
        except OSError as error:
            raise DomainError(
                f"Error while recording what this host had before its first change in {self._directory}: "
                f"{error.strerror or error}. Make the directory writable, and run again."
            ) from error

    def _add(self, kind: str, names: Collection[str], before: Callable[[str], Before | None]) -> set[str]:
        data = self._read()
        new = self._new(kind, names, data)
        stamp = {"schema": SCHEMA, "when": written(time.time()), "by": VERSION, "kind": kind}
        lines = [json.dumps({**stamp, "name": name, "before": before(name)}) + "\n" for name in names if name in new]
        if lines:
            # An incomplete line after a power failure must not damage the next one.
            end = b"" if data.endswith(b"\n") or not data else b"\n"
            put_file(self._directory / RECORD, data + end + "".join(lines).encode(), 0o600)
        return new

    def _read(self) -> bytes:
        return read_file(self._directory / RECORD) or b""

    def _new(self, kind: str, names: Collection[str], data: bytes) -> set[str]:
        record = read_record(data.decode("utf-8", "replace"))
        if record.damage:
            self._module.warn(
                f"Parts of {self._directory / RECORD} are not valid and are ignored: {listing(record.damage[:5])}."
            )
        return {name for name in names if (kind, name) not in record.entries}

    def _copy(self, name: str, path: Path) -> Before | None:
        """Copy a file with its mode and owner. A copy that exists is older than its present state, so it stays."""
        copy = self.copy_of(name)
        places = (copy, *(path.with_name(path.name + suffix) for suffix in _EARLIER), path)
        source = next((place for place in places if place.is_symlink() or place.is_file()), None)
        if source is None:
            return None
        state = source.lstat()
        target = str(source.readlink()) if stat.S_ISLNK(state.st_mode) else ""
        data = b"" if target else source.read_bytes()
        if source == path and not target and ("gpulab" in path.name or _OURS.search(data)):
            # An earlier version wrote it, and kept no original.
            return None
        mode = stat.S_IMODE(state.st_mode)
        if source != copy:
            if target:
                make_directory(copy.parent)
                copy.symlink_to(target)
                sync_path(copy.parent)
            else:
                put_file(copy, data, mode, (state.st_uid, state.st_gid))
        digest = hashlib.sha256(data).hexdigest()
        regular = {"mode": f"{mode:04o}", "uid": state.st_uid, "gid": state.st_gid, "sha256": digest}
        return {"link": target} if target else regular


def _package(package: Any) -> Before | None:
    return package and {"version": package.version, "held": package.held}


def _is_file(name: Any) -> bool:
    return (
        isinstance(name, str)
        and len(name) < 4096
        and name.startswith(_PLACES)
        and name.isprintable()
        and os.path.normpath(name) == name
    )


def _matches(form: str) -> Callable[[Any], bool]:
    compiled = re.compile(form)
    return lambda value: isinstance(value, str) and bool(compiled.fullmatch(value))


def _is_id(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**32


def _has_shape(value: Before, shape: Mapping[str, Callable[[Any], bool]]) -> bool:
    return value.keys() == shape.keys() and all(is_right(value[name]) for name, is_right in shape.items())


_FIELDS: Mapping[str, Callable[[Any], bool]] = {
    "kind": lambda value: value in (FILE, PACKAGE, SYSCTL, UNIT),
    "name": lambda value: isinstance(value, str),
    "before": lambda value: value is None or isinstance(value, dict),
    "when": _matches(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z"),
    "by": _matches(r"[0-9A-Za-z.+-]{1,64}"),
}
# A name is a path, so it must not lead elsewhere.
_is_sysctl = _matches(r"[a-z0-9_-]{1,64}(?:/(?!\.{1,2}(?:/|\Z))[A-Za-z0-9_:@.-]{1,64}){1,8}")
_NAMES: Mapping[str, Callable[[Any], bool]] = {
    FILE: _is_file,
    PACKAGE: _matches(r"[a-z0-9][-a-z0-9+.]{0,254}"),
    SYSCTL: _is_sysctl,
    UNIT: _matches(r"[A-Za-z0-9:_.\\@-]{1,255}"),
}
_SHAPES: Mapping[str, tuple[Mapping[str, Callable[[Any], bool]], ...]] = {
    FILE: (
        {"mode": _matches("[0-7]{4}"), "uid": _is_id, "gid": _is_id, "sha256": _matches("[0-9a-f]{64}")},
        {"link": _matches(r"[^\0]{1,4095}")},
    ),
    PACKAGE: ({"version": _matches(r"[A-Za-z0-9.+~:-]{0,255}"), "held": lambda value: isinstance(value, bool)},),
    SYSCTL: ({"value": _matches(r"[ -~]{0,256}")},),
    UNIT: ({"enabled": _matches("[a-z-]{0,32}"), "active": _matches("[a-z-]{1,32}")},),
}
