# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""examples/provision.py as a person runs it, with this machine as all hosts."""

from __future__ import annotations

import json
import os
import stat
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pexpect
import pytest
from support import programs

REPOSITORY = Path(__file__).resolve().parents[2]
SCRIPT = REPOSITORY / "examples" / "provision.py"
GOOD = "    - name: Fine\n      ansible.builtin.set_fact:\n        x: 1\n"
CHANGES = GOOD + "      changed_when: true\n"
BAD = '    - name: Break\n      ansible.builtin.fail:\n        msg: "[b]no[/b] luck"\n'
SILENT = (
    "    - name: Reach\n      ansible.builtin.ping:\n      vars:\n        ansible_connection: ssh\n"
    "        ansible_host: 127.0.0.1\n        ansible_port: 9\n"
)
SLOW = "    - name: Take long\n      ansible.builtin.command: sleep 600\n      changed_when: false\n"
DEAF = """
import signal
from ansible.plugins.callback import CallbackBase

class CallbackModule(CallbackBase):
    CALLBACK_NAME = "deaf"

    def __init__(self):
        super().__init__()
        hears = signal.getsignal(signal.SIGINT)
        signal.signal(signal.SIGINT, lambda *_: signal.signal(signal.SIGINT, hears))
"""


@pytest.fixture
def here(tmp_path: Path) -> Iterator[Path]:
    (tmp_path / "ansible.cfg").touch()
    (tmp_path / "my.ini").write_text(
        f"[all]\na\nb\n[all:vars]\nansible_connection=local\nansible_python_interpreter={sys.executable}\n"
    )
    # Ansible's sockets don't support the long paths of pytest.
    with tempfile.TemporaryDirectory(prefix="t") as temporary:
        (tmp_path / "temporary").symlink_to(temporary)
        yield tmp_path


def environment(here: Path) -> dict[str, str]:
    clean = {k: v for k, v in os.environ.items() if not k.startswith("ANSIBLE_")}
    return {**clean, "TMPDIR": str((here / "temporary").readlink()), "TERM": "xterm", "LC_ALL": "C.UTF-8"}


def playbook(here: Path, tasks: str) -> str:
    path = here / "play.yml"
    path.write_text(f"- name: Do it all\n  hosts: all\n  gather_facts: false\n  tasks:\n{tasks}")
    return str(path)


def provision(here: Path, *arguments: str, inventory: str = "my.ini") -> tuple[int, str]:
    command = [sys.executable, str(SCRIPT), "-i", inventory, *arguments]
    return programs.piped(command, here, environment(here))


def report(here: Path) -> dict[str, Any]:
    read: dict[str, Any] = json.loads((here / "gpulab-runs" / "report.json").read_text())
    return read


def left_behind(here: Path, seconds: float = 0) -> list[str]:
    return programs.left_behind((here / "temporary").readlink(), seconds)


@pytest.mark.parametrize(
    ("tasks", "status", "code"),
    [(GOOD, "successful", 0), (BAD, "failed", 2), (SILENT, "unreachable", 4)],
    ids=["successful", "failed", "unreachable"],
)
def test_the_exit_status_shows_the_result(here: Path, tasks: str, status: str, code: int) -> None:
    ended, output = provision(here, "--playbook", playbook(here, tasks))
    assert ended == code
    found = report(here)
    assert found["status"] == status
    assert found["hosts"]["b"]["state"] == status.replace("successful", "done")
    assert [phase["title"] for phase in found["phases"]] == ["Do it all"]
    assert f"{status}. The report: " in output
    assert left_behind(here, seconds=5) == []


def test_unreachable_hosts_are_reported_even_if_preflight_explains_them(here: Path) -> None:
    (here / "ssh").write_text(programs.SSH)
    (here / "ssh").chmod(0o755)
    hosts = "[control_plane]\na ansible_host=192.0.2.1\n[workers]\nb ansible_host=192.0.2.2\n"
    (here / "silent.ini").write_text(f"{hosts}[all:vars]\nansible_ssh_executable={here}/ssh\n")
    ended, output = provision(here, inventory="silent.ini")
    found = report(here)
    assert (ended, found["status"]) == (4, "unreachable"), output
    assert {found["hosts"][name]["state"] for name in ("a", "b")} == {"unreachable"}
    assert "can't be reached" in output


def test_the_python_environment_does_not_have_to_be_activated(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", os.defpath)
    ended, output = provision(here, "--playbook", playbook(here, GOOD))
    assert ended == 0, output


def test_an_error_is_shown_once_and_unchanged(here: Path) -> None:
    _status, output = provision(here, "--playbook", playbook(here, BAD), "--limit", "b")
    assert output.count("[b]no[/b] luck") == 1
    assert set(report(here)["hosts"]) == {"b"}


WRONG = {
    "no such inventory": (["--playbook", "play.yml"], "other.ini", "there is no inventory other.ini"),
    "no such playbook": (["--playbook", "other.yml"], "my.ini", "other.yml could not be found"),
    "no such option": (["--playbook", "play.yml", "--fast"], "my.ini", "--fast"),
    "bad variables": (["--playbook", "play.yml", "-e", "@other.yml"], "my.ini", "other.yml"),
    "no terminal": (["--playbook", "play.yml", "-K"], "my.ini", "there is no terminal for the sudo password"),
    "no directory": (["--playbook", "play.yml", "--artifacts", "my.ini"], "my.ini", "my.ini"),
    "a long name": (["--playbook", "play.yml"], "x" * 300, "there is no inventory"),
}


@pytest.mark.parametrize(("arguments", "inventory", "complaint"), WRONG.values(), ids=WRONG)
def test_invalid_input_has_its_own_exit_status(
    here: Path, arguments: list[str], inventory: str, complaint: str
) -> None:
    playbook(here, GOOD)
    ended, output = provision(here, *arguments, inventory=inventory)
    assert (ended, complaint in output.replace("\n", " ")) == (3, True), output
    assert not (here / "gpulab-runs" / "report.json").exists()


@pytest.mark.parametrize("before", ["{broken", "[]", '{"status": "failed"}'])
def test_an_unreadable_earlier_report_is_replaced(here: Path, before: str) -> None:
    (here / "gpulab-runs").mkdir()
    (here / "gpulab-runs" / "report.json").write_text(before)
    ended, _output = provision(here, "--playbook", playbook(here, GOOD))
    assert (ended, report(here)["status"]) == (0, "successful")


def test_help_exits_successfully(here: Path) -> None:
    ended, output = provision(here, "--help")
    assert ended == 0
    assert "130 canceled" in output


def test_extra_variables_are_passed_and_artifacts_are_private(here: Path) -> None:
    tasks = '    - name: Tell\n      ansible.builtin.debug:\n        msg: "x is {{ x }}"\n'
    for value in ("1", "2"):
        ended, output = provision(here, "--playbook", playbook(here, tasks), "-e", f"x={value}", "--artifacts", "kept")
        assert (ended, f"x is {value}" in output) == (0, True)
        time.sleep(1)
    runs = list((here / "kept" / "artifacts").iterdir())
    assert len(runs) == 2
    assert "x is 1" in "".join((run / "stdout").read_text() for run in runs)
    assert not [run for run in runs if (run / "command").exists()]
    assert stat.S_IMODE((here / "kept").stat().st_mode) == 0o700


def terminal(here: Path, *arguments: str) -> pexpect.spawn:
    command = [sys.executable, str(SCRIPT), "-i", "my.ini", *arguments]
    return programs.terminal(command, here, environment(here), columns=120)


def at_the_password(child: pexpect.spawn) -> None:
    """Wait until the password is read.

    Input before the echo is turned off may be discarded, and a signal shortly before the read only takes effect with
    the next one.
    """
    child.expect("sudo password: ")
    assert child.waitnoecho(timeout=60)
    deadline = time.monotonic() + 60
    while Path(f"/proc/{child.pid}/stat").read_text().rpartition(")")[2].split()[0] != "S":
        assert time.monotonic() < deadline
        time.sleep(0.05)


def end_of(child: pexpect.spawn) -> int | None:
    child.expect(pexpect.EOF)
    child.close()
    status: int | None = child.exitstatus
    return status


def test_ctrl_c_leaves_nothing_behind_and_the_next_run_continues(here: Path) -> None:
    child = terminal(here, "--playbook", playbook(here, CHANGES + SLOW))
    child.expect("Do it all")
    child.expect("Take long")
    child.sendintr()
    child.expect("Where the time went")
    child.expect("canceled. The report: ")
    assert end_of(child) == 130
    assert left_behind(here, seconds=5) == []
    found = report(here)
    assert (found["status"], found["phase"]) == ("canceled", "Do it all")
    assert found["hosts"]["a"]["changed"] == 1
    ended, output = provision(here, "--playbook", playbook(here, GOOD))
    assert ended == 0
    assert "The last run ended (canceled) in 'Do it all'. Finished work is kept." in output
    assert report(here)["hosts"]["a"]["changed"] == 0


def test_an_ansible_that_ignores_the_first_signal_gets_another_one(here: Path) -> None:
    (here / "callback_plugins").mkdir()
    (here / "callback_plugins" / "deaf.py").write_text(DEAF)
    child = terminal(here, "--playbook", playbook(here, SLOW))
    child.expect("Take long")
    child.sendintr()
    child.expect("canceled. The report: ")
    assert end_of(child) == 130
    assert report(here)["status"] == "canceled"
    assert left_behind(here, seconds=5) == []


def test_a_second_ctrl_c_does_not_wait(here: Path) -> None:
    child = terminal(here, "--playbook", playbook(here, SLOW))
    child.expect("Take long")
    child.sendintr()
    child.sendintr()
    assert end_of(child) == 130
    assert left_behind(here, seconds=5) == []


def test_ctrl_c_at_the_password_prompt_ends_before_anything_starts(here: Path) -> None:
    child = terminal(here, "--playbook", playbook(here, GOOD), "-K")
    at_the_password(child)
    child.sendintr()
    assert end_of(child) == 130
    assert not (here / "gpulab-runs" / "artifacts").exists()


def test_the_password_reaches_ansible_and_no_file(here: Path) -> None:
    (here / "sudo").write_text(programs.SUDO)
    (here / "sudo").chmod(0o755)
    tasks = "    - name: Become\n      ansible.builtin.ping:\n      become: true\n"
    tasks += f"      vars:\n        ansible_become_exe: {here}/sudo\n"
    child = terminal(here, "--playbook", playbook(here, tasks), "-K")
    at_the_password(child)
    child.sendline("open sesame")
    child.expect("successful. The report: ")
    assert end_of(child) == 0
    written = [path for path in here.rglob("*") if path.is_file() and path.name != "sudo"]
    assert [path for path in written if "open sesame" in path.read_text(errors="replace")] == []


def test_a_terminal_shows_a_progress_bar_for_each_host(here: Path) -> None:
    slow = SLOW.replace("600", "2")
    child = terminal(here, "--playbook", playbook(here, GOOD + slow))
    child.expect(r"a\b.*Do it all .*0:00:0\d.*Take long")
    child.expect(r"b\b.*Do it all .*0:00:0\d.*Take long")
    assert end_of(child) == 0
