# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Unused variables and variable files: errors, notes, and those that belong to others."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible.inventory.manager import InventoryManager
from ansible.parsing.dataloader import DataLoader
from ansible.utils.vars import load_extra_vars
from ansible_collections.gpulab.kubernetes.plugins.filter.variables import FilterModule, variable_problems
from ansible_collections.gpulab.kubernetes.plugins.plugin_utils._inventory import guesses, names
from ansible_collections.gpulab.kubernetes.plugins.plugin_utils._inventory.cluster import GROUP_VARIABLES
from ansible_collections.gpulab.kubernetes.plugins.plugin_utils._inventory.renamed import RENAMED
from ansible_collections.gpulab.kubernetes.plugins.plugin_utils._inventory.variables import specification
from jinja2 import StrictUndefined

from lab.nodes import inventory
from lab.nodes.spec import load as load_spec

ROOT = Path(__file__).resolve().parents[4]
variable_notes = FilterModule().filters()["variable_notes"]


@pytest.fixture(autouse=True)
def _no_extra_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise inventory plugins would set them for the whole process, including other tests."""
    monkeypatch.setattr(load_extra_vars, "extra_vars", {}, raising=False)


def errors(variables: dict[str, Any]) -> list[str]:
    return [f"{found['what']}. {found['why']}. {found['do']}" for found in variable_problems({"a": variables}, ["a"])]


def notes(variables: dict[str, Any]) -> list[str]:
    return list(variable_notes({"a": variables}, ["a"]))


@pytest.mark.parametrize(
    ("name", "words"),
    [
        # Wrong guesses with a prefix of this collection.
        ("nvidia_driver_branch", "This collection calls it nvidia_driver_version. Write nvidia_driver_version (auto,"),
        ("cluster_reboot", "calls it nvidia_driver_reboot"),
        ("nvidia_reboot", "calls it nvidia_driver_reboot"),
        ("cluster_cni", "calls it cluster_network_plugin. Write cluster_network_plugin (flannel or external)"),
        ("cluster_api_hostname", "calls it cluster_api_name"),
        ("kubeadm_token_ttl", "Each join gets a token of its own, which is valid for one hour. Remove it"),
        ("Nvidia_Driver_Branch", "calls it nvidia_driver_version"),
        # The most similar names are suggested.
        ("gpu_operator_version", "Write one of gpu_operator_chart_version, gpu_operator_"),
        ("torch_ddp_image_name", "Write one of torch_ddp_image, torch_ddp_name, torch_ddp_image_script"),
        *((f"{prefix}zzz", f"names that begin with {prefix} belong to this collection") for prefix in names.PREFIXES),
        # Misspellings of names with any prefix.
        ("Cluster_Kubernetes_Version", "It looks like a misspelling of cluster_kubernetes_version"),
        ("clusterKubernetesVersion", "a misspelling of cluster_kubernetes_version"),
        ("DOCKER_VERSION", "a misspelling of docker_version"),
        ("nvidia_driver_verison", "a misspelling of nvidia_driver_version"),
        ("containerd_verison", "a misspelling of containerd_version"),
    ],
)
def test_unknown_name_with_a_prefix_of_this_collection_is_an_error(name: str, words: str) -> None:
    (error,) = errors({name: "s3cret"})
    assert f"There is no variable {name}" in error and words in error and "s3cret" not in error
    assert notes({name: "s3cret"}) == []
    assert errors({name: "s3cret", "cluster_unknown_variables": "warn"}) == []
    (note,) = notes({name: "s3cret", "cluster_unknown_variables": "warn"})
    assert note == f"a: {error.removesuffix(', or set cluster_unknown_variables=warn')}."


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("driver_version", "write nvidia_driver_version (auto, or a whole version such as 595.91.07)"),
        ("kubernetes_version", "write cluster_kubernetes_version"),
        ("k8s_version", "write cluster_kubernetes_version"),
        ("kube_version", "write cluster_kubernetes_version"),
        ("pod_cidr", "write cluster_pod_network"),
        ("kube_pods_subnet", "write cluster_pod_network"),
        ("kube_service_addresses", "write cluster_service_network"),
        ("cni", "write cluster_network_plugin (flannel or external)"),
        ("kube_network_plugin", "write cluster_network_plugin"),
        ("k3s_version", "write cluster_kubernetes_version"),
        ("container_manager", "always containerd"),
        ("containerd_root", "mount a larger disk there"),
        ("docker_daemon_options", "write docker_daemon_settings"),
        *((f"{prefix}zzz", "the nearest names are ") for prefix in names.SHARED_PREFIXES),
    ],
)
def test_unknown_name_that_others_may_use_is_a_note(name: str, words: str) -> None:
    assert errors({name: "s3cret"}) == []
    (note,) = notes({name: "s3cret"})
    assert f"a: Nothing in this collection reads {name}." in note and words in note and "s3cret" not in note


@pytest.mark.parametrize(
    "variables",
    [
        {"gpulab_cluster_name": "x", "my_cluster_name": "x", "worker_count": 2, "timezone": "UTC"},
        {"awx_job_id": 1, "tower_job_id": 1, "awx_cluster_name": 1, "ansible_host": "a", "ansible_gpu_count": 1},
        {"inventory_hostname": "a", "group_names": [], "groups": {}, "playbook_dir": "/x", "omit": "", "hostvars": {}},
        # Facts that roles set for later playbooks of the run.
        {"acceptance_result": {}, "cluster_api_lease": {}, "preflight_host": {}, "__preflight_reading": {}},
        # Variables to which other variables refer.
        {"container_manager": "x", "cluster_dns_domain": "{{ container_manager }}.example.org"},
        {
            "driver_version": "x",
            "nvidia_driver_version": "{{ driver_version }}",
            "containerd_x": 1,
            "y": ["{{containerd_x}}"],
        },
    ],
)
def test_names_that_belong_to_others_are_accepted(variables: dict[str, Any]) -> None:
    plain = {name: value for name, value in variables.items() if name in specification()}
    raw = {"a": variables}

    class Hostvars(dict[str, Any]):
        """Like Ansible's hostvars, with evaluated values and raw templates."""

        def raw_get(self, host: str) -> dict[str, Any]:
            return raw[host]

    evaluated = Hostvars({"a": {name: "auto" if name in plain else value for name, value in variables.items()}})
    found = [problem for problem in variable_problems(evaluated, ["a"]) if problem["where"] not in plain]
    assert found == [] and variable_notes(evaluated, ["a"]) == []


@pytest.mark.parametrize(("old", "new"), RENAMED.items())
def test_the_old_name_of_a_variable_is_a_note_and_both_names_are_an_error(
    monkeypatch: pytest.MonkeyPatch, old: str, new: str
) -> None:
    # A template that is not known here has any type.
    unknown = StrictUndefined("ansible_facts")
    assert errors({new: unknown}) == [] and notes({new: unknown}) == []
    assert errors({old: unknown}) == []
    assert notes({old: unknown}) == [
        f"a: {old} is now called {new}. The old name works until release 0.4.0. Use the new name."
    ]
    assert notes({old: unknown, new: unknown}) == []
    assert errors({old: unknown, new: unknown}) == [
        f"{new} and {old} are both set. {old} is the old name of {new}. Remove {old}"
    ]
    # A playbook may set one of them.
    (problem,) = variable_problems({"a": {old: unknown}}, ["a"], later=[new])
    assert problem["kind"] == "variable_renamed" and problem["host"] == "a" and problem["where"] == f"{old}, {new}"
    # A variable of -e takes precedence.
    monkeypatch.setattr(load_extra_vars, "extra_vars", {new: unknown}, raising=False)
    assert variable_problems({"a": {old: unknown, new: unknown}}, ["a"]) == []


@pytest.mark.parametrize("old", [old for old, new in RENAMED.items() if "default" in specification()[new]])
def test_an_empty_value_of_an_old_name_is_an_error_as_that_of_the_new_one(old: str) -> None:
    (found,) = errors({old: None})
    assert found.startswith(f"{old} is empty (null)")


def test_hosts_are_listed_together_and_have_their_own_setting() -> None:
    hosts = {f"gpu{number}": {"cni": "x", "cluster_cni": "x"} for number in range(8)}
    hosts["gpu0"]["cluster_unknown_variables"] = "warn"
    assert [problem["host"] for problem in variable_problems(hosts, list(hosts))] == list(hosts)[1:]
    first, second = variable_notes(hosts, list(hosts))
    assert first.startswith("gpu0, gpu1, gpu2, gpu3, gpu4 and 3 more: Nothing") and second.startswith("gpu0: There")


def test_guesses_refer_to_existing_variables() -> None:
    known = specification()
    assert set(guesses.MEANT.values()) <= set(known)
    listed = [name for text in guesses._NAMES.values() for name in text.split()]
    assert len({*listed, *guesses.NOTHING}) == len([*listed, *guesses.NOTHING])
    for name in (*guesses.MEANT, *guesses.NOTHING):
        assert name not in known and name == name.lower() and name not in names.facts()
    for name, value in guesses._VALUES.items():
        choices = known[name].get("choices")
        assert name in guesses._NAMES
        assert not choices or set(re.findall(r"\w+", value)) & set(choices), name


def test_every_variable_begins_with_a_known_prefix() -> None:
    assert [name for name in specification() if not name.startswith((*names.PREFIXES, *names.SHARED_PREFIXES))] == []


INVENTORIES = [*ROOT.glob("inventories/*.ini"), *ROOT.glob("inventories/*/hosts.ini"), *ROOT.glob("examples/**/*.ini")]
SETTINGS = [path for path in ROOT.glob("[!.c]*/**/*_vars/**/*.yml") if path.is_file()]
PAGES = [*ROOT.glob("docs/*.md"), ROOT / "README.md", *ROOT.glob("inventories/**/*.md")]
BLOCK = re.compile(r"^ *```(?:ini|yaml|yml|sh)\n(.*?)^ *```", re.DOTALL | re.MULTILINE)
SETTING = re.compile(r"(?:-e |^ *- |^ *|[ {'\"])([A-Za-z][A-Za-z0-9_]+)(?:=|: |:$)", re.MULTILINE)


def names_in(path: Path) -> set[str]:
    """Return the names of variables that a file sets, and some other words."""
    text = path.read_text(encoding="utf-8")
    if path in INVENTORIES:
        read = InventoryManager(DataLoader(), [str(path)])
        return {name for entry in (*read.hosts.values(), *read.groups.values()) for name in entry.vars}
    if path in SETTINGS:
        return set(yaml.safe_load(text) or {})
    if path in PAGES:
        return {name for block in BLOCK.findall(text) for name in SETTING.findall(block)}
    given = re.findall(r"extra_vars:(?: \{.*\}|\n(?:  +\w+: .*\n)+)", text)
    return {*re.findall(r"variable: (\w+)", text), *re.findall(r"(\w+):", " ".join(given).replace("extra_vars:", ""))}


def unknown_among(used: set[str]) -> list[str]:
    known = frozenset((*specification(), *GROUP_VARIABLES)).difference(RENAMED)
    found = {name: names.judge(name, known) for name in used}
    return [name for name, unknown in found.items() if unknown and unknown.certain]


@pytest.mark.parametrize(
    "path",
    [*INVENTORIES, *SETTINGS, *PAGES, *ROOT.glob("awx/*.yml")],
    ids=lambda path: str(path.relative_to(ROOT)),
)
def test_variables_in_examples_and_documents_exist(path: Path) -> None:
    assert unknown_among(names_in(path)) == []


@pytest.mark.parametrize("path", sorted(ROOT.glob("lab/specs/*.yml")), ids=lambda path: path.stem)
def test_variables_set_by_labs_exist(path: Path, tmp_path: Path) -> None:
    (tmp_path / inventory.PASSWORD_FILE).write_text("x")
    spec = load_spec(path)
    depot = {"url": "http://192.0.2.2", "registry": "192.0.2.2:5000"}
    text = inventory.render("lab", spec, {node.name: "192.0.2.9" for node in spec.nodes}, tmp_path, depot)
    used = set(re.findall(r"(?:^| )([a-z]\w+)=", text, re.MULTILINE))
    assert unknown_among(used) == [] and "kubeadm_repository_url" in used


@pytest.mark.parametrize(
    ("path", "error", "note"),
    [
        ("group_vars/worker.yml", "Rename it to workers.yml, or the group to worker", ""),
        ("group_vars/Workers", "Rename it to workers, or", ""),
        ("group_vars/wrokers/main.yml", "Rename it to workers, or", ""),
        ("group_vars/gpu1.yml", "Move it to {}/host_vars/gpu1.yml, because gpu1 is a host", ""),
        ("host_vars/workers.yml", "Move it to {}/group_vars/workers.yml, because workers is a group", ""),
        ("host_vars/gpu-1.yml", "Rename it to gpu1.yml, or the host to gpu-1", ""),
        ("host_vars/10.0.11.1.yml", "", "no host 10.0.11.1. The hosts are cp1, gpu1, 10.0.1.11. Rename it"),
        ("host_vars/gpu2.yml", "", "no host gpu2."),
        ("group_vars/staging.yml", "", "no group staging. The groups are control_plane, workers. Rename it, or"),
        ("group_vars/workers.vault.yml", "", "no group workers.vault."),
        ("group_vars/old.yml", "", ""),
        *(
            (f"group_vars/{name}", "", "")
            for name in (
                *("all.yml", "all/vault.yml", "workers.yaml", "workers.json", "control_plane/main.yml", "ungrouped"),
                *(
                    "worker.yml~",
                    "worker.yml.bak",
                    "worker.yml.orig",
                    ".worker.yml",
                    "README.md",
                    "README",
                    "worker.j2",
                ),
            )
        ),
        *((f"host_vars/{name}", "", "") for name in ("gpu1.yml", "localhost.yml", "10.0.1.11", "cp1/a.yml")),
    ],
)
@pytest.mark.parametrize("side", ["inventory", "playbook"])
def test_variable_files_without_a_group_or_host_are_reported(
    tmp_path: Path, path: str, error: str, note: str, side: str
) -> None:
    (tmp_path / "inventory").mkdir()
    (tmp_path / "playbook").mkdir()
    source = tmp_path / "inventory" / "my.ini"
    source.write_text("[control_plane]\ncp1\n[workers]\ngpu1\n10.0.1.11\n")
    for folder in ("inventory", "playbook"):
        (tmp_path / folder / "other.ini").write_text("[old]\nx1\n")
    file = tmp_path / side / path
    file.parent.mkdir(parents=True)
    file.write_text("$ANSIBLE_VAULT;1.1;AES256\n6161\n")
    hosts = {host: {"playbook_dir": str(tmp_path / "playbook")} for host in ("cp1", "gpu1", "10.0.1.11")}
    groups = {"all": list(hosts), "ungrouped": [], "control_plane": ["cp1"], "workers": ["gpu1", "10.0.1.11"]}
    found = variable_problems(hosts, list(hosts), list(hosts), groups, sources=[str(source)])
    assert [error.format(tmp_path / side) in problem["do"] for problem in found] == [True] * bool(error), found
    shown = variable_notes(hosts, list(hosts), groups, [str(source)])
    assert [note in text for text in shown] == [True] * bool(note), shown


@pytest.mark.parametrize(
    ("variables", "words"),
    [
        ({"ansible_host": "admin@gpu1"}, "Write ansible_user=admin ansible_host=gpu1."),
        ({"ansible_host": "gpu1"}, ""),
        ({"ansible_ssh_private_key_file": "/nowhere/id"}, "is /nowhere/id, and there is no such file."),
        ({"ansible_ssh_private_key_file": "~/id"}, ""),
        ({"ansible_ssh_private_key_file": "~no-such-user/id"}, ""),
        ({"ansible_ssh_private_key_file": ""}, ""),
    ],
)
def test_suspicious_ssh_settings_are_notes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variables: dict[str, Any], words: str
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "id").write_text("key")
    found = notes(variables)
    assert [words in note for note in found] == [True] * bool(words), found
