"""What a person finds afterwards on a machine with minikube."""

from __future__ import annotations

import json
from typing import Any

import yaml


def test_minikube_runs_and_starts_at_boot(machine: Any) -> None:
    with machine.sudo():
        status = json.loads(machine.check_output("minikube status --output=json"))
    assert [status[name] for name in ("Host", "Kubelet", "APIServer")] == ["Running"] * 3
    assert machine.service("minikube-minikube").is_enabled


def test_the_node_is_ready_and_offers_every_gpu(machine: Any) -> None:
    with machine.sudo():
        (node,) = json.loads(machine.check_output("kubectl get nodes --output=json"))["items"]
    assert {"type": "Ready", "status": "True"}.items() <= node["status"]["conditions"][-1].items()
    assert node["status"]["nodeInfo"]["kubeletVersion"] == "v1.35.1"
    assert node["status"]["allocatable"]["nvidia.com/gpu"] == "4"


def test_pods_ask_the_name_servers_behind_systemd_resolved(machine: Any) -> None:
    assert machine.service("systemd-resolved").is_running
    with machine.sudo():
        kubelet = yaml.safe_load(machine.file("/var/lib/kubelet/config.yaml").content_string)
        flags = machine.check_output("ps -o args= -C kubelet")
    assert "/run/systemd/resolve/resolv.conf" in (kubelet.get("resolvConf", ""), *flags.replace("=", " ").split())


def test_the_kubeconfig_is_for_root_only(machine: Any) -> None:
    with machine.sudo():
        file = machine.file("/root/.kube/config")
        assert (file.user, file.mode) == ("root", 0o600)
