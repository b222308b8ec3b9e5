# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Plays that use a role without a dependency on the role ``cluster`` load ``cluster`` themselves."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from support.hosts import ROOT

SHARED = "gpulab.kubernetes.cluster"
IMPORT = {"ansible.builtin.import_role": {"name": SHARED, "rolespec_validate": False}}


def load(path: Path) -> Any:
    return yaml.safe_load(path.read_text())


def depends(role: str) -> bool:
    return {"role": SHARED} in load(ROOT / "roles" / role / "meta/main.yml")["dependencies"]


def imports(path: Path, seen: frozenset[Path] = frozenset()) -> set[str]:
    """Return the roles of this collection that the file imports into its play, directly or through other files."""
    found: set[str] = set()
    entries: list[Any] = list(load(path) or [])
    while entries:
        entry = entries.pop()
        for part in ("block", "rescue", "always", "tasks", "pre_tasks", "post_tasks"):
            entries += entry.get(part) or []
        found |= {each["role"].rpartition(".")[2] for each in entry.get("roles") or []}
        role = entry.get("ansible.builtin.import_role")
        file = entry.get("ansible.builtin.import_tasks")
        if role and "{{" not in role["name"]:
            name = role["name"].rpartition(".")[2]
            further = ROOT / "roles" / name / "tasks" / f"{role.get('tasks_from', 'main')}.yml"
            found |= {name} | (imports(further, seen | {further}) if further.is_file() else set())
        if file and (path.parent / file) not in seen:
            found |= imports(path.parent / file, seen | {path.parent / file})
    return found


def plays() -> list[Any]:
    return [
        pytest.param(play, path, id=f"{path.stem}: {play['name']}")
        for path in sorted((ROOT / "playbooks").glob("*.yml"))
        for play in load(path)
        if "hosts" in play
    ]


@pytest.mark.parametrize(("play", "path"), plays())
def test_plays_that_load_a_role_load_the_shared_settings(tmp_path: Path, play: Any, path: Path) -> None:
    copy = tmp_path / "playbooks" / path.name
    copy.parent.mkdir()
    (copy.parent / "tasks").symlink_to(ROOT / "playbooks/tasks")
    copy.write_text(yaml.safe_dump([play]))
    found = imports(copy)
    assert not found or "cluster" in found or any(map(depends, found))


@pytest.mark.parametrize("role", [path.parent.name for path in sorted((ROOT / "roles").glob("*/meta"))])
def test_roles_that_can_be_applied_alone_load_the_shared_settings(role: str) -> None:
    first = [(ROOT / "roles" / role / "tasks" / f"{name}.yml") for name in ("main", "settings", "plan")]
    starts = [
        {k: v for k, v in load(path)[0].items() if k != "name"} for path in first if path.is_file() and load(path)
    ]
    assert role == "cluster" or depends(role) or IMPORT in starts
