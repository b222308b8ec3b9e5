# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The callback in ansible-playbook: through a pipe, and on a terminal."""

from __future__ import annotations

import os
import re
import signal
import sys
from pathlib import Path

import pexpect
import pytest
from support import programs

REPOSITORY = Path(__file__).resolve().parents[4]
TASKS = {
    "says": """
    - name: Tell
      ansible.builtin.debug:
        msg: [6 of 6 GPUs verified, fine]
      run_once: true
    - name: Change the {{ inventory_hostname }}
      ansible.builtin.set_fact:
        x: 1
      changed_when: inventory_hostname == "a"
""",
    "explains": """
    - name: Read
      ansible.builtin.ping:
      vars:
        ansible_connection: ssh
        ansible_host: 127.0.0.1
        ansible_port: 9
        progress_explained: true
      ignore_unreachable: true
    - name: Show the problems
      ansible.builtin.debug:
        msg: ["1 problem", "a, b: nobody answers"]
      vars:
        progress_closing: true
      run_once: true
    - name: Fail
      ansible.builtin.fail:
        msg: 1 problem
      vars:
        progress_explained: true
      run_once: true
""",
    "corrects": """
    - name: Fail
      ansible.builtin.fail:
        msg: wrong option
      vars:
        progress_next: correct the command
""",
    "closes": """
    - name: Show what to do next
      ansible.builtin.debug:
        msg: ["Next:", "  kubectl get nodes"]
      vars:
        progress_closing: true
      run_once: true
    - name: Report
      ansible.builtin.debug:
        msg: reported
      run_once: true
""",
    "fails": """
    - name: Break
      ansible.builtin.command: sh -c "echo heard; echo complaint >&2; exit 3"
      when: inventory_hostname == "b"
""",
    "systemctl": """
    - name: Start x
      gpulab.kubernetes.managed_service:
        name: x
      when: inventory_hostname == "b"
""",
    "item": """
    - name: Break an item
      ansible.builtin.fail:
        msg: "no {{ item }}"
      when: item == "beer"
      loop: [water, beer]
""",
    "hidden": """
    - name: Hide
      ansible.builtin.command: sh -c "echo SECRET; exit 3"
      no_log: true
""",
    "ignored": """
    - name: Try
      ansible.builtin.fail:
        msg: never mind
      ignore_errors: true
""",
    "silent": """
    - name: Reach
      ansible.builtin.ping:
      vars:
        ansible_connection: ssh
        ansible_host: 127.0.0.1
        ansible_port: 9
""",
    "slow": """
    - name: Take long
      ansible.builtin.command: sleep {{ 60 if inventory_hostname == "b" else 0 }}
      changed_when: false
""",
    "wordy": """
    - name: Do {{ "one thing after another, " * 4 }}and no more
      ansible.builtin.set_fact:
        x: 1
      changed_when: true
""",
    "warns": """
    - name: Run a module of a host that has been broken into
      evil:
      register: heard
    - name: Show what it returned
      ansible.builtin.debug:
        var: heard.msg
""",
    "lasts": """
    - name: Take a moment
      ansible.builtin.command: sleep 3
      changed_when: false
""",
}


@pytest.fixture
def playbook(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    (tmp_path / "ansible.cfg").touch()
    path = tmp_path / "play.yml"
    path.write_text(f"- name: Do it all\n  hosts: all\n  gather_facts: false\n  tasks:{TASKS[request.param]}")
    return path


def environment(**more: str) -> dict[str, str]:
    mine = {
        "ANSIBLE_COLLECTIONS_PATH": str(REPOSITORY / "collections"),
        "ANSIBLE_STDOUT_CALLBACK": "gpulab.kubernetes.progress",
        "ANSIBLE_NOCOLOR": "1",
        "ANSIBLE_PYTHON_INTERPRETER": sys.executable,
        "ANSIBLE_LOCALHOST_WARNING": "false",
        "TERM": "xterm",
    }
    # The width is that of the terminal.
    kept = {k: v for k, v in os.environ.items() if not k.startswith("ANSIBLE_") and k not in ("COLUMNS", "LINES")}
    return {**kept, **mine, **more}


def command(playbook: Path, *arguments: str) -> list[str]:
    return ["ansible-playbook", "-i", "a,b", "-c", "local", str(playbook), *arguments]


def plain(playbook: Path, *arguments: str, **more: str) -> tuple[int, str]:
    return programs.piped(command(playbook, *arguments), playbook.parent, environment(**more))


def terminal(playbook: Path) -> pexpect.spawn:
    return programs.terminal(command(playbook), playbook.parent, environment(), columns=70)


@pytest.mark.parametrize("playbook", ["says"], indirect=True)
def test_plain_lines_show_phases_messages_changes_and_the_summary(playbook: Path) -> None:
    status, output = plain(playbook)
    lines = output.splitlines()
    assert status == 0
    assert lines[:4] == ["[0:00] 1/1 Do it all", "  a says:", "    6 of 6 GPUs verified", "    fine"]
    assert lines.count("  a: changed: Change the a") == 1
    assert "b: changed" not in output
    assert re.search(r"^Where the time went \(.* s\)$", output, re.MULTILINE)
    assert re.search(r"^  a  done +ok=2, changed=1", output, re.MULTILINE)
    assert re.match(r"Succeeded in .* s: 1 change on 2 hosts\.$", lines[-1])
    assert "\x1b" not in output


@pytest.mark.parametrize("playbook", ["says"], indirect=True)
@pytest.mark.parametrize("view", ["plain", "live"])
def test_each_playbook_of_a_command_line_has_its_own_summary(playbook: Path, view: str) -> None:
    status, output = plain(playbook, str(playbook), GPULAB_PROGRESS_VIEW=view)
    assert status == 0
    assert output.count("[0:00] 1/1 Do it all") == output.count("Where the time went (") == 2
    # Ansible's own recap adds them up.
    accounts = re.findall(r"^Succeeded in .* s: (.*) on 2 hosts\.$", output, re.MULTILINE)
    assert accounts == ["1 change", "2 changes"]


@pytest.mark.parametrize("playbook", ["closes"], indirect=True)
def test_the_most_important_lines_come_last(playbook: Path) -> None:
    status, output = plain(playbook)
    lines = output.splitlines()
    assert status == 0 and lines[1:3] == ["  a says:", "    reported"]
    assert lines[-3].startswith("Succeeded in ")
    assert lines[-2:] == ["Next:", "  kubectl get nodes"]
    assert output.count("Next:") == 1


@pytest.mark.parametrize("playbook", ["fails"], indirect=True)
def test_an_error_is_shown_in_full_and_once(playbook: Path) -> None:
    status, output = plain(playbook)
    assert status == 2
    assert output.count("b: FAILED: Break: ") == 1
    told = re.findall(r"^    (rc: 3|stdout: heard|stderr: complaint)$", output, re.MULTILINE)
    assert sorted(told) == ["rc: 3", "stderr: complaint", "stdout: heard"]
    assert re.search(r"^  b  failed .*failed=1", output, re.MULTILINE)
    assert output.splitlines()[-1].startswith("Failed on b: ") and "Where the time went" not in output
    assert "Where the time went" in plain(playbook, "-v")[1]


@pytest.mark.parametrize("playbook", ["systemctl"], indirect=True)
@pytest.mark.parametrize("verbosity", ["", "-v", "-vvv"])
def test_a_failure_shows_its_command_and_v_lists_all_commands(playbook: Path, verbosity: str) -> None:
    program = playbook.parent / "systemctl"
    program.write_text('#!/bin/sh\necho "boom http://ci:S3CRET@proxy" >&2\nexit 3\n')
    program.chmod(0o755)
    status, output = plain(playbook, *verbosity.split(), PATH=f"{program.parent}{os.pathsep}{os.environ['PATH']}")
    assert status == 2 and "S3CRET" not in output
    assert "b: FAILED: Start x: Error while reading the state of x.service: boom http://********@proxy" in output
    assert re.search(r"^    cmd: systemctl show --property=\S+ .*x\.service$", output, re.MULTILINE)
    assert re.search(r"^    rc: 3$", output, re.MULTILINE)
    assert bool(re.search(r"systemctl show .* x\.service \(exit status 3, \d\.\d\d s\)", output)) == bool(verbosity)


@pytest.mark.parametrize("playbook", ["item"], indirect=True)
def test_an_error_of_a_loop_item_is_shown_once(playbook: Path) -> None:
    _status, output = plain(playbook)
    assert output.count("no beer") == 2
    assert "a: FAILED: Break an item: beer: no beer" in output


@pytest.mark.parametrize("playbook", ["hidden"], indirect=True)
@pytest.mark.parametrize("verbosity", ["-v", "-vvv"])
def test_no_log_tasks_stay_hidden(playbook: Path, verbosity: str) -> None:
    status, output = plain(playbook, verbosity)
    assert status == 2
    assert "SECRET" not in output
    assert "no_log" in output


@pytest.mark.parametrize("playbook", ["ignored"], indirect=True)
def test_an_ignored_error_is_marked_as_ignored(playbook: Path) -> None:
    status, output = plain(playbook)
    assert status == 0
    assert output.count("never mind") == 1 and output.count("failed (ignored): Try: ") == 2
    assert "FAILED" not in output


@pytest.mark.parametrize("playbook", ["silent"], indirect=True)
def test_an_unreachable_host_is_named(playbook: Path) -> None:
    status, output = plain(playbook)
    assert status == 4
    assert "a: UNREACHABLE: Reach: " in output
    assert re.search(r"^  a, b  unreachable .*unreachable=1$", output, re.MULTILINE)


@pytest.mark.parametrize("playbook", ["explains"], indirect=True)
def test_a_failure_that_the_play_explains_is_shown_once_and_last(playbook: Path) -> None:
    status, output = plain(playbook)
    assert status == 2
    assert output.splitlines()[1:] == [
        "Failed: a and b can't be reached. Fix what is listed below, and run the playbook again.",
        "1 problem",
        "a, b: nobody answers",
    ]


@pytest.mark.parametrize("playbook", ["corrects"], indirect=True)
def test_after_invalid_usage_running_again_is_not_suggested(playbook: Path) -> None:
    _status, output = plain(playbook)
    assert output.splitlines()[-1] == "Failed on a, b: fix what is reported above, and correct the command."


@pytest.mark.parametrize("playbook", ["lasts"], indirect=True)
def test_plain_lines_name_the_task_that_is_waited_for(playbook: Path) -> None:
    _status, output = plain(playbook, GPULAB_PROGRESS_INTERVAL="1")
    assert re.search(r"waiting for a, b: Take a moment, since 0:0[123]$", output, re.MULTILINE)


@pytest.mark.parametrize("playbook", ["lasts"], indirect=True)
def test_a_terminal_shows_hosts_and_tasks_live_and_is_cleared_at_the_end(playbook: Path) -> None:
    child = terminal(playbook)
    child.expect(r"0:0\d 1/1 Do it all\r\n  0:0\d a: Take a moment\r\n")
    child.expect(r"\x1b\[3A\x1b\[J")
    child.expect(r"\x1b\[3A\x1b\[JWhere the time went")
    child.expect(pexpect.EOF)
    assert "a: Take a moment\r\n" not in child.before
    assert all(len(line) < 70 for line in re.sub(r"\x1b\[\d*[A-Z]", "", child.before).splitlines())
    child.close()
    assert child.exitstatus == 0


@pytest.mark.parametrize("playbook", ["wordy"], indirect=True)
def test_a_change_takes_one_line_on_a_terminal_and_is_shown_in_full_elsewhere(playbook: Path) -> None:
    child = terminal(playbook)
    child.expect(r"[\nJ](  (?:a, b|b, a): changed: Do one thing after another, one thing .*…)\r\n")
    assert len(child.match[1]) == 69
    child.expect(pexpect.EOF)
    child.close()
    _status, output = plain(playbook)
    assert re.search(r"^  (a, b|b, a): changed: Do .* and no more$", output, re.MULTILINE)


@pytest.mark.parametrize("playbook", ["lasts"], indirect=True)
def test_a_hundred_hosts_fit_on_a_small_terminal(playbook: Path) -> None:
    hosts = ",".join(f"gpu-host-{number:03}.rack.example.org" for number in range(100))
    argv = ["ansible-playbook", "--forks", "2", "-i", f"{hosts},", "-c", "local", str(playbook)]
    child = programs.terminal(argv, playbook.parent, environment(), columns=80)
    child.expect(r"0:\d\d \d+ of \d\d: Take a moment\r\n {7}gpu-host-\d+")
    seen = child.before + child.after
    child.sendintr()
    child.expect(pexpect.EOF)
    assert all(len(line) < 80 for line in re.sub(r"\x1b\[\d*[A-Z]", "", seen).splitlines())
    assert all(int(up) <= 24 for up in re.findall(r"\x1b\[(\d+)A", seen))
    child.close()


@pytest.mark.parametrize("playbook", ["slow"], indirect=True)
def test_ctrl_c_ends_with_the_summary(playbook: Path) -> None:
    child = terminal(playbook)
    child.expect(r"0:\d\d a: waits for b\r\n")
    child.sendintr()
    child.expect("interrupted")
    child.expect("Where the time went")
    child.expect(pexpect.EOF)
    child.close()
    assert (child.exitstatus, child.signalstatus) == (99, None) or child.signalstatus == signal.SIGINT


@pytest.mark.parametrize("playbook", ["says"], indirect=True)
def test_diffs_are_shown_on_request(playbook: Path, tmp_path: Path) -> None:
    playbook.write_text(
        "- hosts: a\n  gather_facts: false\n  tasks:\n    - name: Write\n      ansible.builtin.copy:\n"
        f"        dest: {tmp_path}/file\n        content: new line\n"
    )
    _status, output = plain(playbook, "--check", "--diff")
    assert "  a: Write\n" in output
    assert "+new line" in output


EVIL = """#!/bin/sh
printf '{"changed": true, "msg": "\\\\u001b[2Jm", "warnings": ["\\\\u001b[2Jw", "\\\\u009b2Jx"],'
printf '"diff": {"before": "\\\\u001b[2Jold\\\\n", "after": "\\\\u009b2Jnew\\\\n"}}'
"""


@pytest.mark.parametrize("playbook", ["warns"], indirect=True)
@pytest.mark.parametrize("view", ["plain", "live"])
def test_nothing_that_a_host_returns_moves_the_cursor(playbook: Path, view: str) -> None:
    library = playbook.parent / "library"
    library.mkdir()
    (library / "evil").write_text(EVIL)
    status, output = plain(playbook, "--diff", "-v", ANSIBLE_LIBRARY=str(library), GPULAB_PROGRESS_VIEW=view)
    assert status == 0, output
    assert all(text in output for text in ("?[2Jw", "?2Jx", "-?[2Jold", "+?2Jnew", "?[2Jm"))
    assert "\x1b[2J" not in output and "\x9b" not in output
