# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Questions and files of the playbook init, which writes all of its files or none."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pexpect
import pytest
from support.hosts import ROOT
from support.programs import piped, terminal

PROGRAM = str(Path(sys.executable).parent / "ansible-playbook")
INIT = [PROGRAM, "gpulab.kubernetes.init"]
MACHINES = ["-e", "init_hosts=cp1:192.0.2.11,gpu1:192.0.2.21:4", "-e", "init_user=admin"]
WRITTEN = ["ansible.cfg", "group_vars/all.yml", "my.ini"]


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    path = tmp_path / "cluster"
    path.mkdir()
    yield path
    # Ansible's workers survive if their parent is killed.
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if (process / "cwd").readlink().is_relative_to(tmp_path) and int(process.name) != os.getpid():
                os.kill(int(process.name), signal.SIGKILL)


def environment(folder: Path, **more: str) -> dict[str, str]:
    """Return the environment of a user who has the collection, but no Ansible settings."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("ANSIBLE_")}
    own = {
        "ANSIBLE_COLLECTIONS_PATH": str(ROOT / "collections"),
        "ANSIBLE_LOCAL_TEMP": str(folder.parent / "tmp"),
        "ANSIBLE_NOCOLOR": "1",
        "LOGNAME": "ada",
        "COLUMNS": "200",
    }
    return {**clean, **own, **more}


def run(folder: Path, *arguments: str) -> tuple[int, str]:
    return piped([*INIT, *arguments], folder, environment(folder))


def found(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if not path.is_dir())


def test_written_files_are_a_working_inventory_and_find_the_collection(folder: Path) -> None:
    status, output = run(folder, *MACHINES)
    assert status == 0, output
    assert found(folder) == WRITTEN
    assert "ansible-playbook gpulab.kubernetes.preflight -i my.ini -K" in output and "cd /" not in output
    bare = environment(folder)
    # Without the variable, the collection in the checkout is found through ansible.cfg.
    del bare["ANSIBLE_COLLECTIONS_PATH"]
    for inventory in ([], ["-i", "my.ini"]):
        status, output = piped([PROGRAM, "gpulab.kubernetes.inventory", *inventory], folder, bare)
        assert status == 0 and "[WARNING]" not in output, output
        assert "Control plane: cp1 (192.0.2.11)" in output and "gpu1 (192.0.2.21)" in output


def test_uncommented_settings_are_accepted(folder: Path) -> None:
    run(folder, *MACHINES)
    path = folder / "group_vars" / "all.yml"
    path.write_text(re.sub(r"^#(?! )", "", path.read_text(), flags=re.MULTILINE))
    command = [PROGRAM, "gpulab.kubernetes.inventory"]
    status, output = piped(command, folder, environment(folder))
    assert status == 0, output
    path.write_text(path.read_text().replace("mode: exclusive", "mode: sharing"))
    status, output = piped(command, folder, environment(folder))
    assert status != 0 and "cluster_gpu_sharing" in output


# The order of docs/own-machines.md, "Where settings go": each place overrides those before it.
PLACES = (
    ("my.ini", "[all:vars]\nplace=all_of_the_inventory\n"),
    ("my.ini", "[workers:vars]\nplace=group_of_the_inventory\n"),
    ("group_vars/all.yml", "place: all\n"),
    ("group_vars/workers.yml", "place: group\n"),
    ("my.ini", "[workers]\ngpu1 place=line\n"),
    ("host_vars/gpu1.yml", "place: host\n"),
)


def test_settings_override_each_other_in_the_order_of_the_guide(folder: Path) -> None:
    run(folder, *MACHINES)
    program = str(Path(PROGRAM).with_name("ansible-inventory"))
    shown = []
    for name, text in PLACES:
        (folder / name).parent.mkdir(exist_ok=True)
        with (folder / name).open("a") as file:
            file.write(text)
        status, output = piped([program, "--host", "gpu1"], folder, environment(folder))
        assert status == 0, output
        shown.append(json.loads(output)["place"])
    assert shown == ["all_of_the_inventory", "group_of_the_inventory", "all", "group", "line", "host"]
    guide = (ROOT / "docs" / "own-machines.md").read_text().partition("### Where settings go")[2]
    places = [guide.index(f"`{name}`") for name in ("[all:vars]", *(name for name, _text in PLACES if ".yml" in name))]
    assert places == sorted(places)


def test_second_run_names_existing_files_and_changes_none(folder: Path) -> None:
    run(folder, *MACHINES)
    before = {name: (folder / name).read_text() for name in WRITTEN}
    status, output = run(folder, "-e", "init_hosts=other:192.0.2.99")
    assert status != 0
    assert "my.ini, group_vars/all.yml, ansible.cfg already exist" in output
    assert {name: (folder / name).read_text() for name in found(folder)} == before


@pytest.mark.parametrize("name", WRITTEN)
def test_any_existing_file_ends_the_run_before_the_first_question(folder: Path, name: str) -> None:
    (folder / name).parent.mkdir(exist_ok=True)
    (folder / name).touch()
    process = terminal(INIT, folder, environment(folder), 100)
    process.expect(f"{name} already exists")
    process.expect(pexpect.EOF)
    process.close()
    assert process.exitstatus not in (0, None)
    assert found(folder) == [name]


def test_all_mistakes_are_reported_in_one_error_and_nothing_is_written(folder: Path) -> None:
    wrong = "init_hosts=cp_1:192.0.2.11,gpu1:192.0.2.321:4,gpu2:192.0.2.22:many,gpu3:2001:db8::1"
    status, output = run(folder, "-e", wrong, "-e", "init_user=ada@gpu1")
    assert status != 0 and output.count("fatal: ") == 1
    assert "5 problems found before anything was changed." in output
    for words in ("'cp_1' is not", "'192.0.2.321' is not", "'many' is not", "IPv6", "is not a valid name for a user"):
        assert words in output
    assert list(folder.iterdir()) == []


def test_without_a_terminal_the_error_names_the_missing_options(folder: Path) -> None:
    status, output = run(folder)
    assert status != 0 and output.count("fatal: ") == 1
    assert "-e init_hosts=cp1:192.0.2.11,gpu1:192.0.2.21:4" in output and "-e init_user=USER" in output
    assert list(folder.iterdir()) == []


def test_check_mode_shows_the_files_and_writes_nothing(folder: Path) -> None:
    status, output = run(folder, *MACHINES, "--check", "--diff", "-e", "init_directory=new/one")
    assert status == 0, output
    for line in ("+gpu1 ansible_host=192.0.2.21 cluster_expected_gpus=4", "+#cluster_pod_network: 10.", "+forks = 20"):
        assert line in output
    assert f"Would write my.ini, group_vars/all.yml and ansible.cfg in {folder}/new/one. Nothing was" in output
    assert list(folder.iterdir()) == []


def test_another_directory_is_created_and_next_command_changes_into_it(folder: Path) -> None:
    status, output = run(folder, "-e", "init_hosts=box:192.0.2.31:1", "-e", "init_directory=new/one")
    assert status == 0, output
    assert found(folder) == [f"new/one/{name}" for name in WRITTEN]
    assert f"cd {folder}/new/one" in output
    # The default of init_user is the user who runs Ansible, as with SSH.
    assert "ansible_user=ada\n" in (folder / "new" / "one" / "my.ini").read_text()


def test_unusable_directory_is_named(folder: Path) -> None:
    (folder / "file").touch()
    status, output = run(folder, *MACHINES, "-e", "init_directory=file")
    assert status != 0 and f"{folder}/file is not a directory" in output
    assert found(folder) == ["file"]


def answer(process: pexpect.spawn, question: str, text: str) -> None:
    process.expect(question)
    # Ansible discards input from before the prompt. The live view must not write to the line of the prompt.
    assert process.expect([r"\d:\d\d 1/1 ", pexpect.TIMEOUT], timeout=0.7) == 1
    process.send(f"{text}\r")


@pytest.mark.parametrize("callback", ["ansible.builtin.default", "gpulab.kubernetes.progress"])
def test_terminal_user_is_asked_again_after_an_invalid_answer(folder: Path, callback: str) -> None:
    process = terminal(INIT, folder, environment(folder, ANSIBLE_STDOUT_CALLBACK=callback), 100)
    answer(process, r"Control plane, as NAME:ADDRESS.*2\):", "cp1:fe80::1")
    answer(process, r"IPv6.*Control plane, as NAME:ADDRESS.*2\):", "cp1:192.0.2.11")
    answer(process, "GPU host 1", "gpu1 192.0.2.21 4")
    answer(process, r"gpu1 \(192.0.2.21, 4 GPUs\).*GPU host 2", "")
    answer(process, r"User with sudo rights on the machines \[ada\]", "")
    process.expect("Next")
    process.expect(pexpect.EOF)
    process.close()
    assert process.exitstatus == 0
    assert found(folder) == WRITTEN
    text = (folder / "my.ini").read_text()
    assert "gpu1 ansible_host=192.0.2.21 cluster_expected_gpus=4\n" in text and "ansible_user=ada\n" in text


@pytest.mark.parametrize("how", ["ctrl-c", "terminated", "hung up", "killed"])
def test_run_that_ends_during_the_questions_writes_nothing(folder: Path, how: str) -> None:
    process = terminal(INIT, folder, environment(folder), 100)
    answer(process, "Control plane", "cp1:192.0.2.11")
    process.expect("GPU host 1")
    time.sleep(0.5)
    if how == "ctrl-c":
        process.send("\x03")
        process.expect("Nothing was written")
    else:
        process.kill({"terminated": 15, "hung up": 1, "killed": 9}[how])
    process.expect([pexpect.EOF, pexpect.TIMEOUT], timeout=20)
    process.close(force=True)
    assert process.exitstatus != 0
    assert list(folder.iterdir()) == []
