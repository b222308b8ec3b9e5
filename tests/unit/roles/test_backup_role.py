# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The role installs what the program needs before it names it, and removes what it has installed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpulab.kubernetes.plugins.module_utils._backup.state import read_settings
from backup_host import RECIPIENT
from etcd_release import make_release
from stubbed_site import Site

ETCD = "3.6.6"
NOW = """
- name: Back up the cluster
  hosts: control_plane
  gather_facts: false
  tasks:
    - name: Take a backup
      ansible.builtin.import_role:
        name: gpulab.kubernetes.backup
        tasks_from: now
"""
STATES = """
- name: Show the states
  hosts: control_plane
  gather_facts: false
  tasks:
    - name: Load the shared settings
      ansible.builtin.import_role:
        name: gpulab.kubernetes.cluster
    - name: Load the states
      ansible.builtin.import_role:
        name: gpulab.kubernetes.backup
        tasks_from: settings
    - name: Apply the states
      gpulab.kubernetes.host_state:
        states: "{{ backup_states }}"
"""
TAKEN = {
    "archive": "/var/lib/gpulab/backups/gpulab-lab-20261128T120000Z.tar.age",
    "taken": "2026-11-28T12:00:00Z",
    "revision": 42,
    "key_count": 3,
    "size": 102400,
    "recipients": [RECIPIENT],
    "places": ["nas:gpulab"],
}


class Roles(Site):  # type: ignore[misc]
    def __init__(self, place: Path, **settings: Any) -> None:
        super().__init__(place, (), ("cluster_backup",))
        self.answer("cluster_backup", TAKEN)
        self.settings = {
            "ansible_become": False,
            "cluster_node_name": "cp1",
            "_etcd_directory": str(place / f"etcd/etcd-{ETCD}"),
            "etcd_tools_version": ETCD,
            "etcd_tools_release_url": f"file://{place}/releases",
            "etcd_tools_sha256": make_release(place / "releases", ETCD),
            **settings,
        }
        (place / "etcd").mkdir()

    def files(self) -> dict[str, dict[str, Any]]:
        return {file["path"]: file for args in self.asked("managed_files") for file in args["files"]}


def test_a_backup_is_taken_and_shown(tmp_path: Path) -> None:
    site = Roles(
        tmp_path,
        backup_recipients=[RECIPIENT],
        backup_places=["nas:gpulab"],
        backup_rclone_config="[nas]\ntype = sftp\n",
        backup_schedule="daily",
    )
    status, output = site.play(NOW, site.settings)
    assert status == 0, output
    for part in (TAKEN["archive"], f"encrypted for {RECIPIENT}", "copy in nas:gpulab", "not in it: data in volumes"):
        assert str(part) in output
    files = site.files()
    settings = read_settings(files["/etc/gpulab/backup/settings.json"]["content"])
    assert all(Path(program).is_file() for program in (settings.etcd, settings.etcdctl, settings.etcdutl))
    assert (settings.node, settings.places, settings.recipients) == ("cp1", ("nas:gpulab",), (RECIPIENT,))
    secret = files["/etc/gpulab/backup/rclone.conf"]
    assert (secret["mode"], secret["state"], settings.rclone_config) == ("0600", "present", secret["path"])
    assert "[nas]" in secret["secret_content"] and "content" not in secret
    assert "OnCalendar=daily\n" in files["/etc/systemd/system/gpulab-backup.timer"]["content"]
    assert [each["name"] for args in site.asked("apt_packages") for each in args["packages"]] == ["age", "rclone"]
    assert "type = sftp" not in output


def test_nothing_more_is_installed_by_default(tmp_path: Path) -> None:
    site = Roles(tmp_path)
    status, output = site.play(STATES, site.settings)
    assert status == 0, output
    assert site.asked("apt_packages") == []
    files = site.files()
    settings = json.loads(files["/etc/gpulab/backup/settings.json"]["content"])
    assert (settings["recipients"], settings["places"], settings["keep_count"]) == ([], [], 24)
    assert files["/etc/gpulab/backup/rclone.conf"]["state"] == "absent"
    assert "/usr/local/lib/gpulab/backup/__main__.py" in files


@pytest.mark.parametrize(
    "off", [{"backup_enabled": False}, {"kubeadm_cluster_configuration": {"etcd": {"external": {"endpoints": []}}}}]
)
def test_backups_that_are_off_leave_no_files(tmp_path: Path, off: dict[str, Any]) -> None:
    site = Roles(tmp_path, **off)
    status, output = site.play(STATES, site.settings)
    assert status == 0, output
    assert {file["state"] for file in site.files().values()} == {"absent"}
    assert [args["prune"] for args in site.asked("managed_files") if "prune" in args] == [
        [{"directory": "/usr/local/lib/gpulab/backup", "pattern": "**/*.py"}]
    ]
    assert site.asked("managed_service") == []
