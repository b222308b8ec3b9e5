# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A problem with its remedies, in one form from its detection to its report. Pure functions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any


@dataclass(frozen=True)
class Remedy:
    """``settings`` are variables with new values; ``host`` is what must be done on the host before.

    Keys of ``host``: ``branches`` (first and last, such as 418-470) and ``modules`` of a driver to install,
    ``packages`` to install, ``signing_key`` to enroll, ``components`` for the distribution whose components apt lacks,
    ``vfio`` for the address of a GPU to reserve for virtual machines.
    """

    settings: tuple[tuple[str, Any], ...] = ()
    host: tuple[tuple[str, str], ...] = ()

    def __hash__(self) -> int:
        return hash(repr(self))

    def fields(self) -> dict[str, Any]:
        return {"settings": dict(self.settings), **({"host": dict(self.host)} if self.host else {})}


_OPTIONAL = ("answers", "remedies", "commands")


@dataclass(frozen=True)
class Problem:
    """A problem; ``kind`` identifies it for programs and does not change with the wording.

    ``where`` is the variable, file or device to check. ``host`` is empty if the whole cluster is concerned, ``gpu`` (a
    UUID) if no single GPU is. ``answers`` are variables and values that keep the existing state and prevent this
    problem. ``remedies`` are changes that prevent it, the best one first. ``commands`` are those in ``do``, in their
    order.
    """

    kind: str
    what: str
    where: str
    why: str
    do: str
    host: str = ""
    gpu: str = ""
    answers: tuple[tuple[str, str], ...] = ()
    remedies: tuple[Remedy, ...] = ()
    commands: tuple[str, ...] = ()

    def fields(self) -> dict[str, Any]:
        """Return a dictionary; empty ``gpu``, ``answers``, ``remedies`` and ``commands`` are omitted."""
        remedies = [remedy.fields() for remedy in self.remedies]
        fields = {**asdict(self), "answers": dict(self.answers), "remedies": remedies, "commands": list(self.commands)}
        return {key: value for key, value in fields.items() if value or key not in ("gpu", *_OPTIONAL)}

    def entry(self) -> dict[str, Any]:
        """Return the fields as in a report of acceptance, where ``what`` is called cause."""
        fields = {key: value for key, value in asdict(self).items() if key not in _OPTIONAL}
        return {"cause": fields.pop("what"), **fields, **({"commands": list(self.commands)} if self.commands else {})}


def read(entry: Mapping[str, Any]) -> Problem:
    """Parse an entry of a report. Fields may be missing: older versions only wrote host, gpu and cause."""
    known = {key: value for key, value in entry.items() if isinstance(value, str)}
    kind, what, where, why, do, host, gpu = (
        known.get(key, "") for key in ("kind", "cause", "where", "why", "do", "host", "gpu")
    )
    listed = entry.get("commands")
    commands = [each for each in listed if isinstance(each, str) and each in do] if isinstance(listed, list) else []
    return Problem(kind, what, where, why, do, host, gpu, commands=tuple(filter(None, commands)))


def make_problem(kind: str, what: str, where: str, why: str, do: str, host: str = "", gpu: str = "") -> Problem:
    """Return a problem whose commands are between backticks in the given ``do``."""
    plain, commands = split_commands(do)
    return Problem(kind, what, where, why, plain, host, gpu, commands=commands)


def split_commands(text: str) -> tuple[str, tuple[str, ...]]:
    """Return a text without its backticks, and the commands that they enclosed."""
    parts = text.split("`")
    return "".join(parts), tuple(filter(None, parts[1::2]))


def mark_commands(text: str, commands: Iterable[str]) -> str:
    """Enclose these commands in backticks wherever they occur."""
    for command in commands:
        text = text.replace(command, f"`{command}`")
    return text


def together(entries: Iterable[Mapping[str, Any]]) -> list[Problem]:
    """Return the problems in entries of a report; those that differ only in their GPU are merged into one."""
    found: dict[Problem, list[str]] = {}
    for problem in map(read, entries):
        found.setdefault(replace(problem, gpu=""), []).append(problem.gpu)
    return [replace(problem, gpu=", ".join(filter(None, gpus))) for problem, gpus in found.items()]
