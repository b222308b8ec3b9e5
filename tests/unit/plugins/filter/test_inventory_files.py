# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Inventory files that Ansible can't read, files that only look unreadable, and hosts with two addresses."""

from __future__ import annotations

from pathlib import Path

import pytest
from ansible import constants
from ansible.inventory.manager import InventoryManager
from ansible.parsing.dataloader import DataLoader
from ansible.utils.vars import load_extra_vars
from ansible_collections.gpulab.kubernetes.plugins.filter.inventory import inventory_hints
from ansible_collections.gpulab.kubernetes.plugins.plugin_utils._inventory.sources import problems

NAMES = {"cluster_control_plane_group": "control_plane", "cluster_workers_group": "workers"}
FIRST = "[control_plane]\ncp1\n[workers]\ngpu1\n"
VAULTED = "x: !vault |\n      $ANSIBLE_VAULT;1.1;AES256\n      6161\n"


@pytest.fixture(autouse=True)
def _default_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    """Restore Ansible's default, which ignores unreadable files; this repository's ansible.cfg makes them an error."""
    monkeypatch.setattr(constants, "INVENTORY_ANY_UNPARSED_IS_FAILED", False)
    # Inventory plugins set this for the whole process.
    monkeypatch.setattr(load_extra_vars, "extra_vars", {}, raising=False)


def inventory(path: Path) -> InventoryManager:
    return InventoryManager(DataLoader(), [str(path)])


# Name of a file, its content, and a part of the message about it; empty if there is none.
FILES: list[tuple[str, str | bytes, str]] = [
    ("tab.yml", "all:\n  hosts:\n\tgpu2:\n", "Tabs are usually invalid"),
    ("list.yml", "workers:\n  hosts:\n    - gpu2\n", "it has the hosts gpu2"),
    ("flow.yml", "workers: {hosts: [gpu2, gpu3]}\n", "it has the hosts gpu2, gpu3"),
    ("list", "workers:\n  hosts:\n    - gpu2\n", "it has the hosts gpu2"),
    ("wide", "[workers]\ngpu2\n".encode("utf-16-le"), "it has the hosts gpu2"),
    ("wide.ini", "[workers]\ngpu2\n".encode("utf-16-be"), "it has the hosts gpu2"),
    ("address.ini", "[workers]\ngpu2 192.0.2.2\n", "Correct line 2: Expected key=value"),
    ("equals", "[workers]\ngpu2 ansible_host = 192.0.2.2\n", "Expected key=value"),
    ("quote", "[workers]\ngpu2 ansible_user='x\n", "No closing quotation"),
    ("half", "[workers]\ngpu2\n[x:hots]\ngpu3\n", ""),
    ("lost", "[workers]\ngpu1\n[x:hots]\n[y]\ngpu2\n", "it has the hosts gpu2"),
    # Files that Ansible reads, or that are not inventories.
    ("text", "all:\n  hosts: {gpu2: {}}\n  vars:\n    motd: |\n      gpu7\n      gpu8 a=b\n", ""),
    ("text.yml", "all:\n  hosts: {gpu2: {}}\n  vars:\n    motd: |\n      hosts:\n", ""),
    ("constructed.yml", "plugin: ansible.builtin.constructed\nstrict: true\ngroups: {x: a}\n", ""),
    ("openstack.yml", "plugin: openstack.cloud.openstack\nhosts: [a]\n", ""),
    ("kids", "[cluster:children]\ncontrol_plane\nworkers\n", ""),
    ("more", "[nowhere:vars]\na=1\n", ""),
    ("kids.yml", "all: {children: {workers: {}}}\n", ""),
    ("variables", "[all:vars]\na=1\nb = 2 3\n", ""),
    ("comments", "# gpu7\n; gpu8 9\n\n", ""),
    ("comments.yml", "---\n# gpu7\n", ""),
    ("empty", "", ""),
    ("secret.yml", "$ANSIBLE_VAULT;1.1;AES256\n6161\n", ""),
    ("vaulted.yml", f"all:\n  hosts:\n    gpu2:\n     {VAULTED}", ""),
    ("json", '{"all": {"hosts": {"gpu2": {"ansible_host": "192.0.2.2"}}}}', ""),
    ("ranges", "[workers]\ngpu[02:04]\ngpu-[a:c].example.org:2222 x='a b'\n", ""),
    ("null.yml", "all:\n  hosts:\n    gpu2:\n    gpu3: {ansible_host: }\n", ""),
    ("script", "#!/bin/sh\necho gpu7\n", ""),
    ("windows", "[workers]\r\ngpu2\r\n", ""),
    ("loop.yml", "a: &x {children: {b: *x}, hosts: {gpu1: }}\n", ""),
    # If such a file is in a directory, Ansible's own warning is enough.
    ("README", "These are the hosts.\n\n[workers] are all with GPUs.\n", ""),
    ("tox.ini", "[tox]\nenvlist = py3\n[testenv]\ncommands =\n  pytest tests\n", ""),
    ("play.yml", "- name: Run it\n  hosts: all\n  tasks: []\n", ""),
    ("requirements.yml", "- name: a\n- name: b\n", ""),
    (".gitignore", "*.swp\nreports\n", ""),
    (".foo", "gpu7\n", ""),
    (".hosts.swp", "gpu7\n", ""),
    ("hosts.swp", "gpu7\n", ""),
    ("old.rpm", "gpu7\n", ""),
    ("hosts~", "gpu7\n", ""),
]
ONLY_ASIDE = {"README", "tox.ini", "play.yml", "requirements.yml", "loop.yml", "half"}


@pytest.mark.parametrize(("name", "content", "words"), FILES)
def test_only_files_with_lost_hosts_are_reported(tmp_path: Path, name: str, content: str | bytes, words: str) -> None:
    folder = tmp_path / "prod"
    folder.mkdir()
    (folder / "a").write_text(FIRST)
    (folder / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    known = inventory(folder).hosts
    found = list(problems([str(folder)], known))
    assert [words in f"{problem.what} {problem.do}" for problem in found] == [True] * bool(words), found
    assert all(f"could not read the inventory {folder / name}:" in problem.what for problem in found)


@pytest.mark.parametrize(
    ("name", "content", "words"), [entry for entry in FILES if entry[0][0] != "." and entry[0] not in ONLY_ASIDE]
)
def test_unreadable_named_file_is_the_cause(tmp_path: Path, name: str, content: str | bytes, words: str) -> None:
    path = tmp_path / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    known = inventory(path).hosts
    hint = inventory_hints({"all": list(known), "ungrouped": []}, NAMES, [str(path)])
    assert words in hint and ("Give an inventory (-i FILE)" in hint) != bool(words), hint


@pytest.mark.parametrize(
    ("names", "sources", "words"),
    [
        (NAMES, [], "The inventory has the groups a, b. Give an inventory (-i FILE) with these groups, and check"),
        ({"docker_group": "docker"}, ["a,"], "with this group, or name another one with -e docker_group=GROUP"),
        (NAMES, ["/nowhere/my.ini"], "There is no file /nowhere/my.ini."),
    ],
)
def test_hint_ends_with_a_remedy(names: dict[str, str], sources: list[str], words: str) -> None:
    hint = inventory_hints({"all": ["x"], "a": ["x"], "b": []}, names, sources)
    assert words in hint and ("Give" in hint) == ("nowhere" not in words), hint


@pytest.mark.parametrize("name", ["play.yml", "README", "tox.ini", "loop.yml"])
def test_named_file_must_be_an_inventory(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_text(next(str(content) for other, content, _words in FILES if other == name))
    (problem,) = problems([str(path)], inventory(path).hosts)
    assert problem.kind == "inventory_unread"


def test_directory_is_read_recursively(tmp_path: Path) -> None:
    (tmp_path / "site").mkdir()
    (tmp_path / "host_vars").mkdir()
    (tmp_path / "host_vars" / "gpu1").write_text("a: 1\nb: [\n")
    (tmp_path / "site" / "hosts").write_text("[workers]\ngpu2 192.0.2.2\n")
    (problem,) = problems([str(tmp_path)], ["cp1"])
    assert problem.where == str(tmp_path / "site" / "hosts")


def test_files_are_not_checked_if_third_party_plugins_are_enabled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "h").write_text("[workers]\ngpu2 192.0.2.2\n")
    enabled = ["ansible.builtin.yaml", "ini"]
    for more, count in (([], 1), (["example.org.hosts"], 0)):
        monkeypatch.setattr(constants, "INVENTORY_ENABLED", [*enabled, *more])
        assert len(list(problems([str(tmp_path / "h")], []))) == count


@pytest.mark.parametrize(
    ("files", "words"),
    [
        (
            {"a": "gpu1 ansible_host=x\n", "b": "gpu1 ansible_host=y\n"},
            "x in {folder}/a, line 1; y in {folder}/b, line 1",
        ),
        (
            {"a": "gpu1 ansible_host=x\n", "b.yml": "w: {hosts: {gpu1: {ansible_host: y}}}"},
            "y in {folder}/b.yml, line 1",
        ),
        ({"a": "gpu1 ansible_connection=ssh\n", "b": "gpu1 ansible_connection=local\n"}, "2 values"),
        ({"a": "gpu1 ansible_host=x\n", "b": "gpu1 ansible_host=x\n"}, ""),
        ({"a": "gpu1 rank=1\n", "b": "gpu1 rank=2\n"}, ""),
        ({"a": "gpu1 ansible_host=x\n", "b": "gpu2 ansible_host=y\n"}, ""),
    ],
)
def test_host_with_two_addresses_in_a_directory_is_reported(tmp_path: Path, files: dict[str, str], words: str) -> None:
    """Several sources may override each other on purpose."""
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    found = list(problems([str(tmp_path)], ["gpu1", "gpu2"]))
    assert [words.format(folder=tmp_path) in problem.what for problem in found] == [True] * bool(words), found
    assert list(problems([str(tmp_path / name) for name in files], ["gpu1", "gpu2"])) == []
