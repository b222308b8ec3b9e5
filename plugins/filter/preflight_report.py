# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Callable

from ..plugin_utils._preflight.problem_text import full_text, note

DOCUMENTATION = r"""
name: preflight_report
short_description: Format the problems that preflight found as text
version_added: 0.1.0
author:
  - The gpulab.kubernetes maintainers (@gpulab)
description:
  - Writes one paragraph per host. A problem that several hosts share is listed once.
positional: _input, answers
options:
  _input:
    description: Problems, as returned by P(gpulab.kubernetes.preflight_problems#filter).
    type: list
    elements: dict
    required: true
  answers:
    description: >-
      File with the settings that keep the existing state - its C(path) (or empty), the C(text) to write (empty if there
      are no such settings), the text that the file already contained (C(found)), and the C(error) that occurred when it
      was written.
    type: dict
    version_added: 0.2.0
"""

EXAMPLES = r"""
- name: Fail with the report
  ansible.builtin.fail:
    msg: "{{ __preflight_problems | gpulab.kubernetes.preflight_report }}"
"""

RETURN = r"""
_value:
  description: The text.
  type: str
"""


def preflight_report(problems: Iterable[Mapping[str, Any]], answers: Mapping[str, str] | None = None) -> str:
    return full_text(problems, note(answers) if answers else "")


class FilterModule:
    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"preflight_report": preflight_report}
