# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The table of variables in a role's README is the one of its argument specification."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

ROLES = Path(__file__).resolve().parents[3] / "roles"
WITH_TABLE = [
    *("host", "nvidia_driver", "nvidia_driver_upgrade", "nvidia_driver_installer"),
    *("containerd", "nvidia_container_toolkit", "kubeadm"),
]


def options(role: str) -> dict[str, Any]:
    specs = yaml.safe_load((ROLES / role / "meta/argument_specs.yml").read_text())["argument_specs"]
    found: dict[str, Any] = specs["main"]["options"]
    return found


@pytest.mark.parametrize("role", WITH_TABLE)
def test_the_readme_lists_the_variables(role: str) -> None:
    rows = re.findall(r"^\| `(\w+)` \| `(.*?)` \|", (ROLES / role / "README.md").read_text(), re.MULTILINE)
    specified = {name: option["default"] for name, option in options(role).items() if "default" in option}
    assert rows == [
        (name, default if isinstance(default, str) else json.dumps(default)) for name, default in specified.items()
    ]
