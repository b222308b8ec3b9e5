# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from pathlib import Path
from typing import Any, Callable

from ..plugin_utils._report.page import render

DOCUMENTATION = r"""
name: report_page
short_description: Render a report as an HTML page
version_added: 0.2.0
author:
  - The gpulab.kubernetes maintainers (@gpulab)
description:
  - Returns a single HTML page that loads no other files and runs no scripts. All contents of the report are escaped.
  - Input that is not a report is an error.
positional: _input, templates
options:
  _input:
    description: Report of the role C(acceptance), as a dictionary or as JSON.
    type: raw
    required: true
  templates:
    description: Directory of C(report.html.j2) on the controller.
    type: path
    required: true
seealso:
  - plugin: gpulab.kubernetes.report_state
    plugin_type: filter
"""

EXAMPLES = r"""
- name: Create a page from a report
  ansible.builtin.copy:
    content: "{{ lookup('ansible.builtin.file', 'gpulab-report.json') | gpulab.kubernetes.report_page(templates) }}"
    dest: gpulab-report.html
    mode: "0644"
  delegate_to: localhost
"""

RETURN = r"""
_value:
  description: The page.
  type: str
"""


def report_page(report: Any, templates: str) -> str:
    return render(report, Path(templates))


class FilterModule:
    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"report_page": report_page}
