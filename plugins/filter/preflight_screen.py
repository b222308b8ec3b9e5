# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Callable

from ..plugin_utils._inventory.access import typed
from ..plugin_utils._preflight.problem_text import full_text, known_fields, note, screen

DOCUMENTATION = r"""
name: preflight_screen
short_description: Format the problems that preflight found for one screen
version_added: 0.2.0
author:
  - The gpulab.kubernetes maintainers (@gpulab)
description:
  - Returns at most 18 lines of 80 columns. They name every cause with its hosts and what to do, as long as there are
    few enough causes, and are shortened otherwise.
positional: _input, answers, file, error
options:
  _input:
    description: Problems, as returned by P(gpulab.kubernetes.preflight_problems#filter).
    type: list
    elements: dict
    required: true
  answers:
    description: As for P(gpulab.kubernetes.preflight_report#filter).
    type: dict
  file:
    description: File with the full text, empty for none. The lines are then the full text.
    type: str
    default: ""
  error:
    description: The error that occurred when the file was written.
    type: str
    default: ""
seealso:
  - plugin: gpulab.kubernetes.preflight_report
    plugin_type: filter
"""

EXAMPLES = r"""
- name: Show what is wrong
  ansible.builtin.debug:
    msg: "{{ (__preflight_problems | gpulab.kubernetes.preflight_screen).lines }}"
"""

RETURN = r"""
_value:
  description: >-
    C(lines), the text for the file (C(full), empty if the lines show everything), and the C(problems) with the fields
    that every problem has.
  type: dict
"""


def preflight_screen(
    problems: Iterable[Mapping[str, Any]],
    answers: Mapping[str, str] | None = None,
    file: str = "",
    error: str = "",
) -> dict[str, Any]:
    found, noted = list(problems), note(answers) if answers else ""
    full, known = full_text(found, noted), known_fields(found)
    if not file:
        return {"lines": full.splitlines(), "full": "", "problems": known}
    lines, is_short = screen(found, noted, typed(file, Path.cwd()), error)
    return {"lines": lines, "full": full if is_short else "", "problems": known}


class FilterModule:
    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"preflight_screen": preflight_screen}
