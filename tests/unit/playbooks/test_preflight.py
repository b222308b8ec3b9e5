# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs of the playbook preflight, which only reads, against this machine under several names."""

from __future__ import annotations

import contextlib
import json
import re
import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml
from support.hosts import ROOT
from support.programs import run_ansible

PLAYBOOK = """
- name: Check
  ansible.builtin.import_playbook: gpulab.kubernetes.preflight

- name: Change something
  hosts: all
  gather_facts: false
  tasks:
    - name: Leave a trace
      ansible.builtin.file:
        path: "{trace}/{{{{ inventory_hostname }}}}"
        state: touch
        mode: "0600"
"""
CHECKS = {"site.yml": True, "plan.yml": True, "upgrade_driver.yml": False}
VERIFY = """
- name: Verify
  ansible.builtin.import_playbook: gpulab.kubernetes.verify
"""
SETTINGS = """
- name: Look at a setting
  hosts: workers
  gather_facts: false
  tasks:
    - name: Learn the settings
      ansible.builtin.import_role:
        name: gpulab.kubernetes.preflight
        tasks_from: settings
    - name: Compare them
      ansible.builtin.assert:
        that:
          - _preflight_host_settings['nvidia_driver_replace_foreign'] is false
          - (_preflight_needs['kernel_modules'] | sort) == (expected | sort)
      vars:
        always: [overlay, br_netfilter, nf_conntrack, ip_tables, nf_tables]
        expected: "{{{{ always + (needs_vxlan | bool | ternary(['vxlan'], [])) }}}}"
"""
QUESTIONS = """
- name: Look at what repositories are asked
  hosts: workers
  gather_facts: false
  tasks:
    - name: Learn the settings
      ansible.builtin.import_role:
        name: gpulab.kubernetes.preflight
        tasks_from: settings
    - name: Write it down
      ansible.builtin.copy:
        content: "{{{{ _preflight_repositories | gpulab.kubernetes.select_enabled | to_json }}}}"
        dest: "{trace}/questions"
        mode: "0600"
"""
ALONE = """
- name: Apply a role alone
  hosts: workers
  gather_facts: false
  roles: [gpulab.kubernetes.host]
"""
HERE = "ansible_connection=local ansible_become=false ansible_python_interpreter={{ansible_playbook_python}}"
GONE = "ansible_connection=ssh ansible_host=127.0.0.1 ansible_port=1"
Run = Callable[..., tuple[int, str, list[str]]]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Return a function that returns the exit status, the output, and the hosts that ran the play after preflight."""
    trace = tmp_path / "trace"
    trace.mkdir()

    def call(inventory: str, *arguments: str, playbook: str = PLAYBOOK) -> tuple[int, str, list[str]]:
        (tmp_path / "site.yml").write_text(playbook.format(trace=trace))
        (tmp_path / "hosts.ini").write_text(inventory)
        status, output = run_ansible(tmp_path, "-i", "hosts.ini", "site.yml", *arguments)
        traces = sorted(path.name for path in trace.iterdir())
        return status, output, traces

    return call


@pytest.mark.parametrize(
    ("inventory", "given"),
    [
        ("", "drian"),
        (" cluster_disruption_policy=\"{{ ansible_facts['os_family'] ~ 'drian' }}\"", ""),
    ],
    ids=["by a play", "made of facts"],
)
def test_values_from_play_vars_and_facts_are_checked(run: Run, inventory: str, given: str) -> None:
    imported = "gpulab.kubernetes.preflight\n"
    variables = f"  vars: {{{{cluster_disruption_policy: {given}}}}}\n" if given else ""
    playbook = PLAYBOOK.replace(imported, imported + variables)
    status, output, traces = run(f"[control_plane]\ncp1 {HERE}{inventory}\n[workers]\ncp1\n", playbook=playbook)
    assert status != 0 and traces == []
    expected = "cluster_disruption_policy must be one of: refuse, drain, wait, signal, defer, ignore"
    assert expected in " ".join(output.split())


def test_role_variables_set_by_a_playbook_are_checked_before_a_host_is_reached(run: Run) -> None:
    """Those that refer to facts, or to nothing that is known here, are left to the roles that use them."""
    settings = (
        "{nvidia_driver_profiling: everyone, containerd_version: \"{{ ansible_facts['os_family'] }}\", "
        "kubeadm_packages_hold: '{{ nothing }}', flannel_backend: vxlan}"
    )
    imported = "gpulab.kubernetes.preflight\n"
    # The playbook is a format string.
    escaped = settings.replace("{", "{{").replace("}", "}}")
    playbook = PLAYBOOK.replace(imported, f"{imported}  vars: {escaped}\n")
    status, output, traces = run(f"[control_plane]\ncp1 {HERE}\n[workers]\ncp1\n", playbook=playbook)
    told = " ".join(output.split())
    assert status != 0 and traces == [] and "1 problem" in told, output
    assert "nvidia_driver_profiling must be one of: administrators, all, got: everyone" in told


def test_role_variables_that_refer_to_facts_are_checked_before_any_change(run: Run) -> None:
    settings = " nvidia_driver_profiling=\"{{ ansible_facts['os_family'] | lower }}\""
    status, output, traces = run(f"[control_plane]\ncp1 {HERE}{settings}\n[workers]\ncp1\n")
    assert status != 0 and traces == []
    assert "nvidia_driver_profiling must be one of: administrators, all, got: debian" in " ".join(output.split())


def test_inventory_without_the_groups_is_an_error(run: Run) -> None:
    for inventory, arguments in (
        (f"[all]\nlonely {HERE}\n", ()),
        ("", ()),
        (f"lonely {HERE}\n[control_plane]\ncp1 {HERE}\n", ("--limit", "lonely")),
    ):
        status, output, traces = run(inventory, *arguments)
        assert status != 0 and traces == [], output
        assert "control_plane or workers" in output


def test_verify_without_hosts_is_an_error(run: Run) -> None:
    status, output, _traces = run(f"[worker]\ngpu1 {HERE}\n", playbook=VERIFY)
    assert status != 0 and "The inventory has the groups worker." in output, output


def test_invalid_variables_of_all_roles_are_named_before_any_connection(run: Run) -> None:
    own = "nvidia_driver_source=mine cluster_pod_netwrok=10.0.0.0/8 kubeadm_repository_url={{ansible_facts.nowhere}}"
    status, output, traces = run(
        f"[control_plane]\ncp1 {GONE}\n[workers]\ngpu1 {GONE} {own}\ngpu2 {GONE} cluster_expected_gpus=two\n",
        *("-e", '{"containerd_registry_mirrors": [{"registry": "docker.io"}], "cluster_dns_domain": "{{ oops"}'),
        *("-e", '{"cluster_node_taints": [null], "cluster_node_labels": {"a": true}, "cuda_toolkit_remove": [12.9]}'),
    )
    assert status != 0 and traces == [], output
    for words in (
        "must be one of: cuda_repository, distribution, preinstalled, operator, daemonset, got: mine",
        "It looks like a misspelling of cluster_pod_network",
        "missing required arguments: endpoint",
        "cluster_expected_gpus is of type str",
        "cluster_dns_domain is not a valid template",
        "cluster_node_taints has an entry that is not a mapping: [None]",
        "the value of the label a is not a string: True; put it in quotes",
        "12.9 is not a string: a number loses trailing zeros",
    ):
        assert words in output
    # Values that refer to facts can't be checked yet.
    assert "where: kubeadm_repository_url" not in output
    assert "UNREACHABLE" not in output and "Traceback" not in output and "DEPRECATION" not in output


def test_hosts_outside_limit_are_compared_before_any_connection(run: Run) -> None:
    taint = 'cluster_node_taints=\'[{"key": "a"}]\''
    inventory = (
        f"[control_plane]\ncp1 {GONE} {taint}\n[workers]\ngpu1 {GONE} {taint} cluster_gpu_manager=gpu_operator\n"
    )
    status, output, _traces = run(inventory, "--limit", "gpu1")
    assert status != 0 and "UNREACHABLE" not in output, output
    assert "Every node would have a taint: cp1, gpu1" in output
    assert "differs between hosts of the cluster: device_plugin for cp1; gpu_operator for gpu1" in output


def test_preflight_reads_the_settings_of_each_host(run: Run) -> None:
    hosts = (
        # vxlan is only required if flannel uses it.
        f"usual {HERE} needs_vxlan=true",
        f"vxlan {HERE} needs_vxlan=true flannel_backend=vxlan",
        f"other {HERE} needs_vxlan=false flannel_backend=host-gw",
        # Ansible reads false in an INI file as a string, which is true in a condition.
        f"false {HERE} needs_vxlan=true nvidia_driver_replace_foreign=false",
    )
    status, output, _traces = run("\n".join(("[workers]", *hosts, "")), playbook=SETTINGS)
    assert status == 0, output


def test_wrong_inventory_is_an_error_before_any_connection(run: Run) -> None:
    inventory = f"lost {GONE}\n[control_plane]\ncp1 {GONE}\ncp2 {GONE}\n[workers]\ngpu1 {GONE}\n"
    status, output, traces = run(
        inventory, "-e", "cluster_kubernetes_version=1.99.0", "-e", "cluster_pod_network=10.244.0.0/33"
    )
    assert status != 0 and traces == [] and "UNREACHABLE" not in output, output
    for words in (
        "control_plane must contain 1, 3 or 5 hosts, but it has 2 (cp1, cp2)",
        "cluster_kubernetes_version is 1.99.0",
        "'10.244.0.0/33', which is not a valid IPv4 network",
        "lost does not belong to any group",
    ):
        assert words in output
    assert "Traceback" not in output and "is undefined" not in output


def test_all_problems_are_reported_together_and_later_plays_do_not_run(run: Run) -> None:
    inventory = f"[control_plane]\ncp1 {HERE}\n[workers]\ngpu2 {GONE}\ngpu1 {HERE} cluster_expected_gpus=77\n"
    status, output, traces = run(inventory, "--forks", "1", "-e", "kubeadm_repository_url=file:///none")
    assert status != 0 and traces == [], output
    for words in (
        # The unreachable host is counted, too.
        "3 hosts, 1 at a time. Every task takes 3 rounds. Add --forks 3 to the command",
        "Hosts cp1, gpu1 have the same node name",
        "The host can't be reached: ",
        "77 GPUs are expected",
    ):
        assert words in output
    assert "Traceback" not in output and "is undefined" not in output


def test_control_plane_outside_limit_is_compared(run: Run) -> None:
    status, output, traces = run(f"[control_plane]\ncp1 {HERE}\n[workers]\ngpu1 {HERE}\n", "--limit", "gpu1")
    assert status != 0 and traces == [], output
    assert "Hosts gpu1, cp1 have the same node name" in output
    assert "/etc/containerd" not in output, "our own files fit together"


def test_unreachable_control_plane_outside_limit_is_named(run: Run) -> None:
    status, output, traces = run(f"[control_plane]\ncp1 {GONE}\n[workers]\ngpu1 {HERE}\n", "--limit", "gpu1")
    assert status != 0 and traces == []
    assert "ansible_failed_result" not in output
    assert re.search(r"cp1\n +\d\. The host can't be reached", output), output


def test_conflicting_containerd_settings_are_found_before_they_are_written(run: Run) -> None:
    settings = {"containerd_cri_settings": {"enable_cdi": False, "containerd": {"default_runtime_name": "gone"}}}
    _status, output, _traces = run(f"[control_plane]\ncp1 {HERE}\n[workers]\ncp1\n", "-e", json.dumps(settings))
    for words in ("default runtime gone is not among the runtimes runc", "CDI is disabled"):
        assert words in output
    assert "/etc/containerd/config.toml" in output


def test_renamed_groups_are_used(run: Run) -> None:
    names = ("-e", "cluster_control_plane_group=masters", "-e", "cluster_workers_group=nodes")
    status, output, _traces = run(f"[masters]\none {HERE}\ntwo {HERE}\n", *names)
    assert status != 0
    assert "masters must contain 1, 3 or 5 hosts, but it has 2 (one, two)" in output


def test_repositories_are_checked_for_all_packages_and_keys_of_the_roles(run: Run, tmp_path: Path) -> None:
    settings = ("-e", "nvidia_driver_version=595.91.07", "-e", '{"kubeadm_repository_key_fingerprints": []}')
    status, output, _traces = run(f"[workers]\ngpu1 {HERE}\n", *settings, playbook=QUESTIONS)
    assert status == 0, output
    found = {one["name"]: one for one in json.loads((tmp_path / "trace/questions").read_text())}
    assert set(found["Kubernetes"]["packages"]) == {"kubelet", "kubeadm", "kubectl", "cri-tools", "kubernetes-cni"}
    assert set(found["NVIDIA container toolkit"]["packages"]) == {
        "nvidia-container-toolkit",
        "nvidia-container-toolkit-base",
        "libnvidia-container-tools",
        "libnvidia-container1",
    }
    # The driver's packages are looked up later, when its version has been chosen.
    assert found["NVIDIA driver"]["packages"] == {}
    keys = {name: found["NVIDIA driver"]["key"][name] for name in ("debian13", "ubuntu2404", "ubuntu2604")}
    assert keys == {"debian13": "8793F200.pub", "ubuntu2404": "3bf863cc.pub", "ubuntu2604": "60DF8A40.pub"}
    assert [(one["key_url"], len(one["fingerprints"])) for one in found.values()] == [
        ("https://pkgs.k8s.io/core:/stable:/v1.36/deb/{key}", 0),
        ("https://download.docker.com/linux/{id}/{key}", 1),
        ("https://nvidia.github.io/libnvidia-container/{key}", 1),
        ("https://developer.download.nvidia.com/compute/cuda/repos/{repository_name}/x86_64/{key}", 3),
    ]


def test_role_applied_alone_names_cause_and_remedy_of_an_unreachable_host(run: Run) -> None:
    status, output, _traces = run(f"[workers]\nbox {GONE}\n", playbook=ALONE)
    words = " ".join(output.split())
    assert status != 0 and "Error while reading the host box: The host can't be reached: " in words, output
    assert "Check ansible_port, and on the host: systemctl status ssh" in words


# The prompt of sudo-rs 0.2 wraps the text of -p, and adds PAM's prompt.
SUDO_RS = """#!/bin/sh
while [ $# -gt 0 ]; do case $1 in -p) prompt=$2; shift 2;; -u) shift 2;; -*) shift;; *) break;; esac; done
printf '[sudo: %s] Password: ' "$prompt" >&2
read -r password
exec "$@"
"""


def test_prompt_of_sudo_rs_is_named_as_the_cause(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANSIBLE_BECOME_ALLOW_SAME_USER", "1")
    program = tmp_path / "sudo-rs"
    program.write_text(SUDO_RS)
    program.chmod(0o755)
    here = HERE.replace("ansible_become=false", f"ansible_become_exe={program} ansible_become_password=x")
    status, output, traces = run(
        f"[control_plane]\ncp1 {here} ansible_local_become_success_timeout=2\n[workers]\ncp1\n"
    )
    assert status != 0 and traces == []
    assert "because the host's sudo is sudo-rs" in output and "ansible_become_exe=sudo.ws" in output, output


@contextlib.contextmanager
def silent(address: str, port: int = 0) -> Iterator[str]:
    """Yield an address that ignores connections, because its queue is full, like behind a filter that drops packets."""
    with socket.socket() as server, contextlib.ExitStack() as clients:
        server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            server.bind((address, port))
        except OSError as error:
            pytest.skip(f"{address}:{port}: {error}")
        server.listen(0)
        for _number in range(4):
            client = clients.enter_context(socket.socket())
            client.setblocking(False)
            client.connect_ex(server.getsockname())
        yield f"{address}:{server.getsockname()[1]}"


def own_address() -> str:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
        try:
            client.connect(("192.0.2.1", 9))
        except OSError as error:
            pytest.skip(f"no route: {error}")
        return str(client.getsockname()[0])


@pytest.mark.parametrize(("name", "forms"), CHECKS.items())
def test_only_playbooks_that_form_the_cluster_need_the_control_plane(name: str, forms: bool) -> None:
    first, *_rest = yaml.safe_load((ROOT / "playbooks" / name).read_text())
    assert first.get("vars", {}).get("preflight_forms_cluster", False) is forms


@pytest.mark.parametrize("known", [True, False], ids=["before", "after"])
def test_workers_try_the_api_server_before_any_change(run: Run, known: bool) -> None:
    """The address of the API server is known before the control plane is read, or only afterwards."""
    address = own_address()
    own = (
        ""
        if known
        else f"cluster_node_address=\"{{{{ ansible_facts['nodename'] | regex_replace('.+', '{address}') }}}}\""
    )
    hosts = f"[control_plane]\ncp1 {HERE} {own}\n[workers]\ngpu1 {HERE}\n"
    with silent("127.0.0.1" if known else address, 0 if known else 6443) as endpoint:
        arguments = ["-e", "preflight_timeout=1"]
        arguments += ["-e", f"cluster_api_endpoint={endpoint}"] if known else []
        status, output, traces = run(hosts, *arguments)
        words = f"gpu1: The host can't reach the API server at {endpoint}: no answer within 3 s"
        assert status != 0 and traces == [], output
        assert words in " ".join(output.split()), output
        later = re.search(r"TASK \[.*Record whether .*\] \**\n(?:skipping.*\n)*ok: \[gpu1\]", output)
        assert (later is None) == known, output
        _status, output, _traces = run(hosts, *arguments, "-e", "preflight_check_api=false")
        assert "can't reach the API server" not in " ".join(output.split()), output
