# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read NVIDIA's Xid messages from journalctl's JSON or dmesg's text. Pure functions; any text is accepted.

Forms of the message: observed from branch 173 (``NVRM: Xid (0003:00): 13, ...``) to 610, and kernel_rc.c and journal.c
of github.com/NVIDIA/open-gpu-kernel-modules.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from .._nvidia_smi.values import bus_id
from .._problem import Problem
from .._words import written
from . import xid_catalog as data
from .kernel_records import BROKEN, LONGEST, Record, dmesg_records, journal_records

_ADDRESS = r"(?:PCI:)?(?P<address>(?:[0-9A-Fa-f]{4,8}:)?(?:00)?[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2})(?:\.[0-7])?"
_XID = re.compile(
    rf"NVRM:\s{{0,9}}Xid\s{{0,9}}\({_ADDRESS}(?:\s{{1,9}}GPU-I:\d{{1,3}})?(?:\s{{1,9}}GPU-CI:\d{{1,3}})?\)"
    r":\s{0,9}(?P<xid>\d{1,4})(?!\d)(?:,?\s{0,9}(?P<text>.*))?"
)
# The driver writes this in addition to Xid 79, or instead of it if it could not write that. Before the driver has
# initialized a GPU, it is one record of up to three lines, each with its own NVRM (rm_is_supported_device of osapi.c).
_FALLEN = re.compile(
    rf"NVRM:\s{{0,9}}(?:The NVIDIA )?GPU (?:at )?{_ADDRESS}:?\s{{1,9}}"
    r"(?:\(PCI ID: [^)]{0,20}\) installed in this system )?(?P<text>(?:GPU )?has fallen off the bus.*)"
)
_BEGIN = re.compile(r"NVRM:\s{0,9}The NVIDIA GPU ")
_MOST_LINES = 3
# Within this many seconds, the message belongs to the same event as Xid 79.
_SAME_EVENT_S = 5
# This many messages of one number within this many seconds are more than a link error that was corrected.
_STORM, _STORM_TIME = 10, 60
_PROCESS = re.compile(r"pid=(?P<pid>'[^']{0,40}'|[^,]{0,40}),\s{0,9}(?:name=(?P<name>[^,]{0,200})(?:,\s{0,9}|$))?")
_RECOVERY = re.compile(r"recovery action changed from .{0,60}\) to 0x[0-9A-Fa-f]{1,8} \((?P<action>[^)]{1,60})\)")


@dataclass(frozen=True)
class Event:
    """One message. ``address`` has an 8-digit domain and is in upper case; ``time`` is in seconds, or None.

    ``companion``: the driver writes it in addition to Xid 79, about the same event.
    """

    xid: int
    address: str
    text: str
    time: float | None = None
    pid: int | None = None
    process: str | None = None
    companion: bool = False


@dataclass(frozen=True)
class Finding:
    """All messages of one number about one GPU. ``over``: the driver reported later that no recovery is needed."""

    xid: int
    address: str
    severity: str
    what: str
    advice: str
    text: str
    count: int
    first: float | None
    last: float | None
    pid: int | None
    process: str | None
    over: bool

    def fields(self) -> dict[str, Any]:
        return {
            "xid": self.xid,
            "pci_bus_id": self.address,
            "severity": self.severity,
            "what": self.what,
            "advice": self.advice,
            "message": self.text,
            "count": self.count,
            "first": written(self.first),
            "last": written(self.last),
            "pid": self.pid,
            "process": self.process,
            "over": self.over,
        }


def read_message(line: str, time: float | None = None) -> Event | None:
    """Return the Xid in a record of the kernel log, which may have several lines; None for other records."""
    if len(line) > LONGEST or "NVRM:" not in line:
        return None
    match = _XID.search(line)
    fallen = None if match else _FALLEN.search(_in_one_line(line))
    found = match or fallen
    if found is None:
        return None
    text = (found["text"] or "").strip()
    process = _PROCESS.match(text)
    return Event(
        xid=int(match["xid"]) if match else data.LOST,
        address=bus_id(f"{found['address']}.0") or "",
        text=text[process.end() :].strip() if process else text,
        time=time,
        pid=_number(process["pid"]) if process else None,
        process=_name(process["name"]) if process else None,
        companion=match is None,
    )


def read_journal(text: str) -> list[Event]:
    """Return the events in the output of ``journalctl --output=json``."""
    return list(read_records(journal_records(text)))


def read_dmesg(text: str) -> list[Event]:
    """Return the events in dmesg's output, with times if ``--time-format iso`` was used."""
    return list(read_records(dmesg_records(text)))


def findings(events: Iterable[Event], since: float | None = None) -> list[Finding]:
    """Summarize the events by GPU and number. Events before ``since`` are skipped."""
    kept = [event for event in events if since is None or event.time is None or event.time >= since]
    groups: dict[tuple[str, int], list[Event]] = {}
    # For each GPU, the position of the last message that no recovery is needed.
    recovered: dict[str, int] = {}
    places: dict[tuple[str, int], int] = {}
    for place, event in enumerate(kept):
        groups.setdefault((event.address, event.xid), []).append(event)
        places[event.address, event.xid] = place
        if event.xid == data.RECOVERY and recovery_action(event.text) == "None":
            recovered[event.address] = place
    return [
        _finding(group, over=places[key] <= recovered.get(key[0], -1))
        for key, group in sorted(groups.items(), key=lambda item: item[0])
    ]


def recovery_action(text: str) -> str | None:
    """Return the requested recovery action in an Xid 154 message; None for other messages."""
    match = _RECOVERY.search(text)
    return match["action"] if match else None


def _finding(group: list[Event], over: bool) -> Finding:
    last = group[-1]
    known = data.XIDS.get(last.xid) or data.Xid("a number that this collection does not know", data.LOOK_UP)
    # Only the last recovery request counts; of errors, the most severe.
    judged = [_judge(event, known) for event in (group[-1:] if last.xid == data.RECOVERY else group)]
    severity, advice = max(judged, key=lambda each: data.SEVERITIES.index(each[0]))
    if severity == data.INFO and last.xid in data.NVLINK5 and _is_storm(group):
        severity, advice = data.STORM
    times = [event.time for event in group if event.time is not None]
    return Finding(
        xid=last.xid,
        address=last.address,
        severity=severity,
        what=known.what,
        advice=advice,
        text=last.text,
        count=_count(group),
        first=min(times, default=None),
        last=max(times, default=None),
        pid=last.pid,
        process=last.process,
        over=over,
    )


def _judge(event: Event, known: data.Xid) -> tuple[str, str]:
    severity, advice = data.ACTIONS[known.action]
    if event.xid in data.NVLINK5 and not re.search(r"\bFatal\b", event.text):
        return data.ACTIONS[data.NOTHING]
    if event.xid == data.RECOVERY:
        action = recovery_action(event.text)
        if action == "None":
            return data.ACTIONS[data.NOTHING]
        if action:
            wanted = data.ACTIONS[data.REBOOT if "Reboot" in action else data.RESET]
            return data.CRITICAL, f"The driver requests: {action}. {wanted[1]}"
    return severity, advice


def _count(group: Sequence[Event]) -> int:
    """Return the number of events; a companion within seconds of its Xid is not counted."""
    own = [event.time for event in group if not event.companion]
    return len(own) + sum(
        not any(None in (event.time, time) or abs((event.time or 0) - (time or 0)) <= _SAME_EVENT_S for time in own)
        for event in group
        if event.companion
    )


def _is_storm(group: Sequence[Event]) -> bool:
    """Return whether there were at least _STORM events within a minute, or at all if they have no times."""
    times = sorted(event.time for event in group if event.time is not None)
    if not times:
        return len(group) >= _STORM
    return any(late - early <= _STORM_TIME for early, late in zip(times, times[_STORM - 1 :]))


def _in_one_line(text: str) -> str:
    begin = _BEGIN.search(text)
    return f"{begin[0]}{BROKEN.sub(' ', text[begin.end() :])}" if begin else text


def read_records(records: Iterable[Record]) -> Iterator[Event]:
    """Yield the events in the records, including messages whose lines are separate records, as in dmesg."""
    lines: list[str] = []
    since: float | None = None
    for text, time in records:
        event = read_message(text, time)
        if _BEGIN.search(text):
            lines, since = [text], time
        elif lines and not event and "NVRM:" in text:
            # Each line may have its own time.
            lines.append(text[text.index("NVRM:") :])
            event = read_message("\n".join(lines), since)
        if event or len(lines) == _MOST_LINES:
            lines = []
        if event:
            yield event


def _number(text: str | None) -> int | None:
    bare = (text or "").strip("' ")
    return int(bare) if bare.isascii() and bare.isdigit() else None


def _name(text: str | None) -> str | None:
    bare = (text or "").strip("' ")
    return None if bare in ("", "<unknown>") else bare


def problems_of(found: Iterable[Finding]) -> Iterator[Problem]:
    """Yield each current critical finding as a problem of its GPU, with a text that is identical in every run."""
    for each in found:
        if each.severity == data.CRITICAL and not each.over:
            yield Problem(f"xid_{each.xid}", f"Xid {each.xid}: {each.what}", "", "", each.advice)
