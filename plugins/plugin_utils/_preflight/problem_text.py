# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Format the problems of a run: in full for a file, and on one screen with every cause and its remedy. Pure.

Equal problems of several hosts are one cause. Its texts apply to all its hosts, so names and addresses that differ from
host to host are replaced by HOST and ADDRESS.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any

from ...module_utils._words import counted
from .._progress.text import clip, columns, names, one_line
from .access import CAUSES, UNREACHABLE, UNREADABLE

# A terminal has 24 lines: the other six are for the prompt and for lines that the callback adds.
LINES, COLUMNS = 18, 80
_NOT_READ = frozenset({"host_unreachable", "host_unreadable"})
_ACCESS = _NOT_READ | {cause.kind for cause in CAUSES}
_ADDRESS = re.compile(
    r"(?<=\w@)[\w.:%-]*\w|(?<![\w.])(?:\d{1,3}(?:\.\d{1,3}){3}|[0-9a-f]{0,4}(?::[0-9a-f]{0,4}){3,7})\b"
)
FIELDS = ("kind", "host", "what", "where", "why", "do")
_QUOTED = 60


@dataclass(frozen=True)
class Cause:
    """A problem and its hosts, none if it concerns the whole cluster. ``messages`` differ from host to host."""

    hosts: tuple[str, ...]
    what: str
    where: str
    why: str
    do: str
    keep: str
    short: str
    messages: tuple[str, ...] = ()

    @property
    def title(self) -> str:
        return ", ".join(self.hosts) or "The whole cluster"

    def fields(self) -> Iterator[tuple[str, str]]:
        """Yield the fields after ``what`` with their names."""
        yield from (("where", self.where), ("why", self.why), ("do", self.do))
        if self.keep:
            yield "set", self.keep


def causes(problems: Iterable[Mapping[str, Any]]) -> list[Cause]:
    """Return the causes of problems (see the filter preflight_problems) in the order of their first problems."""
    found: dict[tuple[str, ...], list[Mapping[str, Any]]] = {}
    for problem in problems:
        kind, what = str(problem.get("kind", "")), _shared(problem, "what")
        # SSH's messages also differ in banners, so only those of unrecognized causes are compared.
        what = what.partition(": ")[0] if kind in _ACCESS - _NOT_READ else what
        words = (kind, what, problem["where"], problem["why"], _shared(problem, "do"), _keep(problem))
        found.setdefault(words, []).append(problem)
    return [_cause(same) for same in found.values()]


def _cause(same: Sequence[Mapping[str, Any]]) -> Cause:
    first = same[0]
    hosts = tuple(dict.fromkeys(problem["host"] for problem in same if problem["host"]))
    what, do = (first[name] if _alike(same, name) else _shared(first, name) for name in ("what", "do"))
    messages = () if _alike(same, "what") else tuple(f"{problem['host']}: {problem['what']}" for problem in same)
    short = _short(what) if first.get("kind") in _ACCESS else what
    return Cause(hosts, what, first["where"], first["why"], do, _keep(first), short, messages)


def _alike(same: Sequence[Mapping[str, Any]], name: str) -> bool:
    return len({problem[name] for problem in same}) == 1


def _keep(problem: Mapping[str, Any]) -> str:
    return "; ".join(f"{name}: {value}" for name, value in problem.get("answers", {}).items())


def _shared(problem: Mapping[str, Any], name: str) -> str:
    """Return a text about one host as a text about all hosts of its cause."""
    host, text = problem["host"], str(problem[name])
    named = re.sub(rf"(?<![\w.@-]){re.escape(host)}(?![\w-])", "HOST", text) if host else text
    return _ADDRESS.sub("ADDRESS", named) if problem.get("kind") in _ACCESS else named


def _short(what: str) -> str:
    """Return what is wrong; for a host that can't be reached or read, with the end of the message."""
    head, _colon, message = what.partition(": ")
    last = re.split(r": | / ", one_line(message).rstrip(".: "))[-1]
    return f"{head}: {last}" if head in (UNREACHABLE, UNREADABLE) and 0 < len(last) <= _QUOTED else head


def note(answers: Mapping[str, str]) -> str:
    """Return a note about the file of settings that keep existing software (see the filter preflight_report)."""
    path, text = answers["path"], answers["text"].strip()
    if not text:
        return f"{path} was not written: there is no setting that keeps the existing state." if path else ""
    if not path:
        return "To write these settings to a file for review, run this again with -e preflight_answers=FILE."
    if answers["found"].strip() == text:
        return f"The settings are in {path}. Review this file, and run this again with -e @{path}."
    if answers["found"].strip():
        return f"{path} already exists and was not changed. Choose another file for the settings."
    return f"Error while writing {path}: {answers['error'] or 'the file is empty'}."


def known_fields(problems: Iterable[Mapping[str, Any]]) -> list[dict[str, str]]:
    """Return only the fields that every problem has, for programs."""
    return [{name: str(problem.get(name, "")) for name in FIELDS} for problem in problems]


def full_text(problems: Iterable[Mapping[str, Any]], noted: str = "") -> str:
    """Return all problems in full, for a file or a log: a paragraph for each group of hosts."""
    found = causes(problems)
    paragraphs: dict[str, list[Cause]] = {}
    for cause in found:
        paragraphs.setdefault(cause.title, []).append(cause)
    lines, numbers = [_headline(found)], count(1)
    for title, group in paragraphs.items():
        lines += ["", title]
        for cause in group:
            lines.append(f"  {next(numbers)}. {cause.messages[0] if cause.messages else cause.what}")
            lines += [f"     {message}" for message in cause.messages[1:]]
            lines += [f"     {f'{name}:':<6} {text}" for name, text in cause.fields()]
    return "\n".join([*lines, *(["", noted] if noted else [])]) + "\n"


def screen(
    problems: Iterable[Mapping[str, Any]], noted: str = "", file: str = "", error: str = ""
) -> tuple[list[str], bool]:
    """Return at most LINES lines of at most COLUMNS columns, and whether something is left out.

    file: where the full text is, or could not be written because of ``error``.
    """
    found = causes(problems)
    ending = _wrapped(noted, "", "", False)
    whole = _whole(found, ending)
    if _rows(whole) <= LINES:
        return whole, False
    end = [*([""] if ending else []), *ending]
    if error:
        # The file could not be written, so show everything.
        return [*_whole(found, []), *end, f"Error while writing {file}: {clip(error, 2 * COLUMNS)}"], False
    # A path is not wrapped, so that it can be copied; the terminal wraps it.
    end += [f"Every problem in full: {file}"] * bool(file)
    return [_headline(found), *_brief(found, LINES - 1 - _rows(end)), *end], True


def _headline(found: Sequence[Cause]) -> str:
    return f"{counted(len(found), 'problem')} found before anything was changed."


def _whole(found: Sequence[Cause], ending: Sequence[str]) -> list[str]:
    lines, numbers, last = [_headline(found)], count(1), None
    for cause in found:
        title = names(cause.hosts) or cause.title
        lines += ["", *_wrapped(title, "", "  ")] if cause.hosts != last else []
        last = cause.hosts
        lines += _wrapped(cause.short if cause.messages else cause.what, f"  {next(numbers)}. ", " " * 5)
        for name, text in cause.fields():
            lines += _wrapped(text, f"     {f'{name}:':<6} ", " " * 12)
    return [*lines, *([""] if ending else []), *ending]


def _brief(found: Sequence[Cause], room: int) -> list[str]:
    """Return every cause with its remedy in ``room`` lines; the longest are shortened, or remedies left out."""
    parts = []
    for cause in found:
        parts.append(_wrapped(f"{names(cause.hosts, 3) or cause.title}: {cause.short}", "", "    "))
        parts.append(_wrapped(f"{cause.do}; or set {cause.keep}" if cause.keep else cause.do, "  do: ", " " * 6))
    room = max(room, 1)
    if len(parts) > room:
        parts = parts[::2]
    for _line in range(sum(map(len, parts)) - room):
        longest = max(range(len(parts)), key=lambda place: (len(parts[place]), place))
        parts[longest] = _shortened(parts[longest])
    left_out = min(len(parts) - room + 1, len(parts)) if len(parts) > room else 0
    lines = [line for part in parts[: len(parts) - left_out] for line in part]
    return [*lines, f"and {left_out} more"] if left_out else lines


def _shortened(lines: list[str]) -> list[str]:
    """Return lines without the last one, with dots in its place."""
    *kept, last = lines[:-1] or lines
    last = last.removesuffix(" …")
    return [*kept, f"{last if len(last) <= COLUMNS - 2 else _cut(last)} …"]


def _cut(line: str) -> str:
    """Return a line without its last word, or truncated if that word is most of the line."""
    head = line.rpartition(" ")[0]
    return head if len(head) > COLUMNS // 2 else line[: COLUMNS - 2]


def _wrapped(text: str, first: str, others: str, breaks: bool = True) -> list[str]:
    """Return a text wrapped into lines; words longer than a line are broken or kept whole."""
    line = one_line(text)
    # Wide characters take two columns, so allow for half as many.
    width = COLUMNS if columns(line) <= len(line) else COLUMNS // 2
    words = textwrap.TextWrapper(
        width, first, others, break_on_hyphens=False, break_long_words=breaks, drop_whitespace=True
    )
    return words.wrap(line)


def _rows(lines: Sequence[str]) -> int:
    """Return how many terminal rows these lines need."""
    return sum(max(-(-columns(line) // COLUMNS), 1) for line in lines)
