# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs of the role on this machine: a host's kubeconfig runs nothing on the controller, and errors show no secrets."""

from __future__ import annotations

import base64
import json
import os
import sys
import time
import uuid
from pathlib import Path
from typing import Any

import pytest
import yaml
from fake_cluster import FakeCluster, FakeNode
from support.hosts import ROOT
from support.programs import run_ansible

HERE = "ansible_connection=local ansible_become=false ansible_python_interpreter={{ansible_playbook_python}}"
# No server listens on port 1 of the loopback address.
AWAY = "ansible_connection=ssh ansible_host=127.0.0.1 ansible_port=1 ansible_become=false"
INVENTORY = f"[control_plane]\ncp1 {HERE}\n[workers]\ngpu1 {HERE}\ngpu2 {HERE}\n"
PEM = base64.b64encode(b"-----BEGIN CERTIFICATE-----").decode()
SECRET = base64.b64encode(b"-----BEGIN PRIVATE KEY-----").decode()
USER = f"{{client-certificate-data: {PEM}, client-key-data: {SECRET}}}"
CONF = """
clusters: [{{name: k, cluster: {{server: "https://{server}", certificate-authority-data: {ca}}}}}]
contexts: [{{name: c, context: {{cluster: k, user: u}}}}]
current-context: c
users: [{{name: u, user: {user}}}]
"""
HEAD = """
- name: Run parts of the role
  hosts: all
  gather_facts: false
  tasks:
    - name: Load the settings
      ansible.builtin.import_role:
        name: gpulab.kubernetes.cluster_api
        tasks_from: settings
"""
PART = """
    - name: Run a part
      ansible.builtin.include_role:
        name: gpulab.kubernetes.cluster_api
        tasks_from: "{part}"
"""
PLAYBOOK = HEAD + PART


def conf(server: str = "10.0.0.11:6443", user: str = USER) -> str:
    return CONF.format(server=server, user=user, ca=PEM)


def read(text: str, **settings: Any) -> str:
    """Return the variables as if the role had read this kubeconfig."""
    file = {"content": base64.b64encode(text.encode()).decode()}
    return json.dumps({"__cluster_api_file": file, "cluster_api_endpoint": "10.0.0.11:6443", **settings})


def server_of(path: Path) -> dict[str, str]:
    [entry] = yaml.safe_load(path.read_text())["clusters"]
    cluster: dict[str, str] = entry["cluster"]
    return cluster


def run(folder: Path, inventory: str, *, part: str = "open.yml", settings: str = "{}") -> tuple[int, str]:
    (folder / "site.yml").write_text(PLAYBOOK.format(part=part))
    (folder / "hosts.ini").write_text(inventory)
    return run_ansible(folder, "-i", "hosts.ini", "site.yml", "-vvv", "-e", settings)


@pytest.mark.parametrize(
    ("group", "words"),
    [
        (
            "control_plane",
            "/etc/kubernetes/admin.conf on cp1: File not found: /etc/kubernetes/admin.conf. If there is no cluster "
            "yet, gpulab.kubernetes.site creates it",
        ),
        (
            "minikube",
            "/nowhere/.kube/config on cp1: File not found: /nowhere/.kube/config. If there is no cluster yet, "
            "gpulab.kubernetes.minikube creates it",
        ),
    ],
)
def test_unreadable_kubeconfig_is_reported(tmp_path: Path, group: str, words: str) -> None:
    settings = {"cluster_control_plane_group": group, "minikube_home": "/nowhere"}
    status, output = run(tmp_path, f"[{group}]\ncp1 {HERE}\n", settings=json.dumps(settings))
    assert status != 0
    assert f"Error while reading the administrator's kubeconfig, {words}" in " ".join(output.split())


@pytest.mark.parametrize("needed", [False, True])
def test_check_mode_fails_without_a_cluster_only_if_the_run_would_not_create_it(tmp_path: Path, needed: bool) -> None:
    (tmp_path / "site.yml").write_text(PLAYBOOK.format(part="open.yml"))
    (tmp_path / "hosts.ini").write_text(INVENTORY)
    settings = json.dumps({"cluster_api_required": needed, "cluster_api_checks_nodes": False})
    status, output = run_ansible(tmp_path, "-i", "hosts.ini", "site.yml", "--check", "-e", settings)
    assert (status != 0, "If there is no cluster yet" in output) == (needed, needed), output


@pytest.mark.parametrize("name", ["train", "verify", "benchmark_gpus", "benchmark_network"])
def test_playbooks_that_create_no_cluster_need_one_in_check_mode(tmp_path: Path, name: str) -> None:
    (tmp_path / "hosts.ini").write_text(INVENTORY)
    status, output = run_ansible(tmp_path, "-i", "hosts.ini", str(ROOT / f"playbooks/{name}.yml"), "--check")
    assert (status, "If there is no cluster yet, gpulab.kubernetes.site creates it" in output) == (2, True), output


def test_the_reason_why_the_control_plane_is_unreachable_is_reported(tmp_path: Path) -> None:
    status, output = run(tmp_path, f"[control_plane]\ncp1 {AWAY}\n[workers]\ngpu1 {HERE}\n")
    assert status != 0
    assert "Connection refused" in output
    assert "censored" not in output


@pytest.mark.parametrize(
    ("user", "server", "words"),
    [
        ("{{exec: {{apiVersion: v1, command: touch, args: [{trace}]}}}}", "10.0.0.11:6443", "it has exec"),
        ("{{tokenFile: {trace}}}", "10.0.0.11:6443", "it has tokenFile"),
        (
            "{{client-certificate: {trace}, client-key: {trace}}}",
            "10.0.0.11:6443",
            "it has client-certificate and client-key",
        ),
        ("{{token: t}}", "192.0.2.66:6443", "its server is 192.0.2.66, which is not an address of the control plane"),
    ],
)
def test_hostile_kubeconfig_runs_no_program_and_redirects_no_request(
    tmp_path: Path, user: str, server: str, words: str
) -> None:
    trace = tmp_path / "trace"
    settings = read(conf(server, user.format(trace=trace)), cluster_kubeconfig=str(tmp_path / "kept.conf"))
    status, output = run(tmp_path, INVENTORY, part="file.yml", settings=settings)
    assert status != 0
    said = " ".join(output.split())
    where = "Error while reading the administrator's kubeconfig, /etc/kubernetes/admin.conf on cp1: "
    assert where + words in said and "kubeadm init phase kubeconfig admin" in said
    assert "Finalization of task args" not in said
    assert not trace.exists() and "touch" not in output
    assert not list(tmp_path.glob("*.conf"))


@pytest.mark.parametrize(("server", "fits"), [("cp1:6443", True), ("10.0.0.11:6443", True), ("192.0.2.66:6443", False)])
def test_kubeconfig_is_checked_on_a_machine_without_a_default_route(tmp_path: Path, server: str, fits: bool) -> None:
    """Such a machine has no default_ipv4, from which the node's address is taken by default."""
    private = tmp_path / "private.conf"
    settings = read(conf(server), cluster_api_endpoint="", _cluster_api_private_file=str(private))
    inventory = f"[control_plane]\ncp1 {HERE} ansible_host=10.0.0.11\n"
    status, output = run(tmp_path, inventory, part="file.yml", settings=settings)
    assert (status == 0) is fits is ("Write the kubeconfig to the private file" in output), output
    # If the file was written, its keeper has removed it or is about to.
    assert fits or not (private.exists() or Path(f"{private}.patience").exists())
    assert fits or "its server is 192.0.2.66" in " ".join(output.split())


def test_tunnel_to_a_delegate_host_is_refused(tmp_path: Path) -> None:
    settings = read(
        conf().replace("name: c,", "name: minikube,"),
        cluster_control_plane_group="minikube",
        minikube_driver="docker",
        cluster_api_delegate="bastion",
    )
    inventory = f"[minikube]\nbox {AWAY}\n[other]\nbastion {HERE}\n"
    status, output = run(tmp_path, inventory, part="file.yml", settings=settings)
    assert status != 0
    words = "cluster_api_delegate is bastion. Remove cluster_api_delegate, or set it to box"
    assert words in " ".join(output.split())


def test_become_in_the_inventory_calls_no_sudo_on_the_controller(tmp_path: Path) -> None:
    """Variables override keywords, so ``become: false`` alone doesn't prevent sudo on the controller."""
    sudo, kept = tmp_path / "sudo", tmp_path / "admin.conf"
    sudo.write_text(f"#!/bin/sh\necho called >> {tmp_path}/sudo-calls\nexit 1\n")
    sudo.chmod(0o755)
    # The user is not root, because Ansible doesn't call sudo for the user that it runs as.
    become = f"ansible_become=true\nansible_become_exe={sudo}\nansible_become_user=daemon"
    (tmp_path / "hosts.ini").write_text(
        f"[control_plane]\ncp1 {AWAY}\n[workers]\ngpu1 {AWAY}\n[all:vars]\n{become}\n".replace(
            " ansible_become=false", ""
        )
    )
    parts = ("file.yml", "keep.yml", "close.yml")
    (tmp_path / "site.yml").write_text("".join(PLAYBOOK.format(part=part) for part in parts))
    settings = read(conf(), _cluster_api_private_file=str(tmp_path / "private.conf"), cluster_kubeconfig=str(kept))
    left = Path(f"/tmp/gpulab-{uuid.uuid4().hex[:24]}.conf")
    left.touch(0o600)
    os.utime(left, (0, 0))
    status, output = run_ansible(tmp_path, "-i", "hosts.ini", "site.yml", "-e", settings)
    assert status == 0, output
    assert not (tmp_path / "sudo-calls").exists(), output
    assert kept.stat().st_mode & 0o777 == 0o600
    assert server_of(kept) == {"server": "https://10.0.0.11:6443", "certificate-authority-data": PEM}
    assert not (tmp_path / "private.conf").exists()
    assert not left.exists(), "left by a run that was killed"


LOOK_AND_KILL = """
    - name: Look at it
      ansible.builtin.command:
        cmd: cp --preserve=mode {{ cluster_api_kubeconfig }} {{ cluster_api_kubeconfig }}.seen
      run_once: true
    - name: Kill ansible-playbook
      ansible.builtin.command:
        # The process of a task is a child of it.
        cmd: kill -9 {{ lookup('ansible.builtin.pipe', 'cut -d " " -f 4 /proc/$PPID/stat') }}
      run_once: true
      when: kill
"""


@pytest.mark.parametrize("kill", [True, False])
def test_kubeconfig_is_removed_if_ansible_is_killed_or_does_not_close_it(tmp_path: Path, kill: bool) -> None:
    private, seen = tmp_path / "private.conf", tmp_path / "private.conf.seen"
    (tmp_path / "site.yml").write_text(HEAD + PART.format(part="file") + LOOK_AND_KILL)
    (tmp_path / "hosts.ini").write_text(INVENTORY)
    settings = read(conf(), _cluster_api_private_file=str(private), kill=kill)
    status, output = run_ansible(tmp_path, "-i", "hosts.ini", "site.yml", "-e", settings)
    assert (status == 0) is not kill, output
    assert "clusters" in seen.read_text() and seen.stat().st_mode & 0o777 == 0o600
    deadline = time.monotonic() + 20
    while private.exists() and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not private.exists()


class Keeper:
    """Runs of the role's entry point keep in a directory."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "site.yml").write_text(PLAYBOOK.format(part="keep"))
        (folder / "hosts.ini").write_text(INVENTORY)

    def changes(self, text: str, *arguments: str, **settings: Any) -> bool:
        found = read(text, cluster_api_kubeconfig=text and "/tmp/private.conf", **settings)
        words = ["-i", "hosts.ini", "site.yml", "-vvv", "--diff", "-e", found, *arguments]
        status, output = run_ansible(self.folder, *words, PWD=str(self.folder))
        assert status == 0, output
        assert SECRET not in output
        return "changed=1" in output

    def kept(self) -> set[str]:
        return {path.name for path in self.folder.iterdir() if path.is_file()} - {"site.yml", "hosts.ini"}


@pytest.mark.parametrize(
    ("settings", "name"), [({}, "hosts-admin.conf"), ({"cluster_kubeconfig": "mine.conf"}, "mine.conf")]
)
def test_kept_kubeconfig_is_only_readable_by_its_owner(tmp_path: Path, settings: dict[str, str], name: str) -> None:
    keeper, path = Keeper(tmp_path), tmp_path / name
    assert keeper.changes("", "--check", **settings), "before there is a cluster"
    assert keeper.kept() == set()
    assert keeper.changes(conf(), **settings)
    assert not keeper.changes(conf(), **settings) and not keeper.changes(conf(), "--check", **settings)
    assert keeper.kept() == {name} and server_of(path)["server"] == "https://10.0.0.11:6443"
    path.chmod(0o644)
    assert keeper.changes(conf(), **settings)
    assert path.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    ("api_name", "endpoint", "fits"),
    [("k8s.example.org", "", True), ("", "", False), ("k8s.example.org", "lb.example.org:6443", False)],
)
def test_recorded_name_of_the_api_is_known_to_playbooks_without_preflight(
    tmp_path: Path, api_name: str, endpoint: str, fits: bool
) -> None:
    record = {"content": base64.b64encode(json.dumps({"api_name": api_name}).encode()).decode()}
    names = {"cluster_api_record": record, "cluster_api_endpoint": endpoint, "cluster_node_address": "10.0.0.11"}
    settings = read(conf("k8s.example.org:6443"), **names)
    status, output = run(tmp_path, INVENTORY, part="check", settings=settings)
    assert (status == 0) is fits, output
    assert fits or "its server is k8s.example.org, which is not an address of the control plane" in output
    if fits:
        assert Keeper(tmp_path).changes(conf("k8s.example.org:6443"), **names)
        assert server_of(tmp_path / "hosts-admin.conf") == {
            "server": "https://10.0.0.11:6443",
            "certificate-authority-data": PEM,
            "tls-server-name": "k8s.example.org",
        }


@pytest.mark.parametrize("settings", [{"cluster_kubeconfig": ""}, {"awx_job_template_name": "site"}])
def test_kubeconfig_is_only_kept_if_it_has_a_path(tmp_path: Path, settings: dict[str, str]) -> None:
    keeper = Keeper(tmp_path)
    for text, arguments in (("", ["--check"]), (conf(), []), (conf(), ["--check"])):
        assert not keeper.changes(text, *arguments, **settings)
        assert keeper.kept() == set()


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
LOOK = """
    - name: Look at it
      ansible.builtin.copy:
        src: "{{ cluster_api_kubeconfig }}"
        dest: "{{ cluster_api_kubeconfig }}.seen"
        mode: "0600"
      delegate_to: localhost
      run_once: true
      check_mode: false
"""


class Tunnel:
    def __init__(self, here: Path) -> None:
        self.here, self.log, self.private = here, here / "ssh-log", here / "private.conf"
        ssh = here / "ssh"
        ssh.write_text(FAKE_SSH.format(python=sys.executable, log=str(self.log)))
        ssh.chmod(0o755)
        file, keep, close = (PART.format(part=part) for part in ("file", "keep", "close"))
        (here / "site.yml").write_text(HEAD + file + keep + LOOK + close)

    def run(self, address: str, *arguments: str, **settings: Any) -> tuple[int, str]:
        own = f"ansible_host={address} ansible_port=2222 ansible_user=admin ansible_ssh_executable={self.here}/ssh"
        jump = "ansible_ssh_common_args='-o ProxyJump=bastion'"
        (self.here / "hosts.ini").write_text(f"[control_plane]\ncp1 {own} {jump}\n[workers]\ngpu1 {AWAY}\n")
        values = {
            "_cluster_api_private_file": str(self.private),
            "cluster_api_tunnel": True,
            "cluster_api_endpoint": "cp.example.org:6443",
            **settings,
        }
        return run_ansible(
            self.here, "-i", "hosts.ini", "site.yml", "-e", read(conf("cp.example.org:6443"), **values), *arguments
        )

    def calls(self) -> list[Any]:
        return [json.loads(line) for line in self.log.read_text().splitlines()]


@pytest.mark.parametrize("check", [(), ("--check",)])
def test_api_is_reached_through_an_ssh_tunnel_that_ends_with_the_run(tmp_path: Path, check: tuple[str, ...]) -> None:
    tunnel = Tunnel(tmp_path)
    status, output = tunnel.run("192.0.2.11", *check)
    assert status == 0, output
    ((pid, *argv),) = tunnel.calls()
    assert argv[-1] == "192.0.2.11" and "Port=2222" in argv and 'User="admin"' in argv and "ProxyJump=bastion" in argv
    port = argv[argv.index("-L") + 1].split(":")[1]
    seen = server_of(Path(f"{tunnel.private}.seen"))
    assert (seen["server"], seen["tls-server-name"]) == (f"https://127.0.0.1:{port}", "cp.example.org")
    kept = tmp_path / "hosts-admin.conf"
    assert kept.exists() is not bool(check)
    if not check:
        assert server_of(kept)["server"] == "https://cp.example.org:6443", "the kept one has the real address"
    deadline = time.monotonic() + 20
    while Path(f"/proc/{pid}").exists() and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not Path(f"/proc/{pid}").exists(), "the tunnel ended"
    assert [path.name for path in tmp_path.glob("private.conf*")] == ["private.conf.seen"]


def test_refused_ssh_tunnel_is_reported_without_secrets(tmp_path: Path) -> None:
    status, output = Tunnel(tmp_path).run("refused")
    assert status != 0
    said = " ".join(output.split())
    assert "Error while opening an SSH tunnel to the API server of cp1 (cluster_api_tunnel): Permission denied" in said
    assert not list(tmp_path.glob("private.conf*"))
    status, output = Tunnel(tmp_path).run("192.0.2.11", ansible_password="SECRET")
    assert status != 0 and "Use an SSH key or an agent" in " ".join(output.split()) and "SECRET" not in output


CONTROL_PLANE = {"node-role.kubernetes.io/control-plane": ""}


@pytest.mark.parametrize(
    ("group", "inventory", "words"),
    [
        ("control_plane", f"cp1 {HERE} cluster_node_name=cp\n[workers]\ngpu1 {HERE} ansible_host=192.0.2.2", ""),
        (
            "control_plane",
            f"cp1 {HERE} cluster_node_name=cp\n[workers]\ngpu1 {HERE} ansible_host=192.0.2.2 cluster_node_name=victim",
            "host gpu1 claims to be node victim: the node has the address 192.0.2.9, but the inventory gives gpu1 the",
        ),
        (
            "control_plane",
            f"cp1 {HERE} cluster_node_name=gpu1\n[workers]\ngpu1 {HERE} ansible_host=192.0.2.2",
            "the hosts cp1 and gpu1 claim to be node gpu1",
        ),
        # minikube's node has an address in minikube's own network.
        ("minikube", f"laptop {HERE} cluster_node_name=cp", ""),
        ("minikube", f"laptop {HERE} cluster_node_name=victim", "host laptop claims to be node victim"),
    ],
)
def test_host_that_claims_the_node_of_another_host_is_refused(
    tmp_path: Path, group: str, inventory: str, words: str
) -> None:
    cluster = FakeCluster(
        FakeNode("cp", address="192.168.49.2", labels=CONTROL_PLANE),
        FakeNode("gpu1", address="192.0.2.2"),
        FakeNode("victim", address="192.0.2.9"),
    )
    with cluster.serve(tmp_path) as kubeconfig:
        settings = {
            "cluster_api_kubeconfig": str(kubeconfig),
            "cluster_control_plane_group": group,
            "ansible_facts": {"nodename": "GPU1"},
        }
        status, output = run(tmp_path, f"[{group}]\n{inventory}\n", part="nodes.yml", settings=json.dumps(settings))
    said = " ".join(output.split())
    assert (status == 0) is (not words), output
    assert words in said and "Traceback" not in said
