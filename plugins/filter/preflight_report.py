# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import count
from typing import Any, Callable

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
    note = _note(answers) if answers else ""
    return "\n".join([*lines, *(["", note] if note else [])]) + "\n"


def _note(answers: Mapping[str, str]) -> str:
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


class FilterModule:
    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"preflight_report": preflight_report}
