# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Data of a running playbook: phases, hosts, tasks. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

from .text import title_of

COUNTS = ("ok", "changed", "skipped", "failed", "unreachable", "ignored", "rescued")


class Line(NamedTuple):
    """A line that stays on the screen, of one host or several.

    Kinds: phase, changed, message, ignored, failed, unreachable.
    """

    kind: str
    host: str
    text: str


@dataclass
class Phase:
    play: str
    role: str = ""
    first: bool = True
    expected: int | None = None
    seconds: float = 0.0
    tasks: int = 0
    changed: int = 0
    # Number of the play in the run, such as 3/9, if known.
    number: str = ""

    @property
    def heading(self) -> str:
        return f"{self.number} {self.title}".strip()

    @property
    def title(self) -> str:
        return self.play if self.first else title_of(self.role)

    def described(self) -> dict[str, Any]:
        figures = {"seconds": round(self.seconds, 2), "tasks": self.tasks, "changed": self.changed}
        return {"title": self.title, "play": self.play, "role": self.role, **figures}


class Row(NamedTuple):
    """The display row of a host: its phase, the number of finished tasks, its task or what it waits for."""

    host: str
    phase: Phase
    done: int
    doing: str
    since: float


@dataclass
class Host:
    """A host, and since when (seconds since 1970) it works on the task; without a task it waits for the others.

    lost: failed or unreachable in a task whose failure is explained at the end of the run.
    """

    name: str
    phase: Phase | None = None
    task: str = ""
    since: float = 0.0
    attempt: str = ""
    state: str = "running"
    lost: str = ""
    counts: dict[str, int] = field(default_factory=lambda: dict.fromkeys(COUNTS, 0))


@dataclass
class Task:
    name: str
    phase: Phase
    started: float
    host: str = ""
    seconds: float = 0.0
