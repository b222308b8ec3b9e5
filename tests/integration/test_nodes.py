"""Workers join and leave a running cluster: while jobs run, interrupted at each step, and with a silent machine."""

from __future__ import annotations

import re
import shutil
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from support.cluster import Cluster
from support.gpu_pod_prober import GpuPodProber
from support.guides import Checkout, Guide
from support.hosts import Host, Inventory
from support.lab import Lab, running
from support.play import Run, play, variables

SPEC = Path(__file__).parent / "specs" / "nodes.yml"
PLAYBOOK = "playbooks/remove_node.yml"
# Tasks that change an existing worker, in percent of those that change the new one.
MOST_ON_EXISTING_HOSTS = 5
# The tasks at which a removal is interrupted.
STEPS = (
    "gpulab.kubernetes.node_change : Cordon the node, and evict its pods",
    "gpulab.kubernetes.remove_node : Delete the node",
    "gpulab.kubernetes.reset : Remove what this collection has made, and restore what was there before",
    "gpulab.kubernetes.remove_node : Remove the record of the node",
)
# The machine does not answer for this time, in seconds; its sshd is started again by its own systemd. Ansible keeps
# connections open, which a stop of the service does not end.
SILENT = "systemd-run --quiet --on-active={} systemctl start ssh; systemctl stop ssh; pkill '^sshd'"
FILES = "ls /etc/kubernetes/kubelet.conf /var/lib/kubelet/config.yaml 2>/dev/null || true"
LOCAL: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "PersistentVolume",
    "metadata": {"name": "data-of-gpu2"},
    "spec": {
        "capacity": {"storage": "1Gi"},
        "accessModes": ["ReadWriteOnce"],
        "persistentVolumeReclaimPolicy": "Retain",
        "storageClassName": "",
        "claimRef": {"namespace": "default", "name": "data"},
        "local": {"path": "/srv/data"},
        "nodeAffinity": {
            "required": {
                "nodeSelectorTerms": [
                    {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": ["gpu2"]}]}
                ]
            }
        },
    },
}


@dataclass(frozen=True)
class Site:
    lab: Lab
    inventory: Inventory
    guide: Guide

    @property
    def path(self) -> Path:
        return self.guide.checkout.path / "my.ini"

    @property
    def cluster(self) -> Cluster:
        return Cluster.of(self.inventory)

    def host(self, name: str) -> Host:
        return self.inventory.hosts[name]

    def without(self, *names: str) -> Path:
        """Return the inventory without these hosts."""
        path = self.path.with_name("smaller.ini")
        pattern = re.compile(rf"({'|'.join(names)})\b")
        kept = [line for line in self.path.read_text().splitlines() if not pattern.match(line)]
        path.write_text("\n".join(kept) + "\n")
        path.chmod(0o600)
        return path

    def remove(self, name: str, *options: str, env: dict[str, str] | None = None, **more: object) -> Run:
        return play(self.path, *variables(node=name, **more), *options, playbook=PLAYBOOK, env=env or {})

    def removed(self) -> str:
        """Return the nodes that the cluster remembers."""
        return self.cluster.kubectl(
            *("get", "configmap", "gpulab-removed-nodes", "--namespace=kube-system", "--ignore-not-found"),
            "--output=jsonpath={.data}",
        )


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    with running("nodes", SPEC) as lab:
        checkout = Checkout(lab.directory / "checkout")
        checkout.fill()
        made = Site(lab, lab.inventory(), Guide("nodes.md", checkout))
        shutil.copy2(lab.path, made.path)
        play(made.without("gpu3")).expect_success()
        yield made


def test_a_worker_joins_while_the_other_hosts_are_only_read(site: Site, figure: Callable[[str, float], None]) -> None:
    run = play(site.path).expect_success()
    assert site.cluster.ready_nodes() == {"cp1", "gpu1", "gpu2", "gpu3"}
    done, changed = run.executions(), [host for host, _task in run.changed()]
    figure("remote executions on the new host", done["gpu3"])
    figure("remote executions on an existing worker", max(done["gpu1"], done["gpu2"]))
    for name in ("gpu1", "gpu2"):
        assert 100 * changed.count(name) <= MOST_ON_EXISTING_HOSTS * changed.count("gpu3")


def test_wrong_names_change_nothing(site: Site) -> None:
    for options, words in (
        ((), "no node is named"),
        (("-e", "node=gpu9"), "gpu9 is neither a host of the inventory nor a node of the cluster"),
        (("-e", "node=cp1"), "no control plane would be left"),
        (("-e", "node=gpu2", "--limit", "gpu2"), "--limit leaves out"),
        (("-e", "node=gpu2", "-e", "remove_node_data=maybe"), "remove_node_data"),
    ):
        run = play(site.path, *options, playbook=PLAYBOOK)
        assert run.status != 0 and words in run.words, words
    assert site.cluster.ready_nodes() == {"cp1", "gpu1", "gpu2", "gpu3"}


def test_check_mode_shows_what_goes_and_changes_nothing(site: Site) -> None:
    run = site.guide.through("--check")
    assert "gpu2: drain and delete the node gpu2; reset the host" in run.words
    assert "-node gpu2" in run.words
    assert "gpu2" in site.cluster.ready_nodes() and site.removed() == ""


def test_jobs_and_volumes_are_named_before_anything_changes(site: Site) -> None:
    site.cluster.apply(LOCAL)
    run = site.remove("gpu2")
    assert run.status != 0 and "data-of-gpu2 (claim default/data, /srv/data on gpu2)" in run.failures()
    site.cluster.start_gpu_pod("job", 1, "gpu2")
    run = site.remove("gpu2", remove_node_data="lose")
    assert run.status != 0 and "it would interrupt what uses the GPUs of gpu2: default/job" in run.failures()
    assert "unschedulable" not in site.cluster.get("node", "gpu2")["spec"]
    site.cluster.delete_pod("job")
    site.cluster.kubectl("delete", "persistentvolume", "data-of-gpu2")


def test_removal_is_resumed_after_each_step_and_a_training_continues(site: Site) -> None:
    with GpuPodProber(site.cluster, site.host("gpu1"), "training") as training:
        for step in STEPS:
            run = site.remove("gpu2", env={"GPULAB_KILL_AT": step})
            assert run.status == -9, f"{step}: not killed\n{run.tail()}"
        # The guide's command completes it.
        run = site.guide.through("-e node=gpu2")
        assert run.status == 0
        training.expect_running()
    assert site.cluster.ready_nodes() == {"cp1", "gpu1", "gpu3"}
    assert site.removed() in ("", "{}") and site.host("gpu2").run(FILES) == ""


def test_a_second_removal_changes_nothing(site: Site) -> None:
    run = site.guide.through("-e node=gpu2")
    assert run.changed_tasks() == set()


def test_a_removed_host_joins_again(site: Site) -> None:
    play(site.path).expect_success()
    assert site.cluster.ready_nodes() == {"cp1", "gpu1", "gpu2", "gpu3"}
    play(site.path).expect_unchanged()


def test_a_silent_machine_is_remembered_and_recognized(site: Site) -> None:
    gpu3 = site.host("gpu3")
    gpu3.attempt(SILENT.format(120))
    assert gpu3.attempt("true").returncode == 255
    site.guide.through("-e node=gpu3")
    assert site.guide.left() == []
    assert "gpu3" not in site.cluster.ready_nodes() and "gpu3" in site.removed()
    wait_for_ssh(gpu3)
    run = play(site.path)
    assert run.status != 0
    assert "has no such node: it was removed on 20" in run.failures() and "-e node=gpu3" in run.failures()
    site.remove("gpu3").expect_success()
    assert site.removed() in ("", "{}") and gpu3.run(FILES) == ""
    play(site.path).expect_success()
    assert "gpu3" in site.cluster.ready_nodes()


def test_a_reinstalled_machine_is_recognized(site: Site) -> None:
    gpu3 = site.host("gpu3")
    gpu3.run("kubeadm reset --force >/dev/null 2>&1; rm -rf /var/lib/gpulab /etc/kubernetes")
    gpu3.run("tr -d - </proc/sys/kernel/random/uuid >/etc/machine-id")
    run = play(site.path)
    assert run.status != 0 and "a node gpu3 (" in run.failures() and "-e node=gpu3" in run.failures()
    site.remove("gpu3").expect_success()
    play(site.path).expect_success()
    assert site.cluster.ready_nodes() == {"cp1", "gpu1", "gpu2", "gpu3"}


def test_a_node_that_the_inventory_does_not_name_is_a_note_and_can_be_removed(site: Site) -> None:
    smaller = site.without("gpu2")
    assert "nodes that the inventory does not name: gpu2 (Ready)" in play(smaller).expect_success().words
    run = play(smaller, *variables(node="gpu2"), playbook=PLAYBOOK).expect_success()
    assert "gpu2 was deleted in the cluster but not reset" in run.words
    assert site.cluster.ready_nodes() == {"cp1", "gpu1", "gpu3"}


def wait_for_ssh(host: Host) -> None:
    end = time.monotonic() + 300
    while time.monotonic() < end:
        if host.attempt("true", 15).returncode == 0:
            return
        time.sleep(2)
    raise AssertionError("the machine does not answer again")
