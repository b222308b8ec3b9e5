# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Default paths of the kubeconfig and reports, and the final message of a successful run."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from ansible import context
from ansible.errors import AnsibleUndefinedVariable
from ansible_collections.gpulab.kubernetes.plugins.filter.access import (
    api_server,
    expected_api,
    kubeconfig_path,
    next_steps,
    run_commands,
)
from ansible_collections.gpulab.kubernetes.plugins.filter.report import report_prefix
from ansible_collections.gpulab.kubernetes.plugins.module_utils._training.judge import Wanted
from ansible_collections.gpulab.kubernetes.plugins.plugin_utils._inventory.access import Access
from support.programs import run_ansible


@pytest.mark.parametrize(
    ("sources", "expected"),
    [
        (["my.ini"], "my-admin.conf"),
        (["rack.ini"], "rack-admin.conf"),
        (["inventory.aws.yml"], "inventory.aws-admin.conf"),
        (["hosts"], "hosts-admin.conf"),
        (["cluster.d"], "cluster.d-admin.conf"),
        (["cluster.d/hosts.ini"], "cluster.d/hosts-admin.conf"),
        (["192.0.2.1,192.0.2.2", "gone.ini", "rack.ini", "my.ini"], "rack-admin.conf"),
        (["192.0.2.1,"], ""),
        (["gone.ini"], ""),
        ([], ""),
    ],
)
def test_kubeconfig_is_kept_next_to_the_inventory(sources: list[str], expected: str, tmp_path: Path) -> None:
    (tmp_path / "cluster.d").mkdir()
    for name in ("my.ini", "rack.ini", "inventory.aws.yml", "hosts", "cluster.d/hosts.ini"):
        (tmp_path / name).touch()
    found = kubeconfig_path([source if "," in source else str(tmp_path / source) for source in sources])
    assert found == (str(tmp_path / expected) if expected else "")


def test_kubeconfig_is_not_kept_for_jobs_or_in_unwritable_directories(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "my.ini").touch()
    assert kubeconfig_path([str(tmp_path / "my.ini")], is_job=True) == ""
    monkeypatch.setattr(os, "access", lambda path, mode: (path, mode) != (tmp_path, os.W_OK))
    assert kubeconfig_path([str(tmp_path / "my.ini")]) == ""


@pytest.mark.parametrize(
    ("sources", "directory", "expected"),
    [
        (["my.ini"], ".", "./"),
        (["cluster.d"], "cluster.d", "cluster.d-"),
        (["cluster.d/hosts.ini"], "cluster.d", "cluster.d/"),
        (["cluster.d"], "cluster.d/rack", "cluster.d-"),
        (["cluster.d/rack", "cluster.d"], "cluster.d/rack", "cluster.d-"),
        (["cluster.d", "my.ini"], ".", "./"),
        (["192.0.2.1,"], "elsewhere", "elsewhere/"),
        ([], ".", "./"),
    ],
)
def test_reports_are_kept_outside_inventory_directories(
    sources: list[str], directory: str, expected: str, tmp_path: Path
) -> None:
    (tmp_path / "cluster.d/rack").mkdir(parents=True)
    for name in ("my.ini", "cluster.d/hosts.ini"):
        (tmp_path / name).touch()
    named = [source if "," in source else str(tmp_path / source) for source in sources]
    expected = f"{tmp_path}{os.sep * (expected != './')}{expected.removeprefix('.')}"
    assert report_prefix(named, str(tmp_path / directory)) == expected


def test_reports_are_in_the_inventory_directory_if_its_parent_is_not_writable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "cluster.d").mkdir()
    monkeypatch.setattr(os, "access", lambda path, mode: (path, mode) != (tmp_path, os.W_OK))
    assert report_prefix([str(tmp_path / "cluster.d")], str(tmp_path / "cluster.d")) == f"{tmp_path}/cluster.d/"


HERE = Path("/home/me")
READY = "is ready at https://10.0.0.11:6443; the administrator's kubeconfig is my-admin.conf."
KUBECTL = "  kubectl --kubeconfig my-admin.conf get nodes"
REMOTE = "  sudo kubectl --kubeconfig /etc/kubernetes/admin.conf get nodes   # on cp1"
TWO_BY_FOUR = Wanted(2, 4)


def access(
    kubeconfig: str = "/home/me/my-admin.conf",
    kubectl: bool = True,
    inventory: tuple[str, ...] = ("/home/me/my.ini",),
    asks_password: bool = False,
    training: Wanted | None = TWO_BY_FOUR,
) -> Access:
    return Access("10.0.0.11:6443", "cp1", kubeconfig, kubectl, inventory, asks_password, training)


@pytest.mark.parametrize(
    ("found", "first", "nodes", "given"),
    [
        (access(), f"The cluster of my.ini {READY}", KUBECTL, " -i my.ini"),
        (access(asks_password=True), f"The cluster of my.ini {READY}", KUBECTL, " -i my.ini -K"),
        (access(kubectl=False), f"The cluster of my.ini {READY}", REMOTE, " -i my.ini"),
        (access(inventory=()), f"The cluster {READY}", KUBECTL, ""),
        (
            access("/srv/k/a b.conf", inventory=("/srv/k/a b.ini", "/home/me/more.ini")),
            "The cluster of /srv/k/a b.ini more.ini is ready at https://10.0.0.11:6443; "
            "the administrator's kubeconfig is /srv/k/a b.conf.",
            "  kubectl --kubeconfig '/srv/k/a b.conf' get nodes",
            " -i '/srv/k/a b.ini' -i more.ini",
        ),
        (
            access(""),
            "The cluster of my.ini is ready at https://10.0.0.11:6443; no kubeconfig is kept.",
            REMOTE,
            " -i my.ini",
        ),
    ],
)
def test_success_message_names_cluster_kubeconfig_and_three_commands(
    found: Access, first: str, nodes: str, given: str
) -> None:
    assert found.next_steps(HERE, terse=False) == [
        first,
        "Next:",
        nodes,
        f"  ansible-playbook gpulab.kubernetes.train{given} -e torch_ddp_nodes=2 -e torch_ddp_gpus_per_node=4"
        "   # train on 8 GPUs, see docs/training.md",
        f"  ansible-playbook gpulab.kubernetes.verify{given}   # verify every GPU again",
    ]
    assert found.next_steps(HERE, terse=True) == [first]


@pytest.mark.parametrize(("training", "words"), [(None, ""), (Wanted(1, 1), "# train on 1 GPU, see")])
def test_training_is_suggested_if_a_gpu_is_free(training: Wanted | None, words: str) -> None:
    printed = "\n".join(access(training=training).next_steps(HERE, terse=False))
    assert ("kubernetes.train " in printed) is (words != "") and words in printed


@pytest.mark.parametrize(
    ("given", "kubectl", "terse"),
    [
        ({}, True, False),
        ({"delegate": "cp1"}, False, False),
        ({"tunnel": True}, False, False),
        ({"kept": True}, True, True),
        ({"is_job": True}, True, True),
    ],
)
def test_kubectl_is_suggested_where_it_can_reach_the_api(
    given: dict[str, Any], kubectl: bool, terse: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shutil.which", lambda name: f"/usr/bin/{name}")
    _first, *commands = next_steps("10.0.0.11:6443", "/srv/a.conf", "cp1", **given)
    assert (commands == []) is terse
    assert terse or commands[1].startswith("  kubectl --kubeconfig /srv/a.conf" if kubectl else "  sudo kubectl")


@pytest.mark.parametrize(
    ("address", "endpoint", "expected"),
    [
        ("10.0.0.11", "", "10.0.0.11:6443"),
        ("fd00::11", "", "[fd00::11]:6443"),
        ("fd00::11", "k8s.example.org:443", "k8s.example.org:443"),
        ("", "k8s.example.org:443", "k8s.example.org:443"),
        ("", "", ""),
    ],
)
def test_api_server_is_the_control_plane_unless_an_endpoint_is_set(address: str, endpoint: str, expected: str) -> None:
    assert api_server(address, endpoint) == expected


class Undefined(dict[str, Any]):
    """Variables of a host, one of which refers to facts that have not been read yet."""

    def __getitem__(self, name: str) -> Any:
        raise AnsibleUndefinedVariable("object of type 'dict' has no attribute 'default_ipv4'")


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({}, ""),
        ({"cluster_node_address": "", "ansible_host": "10.0.0.11"}, "10.0.0.11:6443"),
        ({"cluster_node_address": "10.0.0.11", "ansible_host": "192.0.2.1"}, "10.0.0.11:6443"),
        ({"cluster_node_address": "{{ ansible_facts.eth1 }}", "ansible_host": "cp1.example.org"}, ""),
        ({"cluster_node_address": "127.0.0.1", "ansible_host": "192.0.2.1"}, "192.0.2.1:6443"),
        ({"cluster_node_address": None, "ansible_host": 7}, ""),
        (Undefined(cluster_node_address="x"), ""),
    ],
)
def test_api_server_can_be_predicted_from_the_inventory(variables: dict[str, Any], expected: str) -> None:
    hosts = {"cp1": variables}
    assert expected_api(["cp1", "cp2"], hosts) == expected
    assert expected_api(["cp1"], hosts, "k8s.example.org:6443") == "k8s.example.org:6443"
    assert expected_api([], hosts) == expected_api(["cp9"], hosts) == ""


PLAY = """
- name: End
  hosts: localhost
  gather_facts: false
  tasks:
    - name: Show what to do next
      ansible.builtin.debug:
        msg: "{{ '10.0.0.11:6443' | gpulab.kubernetes.next_steps('', 'cp1') }}"
"""


@pytest.mark.parametrize("words", [("",), (" -K", "--become-password-file=password")])
def test_suggested_commands_have_the_options_of_the_run(words: tuple[str, ...], tmp_path: Path) -> None:
    (tmp_path / "play.yml").write_text(PLAY)
    (tmp_path / "password").write_text("secret")
    (tmp_path / "my.ini").write_text("localhost ansible_connection=local\n")
    password, *arguments = words
    status, output = run_ansible(tmp_path, "-i", "my.ini", *arguments, "play.yml")
    assert status == 0, output
    assert f"ansible-playbook gpulab.kubernetes.verify -i my.ini{password}   # verify" in output
    assert REMOTE.strip() in output


@pytest.mark.parametrize(
    ("arguments", "is_job", "expected"),
    [
        ({"inventory": ("my.ini",)}, False, "-i my.ini"),
        ({"inventory": ("HERE/my.ini",), "become_ask_pass": True}, False, "-i my.ini -K"),
        ({"inventory": ("/etc/a b", "c,"), "become_password_file": "/p"}, False, "-i '/etc/a b' -i c, -K"),
        ({"inventory": ("my.ini",), "become_ask_pass": True}, True, "-i INVENTORY"),
        ({"inventory": None, "become_ask_pass": True}, False, "-i INVENTORY"),
    ],
)
def test_commands_have_the_inventory_and_the_password_option_of_the_run(
    arguments: dict[str, Any], is_job: bool, expected: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    if arguments["inventory"]:
        arguments["inventory"] = tuple(each.replace("HERE", str(tmp_path)) for each in arguments["inventory"])
    monkeypatch.setattr(context, "CLIARGS", arguments)
    command = "ansible-playbook gpulab.kubernetes.verify -i INVENTORY --limit gpu1"
    found = run_commands([{"do": f"Verify it: {command}.", "count": 3}, None], is_job)
    assert found == [{"do": f"Verify it: {command.replace('-i INVENTORY', expected)}.", "count": 3}, None]
