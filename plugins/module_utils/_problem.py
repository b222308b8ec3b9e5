# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is wrong and what to do about it: one shape from where it is found to where a person reads it. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any


@dataclass(frozen=True)
class Remedy:
    """``settings`` are variables with their new values; ``host`` says what must be done on the host before.

    Keys of ``host``: ``branches`` (first and last, as 418-470) and ``modules`` of a driver to install, ``packages`` to
    install, ``signing_key`` to enroll, ``components`` for the distribution whose components apt lacks, ``vfio`` for the
    address of a GPU to reserve for virtual machines.
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
    """``kind`` names it for programs, and stays when words change; ``where``: the variable, file or device to look at.

    ``host`` is empty for what concerns the whole cluster, ``gpu`` (a UUID) for what concerns no single GPU.
    ``answers``: variables and the values with which what is there is kept, and this problem does not occur again.
    ``remedies``: changes after which this problem does not occur again, the best one first.
    ``commands`` are those in ``do``, in their order.
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
        """Return a dictionary, without a GPU, answers, remedies and commands where there are none."""
        remedies = [remedy.fields() for remedy in self.remedies]
        fields = {**asdict(self), "answers": dict(self.answers), "remedies": remedies, "commands": list(self.commands)}
        return {key: value for key, value in fields.items() if value or key not in ("gpu", *_OPTIONAL)}

    def entry(self) -> dict[str, Any]:
        """Return the fields as a report of acceptance holds them, where ``what`` is called cause."""
        fields = {key: value for key, value in asdict(self).items() if key not in _OPTIONAL}
        return {"cause": fields.pop("what"), **fields, **({"commands": list(self.commands)} if self.commands else {})}


def read(entry: Mapping[str, Any]) -> Problem:
    """The problem of such an entry, whatever is missing: older versions wrote host, gpu and cause alone."""
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
    return "".join(parts), tuple(parts[1::2])


def mark_commands(text: str, commands: Iterable[str]) -> str:
    """Enclose these commands in backticks, where they occur."""
    for command in commands:
        text = text.replace(command, f"`{command}`")
    return text


def together(entries: Iterable[Mapping[str, Any]]) -> list[Problem]:
    """The problems of these entries. Those that differ in their GPU alone are one, which names all of them."""
    found: dict[Problem, list[str]] = {}
    for problem in map(read, entries):
        found.setdefault(replace(problem, gpu=""), []).append(problem.gpu)
    return [replace(problem, gpu=", ".join(filter(None, gpus))) for problem, gpus in found.items()]
