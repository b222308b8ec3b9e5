# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Write new files, all of them or none, without replacing any."""

from __future__ import annotations

import contextlib
import os
import signal
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from ...module_utils._files import sync_path
from ...module_utils._problem import Problem
from ...module_utils._words import listing
from .._inventory.files import writable

# Ansible reads only the first of these, so another one would hide group_vars/all.yml or be hidden by it.
_SAME = {"group_vars/all.yml": ("group_vars/all", "group_vars/all.yaml", "group_vars/all.json")}


def obstacles(directory: Path, names: Sequence[str]) -> list[Problem]:
    """Return what prevents writing these files: they exist, or the directory can't be used."""
    found = [each for name in names for each in (name, *_SAME.get(name, ())) if os.path.lexists(directory / each)]
    if found:
        what = f"{listing(found)} already exist{'s' * (len(found) == 1)}"
        why = "An existing file is never overwritten, and the files belong together"
        do = "Name another directory with -e init_directory=DIRECTORY, or move the existing files away"
        return [Problem("file_exists", what, "init_directory", why, do, str(directory))]
    wrong = dict.fromkeys(each for name in names for each in writable(directory / name))
    why, do = f"{listing(names)} are written there", "Name another directory with -e init_directory=DIRECTORY"
    return [Problem("file_not_writable", each, "init_directory", why, do, str(directory)) for each in wrong]


def write_new(directory: Path, texts: Mapping[str, str]) -> None:
    """Write texts by file name into a directory; create missing directories. Raises OSError and leaves no file then."""
    targets = [directory / name for name in texts]
    missing = {folder for path in targets for folder in path.parents if not folder.exists()}
    made: list[Path] = []
    with _not_interrupted():
        try:
            for folder in sorted(missing):
                folder.mkdir()
                made.append(folder)
            with tempfile.TemporaryDirectory(dir=directory, prefix=".gpulab-init-") as scratch:
                sources = [Path(scratch) / str(number) for number in range(len(targets))]
                for source, text in zip(sources, texts.values(), strict=True):
                    _write(source, text)
                _link(sources, targets)
        except BaseException:
            for folder in reversed(made):
                with contextlib.suppress(OSError):
                    folder.rmdir()
            raise


def _write(path: Path, text: str) -> None:
    with path.open("x", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())


def _link(sources: list[Path], targets: list[Path]) -> None:
    """Hard-link the files to their names, which, unlike renaming, never replaces an existing file."""
    linked: list[Path] = []
    try:
        for source, target in zip(sources, targets, strict=True):
            os.link(source, target)
            linked.append(target)
        for folder in {target.parent for target in targets}:
            sync_path(folder)
    except BaseException:
        for target in linked:
            target.unlink(missing_ok=True)
        raise


@contextlib.contextmanager
def _not_interrupted() -> Iterator[None]:
    """Delay signals that end a run during the few milliseconds of writing."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM, signal.SIGHUP})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
