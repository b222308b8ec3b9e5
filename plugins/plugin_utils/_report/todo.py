# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What to do, as a person reads it: equal problems of several hosts are one, and commands stand alone. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from .._inventory.access import run_commands
from .read import text

_PROGRAMS = (
    "ansible-playbook",
    "ansible",
    "crictl",
    "dkms",
    "journalctl",
    "kubeadm",
    "kubectl",
    "nvidia-smi",
    "sudo",
    "systemctl",
)
# A command ends where its sentence or clause does; a comma or a dot within a word belongs to it.
_COMMAND = rf"(?:{'|'.join(_PROGRAMS)})(?: (?:[^\s,;().]|[,.](?=[^\s,;().]))+)*(?=\.?\s*$|\. |[,;)])"
_PLACES = re.compile(rf"(?<=: )(?P<block>{_COMMAND}(?:, {_COMMAND})*)|(?<=\()(?P<inline>{_COMMAND})(?=\))")


@dataclass(frozen=True)
class Piece:
    """``kind`` is text, code (within a sentence) or command (to be copied)."""

    kind: str
    text: str


@dataclass(frozen=True)
class Todo:
    """``hosts`` is empty for what concerns the cluster; ``options`` are for the commands in ``do``."""

    severity: str
    problem: str
    hosts: tuple[str, ...]
    gpu: str
    what: str
    do: str
    options: str = ""

    @property
    def remedy(self) -> tuple[tuple[Piece, ...], ...]:
        return remedy(self.do, self.options)

    @property
    def state(self) -> str:
        return "bad" if self.severity == "error" else "warn"

    @property
    def where(self) -> str:
        """Its hosts, or how many there are when their names don't fit."""
        return ", ".join(self.hosts) if len(self.hosts) < 4 else f"{len(self.hosts)} hosts"

    @property
    def names(self) -> str:
        return ", ".join(self.hosts) if len(self.hosts) > 3 else ""


def todo(actions: list[dict[str, str]], options: str = "") -> tuple[Todo, ...]:
    """The actions in their order, each at the place of the first that says the same about another host."""
    found: dict[tuple[str, ...], list[str]] = {}
    for each in actions:
        key = tuple(text(each.get(name)) for name in ("severity", "problem", "gpu", "what", "do"))
        found.setdefault(key, []).append(text(each.get("host")))
    return tuple(
        Todo(severity, problem, tuple(dict.fromkeys(filter(None, hosts))), gpu, what, do, options)
        for (severity, problem, gpu, what, do), hosts in found.items()
    )


def remedy(do: str, options: str = "") -> tuple[tuple[Piece, ...], ...]:
    """The paragraphs of an advice: sentences, and between them the commands, one in each, with ``options``."""
    paragraphs: list[list[Piece]] = [[]]
    place = 0
    for found in _PLACES.finditer(do):
        paragraphs[-1].append(Piece("text", do[place : found.start()]))
        if found["inline"]:
            paragraphs[-1].append(Piece("code", found["inline"]))
        else:
            paragraphs += [[Piece("command", each)] for each in re.split(rf", (?={_COMMAND})", found["block"])] + [[]]
        place = found.end()
    paragraphs[-1].append(Piece("text", do[place:]))
    return tuple(pieces for each in paragraphs if (pieces := tuple(_tidy(each, options))))


def _tidy(pieces: list[Piece], options: str) -> Iterator[Piece]:
    """Without the punctuation that a command leaves behind."""
    for place, piece in enumerate(pieces):
        words = piece.text
        if piece.kind == "text" and place == 0:
            words = words.lstrip(".,; ")
            words = words[:1].upper() + words[1:]
        if words:
            yield Piece(piece.kind, run_commands(words, options))
