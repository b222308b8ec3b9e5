"""A control plane that has lost its data, or whose database is damaged, is restored from a backup."""

from __future__ import annotations

import base64
import json
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.cluster import Cluster, gpu_pod
from support.hosts import Host, Inventory
from support.lab import Lab, lab_command, running
from support.play import Run, play, refused, variables

SPEC = Path(__file__).parent / "specs" / "one-worker.yml"
ON = {"backup_enabled": True}
RESTORE, BACKUP = "playbooks/restore.yml", "playbooks/backup.yml"
BACKUPS = "/var/lib/gpulab/backups"
# The most that still counts as done, in seconds.
RESTORED = 300
# As on a new disk; the packages are still there.
DESTROY = """
systemctl stop kubelet
crictl ps --quiet | xargs --no-run-if-empty crictl stop --timeout 1 >/dev/null
crictl pods --quiet | xargs --no-run-if-empty crictl rmp --force >/dev/null
findmnt --raw --noheadings --output TARGET | grep ^/var/lib/kubelet/ | xargs --no-run-if-empty umount
rm -rf /etc/kubernetes /var/lib/gpulab
find /var/lib/etcd /var/lib/kubelet -mindepth 1 -delete
"""


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    lab_command("build", "--with", "etcd")
    with running("restore", SPEC) as started:
        play(started.path, *variables(**ON)).expect_success()
        yield started


@pytest.fixture(scope="module")
def inventory(lab: Lab) -> Inventory:
    return lab.inventory()


def config_map(name: str, value: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"value": value}}


def back_up(lab: Lab, host: Host) -> Path:
    """Take a backup, and return its copy on the controller."""
    play(lab.path, *variables(**ON), playbook=BACKUP).expect_success()
    newest = host.run(f"ls -t {BACKUPS}/gpulab-*.tar | head -1").strip()
    path = lab.directory / "archives" / Path(newest).name
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(base64.b64decode(host.run(f"base64 {newest}", 300)))
    return path


def restore(lab: Lab, archive: Path, *options: str, **further: object) -> Run:
    return play(lab.path, *variables(restore_archive=str(archive), **ON, **further), *options, playbook=RESTORE)


def cluster_name(archive: Path) -> str:
    found = re.fullmatch(r"gpulab-(.*)-\d{8}T\d{6}Z\.tar", archive.name)
    assert found
    return found[1]


@pytest.fixture(scope="module")
def archive(lab: Lab, inventory: Inventory) -> Path:
    """A backup, after which objects and a pod with a GPU were created, and one was changed and one deleted."""
    cluster = Cluster.of(inventory)
    cluster.start_gpu_pod("before", 1)
    cluster.apply(*(config_map(name, "before") for name in ("kept", "changed", "deleted")))
    made = back_up(lab, inventory.control_plane)
    cluster.start_gpu_pod("after", 1)
    cluster.apply(config_map("new", "after"), config_map("changed", "after"))
    cluster.kubectl("delete", "configmap", "deleted")
    return made


def test_preview_names_what_is_lost_and_changes_nothing(lab: Lab, inventory: Inventory, archive: Path) -> None:
    before = inventory.control_plane.run("ls -lR /etc/kubernetes")
    run = restore(lab, archive, "--check").expect_success()
    assert "deleted since will exist again" in run.output
    assert re.search(r"default/after.* with 1 GPU on gpu1: it was created after the snapshot", run.output)
    assert "default/before" not in run.output
    assert inventory.control_plane.run("ls -lR /etc/kubernetes") == before
    assert inventory.control_plane.run("ls /var/lib/gpulab/restore").strip() == ""


def test_archive_that_does_not_fit_is_refused(lab: Lab, archive: Path, tmp_path: Path) -> None:
    data = archive.read_bytes()
    place = data.index(b"-----BEGIN CERTIFICATE-----")
    changed = data[: place + 30] + bytes([data[place + 30] ^ 1]) + data[place + 31 :]
    for content, words in ((data[: len(data) // 2], "is truncated"), (changed, "was changed")):
        path = tmp_path / archive.name
        path.write_bytes(content)
        run = restore(lab, path, restore_confirm=cluster_name(archive))
        assert run.status and words in run.failures()
    for settings, words in (
        ({"cluster_name": "another"}, "A cluster keeps the names that it got first"),
        ({"cluster_kubernetes_version": "1.35.8"}, "would be installed"),
    ):
        run = restore(lab, archive, restore_confirm=cluster_name(archive), **settings)
        assert run.status and words in run.failures()
    run = restore(lab, archive)
    assert run.status and f"restore_confirm={cluster_name(archive)}" in run.failures()


def test_lost_control_plane_is_not_initialized_again_but_restored(
    lab: Lab, inventory: Inventory, archive: Path
) -> None:
    inventory.control_plane.run(DESTROY, 300)
    assert "its cluster existed before, as the host gpu1" in refused(lab.path)
    preview = restore(lab, archive, "--check").expect_success()
    assert "What that is can't be read any more" in preview.output
    begun = time.monotonic()
    run = restore(lab, archive, restore_confirm=cluster_name(archive)).expect_success()
    cluster = Cluster.of(inventory)
    cluster.kubectl("wait", "--for=condition=Ready", "nodes", "--all", "--timeout=120s")
    assert time.monotonic() - begun <= RESTORED
    assert "default/after" in run.output
    found = {item["metadata"]["name"]: item["data"] for item in cluster.get("configmaps")["items"]}
    assert {found[name]["value"] for name in ("kept", "changed", "deleted")} == {"before"} and "new" not in found
    # The pod that the snapshot has was not restarted, and only the other one has ended.
    running_pods = {each["metadata"]["name"]: each for each in cluster.get("pods")["items"]}
    assert running_pods.keys() == {"before"}
    assert running_pods["before"]["status"]["containerStatuses"][0]["restartCount"] == 0
    (worker,) = inventory.workers
    ended = (
        "for i in $(seq 60); do crictl pods --name after --state ready -q | grep -q . || exit 0; sleep 2; done; exit 1"
    )
    worker.run(ended, 150)
    cluster.delete_pod("before")
    play(lab.path, *variables(**ON)).expect_success()
    totals = json.loads(lab.report.read_text())["totals"]
    assert totals["proven"] == totals["gpus"]


def test_archive_is_not_restored_twice(lab: Lab, inventory: Inventory, archive: Path) -> None:
    Cluster.of(inventory).apply(config_map("later", "later"))
    restore(lab, archive, restore_confirm=cluster_name(archive)).expect_unchanged()
    assert Cluster.of(inventory).get("configmap", "later")


@pytest.mark.parametrize("step", ["start", "configuration"])
def test_damaged_database_is_restored_also_after_an_interruption(lab: Lab, inventory: Inventory, step: str) -> None:
    """A program that this step needs fails for a moment, as if the run were killed there."""
    host, cluster = inventory.control_plane, Cluster.of(inventory)
    cluster.apply(config_map(f"before-{step}", "x"), gpu_pod(f"after-{step}", 1, None))
    made = back_up(lab, host)
    host.run("systemctl stop kubelet; crictl ps --quiet --name etcd | xargs crictl stop --timeout 1")
    host.run("dd if=/dev/zero of=/var/lib/etcd/member/snap/db bs=4096 count=64 conv=notrunc; systemctl start kubelet")
    program = {"start": "/usr/bin/kubelet", "configuration": "/usr/bin/kubeadm"}[step]
    host.run(
        f"cp -p {program} /root/program; rm {program}; printf '#!/bin/sh\\nexit 9\\n' > {program}; chmod 755 {program}"
    )
    assert restore(lab, made, restore_confirm=cluster_name(made), restore_health_timeout=20).status
    host.run(f"cp -f /root/program {program}; systemctl reset-failed kubelet || true")
    restore(lab, made, restore_confirm=cluster_name(made)).expect_success()
    cluster.kubectl("wait", "--for=condition=Ready", "nodes", "--all", "--timeout=120s")
    assert cluster.get("configmap", f"before-{step}")
    assert host.run("ls -d /var/lib/gpulab/aside-*/var/lib/etcd/member").strip()
    cluster.delete_pod(f"after-{step}")
