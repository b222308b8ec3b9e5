# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import pytest
from ansible.module_utils import basic
from ansible_collections.gpulab.kubernetes.plugins.module_utils._command import (
    CommandError,
    CommandNotFoundError,
    CommandTimeoutError,
    Result,
    Runner,
)


@pytest.fixture
def runner(monkeypatch: pytest.MonkeyPatch) -> Runner:
    monkeypatch.setattr(basic, "_ANSIBLE_ARGS", b'{"ANSIBLE_MODULE_ARGS": {}}')
    monkeypatch.setattr(basic, "_ANSIBLE_PROFILE", "legacy", raising=False)
    return Runner(basic.AnsibleModule(argument_spec={}), timeout=30)


def test_result_has_everything(runner: Runner, programs: Any) -> None:
    path = str(programs.add("tool", 'echo "out $1 $LC_ALL"; echo "err" >&2; exit 3'))
    assert runner.run([path, "$HOME *"]) == Result((path, "$HOME *"), 3, "out $HOME * C\n", "err\n")


def test_name_is_found_in_path(runner: Runner) -> None:
    assert runner.run(["sh", "-c", "exit 0"]).rc == 0


def test_data_is_given_on_stdin_unchanged(runner: Runner, programs: Any) -> None:
    path = str(programs.add("tool", "cat"))
    assert runner.run([path], data="secret without newline").stdout == "secret without newline"


def test_program_that_reads_nothing_is_no_crash(runner: Runner, programs: Any) -> None:
    path = str(programs.add("tool", "exit 0"))
    assert runner.run([path], data="x" * 1_000_000).rc in (0, -13)


def test_bytes_that_are_not_utf8_are_replaced(runner: Runner, programs: Any) -> None:
    path = str(programs.add("tool", r"printf '\377ok'"))
    assert runner.run([path]).stdout == "\ufffdok"


@pytest.mark.parametrize("name", ["no-such-program-here", "/no/such/program"])
def test_missing_program_is_an_error_of_its_own(runner: Runner, name: str) -> None:
    with pytest.raises(CommandNotFoundError, match=name):
        runner.run([name])


def test_file_that_is_no_program(runner: Runner, tmp_path: Path) -> None:
    broken = tmp_path / "broken"
    broken.write_text("#!/no/such/interpreter\n")
    broken.chmod(0o755)
    with pytest.raises(CommandError, match=r"Error while running .*broken"):
        runner.run([str(broken)])


def _ended(process: Path) -> bool:
    """A killed process is gone, or waits as a zombie for whoever reaps it."""
    try:
        return (process / "stat").read_text().split()[2] == "Z"
    except (FileNotFoundError, ProcessLookupError):
        return True


def test_hung_program_is_killed_with_its_children(runner: Runner, programs: Any, tmp_path: Path) -> None:
    path = str(programs.add("stuck", f"echo begun\nsleep 600 &\necho $! > {tmp_path}/child\nwait"))
    start = time.monotonic()
    with pytest.raises(CommandTimeoutError, match=r"stuck.*0\.5 s") as caught:
        runner.run([path], timeout=0.5)
    assert time.monotonic() - start < 10
    assert caught.value.fields["stdout"] == "begun\n"
    child = Path("/proc") / (tmp_path / "child").read_text().strip()
    while time.monotonic() - start < 10 and not _ended(child):
        time.sleep(0.02)
    assert _ended(child)


def test_child_that_keeps_writing_does_not_hold_us(runner: Runner, programs: Any) -> None:
    path = str(programs.add("stuck", "yes &\nwait"))
    with pytest.raises(CommandTimeoutError):
        runner.run([path], timeout=0.3)


def test_quick_program_is_not_waited_for(runner: Runner) -> None:
    before = os.times().elapsed
    runner.run(["true"], timeout=60)
    assert os.times().elapsed - before < 10


def test_check_names_what_was_being_done(runner: Runner, programs: Any) -> None:
    path = str(programs.add("tool", "echo 'no such pool' >&2; exit 4"))
    with pytest.raises(CommandError) as caught:
        runner.check([path], "drying the pool")
    assert str(caught.value) == "Error while drying the pool: no such pool"
    assert caught.value.fields == {"rc": 4, "stdout": "", "stderr": "no such pool\n"}


@pytest.mark.parametrize(
    ("result", "said"),
    [
        (Result((), 1, "out\n", "err\n"), "err"),
        (Result((), 1, "out\n", " \n"), "out"),
        (Result((), 7, "", ""), "nothing (exit status 7)"),
        (Result((), -11, "", ""), "killed by signal 11"),
    ],
)
def test_said(result: Result, said: str) -> None:
    assert result.said == said
