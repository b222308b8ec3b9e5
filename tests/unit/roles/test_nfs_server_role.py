# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The server exports what its file has and nothing more; systemctl is a program that writes the server's table."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from stubbed_site import Site

PLAYBOOK = """
- name: Export
  hosts: gpu1
  gather_facts: false
  roles:
    - gpulab.kubernetes.nfs_server
"""
SYSTEMCTL = """#!/bin/sh
case "$1" in
  show) printf 'LoadState=loaded\\nActiveState=active\\nSubState=exited\\n' ;;
  reload) echo reload >>{log}; cp {reloaded} {etab} ;;
esac
"""
RIGHT = "{path}\t192.0.2.1(rw,sync,secure,root_squash,anonuid=65534,anongid=65534)\n"
WIDER = RIGHT + "{path}\t192.0.2.0/24(rw,sync,secure,root_squash,anonuid=65534,anongid=65534)\n"
ROOT = RIGHT.replace("root_squash", "no_root_squash")


@pytest.mark.parametrize(
    ("state", "before", "after", "reloads", "complaint"),
    [
        ("present", RIGHT, RIGHT, 0, ""),
        ("present", WIDER, RIGHT, 1, ""),
        ("present", ROOT, RIGHT, 1, ""),
        ("present", "", RIGHT, 1, ""),
        ("present", WIDER, WIDER, 1, "the directory is exported to 192.0.2.0/24, which the file does not have"),
        ("present", RIGHT, ROOT, 0, ""),
        ("present", ROOT, ROOT, 1, "the directory is exported to 192.0.2.1 with no_root_squash"),
        ("present", "", "", 1, "the directory is not exported to 192.0.2.1"),
        ("absent", "", "", 0, ""),
        ("absent", RIGHT, "", 1, ""),
        ("absent", RIGHT, RIGHT, 1, "should be none, but the directory is exported to 192.0.2.1, which"),
    ],
)
def test_what_the_server_exports_is_what_the_file_has(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    state: str,
    before: str,
    after: str,
    reloads: int,
    complaint: str,
) -> None:
    path, etab, reloaded, log = (tmp_path / name for name in ("exported", "etab", "reloaded", "log"))
    path.mkdir()
    log.touch()
    etab.write_text(before.format(path=path))
    reloaded.write_text(after.format(path=path))
    program = tmp_path / "bin/systemctl"
    program.parent.mkdir()
    program.write_text(SYSTEMCTL.format(log=log, etab=etab, reloaded=reloaded))
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    site = Site(tmp_path)
    site.answer("managed_service", {"state": "active", "actions": [], "restart": False})
    site.answer(
        "file_system_info",
        {"device": "/dev/a", "type": "ext4", "mount": "/", "free_mib": 1, "size_mib": 2, "quotas": []},
    )
    settings = {
        "nfs_server_state": state,
        "nfs_server_path": str(path),
        "nfs_server_clients": ["192.0.2.1"],
        "_nfs_server_table": str(etab),
        "ansible_become": False,
    }
    status, output = site.play(PLAYBOOK, settings)
    assert (status != 0, complaint in " ".join(output.split())) == (bool(complaint), True), output
    assert log.read_text() == "reload\n" * reloads
    files = site.asked("managed_files")[-1]
    # A run that is killed before the reload leaves a note.
    assert (files["files"][0]["service"], files["files"][0]["reload"]) == ("nfs-server", True)
    assert site.asked("managed_service")[-1]["name"] == "nfs-server"
