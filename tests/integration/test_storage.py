"""Volumes for pods: a claim shared by nodes, local directories, and removal of both without their data.

Most steps are the commands of docs/storage.md, in the page's order. The lab simulates NFS (`nfs: simulated` in the
spec): mount.nfs mounts a directory that all nodes share.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from support.cluster import IMAGE, Cluster
from support.guides import Checkout, Guide
from support.hosts import ROOT, Inventory
from support.lab import Lab, lab_command, running
from support.play import Run, play

from lab.nodes import view

SPEC = ROOT / "tests" / "integration" / "specs" / "storage.yml"
# Names as in the guide.
SERVER, PATH, CAPACITY = "192.0.2.10", "/srv/gpulab", "500Gi"
SHARED = f"/var/lib/lab-nfs/{SERVER}{PATH}"
CACHE = {
    "cluster_storage": ["nfs_cache"],
    "nfs_cache_server": SERVER,
    "nfs_cache_path": PATH,
    "nfs_cache_capacity": CAPACITY,
}
LOCAL = {"cluster_storage": ["local_path"]}
CLAIM = {"persistentVolumeClaim": {"claimName": "gpulab-cache"}}


@dataclass(frozen=True)
class Site:
    lab: Lab
    inventory: Inventory
    cluster: Cluster
    guide: Guide

    def storage(self, values: dict[str, Any], *arguments: str) -> Run:
        return play(self.lab.path, *arguments, "-e", json.dumps(values), playbook="playbooks/storage.yml")

    def names(self, kind: str) -> list[str]:
        return self.cluster.kubectl("get", kind, "--all-namespaces", "--output", "name").split()

    def start(self, name: str, claim: str) -> None:
        """Start a pod that uses a claim, and wait until it runs."""
        mounted = {"name": "claim", "mountPath": "/claim"}
        command = ["/bin/sh", "-c", "echo kept >/claim/kept; exec sleep 600"]
        container = {"name": "main", "image": IMAGE, "command": command, "volumeMounts": [mounted]}
        volume = {"name": "claim", "persistentVolumeClaim": {"claimName": claim}}
        spec = {"containers": [container], "volumes": [volume], "terminationGracePeriodSeconds": 0}
        metadata = {"name": name, "namespace": "default"}
        self.cluster.apply({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})
        self.cluster.kubectl("wait", f"pod/{name}", "--for=condition=Ready", "--timeout=120s")


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    lab_command("build", "--with", "torch", "--with", "local-path")
    with running("storage", SPEC) as lab:
        kubectl = view.kubectl_program(view.known(lab.name))
        checkout = Checkout(lab.directory / "checkout", {"PATH": str(kubectl.parent)})
        checkout.fill()
        mine = checkout.path / "my.ini"
        shutil.copy2(lab.path, mine)
        play(mine).expect_success()
        inventory = lab.inventory()
        inventory.control_plane.run(f"mkdir -p -m 777 {SHARED}")
        yield Site(lab, inventory, Cluster.of(inventory), Guide("storage.md", checkout))


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({}, "cluster_storage is empty, and no host is in the group nfs_server"),
        (
            {"cluster_storage": ["nfs_cache"]},
            "cluster_storage contains nfs_cache without nfs_cache_server, nfs_cache_path",
        ),
        ({"cluster_storage": ["ceph"]}, "cluster_storage"),
        ({**CACHE, "nfs_cache_server": "192.0.2.10:/srv"}, "nfs_cache_server: it must be an address or a name"),
        ({**CACHE, "nfs_cache_path": "srv"}, "nfs_cache_path: it must be an absolute path"),
        ({**CACHE, "nfs_cache_capacity": "100 GB"}, "nfs_cache_capacity: it must be an amount with a unit"),
        ({**CACHE, "nfs_cache_reclaim_policy": "Delete"}, "nfs_cache_reclaim_policy"),
        ({**CACHE, "nfs_cache_claim": "Cache"}, "nfs_cache_claim: it must consist of at most 63 lower-case letters"),
        ({**CACHE, "nfs_cache_mount_options": ["rw,exec"]}, "nfs_cache_mount_options: 'rw,exec' is not an option"),
        ({**LOCAL, "nfs_server_clients": ["*"]}, "nfs_server_clients: * is not limited to known addresses"),
        ({**LOCAL, "local_path_directory": "/"}, "local_path_directory: it must be an absolute path"),
    ],
)
def test_invalid_settings_are_reported_before_anything_changes(site: Site, values: dict[str, Any], words: str) -> None:
    run = site.storage(values)
    assert run.status != 0
    assert words in run.failures()
    assert not run.changed()
    assert "Traceback" not in run.output


def test_a_missing_namespace_is_reported(site: Site) -> None:
    run = site.storage({**CACHE, "nfs_cache_namespace": "nowhere"})
    assert "there is no namespace nowhere. Create it first" in run.failures()
    assert site.names("pv") == []


def test_a_kernel_without_an_nfs_server_is_reported_and_nothing_changes(site: Site, tmp_path: Path) -> None:
    host = site.inventory.control_plane
    if "nfsd" in host.run("cat /proc/filesystems"):
        pytest.skip("the kernel below has an NFS server, which the lab must not use")
    more = tmp_path / "server.ini"
    more.write_text(f"[nfs_server]\n{host.name}\n")
    for arguments in (["--check"], []):
        run = site.storage({}, "-i", str(more), *arguments)
        assert run.status != 0
        assert f"preparing the NFS server {host.name}: its kernel has no NFS server (nfsd)" in run.failures()
        assert not run.changed()
    assert host.run("ls /srv /etc/exports.d /etc/exports 2>/dev/null || true").split() == ["/srv:"]


def test_nodes_share_a_claim_and_a_second_run_changes_nothing(site: Site) -> None:
    predicted = site.guide.through("--check --diff")
    assert predicted.changed()
    assert site.names("pv") == []
    run = site.guide.through("storage -i my.ini")
    assert predicted.changed() == run.changed()
    assert "a pod on cp1 wrote 64 MiB at " in run.output
    assert "a pod on gpu1 read them at " in run.output
    volume = site.cluster.get("pv", "default-gpulab-cache")
    assert volume["spec"]["persistentVolumeReclaimPolicy"] == "Retain"
    assert volume["spec"]["capacity"] == {"storage": CAPACITY}
    assert site.cluster.get("pvc", "gpulab-cache")["status"]["phase"] == "Bound"
    assert site.inventory.control_plane.run(f"ls --almost-all {SHARED}") == ""
    assert "storage-check" not in " ".join(site.names("pods"))
    site.storage(CACHE).expect_unchanged()
    site.storage(CACHE, "--check").expect_unchanged()


def test_a_volume_with_the_former_mount_options_is_changed_once(site: Site) -> None:
    former = ["nfsvers=4.2", "hard", "noatime"]
    site.storage({**CACHE, "nfs_cache_mount_options": former}).expect_success()
    assert site.cluster.get("pv", "default-gpulab-cache")["spec"]["mountOptions"] == former
    run = site.storage(CACHE).expect_success()
    assert {task.rpartition(" : ")[2] for task in run.changed_tasks()} == {"Make or remove the claim of the NFS cache"}
    assert site.cluster.get("pv", "default-gpulab-cache")["spec"]["mountOptions"] == ["nfsvers=4", *former[1:]]
    site.storage(CACHE).expect_unchanged()


def test_a_second_namespace_has_its_own_claim(site: Site) -> None:
    assert site.guide.through("nfs_cache_namespace=team").changed()
    assert site.cluster.get("pvc", "gpulab-cache", "--namespace=team")["spec"]["volumeName"] == "team-gpulab-cache"
    gone = {**CACHE, "nfs_cache_namespace": "team", "nfs_cache_state": "absent"}
    site.storage(gone).expect_success()
    assert site.names("pvc") == ["persistentvolumeclaim/gpulab-cache"]


def test_changes_that_kubernetes_does_not_allow_are_refused(site: Site) -> None:
    for values, words in (
        ({"nfs_cache_path": "/srv/other"}, f"the source {SERVER}:{PATH} instead of {SERVER}:/srv/other"),
        ({"nfs_cache_capacity": "1Ti"}, f"the capacity {CAPACITY} instead of 1Ti"),
    ):
        run = site.storage({**CACHE, **values})
        assert words in run.failures()
        assert "nfs_cache_state=absent, which keeps the data" in run.failures()
        assert not run.changed()


def test_a_directory_that_is_not_exported_is_reported_with_the_mount_error(site: Site) -> None:
    values = {**CACHE, "nfs_cache_claim": "other", "nfs_cache_path": "/srv/other", "nfs_cache_timeout": 20}
    run = site.storage(values)
    assert "access denied by server while mounting 192.0.2.10:/srv/other" in run.failures()
    assert "storage-check" not in " ".join(site.names("pods"))
    site.storage({**values, "nfs_cache_state": "absent"}).expect_success()


def test_a_training_keeps_its_checkpoints_on_the_claim(site: Site) -> None:
    summary = site.lab.directory / "summary.json"
    values = {"torch_ddp_summary": str(summary), "torch_ddp_checkpoints": CLAIM, "torch_ddp_args": ["--epochs", "2"]}
    play(site.lab.path, "-e", json.dumps(values), playbook="playbooks/train.yml").expect_success()
    assert json.loads(summary.read_text())["ranks_equal"]
    kept = site.inventory.control_plane.run(f"ls {SHARED}/torch-ddp").split()
    assert any(name.startswith("step-") for name in kept)
    missing = {**values, "torch_ddp_checkpoints": {"persistentVolumeClaim": {"claimName": "nothing"}}}
    run = play(site.lab.path, "-e", json.dumps(missing), playbook="playbooks/train.yml")
    assert "there is no claim nothing. Create it, for example with gpulab.kubernetes.storage" in run.failures()
    assert not run.changed()


def test_a_claim_in_use_is_kept_and_a_removed_claim_leaves_its_data(site: Site) -> None:
    site.storage({**CACHE, "nfs_cache_reclaim_policy": "Recycle"}).expect_success()
    site.start("user", "gpulab-cache")
    gone = {**CACHE, "nfs_cache_state": "absent"}
    run = site.storage(gone)
    assert "pods use it: user. Delete them or wait until they end" in run.failures()
    assert not run.changed()
    site.cluster.delete_pod("user")
    assert site.storage(gone, "--check").expect_success().changed()
    run = site.storage(gone).expect_success()
    assert f"What pods stored stays on the server, in {SERVER}:{PATH}" in run.words
    site.storage(gone).expect_unchanged()
    assert site.names("pv") == site.names("pvc") == []
    assert site.inventory.control_plane.run(f"cat {SHARED}/kept") == "kept\n"


def test_local_directories_are_offered_as_a_class_and_removed_without_their_data(site: Site) -> None:
    assert site.storage(LOCAL, "--check", "--diff").expect_success().changed()
    assert site.names("sc") == []
    run = site.guide.through("storage -i my.ini")
    assert "another pod on gpu1 read them from the node's memory" in run.output
    assert site.names("pv") == site.names("pvc") == []
    site.storage(LOCAL).expect_unchanged()
    metadata = {"name": "scratch", "namespace": "default"}
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    claim = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata, "spec": spec}
    site.cluster.apply(claim)
    site.start("user", "scratch")
    gone = {**LOCAL, "local_path_state": "absent"}
    assert "claims have volumes of this class: default/scratch" in site.storage(gone).failures()
    site.cluster.delete_pod("user")
    site.cluster.kubectl("delete", "pvc", "scratch", "--timeout=60s")
    run = site.guide.through("local_path_state=absent")
    assert "Volumes that their claims have left behind stay" in run.words
    site.storage(gone).expect_unchanged()
    assert site.names("sc") == []
    kept = [host.run("cat /var/lib/gpulab/local-path/*/kept 2>/dev/null || true") for host in site.inventory.workers]
    assert "".join(kept) == "kept\n"
    assert site.guide.left() == []


def test_another_default_class_and_another_reclaim_policy_are_reported(site: Site) -> None:
    default = {"storageclass.kubernetes.io/is-default-class": "true"}
    other = {"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "provisioner": "example.org/none"}
    site.cluster.apply({**other, "metadata": {"name": "other", "annotations": default}})
    run = site.storage(LOCAL)
    assert "StorageClass other is already the default of this cluster" in run.failures()
    assert not run.changed()
    site.cluster.kubectl("delete", "sc", "other")
