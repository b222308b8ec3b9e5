# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The program that the timer starts on each control plane: it takes a backup, and restores it on trial.

An archive has its final name only after the drill has passed and all of it is on the disk. What an interrupted run has
left is removed by the next one.
"""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from ...module_utils._backup import sources
from ...module_utils._backup.archive import Retention, Source, describe, encrypt, expired, read_archive, write_archive
from ...module_utils._backup.manifest import DATABASE, Manifest, archive_name
from ...module_utils._backup.restore_record import is_interrupted
from ...module_utils._backup.state import (
    SETTINGS,
    STATE,
    STEPS,
    Attempt,
    Good,
    Settings,
    State,
    read_settings,
    read_state,
    write_state,
)
from ...module_utils._command import Runner
from ...module_utils._errors import REPORTED, DomainError, reported
from ...module_utils._etcd.client import OPTIONS, Etcd
from ...module_utils._etcd.snapshot import check_space, save
from ...module_utils._files import locked, make_directory, put_file, read_text, sync_path, under
from ...module_utils._secrets import mask
from ...module_utils._words import listing, written
from .copies import copy_archive
from .drill import KEY, Contents, contents, drill
from .host import Host

# The snapshot, the restored copy and the archive exist simultaneously.
_COPIES = 3
_WORK = ".work"
_LONGEST = 2000


def main(argv: Sequence[str]) -> int:
    """Take one backup; return the exit status."""
    return Program(argv[1] if len(argv) > 1 else SETTINGS).run()


class Program:
    """One run. ``root`` is the directory with the files of the host."""

    def __init__(self, settings: str = SETTINGS, root: str = "/", module: Any = None) -> None:
        self._root, self._step = root, STEPS[0]
        self._module = module or Host()
        self._settings_file, self._state_file = under(root, settings), under(root, STATE)
        self._good: Good | None = None

    def run(self) -> int:
        # Everything that is written here is secret.
        os.umask(0o077)
        before = self._read_state()
        self._good, error = before.good, ""
        try:
            if is_interrupted(self._root):
                # What is there now may be half, and the archive that it needs must not become one too many.
                raise DomainError(
                    "A restore was interrupted on this host. Run gpulab.kubernetes.restore again with the same archive."
                )
            settings = read_settings(read_text(self._settings_file) or "")
            directory = Path(settings.directory)
            make_directory(directory, 0o700)
            with locked(directory):
                self._run(settings, directory)
        except REPORTED as found:
            error = mask(str(reported(found)))[:_LONGEST]
        attempt = Attempt(_now(), self._step if error else "", error)
        try:
            put_file(self._state_file, write_state(State(attempt, self._good)).encode(), 0o600)
        except OSError as found:
            # On a full disk, the former state remains, whose age shows the failure.
            error = f"{error} {reported(found)}".strip()
        print(error or _summary(self._good), file=sys.stderr if error else sys.stdout)
        return int(bool(error))

    def _read_state(self) -> State:
        try:
            return read_state(read_text(self._state_file) or "{}")
        except DomainError:
            return State()

    def _run(self, settings: Settings, directory: Path) -> None:
        work = directory / _WORK
        shutil.rmtree(work, ignore_errors=True)
        work.mkdir(mode=0o700)
        try:
            archive, recipients = self._archive(settings, directory, work), settings.recipients
        finally:
            shutil.rmtree(work, ignore_errors=True)
        names = [path.name for path in directory.iterdir()]
        keep = Retention(settings.keep_count, settings.keep_days, sources.beginning(self._root))
        for name in expired(names, archive.name, time.time(), keep):
            (directory / name).unlink()
        if settings.places and recipients and self._good:
            self._step = "copy"
            places = copy_archive(Runner(self._module), settings, archive, keep)
            self._good = replace(self._good, places=places)
            failed = [why for why in places.values() if why]
            if failed:
                raise DomainError(" ".join(failed))

    def _archive(self, settings: Settings, directory: Path, work: Path) -> Path:
        """Take a snapshot and return the new archive."""
        pki = str(under(self._root, OPTIONS["pki"]["default"]))
        options = {**{name: each["default"] for name, each in OPTIONS.items()}, "pki": pki}
        etcd = Etcd(self._module, {**options, "endpoint": settings.endpoint, "etcdctl": settings.etcdctl})
        self._step = "space"
        status = etcd.status()
        check_space(work / DATABASE, status.db_size, _COPIES)
        self._step = "snapshot"
        taken, snapshot = _now(), work / DATABASE
        etcd.check(["put", f"{KEY}{settings.node}", taken], "writing the time of the backup to etcd", timeout=30)
        revision = save(etcd, settings.etcdutl, snapshot, 600).revision
        expected = contents(etcd, settings.node, revision)
        # The keys and the configuration belong to this snapshot.
        found = sources.files(self._module, self._root)
        self._step = "drill"
        drill(self._module, settings, pki, snapshot, work / "drill", replace(expected, written=taken))
        self._step = "archive"
        parts: dict[str, Source] = {DATABASE: snapshot, **found}
        manifest = _manifest(settings, found, status.version, expected, taken, parts)
        path = work / archive_name(manifest.cluster, taken)
        write_archive(path, manifest, parts)
        read_archive(path)
        if settings.recipients:
            target = work / archive_name(manifest.cluster, taken, encrypted=True)
            encrypt(Runner(self._module), path, target, settings.recipients)
            path = target
        final = directory / path.name
        size = path.stat().st_size
        path.replace(final)
        sync_path(directory)
        self._good = Good(taken, str(final), expected.revision, expected.keys, size, settings.recipients)
        return final


def _manifest(
    settings: Settings, found: dict[str, bytes], etcd: str, expected: Contents, taken: str, parts: dict[str, Source]
) -> Manifest:
    return Manifest(
        cluster=sources.cluster_name(found),
        ca=sources.authority(found),
        node=settings.node,
        kubernetes=sources.kubernetes_version(found),
        etcd=etcd,
        collection=settings.collection,
        revision=expected.revision,
        keys=expected.keys,
        taken=taken,
        parts={name: describe(source) for name, source in parts.items()},
    )


def _now() -> str:
    return written(time.time()) or ""


def _summary(good: Good | None) -> str:
    if good is None:
        return "No backup was taken."
    places = listing(good.places) or "no other place"
    return (
        f"{good.archive}: revision {good.revision}, {good.keys} keys, {good.size} bytes, copied to {places}. The drill "
        "passed."
    )
