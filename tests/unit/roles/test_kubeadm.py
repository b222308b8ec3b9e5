# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs parts of the role on this machine, up to where they fail: secrets stay hidden, causes don't."""

from __future__ import annotations

import base64
import json
import os
import sys
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.gpulab.kubernetes.plugins.module_utils._kubeadm.kubeconfig import read_kubeconfig
from ansible_collections.gpulab.kubernetes.plugins.module_utils._kubeadm.run import DISCOVERY
from kubeadm_texts import PINNED, SECRET, TOKEN
from support.programs import run_ansible

HERE = "ansible_connection=local ansible_become=false ansible_python_interpreter={{ansible_playbook_python}}"
# Port 1 of the loopback address: nobody answers there.
AWAY = "ansible_connection=ssh ansible_host=127.0.0.1 ansible_port=1 ansible_become=false"
INVENTORY = f"[control_plane]\ncp1 {HERE}\n[workers]\ngpu1 {HERE}\ngpu2 {HERE}\n"
PLAYBOOK = """
- name: Run a part of the role
  hosts: all
  gather_facts: false
  tasks:
    - name: Run it
      ansible.builtin.include_role:
        name: gpulab.kubernetes.kubeadm
        tasks_from: "{part}"
"""
Run = Callable[..., tuple[int, str]]


@pytest.fixture
def run(tmp_path: Path, programs: Any) -> Run:
    """Exit status and output, as loud as can be, of a part of the role."""

    def call(part: str, inventory: str = INVENTORY) -> tuple[int, str]:
        (tmp_path / "site.yml").write_text(PLAYBOOK.format(part=part))
        (tmp_path / "hosts.ini").write_text(inventory)
        # Nobody is a worker, so this machine joins nothing.
        settings = {"_kubeadm_joining": ["gpu1", "gpu2"], "_kubeadm_is_control_plane": True}
        arguments = ["-i", "hosts.ini", "site.yml", "-vvv", "-e", json.dumps(settings)]
        return run_ansible(tmp_path, *arguments, PATH=f"{programs.directory}{os.pathsep}{os.environ['PATH']}")

    return call


def test_a_token_that_could_not_be_had_is_told_without_secrets(run: Run, programs: Any) -> None:
    programs.add("kubeadm", f'echo "kubeadm join 10.0.0.1 --token {TOKEN} {PINNED}"')
    status, output = run("join.yml")
    assert status != 0
    assert "it names no endpoint host:port: kubeadm join 10.0.0.1 --token ********" in output
    assert "censored" in output, "the module ran"
    assert SECRET not in output
    assert "Join the worker" not in output


def test_a_token_that_was_made_is_in_no_log(run: Run, programs: Any) -> None:
    programs.add("kubeadm", f'test "$1" = token && echo "kubeadm join 10.0.0.1:6443 --token {TOKEN} {PINNED}"')
    status, output = run("join.yml")
    assert status == 0, output
    assert "Join the worker" in output
    assert SECRET not in output


def test_kubeconfig_that_could_not_be_read_is_told(run: Run) -> None:
    status, output = run("kubeconfig.yml")
    assert status != 0
    said = "Error while reading the administrator's kubeconfig, /etc/kubernetes/admin.conf on cp1: File not found"
    assert said in output
    assert "site.yml makes it" in output


def test_why_the_control_plane_can_not_be_reached_is_told(run: Run) -> None:
    inventory = f"[control_plane]\ncp1 {AWAY}\n[workers]\ngpu1 {HERE}\n"
    status, output = run("kubeconfig.yml", inventory)
    assert status != 0
    assert "Connection refused" in output
    assert "censored" not in output


def test_a_become_in_the_inventory_calls_no_sudo_on_the_controller(tmp_path: Path) -> None:
    """Variables win over keywords, so ``become: false`` alone does not keep the controller's sudo out."""
    sudo, kept = tmp_path / "sudo", tmp_path / "admin.conf"
    sudo.write_text(f"#!/bin/sh\necho called >> {tmp_path}/sudo-calls\nexit 1\n")
    sudo.chmod(0o755)
    # Ansible leaves sudo out where the user is the same already, which root would be here.
    become = f"ansible_become=true\nansible_become_exe={sudo}\nansible_become_user=daemon"
    (tmp_path / "hosts.ini").write_text(
        f"[control_plane]\ncp1 {AWAY}\n[workers]\ngpu1 {AWAY}\n[all:vars]\n{become}\n".replace(
            " ansible_become=false", ""
        )
    )
    parts = ("kubeconfig_file.yml", "kubeconfig_kept.yml", "kubeconfig_absent.yml")
    (tmp_path / "site.yml").write_text("".join(PLAYBOOK.format(part=part) for part in parts))
    settings = {
        "__kubeadm_admin_conf": {"content": "YXBpVmVyc2lvbjogdjEK"},
        "_kubeadm_private_file": str(tmp_path / "private.conf"),
        "cluster_kubeconfig": str(kept),
    }
    left = Path(f"/tmp/gpulab-{uuid.uuid4().hex[:24]}.conf")
    left.touch(0o600)
    os.utime(left, (0, 0))
    status, output = run_ansible(tmp_path, "-i", "hosts.ini", "site.yml", "-e", json.dumps(settings))
    assert status == 0, output
    assert not (tmp_path / "sudo-calls").exists(), output
    assert kept.stat().st_mode & 0o777 == 0o600
    assert kept.read_text() == "apiVersion: v1\n" and not (tmp_path / "private.conf").exists()
    assert not left.exists(), "left by a run that was killed"


KEEP = """
- name: Keep the kubeconfig
  hosts: all
  gather_facts: false
  tasks:
    - name: Keep it
      ansible.builtin.import_role:
        name: gpulab.kubernetes.kubeadm
        tasks_from: kubeconfig_kept
"""


ADMIN_CONF = f"token: {SECRET}\n"


class Keeper:
    """Keeps a kubeconfig of the run's in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "site.yml").write_text(KEEP)
        (folder / "hosts.ini").write_text(INVENTORY)

    def changes(self, conf: str, *arguments: str, **settings: str) -> bool:
        read = {"__kubeadm_admin_conf": {"content": base64.b64encode(conf.encode()).decode()}} if conf else {}
        found = {"kubeadm_kubeconfig": conf and "/tmp/private.conf", **read, **settings}
        words = ["-i", "hosts.ini", "site.yml", "-vvv", "--diff", "-e", json.dumps(found), *arguments]
        status, output = run_ansible(self.folder, *words, PWD=str(self.folder))
        assert status == 0, output
        assert SECRET not in output
        return "changed=1" in output

    def kept(self) -> set[str]:
        return {path.name for path in self.folder.iterdir() if path.is_file()} - {"site.yml", "hosts.ini"}


@pytest.mark.parametrize(
    ("settings", "name"), [({}, "hosts-admin.conf"), ({"cluster_kubeconfig": "mine.conf"}, "mine.conf")]
)
def test_the_kubeconfig_is_kept_for_its_owner_alone(tmp_path: Path, settings: dict[str, str], name: str) -> None:
    keeper, path = Keeper(tmp_path), tmp_path / name
    assert keeper.changes("", "--check", **settings), "before there is a cluster"
    assert keeper.kept() == set()
    assert keeper.changes(ADMIN_CONF, **settings)
    assert not keeper.changes(ADMIN_CONF, **settings) and not keeper.changes(ADMIN_CONF, "--check", **settings)
    assert keeper.kept() == {name} and path.read_text() == ADMIN_CONF
    path.chmod(0o644)
    assert keeper.changes(ADMIN_CONF, **settings)
    assert path.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("settings", [{"cluster_kubeconfig": ""}, {"awx_job_template_name": "site"}])
def test_no_kubeconfig_is_kept_where_none_is_wanted(tmp_path: Path, settings: dict[str, str]) -> None:
    keeper = Keeper(tmp_path)
    for conf, arguments in (("", ["--check"]), (ADMIN_CONF, []), (ADMIN_CONF, ["--check"])):
        assert not keeper.changes(conf, *arguments, **settings)
        assert keeper.kept() == set()


RENDER = """
- name: Render what kubeadm gets
  hosts: all
  gather_facts: false
  tasks:
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
def test_configuration_for_kubeadm(tmp_path: Path, timeouts: dict[str, str]) -> None:
    """Each host's kubelet gets its own resolv.conf, by a patch that both configurations name."""
    (tmp_path / "site.yml").write_text(RENDER)
    hosts = {
        name: {
            "preflight_host": {
                "resolver": {"systemd_resolved": active, "kubelet": None},
                "cluster": {"finished": False},
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
    chosen = {name: yaml.safe_load(json.loads((tmp_path / name).read_text())[2][1])["resolvConf"] for name in hosts}
    assert chosen == {"cp1": "/run/systemd/resolve/resolv.conf", "gpu1": "/etc/resolv.conf"}


FAKE_SSH = """#!{python}
import json, os, socket, sys
with open({log!r}, "a") as log:
    log.write(json.dumps([os.getpid(), *sys.argv[1:]]) + "\\n")
if "refused" in sys.argv[-1]:
    sys.exit("Permission denied (publickey).")
port = int(sys.argv[sys.argv.index("-L") + 1].split(":")[1])
server = socket.create_server(("127.0.0.1", port))
while True:
    server.accept()[0].close()
"""
TUNNEL = """
- name: Have a kubeconfig through the tunnel
  hosts: all
  gather_facts: false
  tasks:
    - name: Make it
      ansible.builtin.include_role:
        name: gpulab.kubernetes.kubeadm
        tasks_from: kubeconfig_file
    - name: Keep it
      ansible.builtin.include_role:
        name: gpulab.kubernetes.kubeadm
        tasks_from: kubeconfig_kept
    - name: Look at it
      ansible.builtin.copy:
        src: "{{ kubeadm_kubeconfig }}"
        dest: "{{ kubeadm_kubeconfig }}.seen"
        mode: "0600"
      delegate_to: localhost
      run_once: true
      check_mode: false
    - name: Remove it
      ansible.builtin.include_role:
        name: gpulab.kubernetes.kubeadm
        tasks_from: kubeconfig_absent
"""
CONF = "clusters: [{name: k, cluster: {server: 'https://cp.example.org:6443'}}]\n"


class Tunnel:
    def __init__(self, here: Path) -> None:
        self.here, self.log, self.private = here, here / "ssh-log", here / "private.conf"
        ssh = here / "ssh"
        ssh.write_text(FAKE_SSH.format(python=sys.executable, log=str(self.log)))
        ssh.chmod(0o755)
        (here / "site.yml").write_text(TUNNEL)

    def run(self, address: str, *arguments: str, **settings: Any) -> tuple[int, str]:
        own = f"ansible_host={address} ansible_port=2222 ansible_user=admin ansible_ssh_executable={self.here}/ssh"
        jump = "ansible_ssh_common_args='-o ProxyJump=bastion'"
        (self.here / "hosts.ini").write_text(f"[control_plane]\ncp1 {own} {jump}\n[workers]\ngpu1 {AWAY}\n")
        values = {
            "__kubeadm_admin_conf": {"content": base64.b64encode(CONF.encode()).decode()},
            "_kubeadm_private_file": str(self.private),
            "cluster_api_tunnel": True,
            **settings,
        }
        return run_ansible(self.here, "-i", "hosts.ini", "site.yml", "-e", json.dumps(values), *arguments)

    def calls(self) -> list[Any]:
        return [json.loads(line) for line in self.log.read_text().splitlines()]


@pytest.mark.parametrize("check", [(), ("--check",)])
def test_api_through_ssh(tmp_path: Path, check: tuple[str, ...]) -> None:
    tunnel = Tunnel(tmp_path)
    status, output = tunnel.run("192.0.2.11", *check)
    assert status == 0, output
    ((pid, *argv),) = tunnel.calls()
    assert argv[-1] == "192.0.2.11" and "Port=2222" in argv and 'User="admin"' in argv and "ProxyJump=bastion" in argv
    (cluster,) = yaml.safe_load(Path(f"{tunnel.private}.seen").read_text())["clusters"]
    port = argv[argv.index("-L") + 1].split(":")[1]
    assert cluster["cluster"] == {"server": f"https://127.0.0.1:{port}", "tls-server-name": "cp.example.org"}
    kept = tmp_path / "hosts-admin.conf"
    assert kept.exists() is not bool(check)
    if not check:
        assert kept.read_text() == CONF, "the kept one has the real address"
    deadline = time.monotonic() + 20
    while Path(f"/proc/{pid}").exists() and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not Path(f"/proc/{pid}").exists(), "the tunnel ended"
    assert [path.name for path in tmp_path.glob("private.conf*")] == ["private.conf.seen"]


def test_api_through_ssh_that_is_refused(tmp_path: Path) -> None:
    status, output = Tunnel(tmp_path).run("refused")
    assert status != 0
    said = " ".join(output.split())
    assert "Error while opening an SSH tunnel to the API server of cp1 (cluster_api_tunnel): Permission denied" in said
    assert not list(tmp_path.glob("private.conf*"))
    status, output = Tunnel(tmp_path).run("192.0.2.11", ansible_password="SECRET")
    assert status != 0 and "Use an SSH key or an agent" in " ".join(output.split()) and "SECRET" not in output
