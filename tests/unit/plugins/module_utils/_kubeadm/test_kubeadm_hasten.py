# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""When the API server is ended while kubeadm upgrades a control plane."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any, cast

import pytest
from ansible_collections.gpulab.kubernetes.plugins.module_utils._errors import DomainError
from ansible_collections.gpulab.kubernetes.plugins.module_utils._kubeadm.hasten import Hastener
from ansible_collections.gpulab.kubernetes.plugins.module_utils._kubeadm.manifests import Probe
from ansible_collections.gpulab.kubernetes.plugins.module_utils._kubeadm.static_pods import Container

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
    """The static pods of a host: when the containers of each were created, and those with ``closed`` ports.

    The newest container runs.
    """

    def __init__(self) -> None:
        self.created: dict[str, list[float]] = {"etcd": [time.time() - 60], "kube-apiserver": [time.time() - 60]}
        self.closed: set[str] = set()
        self.stopped: list[float] = []
        self.restarts = 0
        self.broken = False

    def containers(self, component: str) -> list[Container]:
        if self.broken:
            raise DomainError("crictl does not answer")
        found = self.created[component]
        return [Container(str(each), component, each == max(found), each < max(found), 0, each) for each in found]

    def start(self, component: str) -> None:
        self.created[component].append(time.time())

    def reason(self, component: str, asked: Probe) -> str:
        assert asked.port == 2381
        return "closed" if component in self.closed else ""

    def restart(self, component: str, before: float | None = None) -> None:
        assert component == "kube-apiserver"
        self.restarts += 1
        self.stopped += [each for each in self.created[component] if before is None or each <= before]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / MANIFESTS).mkdir(parents=True)
    for name in ("etcd", "kube-apiserver"):
        write(tmp_path, name, "1")
    return tmp_path


def write(root: Path, name: str, tag: str) -> None:
    (root / MANIFESTS / f"{name}.yaml").write_text(TEXT.format(name=name, tag=tag))


def watched(root: Path) -> tuple[Any, Hastener]:
    pods = Pods()
    return pods, Hastener(str(root), cast(Any, pods))


def test_nothing_is_ended_while_no_manifest_is_replaced(root: Path) -> None:
    pods, hastener = watched(root)
    pods.closed = {"etcd", "kube-apiserver"}
    pods.start("kube-apiserver")
    hastener.look()
    assert pods.restarts == 0


def test_the_api_server_does_not_run_without_its_etcd(root: Path) -> None:
    """Neither while the former etcd stops, nor while the new one starts."""
    pods, hastener = watched(root)
    write(root, "etcd", "2")
    hastener.look()
    pods.closed = {"etcd"}
    hastener.look()
    pods.start("etcd")
    hastener.look()
    assert pods.restarts == 3
    pods.closed = set()
    for _look in range(2):
        hastener.look()
    pods.closed = {"etcd"}
    hastener.look()
    assert pods.restarts == 3


def test_the_former_api_server_is_ended_and_the_new_one_may_start(root: Path) -> None:
    pods, hastener = watched(root)
    write(root, "kube-apiserver", "2")
    hastener.look()
    assert pods.restarts == 1
    pods.start("kube-apiserver")
    pods.closed = {"kube-apiserver"}
    for _look in range(2):
        hastener.look()
    assert pods.restarts == 1


def test_an_api_server_that_starts_between_two_questions_is_not_ended(root: Path) -> None:
    pods, hastener = watched(root)
    write(root, "kube-apiserver", "2")
    listed = pods.containers("kube-apiserver")
    pods.start("kube-apiserver")
    pods.containers = lambda _component: listed
    hastener.look()
    assert pods.stopped == pods.created["kube-apiserver"][:1]


def test_it_is_ended_again_when_kubeadm_restores_a_manifest(root: Path) -> None:
    pods, hastener = watched(root)
    for number in (2, 3):
        write(root, "etcd", str(number))
        hastener.look()
        pods.start("etcd")
        hastener.look()
    assert pods.restarts == 2


def test_an_etcd_that_does_not_start_is_given_up(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pods, hastener = watched(root)
    write(root, "etcd", "2")
    hastener.look()
    now = time.monotonic()
    monkeypatch.setattr(time, "monotonic", lambda: now + 61)
    for _look in range(2):
        hastener.look()
    assert pods.restarts == 1


def test_a_busy_container_runtime_is_asked_again(root: Path) -> None:
    pods, hastener = watched(root)
    pods.broken = True
    with hastener.running():
        write(root, "etcd", "2")
        time.sleep(1.2)
        assert pods.restarts == 0
        pods.broken = False
        end = time.monotonic() + 10
        while not pods.restarts and time.monotonic() < end:
            time.sleep(0.05)
    assert pods.restarts


def test_a_new_etcd_is_recognized_although_the_container_runtime_was_busy(root: Path) -> None:
    pods, hastener = watched(root)
    pods.broken = True
    write(root, "etcd", "2")
    for _look in range(2):
        with pytest.raises(DomainError):
            hastener.look()
    pods.broken = False
    pods.start("etcd")
    hastener.look()
    assert pods.restarts == 0


def test_a_control_plane_with_an_external_etcd_is_watched(root: Path) -> None:
    (root / MANIFESTS / "etcd.yaml").unlink()
    pods, hastener = watched(root)
    write(root, "kube-apiserver", "2")
    hastener.look()
    assert pods.restarts == 1
