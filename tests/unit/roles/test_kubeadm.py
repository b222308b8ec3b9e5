# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs of parts of the role on this machine: errors show causes, but no secrets."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jinja2
import pytest
import yaml
from ansible_collections.gpulab.kubernetes.plugins.module_utils._kubeadm.kubeconfig import read_kubeconfig
from ansible_collections.gpulab.kubernetes.plugins.module_utils._kubeadm.run import DISCOVERY
from kubeadm_texts import PINNED, SECRET, TOKEN
from stubbed_site import Site
from support.programs import run_ansible

HERE = "ansible_connection=local ansible_become=false ansible_python_interpreter={{ansible_playbook_python}}"
# No server listens on port 1 of the loopback address.
AWAY = "ansible_connection=ssh ansible_host=127.0.0.1 ansible_port=1 ansible_become=false"
INVENTORY = f"[control_plane]\ncp1 {HERE}\n[workers]\ngpu1 {HERE}\ngpu2 {HERE}\n"
PLAYBOOK = """
- name: Run a part of the role
  hosts: all
  gather_facts: false
  tasks:
    - name: Load the settings that several roles share
      ansible.builtin.import_role:
        name: gpulab.kubernetes.cluster
    - name: Run it
      ansible.builtin.include_role:
        name: gpulab.kubernetes.kubeadm
        tasks_from: "{part}"
"""
Run = Callable[..., tuple[int, str]]


@pytest.fixture
def run(tmp_path: Path, programs: Any) -> Run:
    """Return a function that runs a part of the role with -vvv, and returns its exit status and output."""

    def call(part: str, inventory: str = INVENTORY) -> tuple[int, str]:
        (tmp_path / "site.yml").write_text(PLAYBOOK.format(part=part))
        (tmp_path / "hosts.ini").write_text(inventory)
        # The play has no workers, so this machine doesn't join a cluster.
        settings = {"_kubeadm_joining": ["gpu1", "gpu2"], "_kubeadm_is_control_plane": True}
        arguments = ["-i", "hosts.ini", "site.yml", "-vvv", "-e", json.dumps(settings)]
        return run_ansible(tmp_path, *arguments, PATH=f"{programs.directory}{os.pathsep}{os.environ['PATH']}")

    return call


def test_failed_token_creation_is_reported_without_secrets(run: Run, programs: Any) -> None:
    programs.add("kubeadm", f'echo "kubeadm join 10.0.0.1 --token {TOKEN} {PINNED}"')
    status, output = run("join.yml")
    assert status != 0
    assert "it names no endpoint host:port: kubeadm join 10.0.0.1 --token ********" in output
    assert "censored" in output, "the module ran"
    assert SECRET not in output
    programs.add("kubeadm", f'echo "error: no API for {TOKEN}" >&2; exit 1')
    status, output = run("join.yml")
    assert status != 0 and SECRET not in output
    assert re.search(r"no API for \*+\s+cmd: kubeadm token create .*--kubeconfig /etc/kubernetes/admin.conf", output)
    assert "Join the worker" not in output


def test_created_token_is_not_logged(run: Run, programs: Any) -> None:
    programs.add("kubeadm", f'test "$1" = token && echo "kubeadm join 10.0.0.1:6443 --token {TOKEN} {PINNED}"')
    status, output = run("join.yml")
    assert status == 0, output
    assert "Join the worker" in output
    assert SECRET not in output


@pytest.mark.parametrize(
    ("member", "text", "written"), [(True, "a: 1", True), (True, "", False), (False, "a: 1", False)]
)
def test_only_the_kubelet_of_a_node_gets_a_new_configuration(member: bool, text: str, written: bool) -> None:
    path = Path(__file__).resolve().parents[3] / "roles/kubeadm/vars/main.yml"
    states = [each for each in yaml.safe_load(path.read_text())["_kubeadm_host_states"] if isinstance(each, dict)]
    (when,) = (state["when"] for state in states if state["name"] == "kubelet configuration")
    values = {"cluster_node": {"member": member}, "kubeadm_kubelet_plan": {"node": text}}
    assert jinja2.Template(when).render(values) == str(written)


JOIN = """
- name: Join
  hosts: gpu1
  gather_facts: false
  tasks:
    - name: Load the settings that several roles share
      ansible.builtin.import_role:
        name: gpulab.kubernetes.cluster
    - name: Join
      ansible.builtin.import_role:
        name: gpulab.kubernetes.kubeadm
        tasks_from: join
    - name: Show what the controller has seen
      ansible.builtin.debug:
        msg: "joined as {{ kubeadm_joined_node | default('nothing') }}."
"""


@pytest.mark.parametrize(
    ("before", "changed", "seen"),
    [
        ({"resources": []}, True, "joined as gpu1."),
        # The node existed before; it may belong to another host.
        ({"resources": [{"kind": "Node"}]}, True, "joined as nothing."),
        ({"resources": []}, False, "joined as nothing."),
    ],
)
def test_only_a_new_node_belongs_to_the_host_that_joined(
    tmp_path: Path, before: dict[str, Any], changed: bool, seen: str
) -> None:
    site = Site(tmp_path)
    site.answer("k8s_info", {"changed": False, **before})
    site.answer("kubeadm_join", {"changed": changed})
    known = {"__kubeadm_join_info": {"token": TOKEN, "ca_cert_hashes": [PINNED], "ca_certificates": "-----BEGIN"}}
    settings = {
        **known,
        "_kubeadm_joining": ["gpu1"],
        "plan_nodes": {"hosts": {"gpu1": {"step": "join"}}},
        "_kubeadm_is_control_plane": False,
        "_kubeadm_join_file": "",
        "_kubeadm_discovery": {},
        "_kubeadm_ca_hashes": [PINNED],
        "cluster_node_name": "gpu1",
        "cluster_api_kubeconfig": "/nowhere",
        "ansible_become": False,
    }
    status, output = site.play(JOIN, settings)
    assert status == 0, output
    assert seen in output


KUBELETS = """
- name: Replace certificates of kubelets
  hosts: all
  gather_facts: false
  tasks:
    - name: Load the settings that several roles share
      ansible.builtin.import_role:
        name: gpulab.kubernetes.cluster
    - name: Replace what has expired
      ansible.builtin.import_role:
        name: gpulab.kubernetes.kubeadm
        tasks_from: kubelet_certificates
"""


@pytest.mark.parametrize(
    ("expired", "fails", "deleted"), [(True, False, [TOKEN[:6]]), (True, True, [TOKEN[:6]]), (False, False, [])]
)
def test_token_for_kubelets_is_deleted_whether_they_get_their_certificate_or_not(
    tmp_path: Path, expired: bool, fails: bool, deleted: list[str]
) -> None:
    site = Site(tmp_path, further=["kubelet_certificate", "hosts_file"])
    lost = "api.lab.internal" if expired else ""
    site.answer("kubelet_certificate", {"expired": expired, "token_left": False, "lost_name": lost})
    site.answer("hosts_file", {"changed": True})
    site.answer("kubelet_certificate", {"failed": fails, "msg": "it was not issued"}, TOKEN)
    site.answer("kubeadm_join_info", {"token": TOKEN})
    site.answer("kubeadm_join_info", {}, '"delete"')
    status, output = site.play(KUBELETS, {"cluster_api_host": "cp1", "ansible_become": False})
    assert bool(status) == fails, output
    asked = site.asked("kubeadm_join_info")
    assert [args["delete"] for args in asked if "delete" in args] == deleted
    assert len(asked) == 2 * len(deleted)
    assert SECRET not in output
    assert all(args["controller_time"] for args in site.asked("kubelet_certificate"))
    assert all(args["names"] == {lost: "127.0.0.1"} for args in site.asked("hosts_file"))
    assert bool(site.asked("hosts_file")) == expired


RENDER = """
- name: Render what kubeadm gets
  hosts: all
  gather_facts: false
  tasks:
    - name: Load the settings that several roles share
      ansible.builtin.import_role:
        name: gpulab.kubernetes.cluster
    - name: Learn the settings
      ansible.builtin.import_role:
        name: gpulab.kubernetes.kubeadm
        tasks_from: settings
    - name: Write it
      ansible.builtin.copy:
        content: >-
          {{ [_kubeadm_init_file, _kubeadm_join_file, _kubeadm_files | map(attribute='content'), _kubeadm_discovery]
             | to_json }}
        dest: "{{ _place }}/{{ inventory_hostname }}"
        mode: "0600"
"""


@pytest.mark.parametrize("timeouts", [{}, {"kubernetesAPICall": "8m"}])
def test_kubeadm_configuration_has_discovery_and_resolver_of_each_host(
    tmp_path: Path, timeouts: dict[str, str]
) -> None:
    """A patch, to which both configurations refer, gives each host's kubelet its own settings."""
    (tmp_path / "site.yml").write_text(RENDER)
    hosts = {
        name: {
            "preflight_host": {
                "resolver": {"systemd_resolved": active, "kubelet": None},
                "cluster": {"finished": False},
                "gpus": [{"address": "0000:01:00.0"}] if name == "gpu1" else [],
            }
        }
        for name, active in (("cp1", True), ("gpu1", False))
    }
    (tmp_path / "host_vars").mkdir()
    for name, values in hosts.items():
        (tmp_path / f"host_vars/{name}.json").write_text(json.dumps(values))
    (tmp_path / "hosts.ini").write_text(f"[control_plane]\ncp1 {HERE}\n[workers]\ngpu1 {HERE}\n")
    settings = {
        "_place": str(tmp_path),
        "cluster_node_name": "node",
        "cluster_node_address": "10.0.0.1",
        "cluster_api_endpoint": "10.0.0.1:6443",
        "kubeadm_timeouts": timeouts,
        "__kubeadm_join_info": {"token": TOKEN, "ca_cert_hashes": [PINNED], "ca_certificates": "-----BEGIN"},
    }
    status, output = run_ansible(tmp_path, "-i", "hosts.ini", "site.yml", "-e", json.dumps(settings))
    assert status == 0, output
    init, join, _files, discovery = json.loads((tmp_path / "cp1").read_text())
    (init, cluster, kubelet, proxy), join = yaml.safe_load_all(init), yaml.safe_load(join)
    kinds = [document["kind"] for document in (init, cluster, kubelet, proxy, join)]
    assert kinds == [f"{kind}Configuration" for kind in ("Init", "Cluster", "Kubelet", "KubeProxy", "Join")]
    assert join["discovery"]["file"] == {"kubeConfigPath": DISCOVERY}
    assert join["discovery"]["tlsBootstrapToken"] == TOKEN
    assert read_kubeconfig(json.dumps(discovery)).server == "https://10.0.0.1:6443"
    assert read_kubeconfig(json.dumps(discovery)).authority() == "-----BEGIN"
    assert init["bootstrapTokens"] == [{"ttl": "1h0m0s"}]
    for document in (init, join):
        assert document["patches"] == {"directory": "/etc/kubernetes/patches"}
        assert document.get("timeouts", {}) == timeouts
    chosen = {name: yaml.safe_load(json.loads((tmp_path / name).read_text())[2][1]) for name in hosts}
    kind = {"apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration"}
    assert chosen == {
        "cp1": {**kind, "resolvConf": "/run/systemd/resolve/resolv.conf"},
        "gpu1": {
            **kind,
            "resolvConf": "/etc/resolv.conf",
            "shutdownGracePeriod": "120s",
            "shutdownGracePeriodCriticalPods": "20s",
        },
    }
