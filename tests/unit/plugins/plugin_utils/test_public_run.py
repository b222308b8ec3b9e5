# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The public function that runs playbooks, with ansible-runner and this machine as all hosts."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.gpulab.kubernetes.plugins.plugin_utils.runner import Line, Problem, RunError, run
from support import programs
from support.hosts import ROOT

PROBLEM = {"kind": "host_silent", "what": "It is off", "where": "ansible_host", "why": "No answer", "do": "Turn it on"}
GOOD = [{"name": "Fine", "set_fact": {"x": 1}, "changed_when": True}]
BAD = [{"name": "Break", "fail": {"msg": "no luck"}, "when": "inventory_hostname == 'a'"}]
SLOW = [{"name": "Take long", "command": "sleep 600", "changed_when": False}]


@pytest.fixture
def temporary(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    # Ansible's sockets don't support the long paths of pytest.
    with tempfile.TemporaryDirectory(prefix="t") as name:
        monkeypatch.setenv("TMPDIR", name)
        monkeypatch.setattr(tempfile, "tempdir", None)
        yield Path(name)


@pytest.fixture
def here(tmp_path: Path, temporary: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name in [name for name in os.environ if name.startswith("ANSIBLE_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("ANSIBLE_CONFIG", str(tmp_path / "ansible.cfg"))
    (tmp_path / "ansible.cfg").touch()
    for name, text in (("sudo", programs.SUDO), ("ssh", programs.SSH)):
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
    every = f"[all:vars]\nansible_python_interpreter={sys.executable}\nansible_ssh_executable={tmp_path}/ssh\n"
    (tmp_path / "my.ini").write_text(f"[all]\na\nb\n{every}ansible_connection=local\n")
    (tmp_path / "silent.ini").write_text(f"[control_plane]\na ansible_host=192.0.2.1\n[workers]\nb\n{every}")
    return tmp_path


def playbook(tasks: list[dict[str, Any]]) -> str:
    Path("play.yml").write_text(
        yaml.safe_dump([{"name": "Do it all", "hosts": "all", "gather_facts": False, "tasks": tasks}])
    )
    return "play.yml"


def test_a_success_returns_its_output(here: Path, temporary: Path) -> None:
    lines: list[Line] = []
    result = run(playbook(GOOD), "my.ini", lines.append)
    assert (result.status, result.rc, result.hosts) == ("successful", 0, {"a": "done", "b": "done"})
    assert (result.problems, result.report_path, result.report) == ((), None, None)
    assert 0 < result.duration == result.summary["seconds"]
    assert result.summary["hosts"]["a"]["changed"] == 1
    assert [line.kind for line in lines[:2]] == ["phase", "changed"]
    assert lines[0] == "[0:00] Do it all"
    assert lines[-1].startswith("Succeeded in ")
    assert programs.left_behind(temporary, seconds=20) == []


def test_a_failure_names_its_host(here: Path) -> None:
    result = run(playbook(BAD), "my.ini")
    assert (result.status, result.rc, result.hosts) == ("failed", 2, {"a": "failed", "b": "done"})


def test_limit_check_mode_variables_environment_and_further_arguments_are_passed(here: Path) -> None:
    shown = "{{ [it, ansible_check_mode, lookup('env', 'PLACE'), ansible_run_tags | first] | join(' ') }}"
    lines: list[Line] = []
    more: dict[str, Any] = {"limit": "b", "check": True, "extra_vars": {"it": "é 1"}, "env": {"PLACE": "here"}}
    tasks = [{"name": "Tell", "debug": {"msg": shown}, "tags": ["some"]}]
    result = run(playbook(tasks), "my.ini", lines.append, arguments=["--tags", "some"], **more)
    assert result.hosts == {"b": "done"}
    assert "  b says:\n    é 1 True here some" in lines


def test_progress_is_reported_with_the_duration_of_an_earlier_run(here: Path) -> None:
    first = run(playbook(GOOD + GOOD), "my.ini")
    seen: list[Any] = []
    run("play.yml", "my.ini", on_progress=seen.append, earlier=first.summary)
    (host,) = {host.host for hosts in seen for host in hosts} - {"b"}
    assert host == "a"
    assert {(each.phase, each.expected) for hosts in seen for each in hosts} == {("Do it all", 2)}
    assert max(each.done for hosts in seen for each in hosts) == 2


def unreachable(problems: list[dict[str, str]]) -> list[dict[str, Any]]:
    """Return tasks that ignore unreachable hosts until all hosts were tried, like preflight."""
    return [
        {"name": "Read", "ping": {}, "ignore_unreachable": True},
        {"name": "Keep", "set_stats": {"data": {"gpulab_preflight_problems": problems}}, "run_once": True},
        {"name": "Fail", "fail": {"msg": "no"}, "run_once": True, "any_errors_fatal": True},
    ]


@pytest.mark.parametrize("problems", [[{**PROBLEM, "host": host} for host in "ab"], []], ids=["explained", "not"])
def test_unreachable_hosts_are_reported_as_such_even_if_a_task_explains_them(
    here: Path, problems: list[dict[str, str]]
) -> None:
    result = run(playbook(unreachable(problems)), "silent.ini")
    assert (result.status, result.hosts) == ("unreachable", {"a": "unreachable", "b": "unreachable"})
    assert result.problems == tuple(Problem(**problem) for problem in problems)


def test_a_report_written_by_this_run_is_read(here: Path) -> None:
    result = run("gpulab.kubernetes.report", "silent.ini")
    assert (result.status, result.hosts["a"], result.hosts["b"]) == ("successful", "unreachable", "unreachable")
    assert result.report_path == here / "gpulab-report.json"
    assert result.report is not None
    assert set(result.report["hosts"]) == {"a", "b"}


def in_long_task(seen: list[Any]) -> bool:
    return bool(seen) and any("Take long" in host.doing for host in seen[-1])


def test_a_canceled_run_leaves_nothing(here: Path, temporary: Path) -> None:
    seen: list[Any] = []
    result = run(playbook(GOOD + SLOW), "my.ini", on_progress=seen.append, cancel=lambda: in_long_task(seen))
    assert (result.status, result.hosts) == ("canceled", {"a": "unfinished", "b": "unfinished"})
    assert result.rc != 0
    assert programs.left_behind(temporary, seconds=20) == []


def test_a_run_is_stopped_after_its_time_limit(here: Path, temporary: Path) -> None:
    result = run(playbook(SLOW), "my.ini", timeout=5)
    assert result.status == "timeout"
    assert "done" not in result.hosts.values()
    assert programs.left_behind(temporary, seconds=20) == []


@pytest.mark.parametrize("where", ["on_line", "on_progress", "cancel"])
def test_an_exception_in_the_caller_ends_the_run_and_is_raised(here: Path, temporary: Path, where: str) -> None:
    def broken(*_args: object) -> bool:
        raise LookupError("mine")

    functions: dict[str, Any] = {where: broken}
    with pytest.raises(LookupError, match="mine"):
        run(playbook(SLOW), "my.ini", **functions)
    assert programs.left_behind(temporary, seconds=20) == []


SIGNALED = """
import os, signal, sys
from ansible.plugins.loader import init_plugin_loader
init_plugin_loader([sys.argv[1]])
from ansible_collections.gpulab.kubernetes.plugins.plugin_utils.runner import run

def show(hosts):
    if any("Take long" in host.doing for host in hosts):
        os.kill(os.getpid(), getattr(signal, sys.argv[2]))

before = signal.getsignal(signal.SIGTERM)
result = run("play.yml", "my.ini", on_progress=show)
assert signal.getsignal(signal.SIGTERM) == before
print("ended", result.status)
"""


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM"])
def test_a_signal_cancels_the_run(here: Path, temporary: Path, name: str) -> None:
    playbook(SLOW)
    command = [sys.executable, "-c", SIGNALED, str(ROOT / "collections"), name]
    assert programs.piped(command, here, dict(os.environ)) == (0, "ended canceled\n")
    assert programs.left_behind(temporary, seconds=20) == []


def test_secrets_are_in_no_argument_and_no_remaining_file(here: Path, temporary: Path) -> None:
    task = {"name": "Become", "command": "sleep 2", "become": True, "vars": {"ansible_become_exe": f"{here}/sudo"}}
    commands: list[str] = []
    result = run(
        playbook([task]),
        "my.ini",
        on_progress=lambda _hosts: commands.extend(command for command, _environ in programs.running()),
        become_password="open sesame",
        extra_vars={"token": "hush hush"},
        env={"TOKEN": "quiet please"},
        artifacts="kept",
    )
    assert result.status == "successful"
    assert any("ansible-playbook" in command for command in commands)
    kept = [path.read_text(errors="replace") for path in Path("kept").rglob("*") if path.is_file()]
    assert any("Become" in text for text in kept)
    for secret in ("open sesame", "hush hush", "quiet please"):
        assert not [text for text in [*commands, *kept] if secret in text], secret
    assert list(temporary.iterdir()) == []


def refused(**changed: Any) -> RunError:
    with pytest.raises(ValueError) as caught:
        run(**{"playbook": playbook(GOOD), "inventory": "my.ini", **changed})
    assert isinstance(caught.value, RunError)
    return caught.value


REFUSALS: dict[str, tuple[dict[str, Any], str, str, str]] = {
    "no inventory": ({"inventory": "none.ini"}, "there is no inventory none.ini", "inventory", "file or directory"),
    "no playbook": ({"playbook": "none.yml"}, "none.yml could not be found", "none.yml", "gpulab.kubernetes.site"),
    "broken inventory": ({"inventory": "broken.ini"}, "Expected key=value", "broken.ini", "Fix the inventory"),
    "broken playbook": ({"playbook": "broken.ini"}, "YAML", "broken.ini", "Fix this"),
    "no hosts": ({"limit": "zzz"}, "no hosts to target", "my.ini", "Give a limit"),
    "no such option": ({"arguments": ["--fast"]}, "unrecognized arguments: --fast", "play.yml", "Fix this"),
    "not for JSON": ({"extra_vars": {"x": Path()}}, "not JSON serializable", "extra_vars", "JSON"),
}


@pytest.mark.parametrize(("changed", "what", "where", "do"), REFUSALS.values(), ids=REFUSALS)
def test_a_run_that_cannot_start_is_one_clear_error(
    here: Path, temporary: Path, changed: dict[str, Any], what: str, where: str, do: str
) -> None:
    Path("broken.ini").write_text("a b: [\n")
    error = refused(**changed)
    assert what in error.what
    assert where in error.where
    assert do in error.do
    assert str(error).startswith("Error while starting the run: ")
    assert programs.left_behind(temporary, seconds=20) == []


BLOCKED = """
import runpy, sys
sys.modules[sys.argv[1]] = None
del sys.argv[:2]
runpy.run_path(sys.argv[0], None, "__main__")
"""


@pytest.mark.parametrize("module", ["ansible_runner", "rich", "ansible"])
def test_a_missing_package_is_named_with_its_python_and_without_a_traceback(here: Path, module: str) -> None:
    playbook(GOOD)
    script = str(ROOT / "examples" / "provision.py")
    command = [sys.executable, "-c", BLOCKED, module, script, "-i", "my.ini", "--playbook", "play.yml"]
    status, shown = programs.piped(command, here, dict(os.environ))
    assert (status, shown.count("Error while ")) == (3, 1), shown
    assert f"{sys.executable} -m pip install ansible" in shown
    assert module in shown


def test_the_guides_example_works(here: Path, temporary: Path) -> None:
    page = (ROOT / "docs" / "from-python.md").read_text()
    code = page.split("```python\n")[1].split("```")[0].replace("gpulab.kubernetes.site", "play.yml")
    assert len(code.splitlines()) <= 20
    playbook(GOOD)
    environment = {**os.environ, "ANSIBLE_COLLECTIONS_PATH": str(ROOT / "collections")}
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=here, env=environment, capture_output=True, text=True, check=False
    )
    assert (done.returncode, "Do it all" in done.stdout) == (0, True), done.stderr
