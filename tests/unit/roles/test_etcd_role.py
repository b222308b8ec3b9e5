# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The tools of etcd come from a release archive with its checksum; each case is a host with a directory of its own."""

from __future__ import annotations

import stat
from pathlib import Path

import yaml
from etcd_release import make_release
from stubbed_site import Site

ROOT = Path(__file__).resolve().parents[3]
VERSION = "3.6.8"
RELEASE = f"etcd-v{VERSION}-linux-amd64"
PROGRAMS = ("etcd", "etcdctl", "etcdutl")
PLAYBOOK = """
- name: Use etcd
  hosts: workers
  gather_facts: false
  tasks:
    - name: Read the members
      ansible.builtin.import_role:
        name: gpulab.kubernetes.etcd
        tasks_from: info
    - name: Save a snapshot
      ansible.builtin.import_role:
        name: gpulab.kubernetes.etcd
        tasks_from: snapshot
"""
INFO = {"members": [{"name": "cp1", "health": "healthy"}], "voters": 1, "healthy": 1, "may_fail": 0}
HOSTS = ("damaged", "spoilt")
INSTALLING = ["Create the directory of the tools", "Download the release of etcd", "Unpack the programs"]


class Hosts:
    def __init__(self, place: Path) -> None:
        self.place = place
        self.site = Site(place, HOSTS, ("etcd_info", "etcd_snapshot"))
        self.site.answer("etcd_info", INFO)
        self.site.answer("etcd_snapshot", {"snapshot": {"revision": 2}}, word="")
        self.settings = {
            "ansible_become": False,
            "cases": str(place / "cases"),
            "_etcd_directory": "{{ cases }}/{{ inventory_hostname }}/etcd-{{ etcd_tools_version }}",
            "etcd_tools_version": VERSION,
            "etcd_tools_release_url": f"file://{place}/releases",
            "etcd_tools_sha256": make_release(place / "releases", VERSION),
        }

    def directory(self, host: str) -> Path:
        return self.place / "cases" / host / f"etcd-{VERSION}"

    def play(self, *options: str) -> dict[str, list[str]]:
        """Run the role on all hosts, and return the changed tasks of each one."""
        status, output = self.site.play(PLAYBOOK, self.settings, *options)
        assert status == 0, output
        changed: dict[str, dict[str, None]] = {host: {} for host in HOSTS}
        for event in self.site.events():
            if event["event"] == "result" and event["status"] == "changed":
                # In check mode, both entry points show the same changes.
                changed[event["host"]][event["task"].rpartition(" : ")[2]] = None
        return {host: list(tasks) for host, tasks in changed.items()}


def test_the_programs_are_installed_and_kept(tmp_path: Path) -> None:
    hosts = Hosts(tmp_path)
    for host in HOSTS:
        hosts.directory(host).parent.mkdir(parents=True)
    older = hosts.directory("damaged").with_name("etcd-3.5.33")
    older.mkdir()
    (older / "etcdctl").touch()
    # It has no version in its name.
    for host in HOSTS:
        hosts.directory(host).with_name("etcd-copies").mkdir()
    others = {"damaged": ["Remove other versions"], "spoilt": []}

    assert hosts.play("--check") == {host: [*INSTALLING[:1], *others[host]] for host in HOSTS}
    assert not hosts.site.asked("etcd_info")
    assert not hosts.site.asked("etcd_snapshot")
    assert not any(hosts.directory(host).exists() for host in HOSTS)

    assert hosts.play() == {host: [*INSTALLING, *others[host]] for host in HOSTS}
    programs = {str(hosts.directory(host) / "etcdctl") for host in HOSTS}
    assert {args["etcdctl"] for args in hosts.site.asked("etcd_info")} == programs
    saved = hosts.site.asked("etcd_snapshot")
    assert {args["etcdutl"] for args in saved} == {program.replace("ctl", "utl") for program in programs}
    assert {args["path"] for args in saved} == {"/var/lib/gpulab/etcd-snapshot/snapshot.db"}

    # As after a power cut, and after an interrupted download.
    (hosts.directory("damaged") / "etcdutl").write_text("")
    (hosts.directory("spoilt") / f"{RELEASE}.tar.gz").write_text("half")
    assert hosts.play("--check") == {"damaged": [], "spoilt": ["Download the release of etcd"]}
    assert not hosts.site.asked("etcd_info") and not hosts.site.asked("etcd_snapshot"), "they use these programs"
    assert hosts.play() == {"damaged": ["Unpack the programs"], "spoilt": ["Download the release of etcd"]}
    assert not any(hosts.play("--check").values())
    assert len(hosts.site.asked("etcd_info")) == len(HOSTS)
    for host in HOSTS:
        directory = hosts.directory(host)
        assert sorted(path.name for path in directory.parent.iterdir()) == [directory.name, "etcd-copies"]
        assert sorted(path.name for path in directory.iterdir()) == sorted([f"{RELEASE}.tar.gz", *PROGRAMS])
        for name in PROGRAMS:
            assert (directory / name).read_text() == f"the program {name}\n"
            assert stat.S_IMODE((directory / name).stat().st_mode) == 0o755


def test_each_version_of_kubernetes_has_tools_with_a_checksum_for_its_server() -> None:
    table = yaml.safe_load((ROOT / "roles/cluster/vars/main/versions.yml").read_text())["cluster_versions"]
    for entry in table["kubernetes"].values():
        assert len(table["etcd_tools"][entry["etcd_tools"]]["sha256"]) == 64
        server, tools = (
            [int(each) for each in entry[key].partition("-")[0].split(".")] for key in ("etcd", "etcd_tools")
        )
        assert tools[:2] == server[:2] and tools >= server
