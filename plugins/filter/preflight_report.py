# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import count
from typing import Any, Callable

DOCUMENTATION = r"""
name: preflight_report
short_description: Write the problems that preflight found for a person to read
version_added: 0.1.0
author:
  - The gpulab.kubernetes maintainers (@gpulab)
description:
  - Writes one paragraph per host. A problem that several hosts have stands there once.
positional: _input
options:
  _input:
    description: Problems, as P(gpulab.kubernetes.preflight_problems#filter) returns them.
    type: list
    elements: dict
    required: true
"""

EXAMPLES = r"""
- name: Stop with the report
  ansible.builtin.fail:
    msg: "{{ __preflight_problems | gpulab.kubernetes.preflight_report }}"
"""

RETURN = r"""
_value:
  description: The text.
  type: str
"""


def preflight_report(problems: Iterable[Mapping[str, Any]]) -> str:
    hosts: dict[tuple[str, ...], list[str]] = {}
    for problem in problems:
        keep = "; ".join(f"{name}: {value}" for name, value in problem.get("answers", {}).items())
        words = (*(problem[key] for key in ("what", "where", "why", "do")), keep)
        hosts.setdefault(words, []).append(problem["host"])
    paragraphs: dict[str, list[tuple[str, ...]]] = {}
    for words, names in hosts.items():
        paragraphs.setdefault(", ".join(filter(None, names)) or "The whole cluster", []).append(words)
    lines = [f"{len(hosts)} problem{'s' * (len(hosts) != 1)} found before anything was changed."]
    numbers = count(1)
    for title, group in paragraphs.items():
        lines += ["", title]
        for what, where, why, do, keep in group:
            lines += [f"  {next(numbers)}. {what}", f"     where: {where}", f"     why:   {why}", f"     do:    {do}"]
            lines += [f"     set:   {keep}"] if keep else []
    return "\n".join(lines) + "\n"


class FilterModule:
    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"preflight_report": preflight_report}
