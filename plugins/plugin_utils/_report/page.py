# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A report as one HTML page that needs nothing else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined, TemplateNotFound

from .read import ReportError, read_report
from .view import page

TEMPLATE = "report.html.j2"


def render(report: Any, templates: Path) -> str:
    """The page of a report (JSON, or read already), made of ``report.html.j2`` in ``templates``. Raises ReportError."""
    # Ansible's own templating escapes nothing: a node's name must stay a text wherever it appears.
    environment = Environment(
        loader=FileSystemLoader(templates),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    try:
        template = environment.get_template(TEMPLATE)
    except TemplateNotFound as error:
        raise ReportError(f"Error while rendering the report: there is no {error.name} in {templates}") from None
    return template.render(page=page(read_report(report)))
