# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Write, remove and prune the small files of a role."""

from __future__ import annotations

import os
import re
import stat
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .._errors import DomainError
from .._files import difference, file_mode, put_file, read_file, read_text, under
from .._first_run import FirstRun
from .._systemd import Restarts

# Lone surrogates, except those that represent bytes that are not UTF-8.
_NOT_TEXT = re.compile("[\ud800-\udc7f\udd00-\udfff]")
REPLACED = ".replaced-gpulab"
_READ_BY_OTHERS = 0o044


@dataclass(frozen=True)
class Wanted:
    """The wanted state of a file; ``text`` is None to remove it.

    ``service`` is restarted, or with ``reload`` reloaded, after a change. ``keep`` saves unmanaged content before it is
    overwritten, ``keep_replaced`` also a managed file, which may have been edited.
    """

    path: str
    text: str | None
    mode: int = 0o644
    service: str = ""
    keep: bool = True
    keep_replaced: bool = False
    reload: bool = False

    @property
    def verb(self) -> str:
        return "reload" if self.reload else "restart"

    @classmethod
    def from_params(cls, entry: Mapping[str, Any]) -> Wanted:
        text = None if entry["state"] == "absent" else entry["secret_content"] or entry["content"] or ""
        if text and _NOT_TEXT.search(text):
            raise DomainError(
                f"Error while writing {entry['path']}: its content has a character that is not in Unicode"
            )
        if text and not text.endswith("\n"):
            text += "\n"
        mode, service = int(entry["mode"], 8), entry["service"] or ""
        return cls(entry["path"], text, mode, service, entry["keep_foreign"], entry["keep_replaced"], entry["reload"])


@dataclass(frozen=True)
class Prune:
    """Files with the marker in a directory that match a glob and are not wanted; they are removed.

    With ``age``, only this user's files that were last changed at least so many seconds ago.
    """

    directory: str
    pattern: str
    age: int = 0

    def takes(self, file: Path, now: float) -> bool:
        try:
            state = file.lstat()
        except FileNotFoundError:
            # Another run has just removed its own file.
            return False
        aged = state.st_uid == os.geteuid() and state.st_mtime < now - self.age
        return stat.S_ISREG(state.st_mode) and (aged or not self.age)


@dataclass
class Outcome:
    changed: list[str] = field(default_factory=list)
    kept: list[str] = field(default_factory=list)
    services: list[str] = field(default_factory=list)
    diff: list[dict[str, str]] = field(default_factory=list)


@dataclass
class ManagedFiles:
    """Ensures files. ``marker`` identifies this collection's files; if empty, all files are considered managed."""

    root: str
    marker: str
    restarts: Restarts
    first_run: FirstRun
    check: bool

    def ensure(self, wanted: Sequence[Wanted], prune: Sequence[Prune]) -> Outcome:
        outcome = Outcome()
        entries = [*wanted, *self._leftovers(wanted, prune)]
        files = {entry.path: under(self.root, entry.path) for entry in entries if not self._is_right(entry)}
        first = self.first_run.keep_files(files)
        for entry in entries:
            if entry.path in files:
                self._change(entry, entry.path in first, outcome)
            self._add_service(entry, outcome)
        return outcome

    def _add_service(self, entry: Wanted, outcome: Outcome) -> None:
        # Recorded by a run that was interrupted before the restart.
        name = entry.service
        if name and name not in outcome.services and self.restarts.noted(name, entry.verb):
            outcome.services.append(name)

    def _leftovers(self, wanted: Sequence[Wanted], prune: Sequence[Prune]) -> list[Wanted]:
        known = {entry.path for entry in wanted}
        found = []
        for each in prune:
            directory = under(self.root, each.directory)
            for file in sorted(directory.glob(each.pattern)):
                path = f"{each.directory.rstrip('/')}/{file.relative_to(directory)}"
                if path not in known and each.takes(file, time.time()) and self.marker in (read_text(file) or ""):
                    found.append(Wanted(path, None))
        return found

    def _is_right(self, entry: Wanted) -> bool:
        file = under(self.root, entry.path)
        if file.is_dir():
            raise DomainError(f"Error while writing {entry.path}: there is a directory with this name")
        return read_text(file) == entry.text and (entry.text is None or file_mode(file) == entry.mode)

    def _change(self, entry: Wanted, first: bool, outcome: Outcome) -> None:
        file = under(self.root, entry.path)
        before = read_text(file)
        outcome.changed.append(entry.path)
        if before != entry.text:
            private = not (entry.mode & _READ_BY_OTHERS and (file_mode(file) or 0o644) & _READ_BY_OTHERS)
            outcome.diff.append(difference(file, *(_hidden(before, entry.text) if private else (before, entry.text))))
        else:
            outcome.diff.append(
                difference(file, f"mode {file_mode(file) or 0:04o}\n", f"mode {entry.mode:04o}\n"),
            )
        if entry.service and entry.service not in outcome.services:
            outcome.services.append(entry.service)
        foreign = entry.keep and bool(self.marker) and before is not None and self.marker not in before
        try:
            self._apply(entry, file, bool(foreign and before and before.strip()), first, outcome)
        except OSError as error:
            raise DomainError(f"Error while writing {file}: {error.strerror or error}") from error

    def _apply(self, entry: Wanted, file: Path, foreign: bool, first: bool, outcome: Outcome) -> None:
        copy = self.first_run.copy_of(entry.path)
        # The copy may be older than this content, from an earlier version or a run that was killed.
        edited = entry.keep_replaced and file.exists() and (read_text(file) or "") != (entry.text or "")
        differs = foreign or edited
        recorded = differs and first and (self.check or read_file(copy) == file.read_bytes())
        replaced = differs and not recorded
        kept = file.with_name(file.name + REPLACED)
        if recorded or replaced:
            outcome.kept.append(str(kept if replaced else copy))
        if self.check:
            return
        if replaced:
            put_file(kept, file.read_bytes(), file_mode(file) or 0o644)
        if entry.service:
            self.restarts.note(entry.service, entry.verb)
        put_file(file, None if entry.text is None else entry.text.encode("utf-8", "surrogateescape"), entry.mode)


def _hidden(before: str | None, after: str | None) -> tuple[str | None, str | None]:
    """Replace texts by a note that there is content."""
    return before and "The old content is not shown.\n", after and "The new content is not shown.\n"
