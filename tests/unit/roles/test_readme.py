# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The READMEs of roles have common sections, and name existing entry points."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROLES = Path(__file__).resolve().parents[3] / "roles"
READMES = sorted(ROLES.glob("*/README.md"))
SKELETON = ["Requirements", "Example", "Entry points", "What it changes", "Removal", "Limits"]


@pytest.mark.parametrize("readme", READMES, ids=lambda path: path.parent.name)
def test_sections_have_the_common_order(readme: Path) -> None:
    headings = re.findall(r"^## (.+)$", readme.read_text(), re.MULTILINE)
    known = [heading for heading in headings if heading in SKELETON]
    assert known == sorted(known, key=SKELETON.index)
    assert headings[:2] == SKELETON[:2]
    assert "../../docs/variables.md#" in readme.read_text()


@pytest.mark.parametrize("readme", READMES, ids=lambda path: path.parent.name)
def test_named_entry_points_exist(readme: Path) -> None:
    section = re.search(r"^## Entry points\n(.*?)(?=^## |\Z)", readme.read_text(), re.MULTILINE | re.DOTALL)
    cells = re.findall(r"^\| (`.+?`) \|", section[1], re.MULTILINE) if section else []
    for entry in re.findall(r"`(\w+)`", " ".join(cells)):
        assert (readme.parent / "tasks" / f"{entry}.yml").is_file(), f"{readme.parent.name} has no entry point {entry}"
