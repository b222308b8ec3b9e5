# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The record of a change of a control plane that is in progress, with the files as they were before it.

It is written and synced before the first file changes, and removed when everything that has copies is whole in place.
The next run after an interruption (also a power cut) undoes a change of the configuration, repeats a renewal of the
certificates from the copies, and continues an upgrade. The record belongs to a cluster, which its CA identifies.
"""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Any

from .._errors import DomainError
from .._files import file_mode, make_directory, put_file, read_file, read_text, sync_path, text_or_nothing, under
from .damage import FILES, KUBELET_CONFIGURATION, PKI, damaged_among
from .x509 import CertificateError, certificates, public_key_hash

DIRECTORY = "/var/lib/gpulab/control-plane"
_RECORD, _FILES = "change.json", "before"
NONE, CHANGING, UNDOING = "none", "changing", "undoing"
CONFIGURATION, RENEWAL, UPGRADE = "configuration", "renewal", "upgrade"
NOTHING, REPEAT, UNDO, REFUSE = "nothing", "repeat", "undo", "refuse"
_STATES, _KINDS = (CHANGING, UNDOING), (CONFIGURATION, RENEWAL, UPGRADE)


def next_step(state: str, kind: str, expired: bool) -> str:
    """Return what a run does first: ``state`` and ``kind`` are those of the record.

    ``expired`` says whether certificates among the copies have expired: with them, no component becomes healthy. An
    upgrade is continued by kubeadm_upgrade alone.
    """
    if state == NONE:
        return NOTHING
    if kind == UPGRADE:
        return REFUSE
    return REPEAT if kind == RENEWAL and (state == CHANGING or expired) else UNDO


def interruption(root: str) -> dict[str, Any]:
    """Return whether a change was ``interrupted``, and the ``restorable`` files of kubeadm, which have whole copies."""
    try:
        found = Undo(root)
    except DomainError:
        return {"interrupted": True, "restorable": []}
    return {"interrupted": found.state != NONE, "restorable": found.restorable()}


def forget(root: str) -> None:
    """Remove the record, and then the copies, because they contain keys."""
    directory = under(root, DIRECTORY)
    (directory / _RECORD).unlink(missing_ok=True)
    if directory.is_dir():
        sync_path(directory)
    shutil.rmtree(directory / _FILES, ignore_errors=True)


class Undo:
    """The files as they were before a change. ``root`` is the root directory."""

    def __init__(self, root: str) -> None:
        self._root = root
        self._directory = under(root, DIRECTORY)
        self._record = self._directory / _RECORD
        self._modes: dict[str, int | None] = {}
        self._authority = _authority(root)
        self.state = NONE
        self.kind = CONFIGURATION
        # The configuration with which certificates are renewed.
        self.settings: dict[str, Any] = {}
        # When the change began, in seconds since 1970.
        self.since = 0.0
        # Whether there is a record of another cluster, which was on this host before.
        self.is_outdated = False
        self._read()

    def _read(self) -> None:
        text = read_text(self._record)
        if text is None:
            return
        try:
            found = json.loads(text)
            authority = str(found.get("authority") or "")
            if authority and self._authority not in ("", authority):
                self.is_outdated = True
                return
            self._authority = authority or self._authority
            self.state, files, self.since = found["state"], found["files"], float(found["since"])
            self._modes = {str(name): None if mode is None else int(mode) for name, mode in files.items()}
            self.kind, self.settings = found["kind"], dict(found["settings"])
            valid = found["schema"] == 1 and self.state in _STATES and self.kind in _KINDS
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            valid = False
        if not valid or not all(_is_ours(name) for name in self._modes):
            raise DomainError(
                f"Error while reading {self._record}, the record of a change that was interrupted: it is damaged. "
                f"Compare /etc/kubernetes with the copies in {self._directory / _FILES}, repair what differs by "
                "mistake, and remove the record."
            )

    def begin(self, paths: Iterable[str], kind: str, settings: Mapping[str, Any] | None = None) -> None:
        """Copy files that are about to change, and record it. Copies of an interrupted change stay."""
        if self.state == NONE:
            shutil.rmtree(self._directory / _FILES, ignore_errors=True)
            self.since = time.time()
        for name in paths:
            if name not in self._modes:
                self._take(name)
        self.kind, self.settings = kind, dict(settings or {})
        self._write(CHANGING)

    def copy_again(self, paths: Iterable[str]) -> None:
        """Replace the copies of these files."""
        for name in paths:
            self._take(name)
        self._write(self.state)

    def _take(self, name: str) -> None:
        source = under(self._root, name)
        data, self._modes[name] = read_file(source), file_mode(source)
        if data is not None:
            make_directory(self._directory, 0o700)
            state = source.stat()
            put_file(self._copy(name), data, 0o600, (state.st_uid, state.st_gid))

    def original(self, name: str) -> str | None:
        """Return the text of a file before the change, None if there was none or it is not part of a change."""
        return read_text(self._copy(name)) if self._modes.get(name) is not None else None

    def restore(self) -> list[str]:
        """Begin to undo the change: restore all files that differ from their copies, and return their names."""
        self._write(UNDOING)
        return self.put_back()

    def restorable(self) -> list[str]:
        """Return the files of kubeadm that are empty or cut off, but whose copies are whole."""
        found = damaged_among(self._root, (name for name in FILES if self.original(name) is not None))
        return [name for name in found if name not in damaged_among(self.copies, found)]

    def put_back(self, names: Collection[str] | None = None) -> list[str]:
        """Restore these files, or all, if they differ from their copies, and return their names."""
        restored = []
        for name, mode in self._modes.items():
            if names is not None and name not in names:
                continue
            path = under(self._root, name)
            data = None if mode is None else read_file(self._copy(name))
            if mode is not None and data is None:
                raise DomainError(f"Error while restoring {path}: its copy {self._copy(name)} is missing")
            if read_file(path) != data:
                # kubeadm writes through links, too.
                path = path.resolve()
                put_file(path, data, mode or 0o600, self._owner(name))
                restored.append(name)
        return restored

    def end(self) -> None:
        """Forget the change, or that of another cluster."""
        self.state, self._modes, self.settings, self.is_outdated = NONE, {}, {}, False
        forget(self._root)

    @property
    def is_upgrade(self) -> bool:
        """Return whether an upgrade was interrupted, which only kubeadm_upgrade completes."""
        return self.state != NONE and self.kind == UPGRADE

    @property
    def copies(self) -> str:
        """Return the directory with the copies; in it, they have the paths of the files."""
        return str(self._directory / _FILES)

    @property
    def names(self) -> list[str]:
        return [*self._modes]

    def _owner(self, name: str) -> tuple[int, int] | None:
        copy = self._copy(name)
        if not copy.exists():
            return None
        state = copy.stat()
        return state.st_uid, state.st_gid

    def _copy(self, name: str) -> Path:
        return self._directory / _FILES / name.lstrip("/")

    def _write(self, state: str) -> None:
        self.state = state
        record = {"schema": 1, "state": state, "kind": self.kind, "since": self.since}
        record.update(files=self._modes, settings=self.settings, authority=self._authority)
        make_directory(self._directory, 0o700)
        put_file(self._record, json.dumps(record).encode(), 0o600)


def _authority(root: str) -> str:
    """Return the hash of the cluster's CA, empty if it is unknown."""
    try:
        return public_key_hash(certificates(text_or_nothing(root, f"{PKI}/ca.crt"))[0])
    except CertificateError:
        return ""


def _is_ours(name: str) -> bool:
    return name == KUBELET_CONFIGURATION or (name.startswith("/etc/kubernetes/") and ".." not in name.split("/"))
