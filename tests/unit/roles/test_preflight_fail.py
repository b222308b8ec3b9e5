# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Last screen of a run that fails in preflight, with OpenSSH's messages and the recorded facts of good hosts."""

from __future__ import annotations

import json
import os
import re
import sys
from pathlib import Path
from typing import Any

import pexpect
import pytest
from preflight_facts import facts
from stubbed_site import write_collections
from support import programs
from support.screen import last_screen

TIMED_OUT = "ssh: connect to host {address} port 22: Connection timed out"
KEY_REFUSED = "admin@{address}: Permission denied (publickey,password)."
KEY_UNKNOWN = (
    "No ED25519 host key is known for {address} and you have requested strict checking.\\nHost key verification failed."
)
NO_SUDO = "sudo: a password is required"
# An action plugin runs on the controller, where it decides whether the host answers.
READER = """
import json
from ansible.plugins.action import ActionBase


class ActionModule(ActionBase):
    def run(self, tmp=None, task_vars=None):
        super().run(tmp, task_vars)
        known = json.load(open({place!r} + "/facts.json")).get(task_vars["inventory_hostname"])
        return known or self._execute_module("ansible.builtin.ping", {{}}, task_vars=task_vars)
"""
SSH = """#!{python}
import json, re, sys
found = re.search(r"192\\.0\\.2\\.[0-9]+", " ".join(sys.argv))
print(json.load(open({place!r} + "/ssh.json"))[found[0]], file=sys.stderr)
sys.exit(1 if "sudo" in json.load(open({place!r} + "/ssh.json"))[found[0]] else 255)
"""


class Fleet:
    """Hosts with the error of their SSH connection; hosts without an error have the facts of good hosts."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self.hosts: dict[str, str] = {}
        self.changes: dict[str, dict[str, Any]] = {}
        write_collections(place)
        (place / "collections/ansible_collections/gpulab/kubernetes/plugins/action/preflight_info.py").write_text(
            READER.format(place=str(place))
        )

    def add(self, count: int, says: str = "") -> list[str]:
        names = [f"gpu{number:02}" for number in range(len(self.hosts), len(self.hosts) + count)]
        self.hosts.update(dict.fromkeys(names, says))
        return names

    def run(self, callback: str) -> list[str]:
        """Run preflight and return its last screen."""
        known, answers, lines = {}, {}, []
        for number, (name, says) in enumerate(self.hosts.items(), 1):
            address = f"192.0.2.{number}"
            lines.append(f"{name} ansible_host={address}")
            if says:
                answers[address] = says.format(address=address).replace("\\n", "\n")
            else:
                own = {"nodename": name, "default_ipv4": {"address": f"192.168.7.{number}"}}
                known[name] = {"ansible_facts": own, **facts(name, number), **self.changes.get(name, {})}
        (self.place / "facts.json").write_text(json.dumps(known))
        (self.place / "ssh.json").write_text(json.dumps(answers))
        ssh = self.place / "ssh"
        ssh.write_text(SSH.format(python=sys.executable, place=str(self.place)))
        ssh.chmod(0o755)
        settings = f"ansible_ssh_executable={ssh} ansible_user=admin ansible_python_interpreter=/usr/bin/python3"
        groups = ["[control_plane]", lines[-1].split()[0], "[workers]", *(line.split()[0] for line in lines[:-1])]
        (self.place / "my.ini").write_text("\n".join([*lines, *groups, "[all:vars]", *settings.split(" "), ""]))
        kept = {key: value for key, value in os.environ.items() if not key.startswith("ANSIBLE_")}
        environment = {
            **{key: value for key, value in kept.items() if key not in ("COLUMNS", "LINES")},
            "ANSIBLE_COLLECTIONS_PATH": str(self.place / "collections"),
            "ANSIBLE_LOCAL_TEMP": str(self.place / "tmp"),
            "ANSIBLE_NOCOLOR": "1",
            "ANSIBLE_STDOUT_CALLBACK": callback,
            "ANSIBLE_PIPELINING": "true",
            "ANSIBLE_FORKS": "8",
            "TERM": "xterm",
        }
        arguments = ["-i", "my.ini", "gpulab.kubernetes.preflight", "-e", "preflight_check_api=false"]
        program = str(Path(sys.executable).parent / "ansible-playbook")
        child = programs.terminal([program, *arguments], self.place, environment, columns=80)
        child.expect(pexpect.EOF, timeout=900)
        child.close()
        assert child.exitstatus not in (0, None), child.before
        screen = last_screen(child.before)
        assert "Traceback" not in child.before
        return screen


@pytest.fixture
def fleet(tmp_path: Path) -> Fleet:
    return Fleet(tmp_path)


def reason(screen: list[str]) -> list[str]:
    """Return the list of problems, which follows the recap or the phases."""
    first = next(place for place, row in enumerate(screen) if re.match(r"\d+ problems? found before", row))
    return screen[first:]


CALLBACKS = pytest.mark.parametrize("callback", ["gpulab.kubernetes.progress", "ansible.builtin.default"])


@CALLBACKS
def test_last_screen_has_every_cause_and_remedy_of_41_hosts(fleet: Fleet, callback: str) -> None:
    silent, refused, unknown = fleet.add(9, TIMED_OUT), fleet.add(6, KEY_REFUSED), fleet.add(5, KEY_UNKNOWN)
    (locked,) = fleet.add(1, NO_SUDO)
    full, small = fleet.add(2)
    fleet.add(18)
    disks = [{"path": "/var/lib/containerd", "free_mib": 3000, "total_mib": 9000, "device": "1"}]
    fleet.changes = {full: {"disks": disks}, small: {"cgroup_version": 1}}
    screen = fleet.run(callback)
    text = " ".join(" ".join(reason(screen)).split())
    for words in (
        f"{silent[0]}, {silent[1]}, {silent[2]} and 6 more: The host can't be reached: Connection timed out",
        "do: Check that it runs and that ansible_host is right",
        f"{refused[0]}, {refused[1]}, {refused[2]} and 3 more: The host accepts none of the controller's SSH keys",
        "do: Check ansible_user, and add your key to the host: ssh-copy-id admin@ADDRESS",
        f"{unknown[0]}, {unknown[1]}, {unknown[2]} and 2 more: The controller does not know the host's SSH key",
        "do: Connect once with `ssh ADDRESS`",
        f"{locked}: Ansible can't become root, because sudo asks for a password",
        "do: Provide the password (-K",
        f"{full}: ",
        "3000 MiB",
        f"{small}: ",
    ):
        assert text.count(words) == 1, (words, screen)
    assert len(reason(screen)) <= 20 and text.count(" do: ") == 6, screen
    assert "Where the time went" not in screen and not any(" done " in row for row in screen)
    assert "Every problem in full: gpulab-problems.txt" in screen
    kept = (fleet.place / "gpulab-problems.txt").read_text()
    assert all(name in kept for name in (*silent, *refused, *unknown, locked, full, small))


@CALLBACKS
def test_unreachable_hosts_are_named_once_each(fleet: Fleet, callback: str) -> None:
    (fleet.place / "gpulab-problems.txt").write_text("of an earlier run")
    fleet.add(1, KEY_REFUSED)
    fleet.add(1, TIMED_OUT)
    screen = fleet.run(callback)
    text = " ".join(" ".join(screen).split())
    for words in ("none of the controller's SSH keys", "Connection timed out", "ssh-copy-id admin@192.0.2.1", "VPN"):
        assert text.count(words) == 1, screen
    assert len(reason(screen)) <= 20 and "Where the time went" not in screen
    if callback.endswith("progress"):
        assert "Failed: gpu00 and gpu01 can't be reached." in text and "failed (ignored)" not in text
    assert (fleet.place / "gpulab-problems.txt").exists() == ("gpulab-problems.txt" in text)
