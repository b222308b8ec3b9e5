# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Format the progress of a run: durations, errors in full, the final summary. Pure.

Control characters are always removed: output of a host must not control the terminal.
"""

from __future__ import annotations

import json
import math
import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta, timezone
from typing import Any

BAD = ("failed", "unreachable")
EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
# Keys that are printed elsewhere, or don't help in an error.
NOISE = ("changed", "failed", "unreachable", "invocation", "warnings", "deprecations", "diff", "results")
# Ansible's prefix of messages of this collection, which are complete without it.
WRAPPED = re.compile(r"^Task failed: .*The \w+ plugin '[\w.]+' failed: (?=Error while )", re.DOTALL)
COPIES = ("msg", "exception", "stdout_lines", "stderr_lines", "attempts", "retries", "start", "end", "delta")


def seconds_of(created: Any, last: float) -> float:
    """Return a time in seconds since 1970; ``last`` if it can't be parsed or is earlier than that."""
    try:
        if isinstance(created, str):
            moment = datetime.fromisoformat(created)
            aware = moment if moment.tzinfo else moment.replace(tzinfo=timezone.utc)
            value = (aware - EPOCH) / timedelta(seconds=1)
        else:
            value = float(created)
    except (TypeError, ValueError, OverflowError):
        return last
    return max(last, value) if math.isfinite(value) else last


def duration(seconds: float) -> str:
    """Return a readable duration: 3.2 s, 48 s, 2 min 05 s."""
    if seconds < 59.5:
        return f"{seconds:.1f} s" if seconds < 9.95 else f"{seconds:.0f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest:02d} s"


def clock(seconds: float) -> str:
    """Return an elapsed time for a column: 0:07, 12:05."""
    minutes, rest = divmod(int(seconds), 60)
    return f"{minutes}:{rest:02d}"


def title_of(role: str) -> str:
    """Return a role's name as a title: Nvidia device plugin for nvidia_device_plugin."""
    words = role.replace("_", " ").strip()
    return words[:1].upper() + words[1:]


def names(hosts: Sequence[str], most: int = 4) -> str:
    rest = f" and {len(hosts) - most} more" if len(hosts) > most else ""
    return ", ".join(hosts[:most]) + rest


def printable(text: str) -> str:
    """Replace control characters other than line breaks and tabs."""
    return "".join(c if c.isprintable() or c in "\n\t" else " " if c == "\r" else "?" for c in text)


def one_line(text: str) -> str:
    return " ".join(printable(text).split())


def clip(text: str, width: int) -> str:
    """Return as much of a line as fits into ``width`` columns."""
    line = printable(text).replace("\n", " ").expandtabs()
    if columns(line) <= width:
        return line
    used, kept = 0, ""
    for char in line:
        used += columns(char)
        if used >= width:
            break
        kept += char
    return kept + "…" * (width > 0)


def columns(line: str) -> int:
    """Return the number of terminal columns of a line."""
    wide = sum(unicodedata.east_asian_width(char) in "WF" for char in line)
    return len(line) + wide - sum(unicodedata.combining(char) > 0 for char in line)


def what_failed(res: Mapping[Any, Any]) -> str:
    """Return a failed result in full: the message, then all other relevant keys."""
    censored = str(res.get("censored") or "").strip()
    if censored:
        return printable(censored)
    message = WRAPPED.sub("", _value(res.get("msg") or "no reason given"))
    label = res.get("_ansible_item_label", res.get("item"))
    lines = [message if label is None else f"{_value(label)}: {message}"]
    for key, value in res.items():
        if str(key) in (*NOISE, *COPIES) or str(key).startswith(("_", "ansible_")) or value in (None, "", [], {}):
            continue
        text = _value(value)
        if key != "item" and not (isinstance(value, str) and text.strip() in message):
            lines += [f"{key}:", *(f"  {line}" for line in text.splitlines())] if "\n" in text else [f"{key}: {text}"]
    return printable("\n".join(lines)).rstrip()


def said(res: Mapping[Any, Any]) -> str:
    """Return the message of a debug task, with a line for each element of a list."""
    if "msg" in res or res.get("censored"):
        message = res.get("msg", res.get("censored"))
        return printable("\n".join(map(_value, message)) if isinstance(message, (list, tuple)) else _value(message))
    shown = {str(k): v for k, v in res.items() if str(k) not in NOISE and not str(k).startswith("_")}
    return printable("\n".join(f"{key}: {_value(value)}" for key, value in shown.items()))


def _value(value: Any) -> str:
    if isinstance(value, str):
        return value
    try:
        return json.dumps(value, default=str, ensure_ascii=False, indent=2 if _is_large(value) else None)
    except (TypeError, ValueError, RecursionError):
        return str(value)


def _is_large(value: Any) -> bool:
    return isinstance(value, (dict, list)) and len(str(value)) > 100


def indented(text: str, by: str = "    ") -> str:
    return "\n".join(by + line if line else "" for line in text.splitlines())


def written(kind: str, host: str, text: str, elapsed: float) -> str:
    """Return a line of `Progress.feed` as it is displayed; elapsed: seconds since the run began."""
    if kind == "phase":
        return f"[{clock(elapsed)}] {text}"
    if kind == "message":
        return f"  {one_line(host)} says:\n{indented(text)}"
    first, *rest = text.split("\n", 1)
    word = {"ignored": "failed (ignored)"}.get(kind, kind.upper() if kind in BAD else kind)
    return f"  {one_line(host)}: {word}: {first}" + (f"\n{indented(rest[0])}" if rest else "")


def account(result: Mapping[str, Any], check: bool = False, verbose: bool = False, then: str = "") -> list[str]:
    """Return the summary of a run from `Progress.result`: phases, slowest tasks, hosts, how it ended.

    After a failure it is short unless ``verbose``, because the failure must be easy to see.

    check: the run was in check mode; then: what to do after a failure, if not to repeat the same command.
    """
    failed, lines = any(host["state"] in BAD for host in result["hosts"].values()), []
    if verbose or not failed:
        lines.append(f"Where the time went ({duration(result['seconds'])})")
        lines += [_spent(each["seconds"], each["title"]) for each in _worth(result["phases"])]
        lines.append("Slowest tasks")
        lines += [_spent(each["seconds"], _where(each)) for each in _worth(result["slowest"])]
    if verbose or not result.get("explained"):
        lines.append("Hosts")
        alike: dict[str, list[str]] = {}
        for name, host in sorted(result["hosts"].items()):
            alike.setdefault(_counts(host), []).append(one_line(name))
        width = max((len(names(hosts)) for hosts in alike.values()), default=0)
        lines += [f"  {names(hosts).ljust(width)}  {counts}" for counts, hosts in alike.items()]
    return [*lines, *_ending(result, check, then)]


def _ending(result: Mapping[str, Any], check: bool, then: str) -> list[str]:
    """Return how a run ended and what to do next, in one sentence."""
    hosts, time = result["hosts"], duration(result["seconds"])
    unreachable, failed = (
        [one_line(name) for name, host in sorted(hosts.items()) if host["state"] == state]
        for state in ("unreachable", "failed")
    )
    changes = sum(host["changed"] for host in hosts.values())
    if not hosts:
        return []
    if unreachable or failed:
        silent = f": {_and(unreachable)} can't be reached" * bool(unreachable)
        if result.get("explained"):
            return [f"Failed{silent}. Fix what is listed below, and run the playbook again."]
        where = f" on {names(failed)}" * bool(failed)
        return [f"Failed{where}{silent}: fix what is reported above, and {then or 'run the same command again'}."]
    if any(host["state"] == "unfinished" for host in hosts.values()):
        return [f"Interrupted after {time}: run the same command again to continue."]
    done = f"{changes} change{'s' * (changes != 1)}" if changes else "nothing to change"
    return [f"Succeeded in {time}: {done} on {len(hosts)} host{'s' * (len(hosts) != 1)}{' (predicted)' * check}."]


def _and(hosts: Sequence[str]) -> str:
    return " and ".join(hosts) if len(hosts) < 3 else names(hosts, 2)


def _worth(entries: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    return [each for each in entries if each["seconds"] >= 0.1]


def _spent(seconds: float, what: str) -> str:
    return f"{duration(seconds):>12}  {one_line(what)}"


def _where(task: Mapping[str, Any]) -> str:
    return f"{task['host'] + ': ' if task['host'] else ''}{task['task']} ({task['phase']})"


def _counts(host: Mapping[str, Any]) -> str:
    rest = ("skipped", "failed", "unreachable", "rescued", "ignored")
    counted = ", ".join(f"{word}={host[word]}" for word in ("ok", "changed", *rest) if host[word] or word not in rest)
    return f"{host['state']:<11}  {counted}"
