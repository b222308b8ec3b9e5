# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Render a report as one self-contained HTML page."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined, TemplateNotFound

from .read import ReportError, read_report
from .view import page

TEMPLATE = "report.html.j2"


def render(report: Any, templates: Path) -> str:
    """Render a report (JSON text or parsed) with ``report.html.j2`` from ``templates``. Raises ReportError."""
    # Ansible's own templating does not escape: a node's name must remain text everywhere.
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
