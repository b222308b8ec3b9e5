# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Settings and state of the program that backs up a control plane. Pure functions."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from .._errors import DomainError
from .._json import as_mapping, as_object, as_text, needed_number, needed_text, needed_time, read_object

# Written by the role backup, and by the program.
SETTINGS, STATE = "/etc/gpulab/backup/settings.json", "/var/lib/gpulab/backup.json"
UNIT = "gpulab-backup.service"
LARGEST_STATE = 64 * 1024
# Steps of a backup, in this order; the state names the one that failed.
STEPS = ("settings", "space", "snapshot", "drill", "archive", "copy")


@dataclass(frozen=True)
class Settings:
    """Settings of the role backup. Paths are absolute."""

    node: str
    collection: str
    directory: str
    keep_count: int
    keep_days: int
    etcd: str
    etcdctl: str
    etcdutl: str
    endpoint: str
    recipients: tuple[str, ...] = ()
    places: tuple[str, ...] = ()
    rclone_config: str = ""


@dataclass(frozen=True)
class Attempt:
    """The last attempt. ``error`` is empty if it succeeded; otherwise ``step`` failed."""

    time: str
    step: str = ""
    error: str = ""


@dataclass(frozen=True)
class Good:
    """The newest backup that passed its drill. ``places`` have an empty text, or why the copy there failed."""

    taken: str
    archive: str
    revision: int
    keys: int
    size: int
    recipients: tuple[str, ...] = ()
    places: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class State:
    attempt: Attempt | None = None
    good: Good | None = None


def read_settings(text: str) -> Settings:
    """Parse the settings. Raise DomainError."""
    what = "the settings of backups"
    found = read_object(text, what)
    paths = {name: needed_text(found, name, what) for name in ("directory", "etcd", "etcdctl", "etcdutl")}
    for name, path in paths.items():
        if not path.startswith("/"):
            raise _error(what, f"{name} is not an absolute path: {path!r}")
    settings = Settings(
        node=needed_text(found, "node", what),
        collection=needed_text(found, "collection", what),
        keep_count=needed_number(found, "keep_count", what),
        keep_days=needed_number(found, "keep_days", what),
        endpoint=needed_text(found, "endpoint", what),
        recipients=_texts(found, "recipients", what),
        places=_texts(found, "places", what),
        rclone_config=as_text(found.get("rclone_config")),
        **paths,
    )
    if settings.places and not settings.recipients:
        raise _error(what, "there are places for copies, but no recipients, and copies are never made in clear")
    return settings


def read_state(text: str) -> State:
    """Parse the state, also one that an older version has written. Raise DomainError."""
    what = "the state of backups"
    if len(text) > LARGEST_STATE:
        raise _error(what, "it is too large")
    found = read_object(text, what)
    attempt, good = found.get("attempt"), found.get("good")
    return State(
        None if attempt is None else _attempt(as_object(attempt, what), what),
        None if good is None else _good(as_object(good, what), what),
    )


def write_state(state: State) -> str:
    """Return the text that ``read_state`` parses."""
    return json.dumps(asdict(state), indent=2) + "\n"


def _attempt(found: dict[str, Any], what: str) -> Attempt:
    return Attempt(needed_time(found, "time", what), as_text(found.get("step")), as_text(found.get("error")))


def _good(found: dict[str, Any], what: str) -> Good:
    return Good(
        needed_time(found, "taken", what),
        needed_text(found, "archive", what),
        needed_number(found, "revision", what),
        needed_number(found, "keys", what),
        needed_number(found, "size", what),
        recipients=_texts(found, "recipients", what),
        places={place: as_text(why) for place, why in as_mapping(found.get("places")).items()},
    )


def _texts(found: dict[str, Any], key: str, what: str) -> tuple[str, ...]:
    values = found.get(key, [])
    if not isinstance(values, list) or not all(isinstance(each, str) for each in values):
        raise _error(what, f"{key} is not a list of texts")
    return tuple(values)


def _error(what: str, why: str) -> DomainError:
    return DomainError(f"Error while reading {what}: {why}")
