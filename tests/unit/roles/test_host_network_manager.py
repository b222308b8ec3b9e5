# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""NetworkManager is configured to ignore the pod network's devices, and reloaded if its configuration changed."""

from __future__ import annotations

import configparser
import os
from pathlib import Path
from typing import Any

import pytest
from stubbed_site import Site

PLAYBOOK = """
- name: Prepare
  hosts: gpu1
  gather_facts: false
  check_mode: {check}
  roles:
    - gpulab.kubernetes.host
"""
SYSTEMCTL = """#!/bin/sh
echo "$*" >>{log}
case "$1" in show) printf 'LoadState=loaded\\nActiveState=active\\nSubState=running\\n' ;; esac
"""
WRITTEN: dict[str, Any] = {
    "changed": True,
    "files": ["/etc/NetworkManager/conf.d/50-gpulab.conf"],
    "kept": [],
    "services": [],
}


@pytest.fixture
def systemctl(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    log = tmp_path / "systemctl.log"
    log.touch()
    program = tmp_path / "bin/systemctl"
    program.parent.mkdir()
    program.write_text(SYSTEMCTL.format(log=log))
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    return log


@pytest.mark.parametrize(
    ("facts", "answer", "check", "asked", "reloads"),
    [
        ({"network_manager": True}, WRITTEN, False, True, 1),
        ({"network_manager": True}, {**WRITTEN, "changed": False, "files": []}, False, True, 0),
        ({"network_manager": True}, WRITTEN, True, True, 0),
        ({"network_manager": False}, WRITTEN, False, False, 0),
        ({}, WRITTEN, False, False, 0),
    ],
)
def test_networkmanager_is_reloaded_after_a_change(
    tmp_path: Path,
    systemctl: Path,
    facts: dict[str, Any],
    answer: dict[str, Any],
    check: bool,
    asked: bool,
    reloads: int,
) -> None:
    site = Site(tmp_path)
    site.answer("managed_files", answer)
    status, output = site.play(PLAYBOOK.format(check=check), {"preflight_host": facts, "ansible_become": False})
    assert status == 0, output
    assert [call["files"][0]["path"] for call in site.asked("managed_files")] == WRITTEN["files"][: int(asked)]
    calls = [line.split()[0] for line in systemctl.read_text().splitlines() if "NetworkManager" in line]
    assert (calls.count("reload"), calls.count("restart")) == (reloads, 0)


def test_file_extends_the_existing_list_of_unmanaged_devices(tmp_path: Path, systemctl: Path) -> None:
    site = Site(tmp_path)
    site.play(PLAYBOOK.format(check=False), {"preflight_host": {"network_manager": True}, "ansible_become": False})
    (call,) = site.asked("managed_files")
    text = call["files"][0]["content"]
    assert "Managed by gpulab.kubernetes" in text
    read = configparser.ConfigParser(delimiters=("=",))
    read.read_string(text)
    # With = instead of +=, Ubuntu's list would be replaced, and NetworkManager would manage netplan's devices.
    assert dict(read["keyfile"]) == {
        "unmanaged-devices+": "interface-name:cni*;interface-name:flannel*;interface-name:veth*"
    }
