# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Machines as people type them, and the files that are made of them."""

from __future__ import annotations

import configparser
import os
import re
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.gpulab.kubernetes.plugins.plugin_utils._inventory.variables import find, specification
from ansible_collections.gpulab.kubernetes.plugins.plugin_utils._new_cluster import files
from ansible_collections.gpulab.kubernetes.plugins.plugin_utils._new_cluster.contents import (
    EXAMPLES,
    GUIDES,
    SETTINGS,
    closing,
    new_files,
)
from ansible_collections.gpulab.kubernetes.plugins.plugin_utils._new_cluster.machines import (
    Machine,
    read_machines,
    read_user,
)
from ansible_collections.gpulab.kubernetes.plugins.plugin_utils._new_cluster.questions import ask_machines, ask_user
from hypothesis import given
from hypothesis import strategies as st

ROOT = Path(__file__).resolve().parents[5]
CP1, GPU1 = Machine("cp1", "192.0.2.11"), Machine("gpu1", "192.0.2.21", 4)


@pytest.mark.parametrize(
    ("text", "machine"),
    [
        ("cp1:192.0.2.11", CP1),
        ("gpu1:192.0.2.21:4", GPU1),
        (" gpu1 : 192.0.2.21 : 4 ", GPU1),
        ("gpu1 192.0.2.21 4", GPU1),
        ("gpu1", Machine("gpu1", "gpu1")),
        ("gpu1.example.org", Machine("gpu1.example.org", "gpu1.example.org")),
        ("GPU-1:gpu1.example.org:8", Machine("GPU-1", "gpu1.example.org", 8)),
        ("4090box:127.0.0.1:1", Machine("4090box", "127.0.0.1", 1)),
    ],
)
def test_a_machine_has_a_name_an_address_and_perhaps_a_number_of_gpus(text: str, machine: Machine) -> None:
    assert read_machines([text]) == ([machine], [])


@pytest.mark.parametrize(
    ("text", "what", "do"),
    [
        ("", "No machine was given", "NAME:ADDRESS:GPUS"),
        (" , ,", "No machine was given", "NAME:ADDRESS:GPUS"),
        ("cp1:", "The address is missing", "cp1:192.0.2.21:4"),
        ("gpu1:4", "4 is not an address", "gpu1:192.0.2.21:4, or the name twice"),
        ("gpu1::4", "The address is missing", "the name twice"),
        ("192.0.2.11", "192.0.2.11 is an address in place of a name", "cp1:192.0.2.11"),
        ("192.0.2.11:cp1", "192.0.2.11 is an address in place of a name", "cp1:192.0.2.11"),
        ("cp1:2001:db8::1", "It contains an IPv6 address", "IPv4"),
        ("cp1:[2001:db8::1]:2", "It contains an IPv6 address", "IPv4"),
        ("cp1:2001:db8:0:0:0:0:0:1:2", "It contains an IPv6 address", "IPv4"),
        ("cp1:fe80::1%eth0", "It contains an IPv6 address", "IPv4"),
        ("fe80::1", "It contains an IPv6 address", "IPv4"),
        ("::1", "It contains an IPv6 address", "IPv4"),
        ("cp1:192.0.2.321", "'192.0.2.321' is not a valid IPv4 address or name", "DNS"),
        ("cp1:192.0.2", "'192.0.2' is not a valid IPv4 address or name", "DNS"),
        ("cp1:0x10", "'0x10' is not a valid IPv4 address or name", "DNS"),
        ("cp1:gpu_1", "'gpu_1' is not a valid IPv4 address or name", "DNS"),
        ("cp1:192.0.2.0/24", "'192.0.2.0/24' is a network", "without the length"),
        ("cp1:0.0.0.0", "0.0.0.0 is not the address of a single machine", "its own"),
        ("cp1:255.255.255.255", "255.255.255.255 is not the address of a single machine", "its own"),
        ("cp1:http://192.0.2.11", "It contains a URL", "NAME:ADDRESS"),
        ("cp1:admin@192.0.2.11", "A user does not belong here", "init_user"),
        ("cp1:192.0.2.11:4:5", "It has too many parts", "commas"),
        ("cp1:192.0.2.11 gpu1:192.0.2.21", "It has too many parts", "commas"),
        ("gpu_1:192.0.2.21", "'gpu_1' is not a valid name for a host", "letters"),
        ("-gpu1:192.0.2.21", "'-gpu1' is not a valid name for a host", "letters"),
        ("gpu1.:192.0.2.21", "'gpu1.' is not a valid name for a host", "letters"),
        (f"{'g' * 64}:192.0.2.21", "is not a valid name for a host", "letters"),
        ("gpü:192.0.2.21", "'gpü' is not a valid name for a host", "letters"),
        ("17:192.0.2.21", "'17' is not a valid name for a host", "letters"),
        ("{{x}}:192.0.2.21", "is not a valid name for a host", "letters"),
        ("Workers:192.0.2.21", "The name Workers is reserved", "gpu1"),
        ("localhost:127.0.0.1", "The name localhost is reserved", "gpu1"),
        ("gpu1:192.0.2.21:0", "'0' is not a number of GPUs from 1 to 64", "leave the number out"),
        ("gpu1:192.0.2.21:-1", "'-1' is not a number of GPUs from 1 to 64", "leave the number out"),
        ("gpu1:192.0.2.21:04", "'04' is not a number of GPUs from 1 to 64", "leave the number out"),
        ("gpu1:192.0.2.21:four", "'four' is not a number of GPUs from 1 to 64", "leave the number out"),
        ("gpu1:192.0.2.21:٤", "is not a number of GPUs from 1 to 64", "leave the number out"),
        ("gpu1:192.0.2.21:2222", "'2222' is not a number of GPUs from 1 to 64", "ansible_port"),
        ("gpu1:192.0.2.21:", "The number of GPUs is missing", "leave the number out"),
        ("a:192.0.2.1,A:192.0.2.2", "2 machines have the name a", "its own name"),
        ("a:192.0.2.1,b:192.0.2.1", "2 machines have the address 192.0.2.1", "its own address"),
    ],
)
def test_what_is_wrong_with_machines_is_said_with_what_to_write(text: str, what: str, do: str) -> None:
    _machines, problems = read_machines([text])
    assert len(problems) == 1
    assert what in problems[0].what and do in problems[0].do
    assert problems[0].where == "init_hosts" and problems[0].why


def test_every_problem_of_every_machine_is_found_at_once() -> None:
    _machines, problems = read_machines(["gpu_1:192.0.2.999:x", "cp1:192.0.2.11,cp1:fe80::1"])
    assert [problem.kind for problem in problems] == ["name_wrong", "address_wrong", "gpus_wrong", "ipv6", "name_twice"]
    assert problems[-1].host == "cp1:192.0.2.11, cp1:fe80::1"


@pytest.mark.parametrize("text", ["admin:secret@192.0.2.11", "gpu1:admin:secret@gpu1:4", "https://a:secret@b/"])
def test_no_problem_repeats_a_password(text: str) -> None:
    problems = [*read_machines([text])[1], *read_user(text)]
    assert problems and "secret" not in repr(problems)


@given(st.text())
def test_any_text_is_machines_or_problems(text: str) -> None:
    machines, problems = read_machines([text])
    assert bool(problems) != bool(machines) or len(problems) > 0
    if not problems:
        assert "\n" not in "".join(machine.name + machine.address for machine in machines)


@pytest.mark.parametrize("user", ["admin", "_apt", "ada.lovelace", "Ada-1"])
def test_a_user_has_a_name(user: str) -> None:
    assert read_user(user) == []


@pytest.mark.parametrize(
    "user", ["", " ", "a b", "-x", "ada@gpu1", "ada:secret", "{{ user }}", "a\nb", "1ada", "a" * 33]
)
def test_the_name_of_a_user_is_checked(user: str) -> None:
    (problem,) = read_user(user)
    assert (problem.kind, problem.where) == ("user_wrong", "init_user")


def inventory(machines: Sequence[Machine]) -> list[str]:
    text = new_files(machines, "admin", specification())["my.ini"]
    return [line for line in text.splitlines() if line and line[0] != "#"]


@pytest.mark.parametrize(
    ("machines", "control_plane", "workers"),
    [
        ([CP1, GPU1], "cp1 ansible_host=192.0.2.11", ["gpu1 ansible_host=192.0.2.21 cluster_expected_gpus=4"]),
        ([CP1], "cp1 ansible_host=192.0.2.11", ["cp1"]),
        ([GPU1], "gpu1 ansible_host=192.0.2.21 cluster_expected_gpus=4", ["gpu1"]),
        ([GPU1, CP1], "gpu1 ansible_host=192.0.2.21 cluster_expected_gpus=4", ["gpu1", "cp1 ansible_host=192.0.2.11"]),
        ([Machine("a", "a"), Machine("b", "b", 2)], "a", ["b cluster_expected_gpus=2"]),
    ],
)
def test_the_first_machine_is_the_control_plane_and_a_worker_if_it_has_to_be(
    machines: list[Machine], control_plane: str, workers: list[str]
) -> None:
    expected = ["[control_plane]", control_plane, "[workers]", *workers, "[all:vars]", "ansible_user=admin"]
    assert inventory(machines) == expected


def test_a_machine_without_a_number_of_gpus_is_pointed_out() -> None:
    texts = [new_files(machines, "admin", specification())["my.ini"] for machines in ([CP1, GPU1], [GPU1, CP1], [CP1])]
    assert ["Add cluster_expected_gpus=NUMBER" in text for text in texts] == [False, True, True]


def test_ansible_reaches_all_machines_at_once_and_finds_the_inventory_and_the_collection() -> None:
    many = [Machine(f"gpu{number}", f"192.0.2.{number}", 8) for number in range(1, 42)]
    read = configparser.ConfigParser()
    read.read_string(new_files(many, "admin", specification(), "/opt/collections")["ansible.cfg"])
    assert {section: dict(read[section]) for section in read.sections()} == {
        "defaults": {
            "inventory": "my.ini",
            "collections_path": "/opt/collections:~/.ansible/collections:/usr/share/ansible/collections",
            "forks": "41",
            "interpreter_python": "auto_silent",
            "callback_result_format": "yaml",
            "stdout_callback": "gpulab.kubernetes.progress",
        },
        "inventory": {"any_unparsed_is_failed": "True"},
        "connection": {"pipelining": "True"},
    }
    assert "collections_path" not in new_files(many, "admin", specification())["ansible.cfg"]


def settings() -> dict[str, Any]:
    """Return what group_vars/all.yml sets once all number signs before names are removed."""
    text = new_files([CP1], "admin", specification())["group_vars/all.yml"]
    assert yaml.safe_load(text) is None
    return dict(yaml.safe_load(re.sub(r"^#(?! )", "", text, flags=re.MULTILINE)))


def test_the_settings_are_those_of_the_roles_with_their_defaults() -> None:
    defaults: dict[str, Any] = {}
    for path in ROOT.glob("roles/*/defaults/main.yml"):
        defaults |= yaml.safe_load(path.read_text()) or {}
    names = [name for _guide, names in SETTINGS.values() for name in names]
    assert settings() == {name: defaults[name] for name in names}


@pytest.mark.parametrize("name", settings())
def test_each_setting_is_valid_and_so_is_its_example(name: str) -> None:
    values = [settings()[name], *([EXAMPLES[name]] if name in EXAMPLES else [])]
    assert [list(find("gpu1", {name: value}, specification())) for value in values] == [[] for _value in values]


def test_all_settings_together_are_valid() -> None:
    assert EXAMPLES.keys() <= settings().keys()
    assert list(find("gpu1", settings(), specification())) == []


def anchors(path: Path) -> set[str]:
    titles = re.findall(r"^#+ (.*)$", path.read_text(), flags=re.MULTILINE)
    return {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles}


def test_every_link_leads_to_a_page_and_its_section() -> None:
    texts = "".join(new_files([CP1], "admin", specification()).values())
    links = re.findall(rf"{re.escape(GUIDES)}(\S+)", texts)
    assert len(links) > 8
    for page, _sign, section in (link.partition("#") for link in links):
        assert (ROOT / page).is_file(), page
        assert not section or section in anchors(ROOT / page), f"{page}#{section}"


def test_the_last_lines_are_commands_for_where_the_reader_is() -> None:
    there, names = Path("/home/ada/my cluster"), ["my.ini", "ansible.cfg"]
    assert "  cd '/home/ada/my cluster'" in closing(there, Path("/home/ada"), names, check=False)
    assert not [line for line in closing(there, there, names, check=False) if "cd " in line]
    assert closing(there, there, names, check=True) == [
        "Would write my.ini and ansible.cfg in /home/ada/my cluster. Nothing was written (--check)."
    ]


def asked(answers: Sequence[str], user: str = "") -> tuple[list[Machine], str, list[str], list[str]]:
    questions: list[str] = []
    told: list[str] = []
    left = iter(answers)

    def ask(question: str) -> str:
        questions.append(question)
        return next(left)

    return ask_machines(ask, told.append), ask_user(ask, told.append, user), questions, told


def test_questions_end_with_an_empty_answer_and_the_user() -> None:
    machines, user, questions, _told = asked(["cp1:192.0.2.11", "gpu1 192.0.2.21 4", "", "admin"])
    assert (machines, user) == ([CP1, GPU1], "admin")
    titles = ["Control plane", "GPU host 1", "GPU host 2", "User"]
    assert [question[: len(title)] for question, title in zip(questions, titles, strict=True)] == titles


def test_a_wrong_answer_is_asked_once_more_and_the_right_ones_are_kept() -> None:
    answers = ["", "cp1:fe80::1", "cp1:192.0.2.11", "gpu1:192.0.2.11:4", "gpu1:192.0.2.21:4", "", "a@b", ""]
    machines, user, questions, told = asked(answers, user="ada")
    assert (machines, user) == ([CP1, GPU1], "ada")
    assert len(questions) == len(answers) and "[ada]" in questions[-1]
    for words in ("No machine was given", "IPv6", "cp1, gpu1: 2 machines have the address", "not a valid name for"):
        assert words in "\n".join(told)


def test_a_control_plane_can_be_the_only_machine() -> None:
    assert asked(["cp1:192.0.2.11", "", "admin"])[0] == [CP1]


TEXTS = {"my.ini": "a\n", "group_vars/all.yml": "b\n", "ansible.cfg": "c\n"}


def tree(folder: Path) -> dict[str, str]:
    return {str(path.relative_to(folder)): path.read_text() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("directory", [".", "new", "new/one"])
def test_files_are_written_with_their_directories_and_the_modes_of_new_files(tmp_path: Path, directory: str) -> None:
    before = os.umask(0o027)
    try:
        files.write_new(tmp_path / directory, TEXTS)
    finally:
        os.umask(before)
    assert tree(tmp_path / directory) == TEXTS
    assert (tmp_path / directory / "my.ini").stat().st_mode & 0o777 == 0o640
    assert sorted(path.name for path in (tmp_path / directory).iterdir()) == ["ansible.cfg", "group_vars", "my.ini"]


@pytest.mark.parametrize("name", TEXTS)
def test_a_file_that_appears_meanwhile_is_kept_and_nothing_is_added(tmp_path: Path, name: str) -> None:
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_text("mine\n")
    with pytest.raises(FileExistsError):
        files.write_new(tmp_path, TEXTS)
    assert tree(tmp_path) == {name: "mine\n"}
    assert [path.name for path in tmp_path.iterdir()] == [name.split("/")[0]]


def test_a_full_disk_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[int] = []

    def sync(handle: int) -> None:
        synced.append(handle)
        if len(synced) == 2:
            raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", sync)
    with pytest.raises(OSError, match="No space left"):
        files.write_new(tmp_path / "new" / "one", TEXTS)
    assert list(tmp_path.iterdir()) == []


KILLED = """import os, signal, sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
import ansible_collections
if isinstance(ansible_collections.__path__, list):
    ansible_collections.__path__.insert(0, sys.argv[1] + "/ansible_collections")
from ansible_collections.gpulab.kubernetes.plugins.plugin_utils._new_cluster import files
link = os.link
def killed(source, target):
    link(source, target)
    os.kill(os.getpid(), int(sys.argv[2]))
os.link = killed
files.write_new(Path("new"), {"my.ini": "a", "group_vars/all.yml": "b", "ansible.cfg": "c"})
"""


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_run_that_is_ended_while_it_writes_has_written_all(tmp_path: Path, how: signal.Signals) -> None:
    command = [sys.executable, "-c", KILLED, str(ROOT / "collections"), str(int(how))]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == -how, done.stderr
    assert sorted(tree(tmp_path)) == ["new/ansible.cfg", "new/group_vars/all.yml", "new/my.ini"]


@pytest.mark.parametrize(
    ("existing", "named"),
    [
        (["my.ini"], "my.ini already exists"),
        (["my.ini", "ansible.cfg"], "my.ini, ansible.cfg already exist"),
        (["group_vars/all.yaml"], "group_vars/all.yaml already exists"),
        (["group_vars/all"], "group_vars/all already exists"),
    ],
)
def test_files_that_exist_are_named(tmp_path: Path, existing: list[str], named: str) -> None:
    for name in existing:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).symlink_to("nowhere")
    (problem,) = files.obstacles(tmp_path, list(TEXTS))
    assert problem.what == named and "init_directory" in problem.do


def test_a_directory_that_is_none_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    problems = files.obstacles(tmp_path / "file", list(TEXTS))
    assert problems and all("is not a directory" in problem.what for problem in problems)
    assert files.obstacles(tmp_path / "other", list(TEXTS)) == []
