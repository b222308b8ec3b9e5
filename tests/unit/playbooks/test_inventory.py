# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Checks of inventories, which come before the first connection to a host."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from ansible.parsing.vault import VaultLib, VaultSecret
from support.programs import run_ansible

PLAYBOOK = "- name: Run it\n  ansible.builtin.import_playbook: gpulab.kubernetes.{name}\n"
# A host that can't be reached.
HOST = "box ansible_host=127.0.0.1 ansible_port=1"


@pytest.mark.parametrize("name", ["docker", "minikube"])
@pytest.mark.parametrize(
    ("group", "variables", "words"),
    [
        ("{name}", "cluster_existing_package=keep", "There is no variable cluster_existing_package"),
        ("{name}", "cluster_cni=lab", "There is no variable cluster_cni"),
        ("{name}", "{name}_timeout=soon", "{name}_timeout"),
        ("boxes", "", "none of the hosts of this run is in the group {name}. The inventory has the groups boxes"),
        ("boxes", "{name}_group=boxes {name}_timeout=soon", "{name}_timeout"),
    ],
)
def test_mistake_is_one_error_before_any_connection(
    tmp_path: Path, name: str, group: str, variables: str, words: str
) -> None:
    lines = [f"[{group}]", HOST, "[all:vars]", *variables.split()]
    (tmp_path / "hosts.ini").write_text("\n".join(lines).format(name=name))
    (tmp_path / "site.yml").write_text(PLAYBOOK.format(name=name))
    status, output = run_ansible(tmp_path, "-i", "hosts.ini", "site.yml")
    assert status != 0
    assert words.format(name=name) in " ".join(output.split())
    assert "UNREACHABLE" not in output


def test_report_is_written_outside_an_inventory_directory(tmp_path: Path) -> None:
    (tmp_path / "prod").mkdir()
    (tmp_path / "prod" / "hosts.ini").write_text(f"[control_plane]\n{HOST}\n[workers]\n{HOST}\n")
    (tmp_path / "report.yml").write_text(PLAYBOOK.format(name="report"))
    for _run in range(2):
        status, output = run_ansible(tmp_path, "-i", "prod", "report.yml")
        assert status == 0 and "[WARNING]" not in output, output
    assert {path.name for path in tmp_path.glob("*gpulab-*")} == {"prod-gpulab-report.json", "prod-gpulab-report.html"}
    assert [path.name for path in (tmp_path / "prod").iterdir()] == ["hosts.ini"]


def test_groups_and_hosts_are_named_in_the_order_of_the_inventory(tmp_path: Path) -> None:
    names = ["zeta", "alpha", "mid", "beta", "nu"]
    lines = [line for name in names for line in (f"[{name}]", f"host-{name} cluster_expected_gpus=x")]
    (tmp_path / "hosts.ini").write_text("\n".join(lines))
    (tmp_path / "run.yml").write_text(PLAYBOOK.format(name="inventory"))
    _status, output = run_ansible(tmp_path, "-i", "hosts.ini", "run.yml")
    assert f"The inventory has the groups {', '.join(names)}." in " ".join(output.split()), output
    lines = ["[control_plane]", "host-zeta", "[workers]", *(f"host-{name}" for name in names[1:]), *lines]
    (tmp_path / "hosts.ini").write_text("\n".join(lines))
    _status, output = run_ansible(tmp_path, "-i", "hosts.ini", "run.yml")
    assert ", ".join(f"host-{name}" for name in names) in " ".join(output.split()), output


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--tags", "kubeadm,driver"], "--tags driver,kubeadm leaves out tasks that later ones depend on"),
        (["--tags", "all"], ""),
        (["--skip-tags", "notest"], ""),
    ],
)
def test_selection_of_tasks_by_tags_is_refused_in_one_error(tmp_path: Path, options: list[str], words: str) -> None:
    (tmp_path / "hosts.ini").write_text(f"[control_plane]\n{HOST}\n[workers]\n{HOST}\n")
    (tmp_path / "run.yml").write_text(PLAYBOOK.format(name="preflight" if words else "inventory"))
    status, output = run_ansible(tmp_path, "-i", "hosts.ini", "run.yml", *options)
    assert bool(status) == bool(words) and words in " ".join(output.split()), output
    assert output.count("fatal: ") == bool(words) and "UNREACHABLE" not in output


# Playbooks for either provider connect to hosts only after they have chosen the cluster.
BOTH = (
    "[masters]\ncp1 ansible_host=127.0.0.1\n[workers]\ngpu1 ansible_host=127.0.0.2\n"
    "[minikube]\nbox ansible_host=127.0.0.3\n[all:vars]\nansible_port=1\n"
)


@pytest.mark.parametrize(
    ("name", "options", "words", "reached"),
    [
        ("verify", ["-e", "cluster_control_plane_group=masters"], "Set -e cluster_provider=kubeadm or", ""),
        ("verify", ["-e", "cluster_provider=minikube"], "", "box"),
        (
            "verify",
            ["-e", "cluster_provider=minikube", "-e", "cluster_control_plane_group=masters"],
            "it is that of minikube, on box, but -e names the groups of another one: "
            "cluster_control_plane_group=masters, cluster_workers_group=gpulab_minikube.",
            "",
        ),
        (
            "verify",
            ["-e", "cluster_provider=minikube", "-l", "masters,workers"],
            "the machine for minikube (box) is not in this run. Check --limit",
            "",
        ),
        (
            "verify",
            ["-e", "cluster_control_plane_group=a", "-e", "cluster_workers_group=b", "-e", "minikube_group=c"],
            "none of the hosts of this run is in the group a or b or c.",
            "",
        ),
        ("preflight", ["-e", "cluster_control_plane_group=masters"], "", "cp1"),
        (
            "preflight",
            ["-e", "cluster_control_plane_group=masters", "-e", "cluster_provider=minikube"],
            "",
            "cp1",
        ),
    ],
)
def test_only_hosts_of_the_chosen_cluster_are_contacted(
    tmp_path: Path, name: str, options: list[str], words: str, reached: str
) -> None:
    (tmp_path / "hosts.ini").write_text(BOTH)
    (tmp_path / "site.yml").write_text(PLAYBOOK.format(name=name))
    status, output = run_ansible(tmp_path, "-i", "hosts.ini", "site.yml", *options)
    assert status != 0 and words in " ".join(output.split()), output
    assert ("UNREACHABLE" in output) == bool(reached)
    if reached:
        others = {"cp1", "gpu1", "box"} - {reached} - ({"gpu1"} if reached == "cp1" else set())
        assert f"fatal: [{reached}]: UNREACHABLE" in output
        assert not any(f"fatal: [{other}" in output for other in others)


@pytest.mark.parametrize(
    ("more", "options", "words"),
    [
        (
            "[masters:vars]\ncluster_provider=kubeadm\n[minikube:vars]\ncluster_provider=minikube\n",
            [],
            "differs between",
        ),
        ("[minikube:vars]\ncluster_provider=minikube\n", [], "cluster_provider differs between hosts (auto, minikube)"),
        ("[minikube:vars]\ncluster_provider=minikube\n", ["-l", "minikube"], ""),
        ("[minikube:vars]\ncluster_provider=minikube\n", ["-e", "cluster_provider=kubeadm"], ""),
        ("cluster_provider=minikube\n", [], ""),
    ],
)
def test_provider_that_differs_between_hosts_is_an_error(
    tmp_path: Path, more: str, options: list[str], words: str
) -> None:
    (tmp_path / "hosts.ini").write_text(f"{BOTH}{more}".replace("masters", "control_plane"))
    (tmp_path / "site.yml").write_text(f"{PLAYBOOK.format(name='inventory')}  vars: {{inventory_any_provider: true}}\n")
    status, output = run_ansible(tmp_path, "-i", "hosts.ini", "site.yml", *options)
    assert (status != 0) is bool(words) and words in " ".join(output.split()), output


@pytest.mark.parametrize(
    ("second", "fits"),
    [
        ("inventory_any_provider: true, cluster_provider: minikube", True),
        ("inventory_group: minikube", True),
        ("inventory_any_provider: true, cluster_provider: kubeadm", False),
        ("inventory_any_provider: false", False),
    ],
)
def test_playbooks_of_one_run_must_use_the_same_cluster(tmp_path: Path, second: str, fits: bool) -> None:
    """Otherwise plays for kubeadm would skip preflight and use minikube's machine as control plane."""
    (tmp_path / "hosts.ini").write_text(BOTH.replace("masters", "control_plane"))
    first = "inventory_any_provider: true, cluster_provider: minikube"
    (tmp_path / "site.yml").write_text(
        "".join(f"{PLAYBOOK.format(name='inventory')}  vars: {{{settings}}}\n" for settings in (first, second))
    )
    status, output = run_ansible(tmp_path, "-i", "hosts.ini", "site.yml")
    words = "an earlier playbook of this run works on minikube's machine (box), and this one does not"
    assert (status == 0, words in " ".join(output.split())) == (fits, not fits), output


REFERENCES = """
[control_plane]
cp1 ansible_connection=ssh
[workers]
gpu1 ansible_user={{admin_name}} later="{{ vault_more }}" ansible_become_password={{later}}
gpu2 ansible_user={{ansible_facts.user}} cluster_node_name={{ansible_facts.nodename}} cluster_no_proxy={{from_play}}
gpu3 ansible_ssh_extra_args="{{ hostvars['cp1'].ansible_host }}" kubeadm_repository_url={{cluster_http_proxy}}
[all:vars]
ansible_host=127.0.0.1
ansible_port=1
ansible_ssh_common_args=-J {{ groups["bastion"][0] }}
cluster_dns_domain={{cluster_domain_of_ours}}
"""


def test_undefined_references_are_named_before_any_connection(tmp_path: Path) -> None:
    """References to facts and to variables of plays and roles are accepted."""
    (tmp_path / "hosts.ini").write_text(REFERENCES)
    folder = tmp_path / "group_vars"
    folder.mkdir()
    locked = "".join(f"  {line}\n" for line in ("$ANSIBLE_VAULT;1.1;AES256", "61" * 40, "62" * 40, "63" * 4))
    (folder / "workers.yml").write_text(f"cluster_https_proxy: !vault |\n{locked}")
    (tmp_path / "site.yml").write_text(f"{PLAYBOOK.format(name='preflight')}  vars: {{from_play: [a]}}\n")
    status, output = run_ansible(tmp_path, "-i", "hosts.ini", "site.yml")
    assert status != 0 and "UNREACHABLE" not in output, output
    for words in (
        "ansible_ssh_common_args refers to the group bastion",
        "ansible_user refers to admin_name, which is not defined",
        "ansible_become_password refers to vault_more, which is not defined",
        "cluster_dns_domain refers to cluster_domain_of_ours, which is not defined",
        "ansible_user refers to facts, which are not known yet",
        "cluster_https_proxy is encrypted with Ansible Vault, and the password is missing or wrong",
    ):
        assert words in output
    for name in ("cluster_node_name", "cluster_no_proxy", "ansible_ssh_extra_args", "kubeadm_repository_url"):
        assert f"where: {name}" not in output


OTHERS = """
[control_plane]
cp1
[workers]
gpu1 ansible_ssh_common_args='-o ProxyCommand="ssh -W %h:%p {{ hostvars["bastion"].ansible_host }}"'
gpu2 ansible_ssh_common_args='-J {{ hostvars[groups.jump[0]].ansible_host }}'
gpu3 ansible_ssh_common_args='-J {{ hostvars.cp1.public_address }}'
gpu4 ansible_ssh_common_args='-J {{ groups["spare"][0] }}'
gpu5 ansible_ssh_common_args='-J {{ hostvars[groups["spare"] | first]["ansible_host"] }}'
gpu6 ansible_ssh_common_args='-J {{ hostvars[groups["control_plane"][0]]["nat"] }}'
gpu7 ansible_ssh_common_args='-J {{ later }}' later='{{ hostvars["gateway"].inventory_hostname }}'
ok1 ansible_ssh_common_args='-J {{ hostvars["cp1"].ansible_host }}' ansible_user="{{ hostvars.localhost.group_names }}"
ok2 ansible_ssh_common_args='-J {{ hostvars["no"].x | default("y") }}' ansible_user="{{ groups.no[0] | default('a') }}"
ok3 ansible_ssh_common_args='-J {{ hostvars[groups["control_plane"] | first].group_names }}'
[spare]
[all:vars]
ansible_host=127.0.0.1
ansible_port=1
"""
ABOUT_OTHERS = {
    "gpu1": "the host bastion, which is not in the inventory",
    "gpu2": "the group jump, which the inventory does not have",
    "gpu3": "public_address of the host cp1, which is not defined",
    "gpu4, gpu5": "the group spare, which is empty",
    "gpu6": "nat of the host cp1, which is not defined",
    "gpu7": "the host gateway, which is not in the inventory",
}


@pytest.mark.parametrize("password", ["", "wrong"])
def test_undefined_references_to_other_hosts_and_locked_passwords_are_named(tmp_path: Path, password: str) -> None:
    (tmp_path / "hosts.ini").write_text(OTHERS)
    (tmp_path / "group_vars").mkdir()
    (tmp_path / "group_vars" / "spare.yml").write_text("a: 1\n")
    secret = VaultLib([("default", VaultSecret(b"right"))]).encrypt(b"secret").decode()
    locked = "".join(f"  {line}\n" for line in secret.splitlines())
    (tmp_path / "group_vars" / "control_plane.yml").write_text(f"ansible_become_password: !vault |\n{locked}")
    (tmp_path / "password").write_text(password)
    (tmp_path / "run.yml").write_text(PLAYBOOK.format(name="inventory"))
    given = ["--vault-password-file", "password"] if password else []
    status, output = run_ansible(tmp_path, "-i", "hosts.ini", *given, "run.yml")
    assert status != 0 and f"{len(ABOUT_OTHERS) + 1} problems found" in output, output
    for hosts, words in ABOUT_OTHERS.items():
        found = output[output.index(f"\n{hosts}\n") :].splitlines()[2]
        assert f"ansible_ssh_common_args refers to {words}" in found
    assert "ansible_become_password is encrypted with Ansible Vault, and the password is missing or wrong" in output
    assert "Run again with --ask-vault-pass or --vault-password-file FILE" in output


SHARES = """
- name: Set a fact of one host
  hosts: control_plane:workers
  gather_facts: false
  tasks:
    - name: Set it
      ansible.builtin.set_fact: {only_here: true, cacheable: true}
      when: inventory_hostname == 'cp1'

    - name: Show who has it
      ansible.builtin.debug:
        msg: "{{ inventory_hostname }} has it: {{ ansible_facts.only_here is defined }}"
"""


def test_hosts_do_not_share_their_facts(tmp_path: Path) -> None:
    """With run_once, ansible-core would share one dict of facts between all hosts if a debug task created it."""
    (tmp_path / "hosts.ini").write_text(
        f"[control_plane]\n{HOST.replace('box', 'cp1')}\n[workers]\n{HOST.replace('.1 ', '.2 ')}\n"
    )
    (tmp_path / "run.yml").write_text(PLAYBOOK.format(name="inventory") + SHARES)
    status, output = run_ansible(tmp_path, "-i", "hosts.ini", "run.yml")
    assert status == 0 and "Control plane: cp1" in output, output
    assert "cp1 has it: True" in output and "box has it: False" in output, output


WHO = "[masters]\ncp1 ansible_host=127.0.0.1\n[workers]\ngpu[1:2]\n[store]\nnas\n[all:vars]\nansible_port=1\n"


@pytest.mark.parametrize(
    ("more", "options", "words"),
    [
        (
            "cluster_control_plane_group=masters\n",
            [],
            "cluster_control_plane_group is set in the inventory, where it has",
        ),
        ("", [], "The inventory has the group masters (cp1): rename it to control_plane"),
        ("", ["-e", "cluster_control_plane_group=masters"], ""),
    ],
)
def test_members_of_the_cluster_are_shown_or_missing_groups_are_an_error(
    tmp_path: Path, more: str, options: list[str], words: str
) -> None:
    (tmp_path / "hosts.ini").write_text(WHO + more)
    (tmp_path / "run.yml").write_text(PLAYBOOK.format(name="inventory"))
    status, output = run_ansible(tmp_path, "-i", "hosts.ini", "run.yml", *options)
    assert bool(status) == bool(words) and words in output, output
    for line in ("Control plane: cp1 (127.0.0.1)", "Workers (2): gpu1, gpu2", "not in the cluster: nas (group store)"):
        assert (line in output) != bool(words), output


MEMBERS = "[control_plane]\ncp1 ansible_host=127.0.0.1\n[workers]\ngpu1 ansible_host=127.0.0.2\n[all:vars]\n"
# Plausible but wrong names of variables, and part of the message about each.
UNSEEN = {
    "nvidia_driver_branch": "calls it nvidia_driver_version",
    "kubeadm_certificate_key": "Control planes get the certificates through the controller",
    "kubeadm_token_ttl": "Each join gets a token of its own",
    "cluster_reboot": "calls it nvidia_driver_reboot",
    "nvidia_reboot": "calls it nvidia_driver_reboot",
    "cluster_cni": "calls it cluster_network_plugin",
    "Cluster_Kubernetes_Version": "a misspelling of cluster_kubernetes_version",
}
NOTED = {
    "containerd_root": "containerd keeps its data in /var/lib/containerd",
    "driver_version": "write nvidia_driver_version",
    "kubernetes_version": "write cluster_kubernetes_version",
}


@pytest.mark.parametrize("setting", ["error", "warn"])
def test_variables_that_no_role_reads_are_named(tmp_path: Path, setting: str) -> None:
    """The variables may be set in the inventory, group_vars, host_vars or with -e. Their values are not shown."""
    names = [*UNSEEN, *NOTED]
    (tmp_path / "hosts.ini").write_text(f"{MEMBERS}gpulab_mine=s3cret\n{names[0]}=s3cret\n{names[-1]}=s3cret\n")
    for folder, name in (("group_vars", "all.yml"), ("host_vars", "gpu1.yml")):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / name).write_text(f"{names[1 if folder == 'host_vars' else 2]}: s3cret\n")
    (tmp_path / "run.yml").write_text(PLAYBOOK.format(name="inventory"))
    more = [option for name in names[3:-1] for option in ("-e", f"{name}=s3cret")]
    more += ["-e", "nvidia_driver_version=auto", "-e", f"cluster_unknown_variables={setting}"]
    status, output = run_ansible(tmp_path, "-i", "hosts.ini", "run.yml", *more)
    text = " ".join(output.split())
    assert (status == 0) == (setting == "warn") and "s3cret" not in output and "gpulab_mine" not in output, output
    for name, words in {**UNSEEN, **(NOTED if setting == "warn" else {})}.items():
        assert f"There is no variable {name}" in text or f"Nothing in this collection reads {name}" in text, name
        assert words in text, words


@pytest.mark.parametrize(
    ("text", "options", "words"),
    [
        (
            "",
            ["-e", "nvidia_driver_version=580.99.99"],
            "580.99.99 for cp1, gpu1, which is not in the table of versions",
        ),
        ("ansible_host=127.0.0.1\n", [], "Hosts cp1, gpu1 have the same address 127.0.0.1"),
        ("[workers]\ngpu[2:4] ansible_host=127.0.0.4\n", [], "Hosts gpu2, gpu3, gpu4 have the same address 127.0.0.4"),
        (
            "[workers]\ngpu2 ansible_host=http://127.0.0.4\n",
            [],
            "is 'http://127.0.0.4', which is not an address or a name",
        ),
        ("[workers]\ngpu2 ansible_host=192.0.2.321\n", [], "is '192.0.2.321', which is not an address or a name"),
        (
            "",
            ["-e", "cluster_report_prefix={}/hosts.ini/x-"],
            "hosts.ini is not a directory, so nothing can be written",
        ),
    ],
)
def test_inventory_playbook_finds_problems_that_need_no_connection(
    tmp_path: Path, text: str, options: list[str], words: str
) -> None:
    members = (
        MEMBERS
        if text.startswith("[") or not text
        else MEMBERS.replace(" ansible_host=127.0.0.1", "").replace(" ansible_host=127.0.0.2", "")
    )
    (tmp_path / "hosts.ini").write_text(f"{members}{text}")
    (tmp_path / "run.yml").write_text(PLAYBOOK.format(name="inventory"))
    status, output = run_ansible(
        tmp_path, "-i", "hosts.ini", "run.yml", *(option.format(tmp_path) for option in options)
    )
    assert status != 0 and words in " ".join(output.split()), output


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("my.ini", "cluster_expected_gpus = 4\n[workers]\ngpu1 gpus = 4\n", "could not read the inventory"),
        ("my.yaml", "workers:\n\thosts: {gpu1: }\n", "could not read the inventory"),
        ("my.ini", "[workers]\ngpu1\n[all:vars\na=1\n", "could not read the inventory"),
        ("absent.ini", None, "There is no file"),
    ],
)
def test_unreadable_inventory_is_reported_as_the_cause(tmp_path: Path, name: str, text: str | None, words: str) -> None:
    if text is not None:
        (tmp_path / name).write_text(text)
    (tmp_path / "run.yml").write_text(PLAYBOOK.format(name="inventory"))
    status, output = run_ansible(tmp_path, "-i", name, "run.yml", ANSIBLE_INVENTORY_ANY_UNPARSED_IS_FAILED="false")
    assert status != 0 and words in " ".join(output.split()) and "Give an inventory" not in output, output


def test_variable_files_that_ansible_does_not_read_are_named(tmp_path: Path) -> None:
    """Files next to a playbook only apply to its own plays, not to the playbooks that it imports."""
    (tmp_path / "inventory").mkdir()
    (tmp_path / "inventory" / "hosts.ini").write_text(MEMBERS)
    playbook = PLAYBOOK.format(name="inventory")
    (tmp_path / "run.yml").write_text(playbook)
    for folder in ("inventory/group_vars", "group_vars"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "all.yml").write_text(
            "cluster_pod_network: nonsense\n" if folder == "group_vars" else "{}"
        )
    wrong, unclear = (tmp_path / "inventory" / "group_vars" / f"{name}.yml" for name in ("worker", "staging"))
    wrong.write_text("a: 1\n")
    unclear.write_text("a: 1\n")
    status, output = run_ansible(tmp_path, "-i", "inventory/hosts.ini", "run.yml")
    assert status != 0 and f"{wrong} has no effect, because the inventory has no group worker" in output, output
    wrong.unlink()
    status, output = run_ansible(tmp_path, "-i", "inventory/hosts.ini", "run.yml")
    text = " ".join(output.split())
    assert status == 0 and f"{unclear} has no effect, because the inventory has no group staging" in text, output
    assert f"{tmp_path}/group_vars has no effect on the playbooks of this collection" in text, output
    assert f"Move it next to the inventory, to {tmp_path}/inventory/group_vars" in text, output


@pytest.mark.parametrize(
    ("option", "words"),
    [
        ("gpulab_none=1", "You may not write into {}/closed on the controller"),
        ("report_file={}/closed/x.json", "report_file: you may not write into {}/closed on the controller"),
        (
            "cluster_kubeconfig={}/closed/x.conf",
            "cluster_kubeconfig: you may not write into {}/closed on the controller",
        ),
    ],
)
def test_preflight_fails_if_the_report_cannot_be_written(tmp_path: Path, option: str, words: str) -> None:
    """To restrict root, Ansible runs without the capabilities that override file permissions."""
    (tmp_path / "closed").mkdir()
    (tmp_path / "closed" / "hosts.ini").write_text(MEMBERS)
    (tmp_path / "run.yml").write_text(PLAYBOOK.format(name="preflight"))
    limits = "setpriv --bounding-set=-dac_override,-dac_read_search --inh-caps=-all" if os.geteuid() == 0 else ""
    program = tmp_path / "limited"
    program.write_text(f'#!/bin/sh\nexec {limits} {Path(sys.executable).parent}/ansible-playbook "$@"\n')
    program.chmod(0o755)
    (tmp_path / "closed").chmod(0o555)
    given = ["-i", "closed/hosts.ini", "run.yml", "-e", option.format(tmp_path)]
    status, output = run_ansible(tmp_path, *given, program=str(program))
    (tmp_path / "closed").chmod(0o755)
    assert status != 0 and words.format(tmp_path) in " ".join(output.split()), output
    assert "UNREACHABLE" not in output, output


def test_variables_set_by_earlier_plays_are_accepted(tmp_path: Path) -> None:
    (tmp_path / "hosts.ini").write_text(MEMBERS)
    (tmp_path / "run.yml").write_text(
        """\
- name: Look for oneself
  hosts: all
  gather_facts: false
  tasks:
    - name: Keep what was found
      ansible.builtin.debug:
        msg: found
      delegate_to: localhost
      register: nvidia_smi
    - name: Set a fact
      ansible.builtin.set_fact:
        gpu_inventory: "{{ nvidia_smi.msg }}"
- name: Run it
  ansible.builtin.import_playbook: gpulab.kubernetes.inventory
"""
    )
    status, output = run_ansible(tmp_path, "-i", "hosts.ini", "run.yml")
    assert status == 0, output
    status, output = run_ansible(tmp_path, "-i", "hosts.ini", "run.yml", "-e", "gpu_inventory=mine")
    assert status and "There is no variable gpu_inventory" in output and "variable nvidia_smi" not in output, output


def test_long_list_of_hosts_is_not_taken_for_a_path(tmp_path: Path) -> None:
    (tmp_path / "hosts.ini").write_text(MEMBERS)
    (tmp_path / "run.yml").write_text(PLAYBOOK.format(name="inventory"))
    names = ",".join(f"gpu-host-{number}.example.org" for number in range(30))
    status, output = run_ansible(tmp_path, "-i", "hosts.ini", "-i", names, "run.yml")
    assert status and "gpu-host-0.example.org" in output and "too long" not in output, output


def test_problem_list_is_next_to_reports_and_never_outdated(tmp_path: Path) -> None:
    (tmp_path / "hosts.ini").write_text(MEMBERS)
    (tmp_path / "run.yml").write_text(PLAYBOOK.format(name="inventory"))
    kept = tmp_path / "lab-gpulab-problems.txt"
    more = ["-i", "hosts.ini", "run.yml", "-e", f"cluster_report_prefix={tmp_path}/lab-"]
    for wrong, exists in ((8, True), (1, False), (8, True), (0, False)):
        variables = [option for number in range(wrong) for option in ("-e", f"cluster_x{number}=1")]
        status, output = run_ansible(tmp_path, *more, *variables)
        assert ((status == 0), kept.exists()) == (wrong == 0, exists), output
    assert not (tmp_path / "gpulab-problems.txt").exists()
