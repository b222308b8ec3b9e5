# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is wrong and what to do about it: one shape from where it is found to where a person reads it. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any


@dataclass(frozen=True)
class Problem:
    """``kind`` names it for programs, and stays when words change; ``where``: the variable, file or device to look at.

    ``host`` is empty for what concerns the whole cluster, ``gpu`` (a UUID) for what concerns no single GPU.
    """

    kind: str
    what: str
    where: str
    why: str
    do: str
    host: str = ""
    gpu: str = ""

    def fields(self) -> dict[str, str]:
        """As a dictionary, without a GPU where there is none."""
        return {key: value for key, value in asdict(self).items() if value or key != "gpu"}

    def entry(self) -> dict[str, str]:
        """The fields as a report of acceptance holds them, where ``what`` is called cause."""
        fields = asdict(self)
        return {"cause": fields.pop("what"), **fields}


def read(entry: Mapping[str, Any]) -> Problem:
    """The problem of such an entry, whatever is missing: older versions wrote host, gpu and cause alone."""
    known = {key: value for key, value in entry.items() if isinstance(value, str)}
    rest = (known.get(key, "") for key in ("where", "why", "do", "host", "gpu"))
    return Problem(known.get("kind", ""), known.get("cause", ""), *rest)


def together(entries: Iterable[Mapping[str, Any]]) -> list[Problem]:
    """The problems of these entries. Those that differ in their GPU alone are one, which names all of them."""
    found: dict[Problem, list[str]] = {}
    for problem in map(read, entries):
        found.setdefault(replace(problem, gpu=""), []).append(problem.gpu)
    return [replace(problem, gpu=", ".join(filter(None, gpus))) for problem, gpus in found.items()]
