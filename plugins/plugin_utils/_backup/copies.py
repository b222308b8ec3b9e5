# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Copy encrypted archives to other places with rclone, and read each copy back."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

from ...module_utils._backup.archive import Retention, describe, digest, expired
from ...module_utils._backup.manifest import Part, read_archive_name
from ...module_utils._backup.state import Settings
from ...module_utils._command import Runner
from ...module_utils._errors import REPORTED, DomainError, reported

# A half copy has this suffix.
_PART = ".part"
_PATIENCE = ("--contimeout=15s", "--timeout=60s", "--retries=2", "--low-level-retries=3")
_LIMIT = 1800


def copy_archive(runner: Runner, settings: Settings, archive: Path, keep: Retention) -> dict[str, str]:
    """Copy the archive to all places; return why the copy to a place failed, empty if it did not."""
    expected, found = describe(archive), {}
    for place in settings.places:
        try:
            directory = _below(place, settings.node)
            _copy(runner, settings, archive, directory, expected)
            _clean(runner, settings, archive.name, directory, keep)
            found[place] = ""
        except REPORTED as error:
            found[place] = str(reported(error))[:1000]
    return found


def _copy(runner: Runner, settings: Settings, archive: Path, directory: str, expected: Part) -> None:
    target = f"{directory}/{archive.name}"

    def rclone(*arguments: str) -> Sequence[str]:
        return [*_argv(settings), *arguments]

    runner.check(rclone("copyto", str(archive), f"{target}{_PART}"), f"copying the backup to {target}", timeout=_LIMIT)
    got = _read_back(rclone("cat", f"{target}{_PART}"), target)
    if got != expected:
        # It is left for a person to look at; the next successful copy removes it.
        raise DomainError(
            f"Error while reading back {target}: it returned {got.size} bytes"
            f"{' with another content' if got.size == expected.size else f' instead of {expected.size}'}"
        )
    runner.check(rclone("moveto", f"{target}{_PART}", target), f"renaming {target}{_PART}", timeout=_LIMIT)


def _clean(runner: Runner, settings: Settings, newest: str, directory: str, keep: Retention) -> None:
    """Delete old copies, and half ones."""
    argv = [*_argv(settings), "lsf", "--files-only", directory]
    names = runner.check(argv, f"listing {directory}", timeout=_LIMIT).stdout.splitlines()
    left = [name for name in names if name.endswith(_PART) and read_archive_name(name[: -len(_PART)])]
    for name in [*left, *expired(names, newest, time.time(), keep)]:
        argv = [*_argv(settings), "deletefile", f"{directory}/{name}"]
        runner.check(argv, f"deleting {directory}/{name}", timeout=_LIMIT)


def _below(place: str, name: str) -> str:
    """Return a directory below a place. A remote alone, such as ``nas:``, is not its root directory."""
    return f"{place}{name}" if place.endswith(("/", ":")) else f"{place}/{name}"


def _argv(settings: Settings) -> list[str]:
    return ["rclone", *([f"--config={settings.rclone_config}"] if settings.rclone_config else []), *_PATIENCE]


def _read_back(argv: Sequence[str], target: str) -> Part:
    # An archive may be larger than the memory, so it is not read by the runner.
    with subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        found = digest(process.stdout)  # type: ignore[arg-type]  # It is a pipe.
    if process.returncode != 0:
        raise DomainError(f"Error while reading back {target}: rclone ended with exit status {process.returncode}")
    return found
