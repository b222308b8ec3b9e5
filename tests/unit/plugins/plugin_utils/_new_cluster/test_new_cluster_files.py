# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The files of a new cluster: their content, and that all of them are written or none."""

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
from ansible_collections.gpulab.kubernetes.plugins.plugin_utils._inventory.renamed import RENAMED
from ansible_collections.gpulab.kubernetes.plugins.plugin_utils._inventory.variables import find, specification
from ansible_collections.gpulab.kubernetes.plugins.plugin_utils._new_cluster import files
from ansible_collections.gpulab.kubernetes.plugins.plugin_utils._new_cluster.contents import (
    EXAMPLES,
    GUIDES,
    SETTINGS,
    closing,
    new_files,
)
from ansible_collections.gpulab.kubernetes.plugins.plugin_utils._new_cluster.machines import Machine

ROOT = Path(__file__).resolve().parents[5]
CP1, GPU1 = Machine("cp1", "192.0.2.11"), Machine("gpu1", "192.0.2.21", 4)


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
def test_the_first_machine_is_the_control_plane_and_also_a_worker_if_necessary(
    machines: list[Machine], control_plane: str, workers: list[str]
) -> None:
    expected = ["[control_plane]", control_plane, "[workers]", *workers, "[all:vars]", "ansible_user=admin"]
    assert inventory(machines) == expected


def test_a_machine_without_a_number_of_gpus_is_reported() -> None:
    texts = [new_files(machines, "admin", specification())["my.ini"] for machines in ([CP1, GPU1], [GPU1, CP1], [CP1])]
    assert ["Add cluster_expected_gpus=NUMBER" in text for text in texts] == [False, True, True]


def test_ansible_cfg_has_enough_forks_and_finds_the_inventory_and_the_collection() -> None:
    many = [Machine(f"gpu{number}", f"192.0.2.{number}", 8) for number in range(1, 42)]
    read = configparser.ConfigParser()
    read.read_string(new_files(many, "admin", specification(), "/opt/collections")["ansible.cfg"])
    assert {section: dict(read[section]) for section in read.sections()} == {
        "defaults": {
            "inventory": "my.ini",
            "collections_path": "/opt/collections:~/.ansible/collections:/usr/share/ansible/collections",
            "forks": "41",
            "interpreter_python": "auto_silent",
            "inject_facts_as_vars": "False",
            "callback_result_format": "yaml",
            "stdout_callback": "gpulab.kubernetes.progress",
        },
        "inventory": {"any_unparsed_is_failed": "True"},
        "connection": {"pipelining": "True"},
    }
    assert "collections_path" not in new_files(many, "admin", specification())["ansible.cfg"]


def settings() -> dict[str, Any]:
    """Return the settings of group_vars/all.yml after uncommenting them all."""
    text = new_files([CP1], "admin", specification())["group_vars/all.yml"]
    assert yaml.safe_load(text) is None
    return dict(yaml.safe_load(re.sub(r"^#(?! )", "", text, flags=re.MULTILINE)))


def test_the_settings_are_those_of_the_roles_with_their_defaults() -> None:
    defaults: dict[str, Any] = {}
    for path in ROOT.glob("roles/*/defaults/main.yml"):
        defaults |= yaml.safe_load(path.read_text()) or {}
    names = [name for _guide, names in SETTINGS.values() for name in names]
    # The default of a renamed variable reads its old name.
    defaults |= {name: specification()[name]["default"] for name in names if name in RENAMED.values()}
    assert settings() == {name: defaults[name] for name in names}


@pytest.mark.parametrize("name", settings())
def test_each_setting_and_its_example_are_valid(name: str) -> None:
    values = [settings()[name], *([EXAMPLES[name]] if name in EXAMPLES else [])]
    assert [list(find("gpu1", {name: value}, specification())) for value in values] == [[] for _value in values]


def test_all_settings_together_are_valid() -> None:
    assert EXAMPLES.keys() <= settings().keys()
    assert list(find("gpu1", settings(), specification())) == []


def anchors(path: Path) -> set[str]:
    titles = re.findall(r"^#+ (.*)$", path.read_text(), flags=re.MULTILINE)
    return {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles}


def test_every_link_leads_to_an_existing_page_and_section() -> None:
    texts = "".join(new_files([CP1], "admin", specification()).values())
    links = re.findall(rf"{re.escape(GUIDES)}(\S+)", texts)
    assert len(links) > 8
    for page, _sign, section in (link.partition("#") for link in links):
        assert (ROOT / page).is_file(), page
        assert not section or section in anchors(ROOT / page), f"{page}#{section}"


def test_the_last_lines_are_commands_for_the_readers_directory() -> None:
    there, names = Path("/home/ada/my cluster"), ["my.ini", "ansible.cfg"]
    assert "  cd '/home/ada/my cluster'" in closing(there, Path("/home/ada"), names, check=False)
    assert not [line for line in closing(there, there, names, check=False) if "cd " in line]
    assert closing(there, there, names, check=True) == [
        "Would write my.ini and ansible.cfg in /home/ada/my cluster. Nothing was written (--check)."
    ]


TEXTS = {"my.ini": "a\n", "group_vars/all.yml": "b\n", "ansible.cfg": "c\n"}


def tree(folder: Path) -> dict[str, str]:
    return {str(path.relative_to(folder)): path.read_text() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("directory", [".", "new", "new/one"])
def test_files_are_written_with_their_directories_and_default_modes(tmp_path: Path, directory: str) -> None:
    before = os.umask(0o027)
    try:
        files.write_new(tmp_path / directory, TEXTS)
    finally:
        os.umask(before)
    assert tree(tmp_path / directory) == TEXTS
    assert (tmp_path / directory / "my.ini").stat().st_mode & 0o777 == 0o640
    assert sorted(path.name for path in (tmp_path / directory).iterdir()) == ["ansible.cfg", "group_vars", "my.ini"]


@pytest.mark.parametrize("name", TEXTS)
def test_a_file_that_appears_meanwhile_is_kept_and_nothing_is_written(tmp_path: Path, name: str) -> None:
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
    os.kill(os.getpid(), how)
os.link = killed
# Who runs the tests may ignore it, as nohup does.
how = int(sys.argv[2])
signal.signal(how, signal.default_int_handler if how == signal.SIGINT else signal.SIG_DFL)
files.write_new(Path("new"), {"my.ini": "a", "group_vars/all.yml": "b", "ansible.cfg": "c"})
"""


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_run_that_is_terminated_while_it_writes_completes_the_files(tmp_path: Path, how: signal.Signals) -> None:
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
def test_existing_files_are_named(tmp_path: Path, existing: list[str], named: str) -> None:
    for name in existing:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).symlink_to("nowhere")
    (problem,) = files.obstacles(tmp_path, list(TEXTS))
    assert problem.what == named and "init_directory" in problem.do


def test_a_path_that_is_not_a_directory_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    problems = files.obstacles(tmp_path / "file", list(TEXTS))
    assert problems and all("is not a directory" in problem.what for problem in problems)
    assert files.obstacles(tmp_path / "other", list(TEXTS)) == []
