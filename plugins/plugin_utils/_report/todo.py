# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Format actions for the page: merge equal problems of several hosts, and separate commands from text. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from .._inventory.access import run_commands
from .read import text, texts


@dataclass(frozen=True)
class Piece:
    """Part of the advice; ``kind`` is text, code (within a sentence) or command (to be copied)."""

    kind: str
    text: str


@dataclass(frozen=True)
class Todo:
    """An action; ``hosts`` is empty if it concerns the cluster, and ``options`` are added to the commands in ``do``."""

    severity: str
    problem: str
    hosts: tuple[str, ...]
    gpu: str
    what: str
    do: str
    commands: tuple[str, ...] = ()
    options: str = ""

    @property
    def remedy(self) -> tuple[tuple[Piece, ...], ...]:
        return remedy(self.do, self.commands, self.options)

    @property
    def state(self) -> str:
        return "bad" if self.severity == "error" else "warn"

    @property
    def where(self) -> str:
        """Return the hosts, or their number if the names would be too long."""
        return ", ".join(self.hosts) if len(self.hosts) < 4 else f"{len(self.hosts)} hosts"

    @property
    def names(self) -> str:
        return ", ".join(self.hosts) if len(self.hosts) > 3 else ""


def todo(actions: list[dict[str, Any]], options: str = "") -> tuple[Todo, ...]:
    """Return the actions in order; equal ones of several hosts are merged at the position of the first."""
    found: dict[tuple[Any, ...], list[str]] = {}
    for each in actions:
        key = tuple(text(each.get(name)) for name in ("severity", "problem", "gpu", "what", "do"))
        found.setdefault((*key, tuple(texts(each.get("commands")))), []).append(text(each.get("host")))
    return tuple(
        Todo(severity, problem, tuple(dict.fromkeys(filter(None, hosts))), gpu, what, do, commands, options)
        for (severity, problem, gpu, what, do, commands), hosts in found.items()
    )


def remedy(do: str, commands: Iterable[str] = (), options: str = "") -> tuple[tuple[Piece, ...], ...]:
    """Return the paragraphs of an advice: sentences, and each command that follows a colon or another such command."""
    paragraphs: list[list[Piece]] = [[]]
    for command in filter(None, commands):
        before, found, rest = do.partition(command)
        if not found:
            continue
        paragraphs[-1].append(Piece("text", before))
        if before.endswith(": ") or (before == ", " and len(paragraphs) > 1):
            paragraphs += [[Piece("command", command)], []]
        else:
            paragraphs[-1].append(Piece("code", command))
        do = rest
    paragraphs[-1].append(Piece("text", do))
    return tuple(pieces for each in paragraphs if (pieces := tuple(_tidy(each, options))))


def _tidy(pieces: list[Piece], options: str) -> Iterator[Piece]:
    """Yield the pieces without the punctuation that is left over around commands."""
    for place, piece in enumerate(pieces):
        words = piece.text
        if piece.kind == "text" and place == 0:
            words = words.lstrip(".,; ")
            words = words[:1].upper() + words[1:]
        if words:
            yield Piece(piece.kind, run_commands(words, options))
