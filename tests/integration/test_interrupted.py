"""The next run completes one that was killed anywhere; a finished control plane is never initialized again."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from support.cluster import Cluster
from support.hosts import Host, Inventory
from support.lab import Lab, running
from support.play import play

SPEC = Path(__file__).parent / "specs" / "one-worker.yml"
# The control plane does not wait for the workers' preparation, so its kubeadm init is killed first.
ON_HOSTS = ("preflight", "host", "nvidia_driver", "containerd", "nvidia_container_toolkit", "kubeadm")
IN_THE_CLUSTER = ("flannel", "nvidia_device_plugin", "acceptance")
ETCD = "stat --format '%i %W' /var/lib/etcd/member/snap/db; sha256sum /etc/kubernetes/pki/ca.crt"


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    with running("interrupted", SPEC) as started:
        yield started


@pytest.fixture(scope="module")
def inventory(lab: Lab) -> Inventory:
    return lab.inventory()


def test_kubeadm_init_is_killed_midway(lab: Lab, inventory: Inventory) -> None:
    killer = KubeadmKiller(inventory.control_plane)
    killer.start()
    run = play(lab.path, "--limit", inventory.control_plane.name)
    killer.stop()
    assert killer.killed, "kubeadm init was never seen at work"
    assert run.status != 0
    assert "kubeadm" in run.failures()


@pytest.mark.parametrize("role", ON_HOSTS)
def test_the_run_is_killed_while_it_prepares_hosts(lab: Lab, role: str) -> None:
    run = play(lab.path, env={"GPULAB_KILL_IN": role})
    assert run.killed_in() == role, f"not killed in {role}: {run.status}\n{run.failures()}\n{run.tail()}"


@pytest.mark.parametrize("role", IN_THE_CLUSTER)
def test_the_run_is_killed_while_it_changes_the_cluster(lab: Lab, role: str) -> None:
    run = play(lab.path, env={"GPULAB_KILL_IN": role})
    assert run.killed_in() == role, f"not killed in {role}: {run.status}\n{run.failures()}\n{run.tail()}"


def test_the_next_run_completes_and_the_one_after_it_changes_nothing(lab: Lab, inventory: Inventory) -> None:
    play(lab.path).expect_success()
    cluster = Cluster.of(inventory)
    assert cluster.ready_nodes() == set(inventory.hosts)
    assert cluster.allocatable_gpus() == inventory.expected_gpus()
    play(lab.path).expect_unchanged()


def test_an_unhealthy_finished_control_plane_gets_an_error_and_keeps_its_data(lab: Lab, inventory: Inventory) -> None:
    host = inventory.control_plane
    before = host.run(ETCD)
    host.run("mv /etc/kubernetes/manifests/kube-apiserver.yaml /etc/kubernetes/aside.yaml")
    try:
        wait_until_down(host)
        run = play(lab.path)
        assert run.status != 0
        failures = run.failures()
        assert host.name in failures
        assert "6443 does not answer" in failures
        assert "never initialized again or reset" in failures
        assert "reset" not in {task.rpartition(" ")[2] for task in run.changed_tasks()}
        assert host.run(ETCD) == before
        assert host.run("test -s /etc/kubernetes/admin.conf && echo kept").strip() == "kept"
    finally:
        host.run("mv /etc/kubernetes/aside.yaml /etc/kubernetes/manifests/kube-apiserver.yaml")
    wait_until_up(host)
    play(lab.path).expect_unchanged()


class KubeadmKiller(threading.Thread):
    """Kills the first `kubeadm init` on a host after it has written its first manifests."""

    SCRIPT = """
    manifest=/etc/kubernetes/manifests/etcd.yaml
    for _ in $(seq 40); do
      [ -e "$manifest" ] && pkill -KILL -f '^([^ ]*/)?kubeadm init' && echo killed && exit
      sleep 0.1
    done
    """

    def __init__(self, host: Host) -> None:
        super().__init__(daemon=True)
        self.host, self.killed, self.ended = host, False, threading.Event()

    def run(self) -> None:
        while not self.ended.is_set() and not self.killed:
            self.killed = "killed" in self.host.attempt(self.SCRIPT).stdout

    def stop(self) -> None:
        self.ended.set()
        self.join(timeout=30)


def api_answers(host: Host) -> bool:
    livez = "kubectl --kubeconfig /etc/kubernetes/admin.conf --request-timeout=5s get --raw /livez"
    return host.attempt(livez).returncode == 0


def wait_until_down(host: Host) -> None:
    wait_for(lambda: not api_answers(host), "the API server to stop")


def wait_until_up(host: Host) -> None:
    wait_for(lambda: api_answers(host), "the API server to answer")


def wait_for(condition: Callable[[], bool], what: str, seconds: float = 120) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"waited {seconds:.0f} s for {what}"
        time.sleep(1)
