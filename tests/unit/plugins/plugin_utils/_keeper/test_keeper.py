# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpulab.kubernetes.plugins.plugin_utils._keeper.start import start_keeper

KEEPER = Path(__file__).resolve().parents[5] / "plugins/plugin_utils/_keeper/keeper.py"


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


def catches_sigterm(pid: int) -> bool:
    caught = re.search(r"^SigCgt:\s*(\w+)", Path(f"/proc/{pid}/status").read_text(), re.MULTILINE)
    return bool(caught and int(caught[1], 16) >> signal.SIGTERM - 1 & 1)


class Kept:
    """A keeper with a program that records its process ID and sleeps, for a process in place of Ansible."""

    def __init__(self, here: Path, body: str = "exec sleep 600") -> None:
        self.state, self.pids = here / "state", here / "pids"
        self.state.touch()
        self.ansible = subprocess.Popen(["sleep", "600"])
        program = body and ["sh", "-c", f"echo $$ >> {self.pids}; echo said something >&2; {body}"]
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


def test_the_keeper_ends_when_its_file_is_removed(kept: Kept) -> None:
    pid = kept.started()
    kept.state.unlink()
    assert kept.ended(pid)


@pytest.mark.parametrize("waited_for", [True, False])
def test_the_keeper_ends_when_ansible_is_killed(kept: Kept, waited_for: bool) -> None:
    pid = kept.started()
    kept.ansible.kill()
    if waited_for:
        kept.ansible.wait()
    assert kept.ended(pid)


def test_a_broken_connection_is_opened_again(kept: Kept) -> None:
    kept.state.write_text("up")
    os.kill(kept.started(), 9)
    pid = kept.started(2)
    kept.state.unlink()
    assert kept.ended(pid)


def test_a_connection_that_never_opened_is_reported_with_the_reason(tmp_path: Path) -> None:
    one = Kept(tmp_path, "false")
    assert one.keeper.wait(20) == 1
    assert "said something" in Path(f"{one.state}.log").read_text()
    one.stop()


@pytest.fixture
def lonely(tmp_path: Path) -> Any:
    one = Kept(tmp_path, "")
    yield one
    one.stop()


@pytest.mark.parametrize("how", ["killed", "removed", "asked to end"])
def test_a_file_without_a_program_is_removed_when_ansible_ends(lonely: Kept, how: str) -> None:
    wait_for(lambda: catches_sigterm(lonely.keeper.pid))
    assert lonely.state.exists() and lonely.keeper.poll() is None
    lonely.state.write_text("a secret")
    if how == "killed":
        lonely.ansible.kill()
    elif how == "removed":
        lonely.state.unlink()
    else:
        lonely.keeper.terminate()
    assert lonely.keeper.wait(20) == 0
    assert not lonely.state.exists()


def test_a_program_is_terminated_before_it_is_killed(tmp_path: Path) -> None:
    one = Kept(tmp_path, f"trap 'echo released > {tmp_path}/lease; exit' TERM; while :; do sleep 0.1; done")
    pid = one.started()
    one.ansible.kill()
    assert one.ended(pid)
    assert (tmp_path / "lease").read_text() == "released\n"
    one.stop()


def test_an_existing_file_is_not_taken_over(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("another's")
    with pytest.raises(FileExistsError):
        start_keeper(tmp_path / "file")
    assert (tmp_path / "file").read_text() == "another's"
