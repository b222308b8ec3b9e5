# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which replaced static pods end the API server while kubeadm upgrades a control plane."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpulab.kubernetes.plugins.module_utils._errors import DomainError
from ansible_collections.gpulab.kubernetes.plugins.module_utils._kubeadm.hasten import Hastener
from ansible_collections.gpulab.kubernetes.plugins.module_utils._kubeadm.manifests import Probe

MANIFESTS = "etc/kubernetes/manifests"
TEXT = """
spec:
  containers:
  - name: {name}
    command: ["{name}"]
    image: registry.example/{name}:{tag}
    livenessProbe:
      httpGet: {{host: 127.0.0.1, path: /livez, port: 2381, scheme: HTTP}}
"""


class Pods:
    """The static pods of a host: which ports are ``closed``, and which containers are ``stale``."""

    def __init__(self) -> None:
        self.closed: set[str] = set()
        self.stale: set[str] = set()
        self.restarted: list[str] = []
        self.broken = False
        self.ended = threading.Event()

    def reason(self, component: str, asked: Probe) -> str:
        assert asked.port == 2381
        return "closed" if component in self.closed else ""

    def is_stale(self, component: str, files: list[Path]) -> bool:
        assert files[0].name == f"{component}.yaml"
        return component in self.stale

    def restart(self, component: str) -> None:
        if self.broken:
            raise DomainError("crictl does not answer")
        self.restarted.append(component)
        self.ended.set()


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / MANIFESTS).mkdir(parents=True)
    for name in ("etcd", "kube-apiserver"):
        write(tmp_path, name, "1")
    return tmp_path


def write(root: Path, name: str, tag: str) -> None:
    (root / MANIFESTS / f"{name}.yaml").write_text(TEXT.format(name=name, tag=tag))


@pytest.mark.parametrize(
    ("replaced", "closed", "stale", "ends"),
    [
        ("", {"etcd", "kube-apiserver"}, {"kube-apiserver"}, False),
        ("etcd", set(), set(), False),
        ("etcd", {"etcd"}, set(), True),
        ("kube-apiserver", set(), {"kube-apiserver"}, False),
        ("kube-apiserver", {"kube-apiserver"}, {"kube-apiserver"}, True),
        ("kube-apiserver", {"kube-apiserver"}, set(), False),
    ],
    ids=[
        "something else closed the ports",
        "the former etcd still answers",
        "the former etcd has stopped",
        "the former API server still answers",
        "the former API server is stopping",
        "the new API server is starting",
    ],
)
def test_the_api_server_is_ended_once(root: Path, replaced: str, closed: set[str], stale: set[str], ends: bool) -> None:
    pods: Any = Pods()
    watched = Hastener(str(root), pods)
    watched.look()
    if replaced:
        write(root, replaced, "2")
    watched.look()
    pods.closed, pods.stale = closed, stale
    for _look in range(3):
        watched.look()
    assert pods.restarted == (["kube-apiserver"] if ends else [])


def test_it_is_ended_again_when_kubeadm_restores_a_manifest(root: Path) -> None:
    pods: Any = Pods()
    watched = Hastener(str(root), pods)
    pods.closed = {"etcd"}
    for tag in ("2", "1"):
        write(root, "etcd", tag)
        watched.look()
    assert pods.restarted == ["kube-apiserver"] * 2


def test_a_busy_container_runtime_is_asked_again(root: Path) -> None:
    pods: Any = Pods()
    pods.closed, pods.broken = {"etcd"}, True
    with Hastener(str(root), pods).running():
        write(root, "etcd", "2")
        assert not pods.ended.wait(1.2)
        pods.broken = False
        assert pods.ended.wait(5)
    assert pods.restarted == ["kube-apiserver"]


def test_a_control_plane_without_etcd_of_its_own_is_watched(root: Path) -> None:
    (root / MANIFESTS / "etcd.yaml").unlink()
    pods: Any = Pods()
    watched = Hastener(str(root), pods)
    write(root, "kube-apiserver", "2")
    pods.closed = pods.stale = {"kube-apiserver"}
    watched.look()
    assert pods.restarted == ["kube-apiserver"]
