# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import json
import os
import shlex
import time
from pathlib import Path
from typing import Any

import pytest
from ansible.module_utils import basic
from ansible.module_utils.testing import patch_module_args
from ansible_collections.gpulab.kubernetes.plugins.module_utils._command import (
    CommandError,
    CommandNotFoundError,
    CommandTimeoutError,
    Result,
    Runner,
)
from ansible_collections.gpulab.kubernetes.plugins.module_utils._module import QuietModule, run
from ansible_collections.gpulab.kubernetes.plugins.module_utils._secrets import command_line, mask
from verbosity import QUIET, verbosity


@pytest.fixture
def runner(monkeypatch: pytest.MonkeyPatch) -> Runner:
    monkeypatch.setattr(basic, "_ANSIBLE_ARGS", b'{"ANSIBLE_MODULE_ARGS": {}}')
    monkeypatch.setattr(basic, "_ANSIBLE_PROFILE", "legacy", raising=False)
    return Runner(basic.AnsibleModule(argument_spec={}), timeout=30)


def test_a_result_has_all_fields(runner: Runner, programs: Any) -> None:
    path = str(programs.add("tool", 'echo "out $1 $LC_ALL"; echo "err" >&2; exit 3'))
    assert runner.run([path, "$HOME *"]) == Result((path, "$HOME *"), 3, "out $HOME * C\n", "err\n")


def test_a_program_is_found_in_path(runner: Runner) -> None:
    assert runner.run(["sh", "-c", "exit 0"]).rc == 0


def test_data_is_passed_to_stdin_unchanged(runner: Runner, programs: Any) -> None:
    path = str(programs.add("tool", "cat"))
    assert runner.run([path], data="secret without newline").stdout == "secret without newline"


def test_a_program_that_does_not_read_its_input_is_not_an_error(runner: Runner, programs: Any) -> None:
    path = str(programs.add("tool", "exit 0"))
    assert runner.run([path], data="x" * 1_000_000).rc in (0, -13)


def test_invalid_utf8_is_replaced(runner: Runner, programs: Any) -> None:
    path = str(programs.add("tool", r"printf '\377ok'"))
    assert runner.run([path]).stdout == "\ufffdok"


@pytest.mark.parametrize("name", ["no-such-program-here", "/no/such/program"])
def test_a_missing_program_has_its_own_error(runner: Runner, name: str) -> None:
    with pytest.raises(CommandNotFoundError, match=name) as caught:
        runner.run([name, "--version"])
    assert caught.value.fields == {"cmd": (name, "--version"), "rc": 127}


def test_a_file_that_is_not_executable_is_an_error(runner: Runner, tmp_path: Path) -> None:
    broken = tmp_path / "broken"
    broken.write_text("#!/no/such/interpreter\n")
    broken.chmod(0o755)
    with pytest.raises(CommandError, match=r"Error while running .*broken") as caught:
        runner.run([str(broken)])
    assert caught.value.fields["cmd"] == (str(broken),)


def _ended(process: Path) -> bool:
    """Return whether a killed process is gone, or a zombie that has not been reaped yet."""
    try:
        return (process / "stat").read_text().split()[2] == "Z"
    except (FileNotFoundError, ProcessLookupError):
        return True


def test_a_program_that_hangs_is_killed_with_its_children(runner: Runner, programs: Any, tmp_path: Path) -> None:
    path = str(programs.add("stuck", f"echo begun\nsleep 600 &\necho $! > {tmp_path}/child\nwait"))
    start = time.monotonic()
    with pytest.raises(CommandTimeoutError, match=r"stuck.*0\.5 s") as caught:
        runner.run([path], timeout=0.5)
    assert time.monotonic() - start < 10
    assert caught.value.fields["stdout"] == "begun\n" and caught.value.fields["cmd"] == (path,)
    child = Path("/proc") / (tmp_path / "child").read_text().strip()
    while time.monotonic() - start < 10 and not _ended(child):
        time.sleep(0.02)
    assert _ended(child)


def test_a_child_that_keeps_writing_does_not_block(runner: Runner, programs: Any) -> None:
    path = str(programs.add("stuck", "yes &\nwait"))
    with pytest.raises(CommandTimeoutError):
        runner.run([path], timeout=0.3)


def test_a_quick_program_does_not_wait(runner: Runner) -> None:
    before = os.times().elapsed
    runner.run(["true"], timeout=60)
    assert os.times().elapsed - before < 10


def test_an_error_names_the_failed_action(runner: Runner, programs: Any) -> None:
    path = str(programs.add("tool", "echo 'no such pool' >&2; exit 4"))
    with pytest.raises(CommandError) as caught:
        runner.check([path], "drying the pool")
    assert str(caught.value) == "Error while drying the pool: no such pool"
    assert caught.value.fields == {"cmd": (path,), "rc": 4, "stdout": "", "stderr": "no such pool\n"}


@pytest.mark.parametrize(
    ("result", "said"),
    [
        (Result((), 1, "out\n", "err\n"), "err"),
        (Result((), 1, "out\n", " \n"), "out"),
        (Result((), 7, "", ""), "nothing (exit status 7)"),
        (Result((), -11, "", ""), "killed by signal 11"),
    ],
)
def test_the_message_of_a_result_is_its_most_relevant_output(result: Result, said: str) -> None:
    assert result.message == said


TOKEN = "8l4jks.lxh6hgeuqnq29tac"
# Ansible's replacement for an argument that is the value of a secret option.
HIDDEN = "VALUE_SPECIFIED_IN_NO_LOG_PARAMETER"


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        ("proxy http://ci:S3CRET@proxy:3128/x", "proxy http://********@proxy:3128/x"),
        ("https://S3CRET@index.example.org/simple", "https://********@index.example.org/simple"),
        ("http://ci:S3CR@ET@mirror", "http://********@mirror"),
        (f"kubeadm join --token {TOKEN} --v=5", "kubeadm join --token ******** --v=5"),
        ("--certificate-key=S3CRET --v=5", "--certificate-key=******** --v=5"),
        ("--certificate-key S3CRET", "--certificate-key ********"),
        ("--admin-password 'S3CRET with spaces' next", "--admin-password ******** next"),
        ("WANDB_API_KEY=S3CRET", "WANDB_API_KEY=********"),
        ('{"password": "S3CRET", "user": "ci"}', '{"password": ******** "user": "ci"}'),
        ("login ci password: S3CRET", "login ci password: ********"),
        ("Proxy-Authorization: Basic S3CRET", "Proxy-Authorization: Basic ********"),
        (f"invalid token {TOKEN}.", "invalid token ********."),
        ('TOKEN="S3CRET', "TOKEN=********"),
        ("wrong\nPassword: S3CRET\nnext", "wrong\nPassword: ********\nnext"),
    ],
)
def test_secrets_in_texts_are_masked(text: str, masked: str) -> None:
    assert mask(text) == masked


@pytest.mark.parametrize(
    "text",
    [
        "unknown flag: --token\nTo see the stack trace",
        "--token is required, --access-key path was not found",
        "the source requires a user and a password: set cluster_apt_credentials",
        "password: authentication failed",
        "automountServiceAccountToken=false",
        "could not find a JWS signature for token ID 8l4jks",
        "oci://registry:5000/image@sha256:" + "a" * 64,
        "Hash Sum mismatch: SHA256:" + "0" * 64,
        "http://mirror.example.org/dists/stable and root@gpu1",
        "mirror.internalregistry1.example.org",
        "-o Dpkg::Options::=--force-confold nvidia-driver-595=595.71-1",
    ],
)
def test_texts_without_secrets_stay_as_they_are(text: str) -> None:
    assert mask(text) == text


def test_a_shown_command_line_can_be_run_again() -> None:
    argv = ["sh", "-c", "echo $HOME; ls 'a b'"]
    assert shlex.split(command_line(argv)) == argv


# Quoting changes the first and the third argument.
SECRETS = ["it's S3CRET", "S3CRET", 'S3"CRET $x']


@pytest.mark.parametrize("secret", SECRETS)
@pytest.mark.parametrize(
    ("words", "shown"),
    [
        (["--token", "{}"], "--token '********'"),
        (["--token={}", "x"], "'--token=********' x"),
        (["-e", "WANDB_API_KEY={}", "-e", "X=1"], "-e 'WANDB_API_KEY=********' -e X=1"),
        (["--certificate-key", "{}", "--v=5"], "--certificate-key '********' --v=5"),
    ],
)
def test_a_registered_secret_is_not_shown_in_a_command_line(secret: str, words: list[str], shown: str) -> None:
    assert command_line(["tool", *(word.replace("{}", secret) for word in words)]) == f"tool {shown}"


@pytest.mark.parametrize("secret", SECRETS)
def test_the_value_of_a_secret_option_is_not_shown_in_a_command_line(secret: str) -> None:
    shown = f"tool --key 'x********' {HIDDEN}"
    assert command_line(["tool", "--key", f"x{secret}", secret], [secret]) == shown


def ended(
    kind: type[basic.AnsibleModule], capsys: pytest.CaptureFixture[str], function: Any, **arguments: Any
) -> dict[str, Any]:
    """Return the result of a module with a secret option, as the controller gets it."""
    with patch_module_args({"key": "it's S3CRET", **arguments}):
        module = kind(argument_spec={"key": {"type": "str", "no_log": True}})
        with pytest.raises(SystemExit):
            run(module, function)
    result: dict[str, Any] = json.loads(capsys.readouterr().out)
    return result


@pytest.mark.parametrize("kind", [basic.AnsibleModule, QuietModule])
@pytest.mark.parametrize("level", [0, 1, 3])
def test_a_failure_shows_its_command_without_secrets(
    kind: type[basic.AnsibleModule], level: int, programs: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    path = str(programs.add("tool", 'cat >"$0.read"; echo "out: $*"; echo "err: $*" >&2; exit 3'))
    first = str(programs.add("first", "exit 1"))

    def fail(module: Any) -> Any:
        Runner(module).run([first, "--state"])
        argv = [path, "--key", module.params["key"], "--token", TOKEN, "http://ci:S3CRET@mirror", "--password=S3CRET"]
        return Runner(module).check(argv, "reading http://ci:S3CRET@mirror", data="S3CRET of stdin")

    result = ended(kind, capsys, fail, **verbosity(level))
    assert Path(f"{path}.read").read_text() == "S3CRET of stdin"
    shown = f"{path} --key {HIDDEN} --token '********' 'http://********@mirror' '--password=********'"
    assert (result["cmd"], result["rc"]) == (shown, 3)
    assert result["msg"].startswith("Error while reading http://********@mirror: err: --key ********")
    assert result["stdout"].startswith("out: ") and result["stderr"].startswith("err: ")
    assert "S3CRET" not in str(result) and TOKEN not in str(result)
    ran = [each.rpartition(", ")[0] for each in result.get("commands", [])]
    assert ran == ([f"{first} --state (exit status 1", f"{shown} (exit status 3"] if level else [])
    assert all(each.endswith(" s)") for each in result.get("commands", []))


def test_a_result_lists_its_commands_only_with_v(
    programs: Any, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    programs.add("tool", 'test "$1" != slow || exec sleep 60')
    monkeypatch.setenv("PATH", f"{programs.directory}{os.pathsep}{os.environ['PATH']}")

    def succeed(module: Any) -> Any:
        Runner(module).run(["tool", "one"])
        with pytest.raises(CommandTimeoutError):
            Runner(module, timeout=0.3).run(["tool", "slow"])
        return {"changed": True}

    result = ended(QuietModule, capsys, succeed, _ansible_verbosity=1)
    assert result["changed"]
    assert [each.rpartition(", ")[0] for each in result["commands"]] == [
        "tool one (exit status 0",
        "tool slow (killed by signal 9",
    ]
    assert ended(QuietModule, capsys, succeed) == {"changed": True, **QUIET}
    assert ended(QuietModule, capsys, lambda _module: {}, _ansible_verbosity=1) == {"changed": False, **QUIET}
