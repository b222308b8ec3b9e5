# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Record on a host of changes that are deferred until its GPUs are free. Pure.

The text comes from the host, so it is parsed into known fields, and shown as printable text of limited length.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from ...module_utils._cluster.records import DISRUPTION, DRIVER_UPGRADE, KUBERNETES_UPGRADE
from ...module_utils._files import DEFERRED, LARGEST_DEFERRED
from ...module_utils._words import moment

PURPOSES = (DISRUPTION, DRIVER_UPGRADE, KUBERNETES_UPGRADE)
# The roles of the play that a deferral ends, in its order.
_ROLES = ("host", "nvidia_driver", "containerd", "nvidia_container_toolkit", "kubeadm")
_MOST_USERS, _LONGEST = 32, 300
_UNPRINTABLE = re.compile(r"[^ -~]")


@dataclass(frozen=True)
class Deferral:
    """``since`` is a time in UTC; ``users`` are the pods and processes that block the ``change``; ``pending`` is what
    the host waits for."""

    since: str
    change: str
    users: tuple[str, ...]
    pending: str

    def fields(self) -> dict[str, Any]:
        return {**asdict(self), "users": list(self.users)}


def sentence(entry: Mapping[str, Any]) -> str:
    """Return the fields of a deferral as a sentence without a full stop."""
    users = ", ".join(entry["users"])
    what = f"{entry['change']} has been deferred since {entry['since']} (pending: {entry['pending']})"
    return f"{what}, blocked by {users}"


def deferrals(text: Any) -> dict[str, Deferral] | None:
    """Return the deferrals in a record by purpose, None if the record is invalid."""
    if not isinstance(text, str) or len(text) > LARGEST_DEFERRED:
        return None
    try:
        found = json.loads(text) if text else {}
    except (ValueError, RecursionError):
        return None
    if not isinstance(found, dict) or not found.keys() <= set(PURPOSES):
        return None
    entries = {purpose: _entry(found[purpose]) for purpose in PURPOSES if purpose in found}
    read = {purpose: entry for purpose, entry in entries.items() if entry}
    return read if len(read) == len(entries) else None


def described(text: Any) -> list[str]:
    """Return a sentence for each deferral in the record of a host."""
    found = deferrals(text)
    if found is None:
        return [f"the record of its deferred changes can't be read ({DEFERRED})"]
    return [sentence(each.fields()) for each in found.values()]


def pending_changes(entry: Deferral) -> set[str]:
    """What is left for a later run: the states that are pending, as ROLE/STATE, or the text if it has none."""
    parts = (part.partition(": ") for part in entry.pending.split("; "))
    states = {f"{role}/{state.partition(' (')[0]}" for role, _separator, found in parts for state in found.split(", ")}
    return {entry.pending, *states}


def with_deferral(
    text: Any,
    purpose: str,
    change: str,
    users: Iterable[str],
    pending: str | Mapping[str, Sequence[str]],
    now: str,
    role: str = "",
    applied: bool = False,
) -> dict[str, Any]:
    """Return the file that also records this deferral, for managed_files. A repeated deferral keeps its start time.

    ``pending`` is a text, or by role what was pending before the play. ``role`` is the one that the deferral ends;
    ``applied``: only a restart of it is left.
    """
    known = deferrals(text) or {}
    since = known[purpose].since if purpose in known else now
    if not isinstance(pending, str):
        left = _ROLES[_ROLES.index(role) + applied :] if role in _ROLES else _ROLES
        pending = "; ".join(f"{each}: {', '.join(pending[each])}" for each in left if each in pending) or change
    entry = Deferral(since, _clean(change), tuple(map(_clean, users))[:_MOST_USERS], _clean(pending))
    return _file({**known, purpose: entry})


def without_deferral(text: Any, purpose: str) -> dict[str, Any]:
    """Return the file without the deferral for this purpose."""
    return _file({name: each for name, each in (deferrals(text) or {}).items() if name != purpose})


def _file(entries: Mapping[str, Deferral]) -> dict[str, Any]:
    if not entries:
        return {"path": DEFERRED, "state": "absent"}
    content = json.dumps({purpose: entry.fields() for purpose, entry in entries.items()}, sort_keys=True)
    return {"path": DEFERRED, "content": f"{content}\n", "mode": "0644"}


def _entry(found: Any) -> Deferral | None:
    if not isinstance(found, dict) or found.keys() != {"since", "change", "users", "pending"}:
        return None
    users = found["users"]
    if not isinstance(users, list) or len(users) > _MOST_USERS:
        return None
    texts = [found["since"], found["change"], found["pending"], *users]
    if not all(isinstance(each, str) and each == _clean(each) for each in texts) or moment(found["since"]) is None:
        return None
    return Deferral(found["since"], found["change"], tuple(users), found["pending"])


def _clean(text: str) -> str:
    return _UNPRINTABLE.sub("?", text)[:_LONGEST]
