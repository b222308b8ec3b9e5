# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from pathlib import Path

import yaml

ROLES = Path(__file__).resolve().parents[3] / "roles"


def test_roles_that_look_for_helm_name_their_own_settings() -> None:
    found = set()
    for path in ROLES.glob("*/tasks/*.yml"):
        for task in yaml.safe_load(path.read_text()) or []:
            if arguments := task.get("gpulab.kubernetes.helm_program_info"):
                role = path.parent.parent.name
                found.add(role)
                assert arguments["helm_setting"] == f"{role}_helm", path
                assert arguments["chart_setting"] == f"{role}_chart_path", path
    assert found == {"gpu_operator", "wandb_launch"}
