# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Members of the cluster, according to the names, addresses, groups and files of an inventory."""

from __future__ import annotations

import codecs
from pathlib import Path
from typing import Any

import pytest
from ansible import constants, context
from ansible.plugins.loader import become_loader, connection_loader, shell_loader
from ansible.utils import vars as ansible_vars
from ansible_collections.gpulab.kubernetes.plugins.filter.inventory import cluster_members, inventory_hints
from ansible_collections.gpulab.kubernetes.plugins.filter.variables import variable_problems
from ansible_collections.gpulab.kubernetes.plugins.plugin_utils._inventory.references import CONNECTION
from jinja2 import StrictUndefined

# Results of a template that refers to an unknown variable, and of one that evaluates to omit.
UNKNOWN = StrictUndefined("hostvars")
OMIT = type("_OmitType", (), {"__str__": lambda _self: "<<Omit>>"})()
NAMES = {"cluster_control_plane_group": "control_plane", "cluster_workers_group": "workers"}


@pytest.fixture(autouse=True)
def _no_extra_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise inventory plugins would set them for the whole process, including other tests."""
    monkeypatch.setattr(ansible_vars.load_extra_vars, "extra_vars", {}, raising=False)


def find(hosts: dict[str, dict[str, Any]], **more: Any) -> list[dict[str, str]]:
    """Return the problems of a cluster whose first host is the control plane; the others are workers."""
    names = list(hosts)
    groups = {"all": names, "control_plane": names[:1], "workers": names[1:] or names}
    return variable_problems(hosts, names, names, {**groups, **more.pop("groups", {})}, **more)


@pytest.mark.parametrize(
    ("name", "do"),
    [
        ("gpu 1", "one name per line"),
        ("<worker>", "one name per line"),
        ("gpu1,", "one name per line"),
        ("gpu[01-04]", "gpu[01:04]"),
        ("gpu1;", "Use letters"),
        ("-gpu1", "Use letters"),
        ("gpu\x1b[0m", "Use letters"),
        ("192.0.2.321", "at most 255"),
        ("root@10.0.0.256", "at most 255"),
        ("http://192.0.2.1", "such as 192.0.2.21"),
        # SSH accepts these.
        ("root@192.0.2.1", ""),
        ("admin@gpu1", ""),
        ("gpü", ""),
        ("rack1/gpu1", ""),
        ("GPU_1.example.org", ""),
        ("192.0.2.7", ""),
        ("2001:db8::7", ""),
    ],
)
def test_host_names_with_spaces_or_special_characters_are_reported(name: str, do: str) -> None:
    found = find({"cp1": {}, name: {}})
    assert [(problem["kind"], do in problem["do"]) for problem in found] == [("host_name_wrong", True)] * bool(do)
    for variables in ({"ansible_host": "192.0.2.8"}, {"ansible_host": UNKNOWN}, {"ansible_connection": "local"}):
        assert find({"cp1": {}, name: variables}) == []


@pytest.mark.parametrize(
    ("variables", "where", "words"),
    [
        ({"ansible_hosts": "192.0.2.1"}, "ansible_hosts", "Write ansible_host,"),
        ({"ansible_become_passwrd": "x"}, "ansible_become_passwrd", "Write ansible_become_password,"),
        ({"ansible_ssh_private_keyfile": "x"}, "ansible_ssh_private_keyfile", "Write ansible_ssh_private_key_file,"),
        ({"ansible_username": "x"}, "ansible_username", "Write ansible_user,"),
        *(
            ({wrong: "x"}, wrong, f"Write {right},")
            for wrong, right in (
                ("ansible_pasword", "ansible_password"),
                ("ansible_become_passwd", "ansible_become_password"),
                ("ansible_hots", "ansible_host"),
                ("ansible_prot", "ansible_port"),
                ("ansible_ssh_privat_key_file", "ansible_ssh_private_key_file"),
                ("ansible_pyhton_interpreter", "ansible_python_interpreter"),
                ("ansbile_host", "ansible_host"),
                ("asnible_ssh_private_key_file", "ansible_ssh_private_key_file"),
                ("ansible-host", "ansible_host"),
                ("ansible-become-password", "ansible_become_password"),
            )
        ),
        # Two words differ, one word is a different one, or the value is not a string.
        *(
            ({name: "x"}, "", "")
            for name in ("ansbile_hots", "ansible_host2", "ansible_user_id", "sensible_host", "ansible_site_user")
        ),
        ({"ansible_users": ["a"], "ansible_hosts": {"a": "b"}}, "", ""),
        ({"ansible_host": "192.0.2.1:2222"}, "ansible_host", "Write ansible_host=192.0.2.1 ansible_port=2222"),
        ({"ansible_host": "192.0.2.1/24"}, "ansible_host", "without the length of its network: 192.0.2.1"),
        ({"ansible_host": "admin@gpu1"}, "", ""),
        ({"ansible_host": "ssh://gpu1"}, "ansible_host", "Write an address or a DNS name"),
        ({"ansible_host": "http://192.0.2.1"}, "ansible_host", "Write an address or a DNS name"),
        ({"ansible_host": "gpu 1"}, "ansible_host", "Write an address or a DNS name"),
        ({"ansible_host": "10.0.0.256"}, "ansible_host", "at most 255"),
        ({"ansible_ssh_host": "192.0.2.321"}, "ansible_host", "at most 255"),
        ({"ansible_host": ""}, "ansible_host", "Replace it"),
        ({"ansible_host": "CHANGE_ME"}, "ansible_host", "Replace it"),
        ({"ansible_user": "<user>"}, "ansible_user", "Replace it"),
        ({"ansible_user": ""}, "", ""),
        ({"ansible_password": "<CHANGE_ME>"}, "ansible_password", "Replace it"),
        ({"ansible_password": "changeme", "ansible_become_password": "CHANGE_ME", "ansible_user": "a"}, "", ""),
        # Ansible's defaults.
        *(
            ({name: value}, "", "")
            for name in (
                "ansible_host",
                "ansible_user",
                "ansible_port",
                "ansible_become_password",
                "ansible_connection",
            )
            for value in (None, OMIT)
        ),
        ({"ansible_port": "ssh"}, "ansible_port", "from 1 to 65535"),
        ({"ansible_port": 70000}, "ansible_port", "from 1 to 65535"),
        ({"cluster_node_address": "2001:db8::21"}, "cluster_node_address", ""),
        ({"cluster_node_address": "gpu1.example.org"}, "cluster_node_address", ""),
        ({"cluster_node_address": "[10.0.0.1]"}, "cluster_node_address", ""),
        *(
            ({"cluster_node_address": address}, "cluster_node_address", "")
            for address in ("127.0.0.1", "127.0.1.1", "0.0.0.0", "10.0.0.256", "224.0.0.1", "255.255.255.255")
        ),
        *(
            ({"cluster_api_endpoint": endpoint}, "cluster_api_endpoint", "")
            for endpoint in ("[2001:db8::1]:6443", "10.0.0.256:6443", "[gpu1]:6443", "192.0.2.1:0")
        ),
        *(({"cluster_api_endpoint": f"{host}:6443"}, "", "") for host in ("192.0.2.1", "10.example.org", "cp1")),
        ({"cluster_node_name": "GPU_1"}, "cluster_node_name", ""),
        ({"cluster_node_name": "localhost"}, "cluster_node_name", ""),
        ({"cluster_api_endpoint": "api.example.org:70000"}, "cluster_api_endpoint", ""),
        ({"cluster_pod_network": "10.244.0.0"}, "cluster_pod_network", "10.244.0.0/16"),
        ({"ansible_host": "2001:db8::5", "ansible_port": "2222", "ansible_user": "a"}, "", ""),
        ({"ansible_become_password": "", "ansible_connection": "local", "ansible_host": "a/b"}, "", ""),
        ({"ansible_user_home": "/x", "ansible_facts": {"user_id": "x"}, "ansible_user_id": "x"}, "", ""),
        # Variables of plugins in other collections.
        *(
            ({f"ansible_{name}": "x"}, "", "")
            for name in (
                *("doas_pass", "runas_user", "dzdo_exe", "ksu_exe", "winrm_port", "ruby_interpreter", "docker_host"),
                *("lxd_executable", "lxc_executable", "lxc_host", "podman_executable", "podman_extra_args"),
                *("kubectl_host", "kubectl_username", "kubectl_password", "kubectl_extra_args", "incus_remote"),
                *("incus_project", "docker_user", "docker_extra_args", "netconf_host_key_checking", "buildah_user"),
                *("aws_ssm_timeout", "httpapi_use_ssl", "httpapi_port", "network_os", "libssh_host_key_checking"),
            )
        ),
    ],
)
def test_misspelled_connection_variables_and_invalid_node_names_are_reported(
    variables: dict[str, Any], where: str, words: str
) -> None:
    found = variable_problems({"gpu1": variables}, ["gpu1"])
    assert [problem["where"] for problem in found] == [where] * bool(where), found
    assert all(words in problem["do"] for problem in found) and "CHANGE_ME" not in str(found)


def test_variables_of_connection_plugins_are_known() -> None:
    plugins = (
        ("connection", connection_loader, ("ssh", "local")),
        ("become", become_loader, ("sudo", "su")),
        ("shell", shell_loader, ("sh",)),
    )
    taken = set()
    for kind, loader, names in plugins:
        for name in names:
            loader.get(name, class_only=True)
            for option in constants.config.get_configuration_definitions(kind, name).values():
                taken |= {entry["name"] for entry in option.get("vars") or []}
    # Unknown names with this prefix would be reported as misspellings of known ones.
    found = {name for name in taken - CONNECTION if name.startswith("ansible_")}
    assert [find({"cp1": {name: "x"}}) for name in sorted(found)] == [[]] * len(found), found


@pytest.mark.parametrize(
    ("hosts", "kind"),
    [
        ({"a": {"ansible_host": "192.0.2.1"}, "b": {"ansible_host": "192.0.2.1"}}, "host_address_twice"),
        ({"192.0.2.1": {}, "b": {"ansible_host": "192.0.2.1", "ansible_port": "22"}}, "host_address_twice"),
        ({"a": {"ansible_host": "gw", "ansible_port": 1}, "b": {"ansible_host": "gw", "ansible_port": 2}}, ""),
        ({"a": {"ansible_host": "x", "ansible_ssh_common_args": "-J s1"}, "b": {"ansible_host": "x"}}, ""),
        ({"a": {"ansible_host": "gw", "ansible_ssh_port": 1}, "b": {"ansible_host": "gw", "ansible_ssh_port": 2}}, ""),
        ({"a": {"ansible_connection": "local"}, "b": {"ansible_connection": "local"}}, ""),
        (
            {name: {"ansible_host": "x", "ansible_ssh_common_args": UNKNOWN} for name in ("a", "b")},
            "",
        ),
        *(({"a": {"ansible_host": value}, "b": {"ansible_host": value}}, "") for value in (None, OMIT, UNKNOWN)),
        (
            {"a": {"cluster_node_address": "192.0.2.1"}, "b": {"cluster_node_address": "192.0.2.1"}},
            "node_address_twice",
        ),
        ({"a": {"cluster_node_name": "n"}, "b": {"cluster_node_name": "n"}}, "node_name_twice"),
    ],
)
def test_duplicate_addresses_and_node_names_are_reported(hosts: dict[str, Any], kind: str) -> None:
    assert [problem["kind"] for problem in find(hosts)] == [kind] * bool(kind)


@pytest.mark.parametrize("name", ["ansible_host", "cluster_node_name", "cluster_node_address"])
def test_control_characters_are_removed_from_messages(tmp_path: Path, name: str) -> None:
    value = "\x1b]0;x\x07a"
    hosts: dict[str, dict[str, Any]] = {host: {name: value} for host in ("a", "b")}
    (tmp_path / "h").write_text(f"a ansible_host={value}\na ansible_host={value}b\nc\x1b d\n")
    sources = [str(tmp_path / "h")]
    texts = [str(entry) for problem in find(hosts, sources=sources) for entry in problem.values()]
    texts += [inventory_hints({"all": []}, {}, sources)]
    texts += cluster_members(hosts, ["a", "b"], {"a": ["a"], "b": ["b"]}, ["a"]).splitlines()
    assert any("same" in text for text in texts)
    assert all(letter.isprintable() or letter == "\n" for text in texts for letter in text)


INI = "[control_plane]\ncp1\n[workers]\n{}\n"
YAML = "all:\n  children:\n    workers:\n      hosts:\n        {}\n"
KNOWN: dict[str, dict[str, object]] = {"cp1": {}, "gpu1": {}, "gpu2": {}}


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("h", INI.format("gpu1 ansible_host=192.0.2.1\ngpu1 ansible_host=192.0.2.2 # new"), "192.0.2.1 in line 4"),
        ("h", INI.format("gpu1 ansible_port=22\ngpu1 ansible_port=23"), "22 in line 4; 23 in line 5"),
        ("h", INI.format("gpu1 rank=1 ansible_user=a\n[mpi]\ngpu1 rank=2 ansible_user=b"), ""),
        ("h.yml", YAML.format("gpu1: {ansible_host: a}\n        gpu1: {ansible_host: b}"), "a in line 5; b in line 6"),
        ("h", INI.format("gpu1 ansible_host=a\n[nfs]\ngpu1\n[x:vars]\ngpu9 a=1\n[y:children]\ngpu8"), ""),
        ("h", INI.format("gpu[1:9] x=1\ngpu1 x=2\n# gpu7\n; gpu8\ngpu2 'a=b c' d='e #'"), ""),
        ("h.yml", "plugin: constructed\nhosts: {gpu9: {}}", ""),
        ("h", INI.format("gpu1\ngpu7"), "it has the hosts gpu7, which are not in the inventory"),
        ("h.yml", YAML.format("gpu7:"), "it has the hosts gpu7"),
        ("h.json", "gpu7", ""),
    ],
)
def test_values_that_ansible_overwrites_are_named_with_their_lines(
    tmp_path: Path, name: str, text: str, words: str
) -> None:
    (tmp_path / name).write_text(text)
    (tmp_path / "group_vars").mkdir()
    for source in (tmp_path / name, tmp_path):
        found = find(KNOWN, sources=[str(source), "a,b", "/nowhere"])
        assert [words in problem["what"] for problem in found] == [True] * bool(words), found


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("worker.yml", "Rename it to workers.yml"),
        ("control-plane.yaml", "Rename it to control_plane.yaml"),
        ("wrokers", "Rename it to workers,"),
        ("workers.yml", ""),
        ("all", ""),
        ("staging.yml", ""),
        ("site1_gpus.yml", ""),
        ("site2_gpsu.yml", "Rename it to site2_gpus.yml"),
        (".hidden", ""),
    ],
)
def test_variable_files_without_a_group_are_reported(tmp_path: Path, name: str, words: str) -> None:
    (tmp_path / "group_vars").mkdir()
    (tmp_path / "group_vars" / name).write_text("a: 1\n")
    (tmp_path / "hosts").write_text("cp1\n")
    for source in (tmp_path / "hosts", tmp_path):
        found = find(KNOWN, sources=[str(source)], groups={"site2_gpus": ["gpu1"]})
        assert [words in problem["do"] for problem in found] == [True] * bool(words), found


def test_ignored_file_of_a_directory_is_read_if_it_is_named(tmp_path: Path) -> None:
    (tmp_path / "hosts.txt").write_text(INI.format("gpu7"))
    assert find(KNOWN, sources=[str(tmp_path)]) == []
    (problem,) = find(KNOWN, sources=[str(tmp_path / "hosts.txt")])
    assert problem["kind"] == "inventory_unread" and "gpu7" in problem["what"]


def test_inventory_programs_are_not_parsed(tmp_path: Path) -> None:
    (tmp_path / "h").write_text("gpu7\n")
    (tmp_path / "h").chmod(0o755)
    assert find(KNOWN, sources=[str(tmp_path / "h")]) == []


@pytest.mark.parametrize(
    ("raw", "words"),
    [
        (codecs.BOM_UTF8 + b"[workers]\r\ngpu1\r\n", "save it as UTF-8 without BOM"),
        ("[workers]\r\ngpu1\r\n".encode("utf-16"), "save it as UTF-8 without BOM"),
        (b"[control_plane]\ncp1\n[cluster: children]\ncontrol_plane\n", "Correct the file: Invalid section entry"),
        (b"[workers]\ngpu[01-04]\n", "host range must be begin:end"),
        (b"[workers]\n", ""),
    ],
)
def test_unreadable_inventory_is_named_as_the_cause(tmp_path: Path, raw: bytes, words: str) -> None:
    (tmp_path / "hosts.ini").write_bytes(raw)
    found = inventory_hints({"all": [], "control_plane": []}, NAMES, sources=[str(tmp_path / "hosts.ini")])
    assert ("Give an inventory" in found) != bool(words) and words in found
    assert not words or f"Ansible could not read the inventory {tmp_path / 'hosts.ini'}" in found


@pytest.mark.parametrize(
    ("group", "kind"),
    [
        *(
            (name, 0)
            for name in ("masters", "control-plane", "kube_control_plane", "controlplane", "k8s-master", "contol_plane")
        ),
        *(
            (name, 1)
            for name in ("worker", "nodes", "kube-node", "gpu_workers", "agents", "Workers", "gpu-nodes", "wrokers")
        ),
        *((name, None) for name in ("bastion", "nfs_server", "etcd", "monitoring", "databases")),
    ],
)
def test_similar_group_name_is_suggested(group: str, kind: int | None) -> None:
    found = inventory_hints({"all": ["a"], group: ["a"]}, NAMES, [])
    variable, name = list(NAMES.items())[kind or 0]
    end = f"The inventory has the groups {group}. Give an inventory (-i FILE) with these groups, and check --limit."
    assert found == (
        end
        if kind is None
        else f"The inventory has the group {group} (a): rename it to {name}, or run with -e {variable}={group}. {end}"
    )
    if kind is not None:
        hosts: dict[str, Any] = {"a": {}, "b": {}}
        groups = {"control_plane": ["b"], "workers": ["b"], group: ["a"], name: []}
        (problem,) = find(hosts, groups=groups)
        assert f"rename it to {name}" in problem["do"]


def test_group_variable_in_the_inventory_is_reported_as_unused(monkeypatch: pytest.MonkeyPatch) -> None:
    hosts = {"cp1": {"cluster_control_plane_group": "masters"}, "gpu1": {"cluster_control_plane_group": "masters"}}
    groups = {"masters": ["cp1"]}
    for given, seen, kinds in (
        ({}, ["masters", "workers"], ["group_variable_unused"]),
        ({"cluster_control_plane_group": "masters"}, ["masters", "workers"], []),
        ({}, ["control_plane", "workers"], []),
    ):
        monkeypatch.setattr(ansible_vars.load_extra_vars, "extra_vars", given, raising=False)
        assert [problem["kind"] for problem in find(hosts, groups=groups, play_groups=seen)] == kinds


def test_members_and_hosts_outside_the_cluster_are_listed() -> None:
    many = [f"gpu{number:02}" for number in range(30)]
    hosts: dict[str, Any] = {host: {"ansible_host": f"192.0.2.{host[3:]}"} for host in many} | {
        "cp1": {},
        "x": {},
        "y": {},
    }
    groups = {"all": list(hosts), "ungrouped": [], "control_plane": ["cp1"], "workers": [*many, "cp1"]}
    groups |= {"gpu_workers": ["x", "gpu01"], "nfs": ["x", "y"]}
    lines = cluster_members(hosts, ["control_plane", "workers"], groups, [*many, "x"]).splitlines()
    assert lines[0] == "Control plane: cp1"
    assert lines[1].startswith("Workers (31): gpu00 (192.0.2.00), gpu01 (192.0.2.01), ") and lines[1].endswith(
        " and 11 more"
    )
    assert lines[2:] == [
        "not in the cluster: x (group gpu_workers); y (group nfs)",
        "left out of this run (--limit): cp1",
    ]


@pytest.mark.parametrize(
    ("playbook", "gpus", "ending"),
    [
        ("gpulab.kubernetes.inventory", 4, ["1 control plane, 2 workers, 8 GPUs expected. Nothing was contacted."]),
        ("playbooks/inventory.yml", None, ["1 control plane, 2 workers. Nothing was contacted."]),
        ("gpulab.kubernetes.site", 4, []),
    ],
)
def test_inventory_playbook_ends_with_the_next_command(
    monkeypatch: pytest.MonkeyPatch, playbook: str, gpus: int | None, ending: list[str]
) -> None:
    monkeypatch.setattr(context, "CLIARGS", {"args": (playbook,), "inventory": ("my.ini",), "become_ask_pass": True})
    hosts: dict[str, Any] = {name: {"cluster_expected_gpus": gpus} if gpus else {} for name in ("a", "b", "cp1")}
    groups = {"control_plane": ["cp1"], "workers": ["a", "b"]}
    lines = cluster_members(hosts, ["control_plane", "workers"], groups, list(hosts)).splitlines()
    expected = [f"The inventory is right: {words}" for words in ending]
    expected += ["Next: ansible-playbook gpulab.kubernetes.preflight -i my.ini -K"] * len(ending)
    assert lines[2:] == expected
