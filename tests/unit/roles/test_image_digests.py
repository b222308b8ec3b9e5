# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Images in the roles' pods are pinned by digest if it is known."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROLES = Path(__file__).resolve().parents[3] / "roles"
_PINNED = "gpulab.kubernetes.pinned_image(cluster_digests)"
TEMPLATES = sorted(path for path in ROLES.glob("*/templates/*.j2") if re.search(r"^ +image: ", path.read_text(), re.M))


@pytest.mark.parametrize("template", TEMPLATES, ids=lambda path: str(path.relative_to(ROLES)))
def test_images_in_templates_are_pinned_by_digest(template: Path) -> None:
    for line in re.findall(r"^ +image: .*$", template.read_text(), re.MULTILINE):
        assert _PINNED in line, line.strip()


def test_images_of_acceptance_are_pinned_by_digest() -> None:
    lines = [
        line
        for path in (ROLES / "acceptance/tasks").glob("*.yml")
        for line in re.findall(r"^ +(?:network_)?image: .*$", path.read_text(), re.MULTILINE)
    ]
    assert len(lines) >= 6
    assert all(_PINNED in line for line in lines)


def test_templates_are_found() -> None:
    roles = {"flannel", "nvidia_device_plugin", "nvidia_driver_installer", "torch_ddp"}
    assert {path.parts[-3] for path in TEMPLATES} >= roles
