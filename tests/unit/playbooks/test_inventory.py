# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The inventory of playbooks for single machines is checked before one of them is reached."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.programs import run_ansible

PLAYBOOK = "- name: Run it\n  ansible.builtin.import_playbook: gpulab.kubernetes.{name}\n"
# A host that no one reaches.
HOST = "box ansible_host=127.0.0.1 ansible_port=1"


@pytest.mark.parametrize("name", ["docker", "minikube"])
@pytest.mark.parametrize(
    ("group", "variables", "words"),
    [
        ("{name}", "cluster_existing_package=keep", "There is no variable cluster_existing_package"),
        ("{name}", "{name}_timeout=soon", "{name}_timeout"),
        ("boxes", "", "none of the hosts of this run is in the group {name}. The inventory has the groups boxes"),
        ("boxes", "{name}_group=boxes {name}_timeout=soon", "{name}_timeout"),
    ],
)
def test_a_mistake_is_one_error_and_no_host_is_reached(
    tmp_path: Path, name: str, group: str, variables: str, words: str
) -> None:
    lines = [f"[{group}]", HOST, "[all:vars]", *variables.split()]
    (tmp_path / "hosts.ini").write_text("\n".join(lines).format(name=name))
    (tmp_path / "site.yml").write_text(PLAYBOOK.format(name=name))
    status, output = run_ansible(tmp_path, "-i", "hosts.ini", "site.yml")
    assert status != 0
    assert words.format(name=name) in " ".join(output.split())
    assert "UNREACHABLE" not in output
