# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpulab.kubernetes.plugins.plugin_utils._api_tunnel import tunnel

KEEPER = Path(__file__).resolve().parents[5] / "plugins/plugin_utils/_api_tunnel/keeper.py"
PLAIN = {"host": "192.0.2.11", "ssh_args": "-C -o ControlMaster=auto -o ControlPersist=60s", "timeout": 10}


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, []),
        ({"remote_user": "admin", "port": 2222}, ["-o", "Port=2222", "-o", 'User="admin"']),
        ({"private_key_file": "/k/id"}, ["-o", 'IdentityFile="/k/id"']),
        ({"host_key_checking": False}, ["-o", "StrictHostKeyChecking=no"]),
        ({"host_key_checking": True}, []),
        ({"ssh_common_args": "-o ProxyJump='a b@bastion'"}, ["-o", "ProxyJump=a b@bastion"]),
        ({"ssh_extra_args": "-4", "ssh_executable": "/opt/ssh"}, ["-4"]),
    ],
)
def test_arguments_of_ssh(options: dict[str, Any], expected: list[str]) -> None:
    argv = tunnel.ssh_arguments({**PLAIN, **options}.get, 40000, "127.0.0.1", 6443)
    assert argv[0] == options.get("ssh_executable", "ssh")
    assert argv[-3:] == ["-L", "127.0.0.1:40000:127.0.0.1:6443", "192.0.2.11"]
    assert " ".join(expected) in " ".join(argv)
    # Its own connection, whatever ansible.cfg says: ssh takes the first of equal settings.
    assert argv.index("ControlMaster=no") < argv.index("ControlMaster=auto")
    assert "BatchMode=yes" in argv and "ExitOnForwardFailure=yes" in argv


@pytest.mark.parametrize(("address", "target"), [("192.168.49.2", "192.168.49.2"), ("fd00::2", "[fd00::2]")])
def test_an_address_behind_the_host(address: str, target: str) -> None:
    argv = tunnel.ssh_arguments(PLAIN.get, 40000, address, 8443)
    assert argv[-2] == f"127.0.0.1:40000:{target}:8443"


def test_a_password_is_refused() -> None:
    with pytest.raises(tunnel.TunnelError, match="ansible_password"):
        tunnel.ssh_arguments({**PLAIN, "password": "secret"}.get, 1, "127.0.0.1", 2)


@pytest.mark.parametrize("connection", ["local", "paramiko_ssh"])
def test_another_connection_is_refused(connection: str) -> None:
    with pytest.raises(tunnel.TunnelError, match=connection):
        tunnel.refuse_other_connections(connection, "cp1", {})


def wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def lives(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


class Kept:
    """A keeper with a program that notes its process and sleeps, for a process that stands for Ansible."""

    def __init__(self, here: Path, body: str = "sleep 600") -> None:
        self.state, self.pids = here / "state", here / "pids"
        self.state.touch()
        self.ansible = subprocess.Popen(["sleep", "600"])
        program = ["sh", "-c", f"echo $$ >> {self.pids}; echo said something >&2; exec {body}"]
        self.keeper = subprocess.Popen([sys.executable, str(KEEPER), str(self.state), str(self.ansible.pid), *program])

    def started(self, number: int = 1) -> int:
        wait_for(lambda: self.pids.exists() and len(self.pids.read_text().splitlines()) >= number)
        return int(self.pids.read_text().splitlines()[number - 1])

    def ended(self, pid: int) -> bool:
        self.keeper.wait(20)
        wait_for(lambda: not lives(pid))
        return not self.state.exists() and not Path(f"{self.state}.log").exists()

    def stop(self) -> None:
        for process in (self.keeper, self.ansible):
            process.kill()
            process.wait()


@pytest.fixture
def kept(tmp_path: Path) -> Any:
    one = Kept(tmp_path)
    yield one
    one.stop()


def test_it_ends_with_its_file(kept: Kept) -> None:
    pid = kept.started()
    kept.state.unlink()
    assert kept.ended(pid)


@pytest.mark.parametrize("waited_for", [True, False])
def test_it_ends_when_ansible_is_killed(kept: Kept, waited_for: bool) -> None:
    pid = kept.started()
    kept.ansible.kill()
    if waited_for:
        kept.ansible.wait()
    assert kept.ended(pid)


def test_a_connection_that_breaks_is_opened_again(kept: Kept) -> None:
    kept.state.write_text("up")
    os.kill(kept.started(), 9)
    pid = kept.started(2)
    kept.state.unlink()
    assert kept.ended(pid)


def test_a_connection_that_never_came_up_says_why(tmp_path: Path) -> None:
    one = Kept(tmp_path, "false")
    assert one.keeper.wait(20) == 1
    assert "said something" in Path(f"{one.state}.log").read_text()
    one.stop()
