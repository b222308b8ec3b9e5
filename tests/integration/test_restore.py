"""A control plane that has lost its data, or whose database is damaged, is restored from a backup."""

from __future__ import annotations

import json
import re
import shutil
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from support.backups import destroy, fetch
from support.cluster import Cluster, gpu_pod
from support.guides import Checkout, Guide
from support.hosts import Host, Inventory
from support.lab import Lab, lab_command, running
from support.play import Run, play, refused, variables

SPEC = Path(__file__).parent / "specs" / "one-worker.yml"
RESTORE, BACKUP = "playbooks/restore.yml", "playbooks/backup.yml"
CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
# The most that still counts as done, in seconds.
RESTORED = 300


@dataclass(frozen=True)
class Site:
    """A cluster whose backups are encrypted, with a checkout in which the commands of the guides run."""

    lab: Lab
    inventory: Inventory
    checkout: Checkout
    guide: Guide
    examples: dict[str, str]
    key: str

    @property
    def path(self) -> Path:
        return self.checkout.path / "my.ini"

    @property
    def cluster(self) -> Cluster:
        return Cluster.of(self.inventory)

    @property
    def host(self) -> Host:
        return self.inventory.control_plane

    def back_up(self) -> Path:
        """Take a backup that is not encrypted, and return its copy on the controller."""
        play(self.path, *variables(backup_recipients=[]), playbook=BACKUP).expect_success()
        return self.fetch()

    def fetch(self) -> Path:
        """Copy the newest archive to the controller, into the directory in which a reader runs the commands."""
        return fetch(self.host, self.checkout.path)

    def restore(self, archive: Path, *options: str, **further: object) -> Run:
        return play(self.path, *variables(restore_archive=str(archive), **further), *options, playbook=RESTORE)


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    lab_command("build", "--with", "etcd")
    with running("restore", SPEC) as lab:
        inventory = lab.inventory()
        host, examples = inventory.control_plane, {"restore_confirm=lab": "restore_confirm=my"}
        checkout = Checkout(lab.directory / "checkout", host=host, replacing=examples)
        checkout.fill()
        host.run("apt-get update -qq && apt-get install -qq -y age", 300)
        key = checkout.path / "backup.key"
        key.write_text(host.run("age-keygen 2>/dev/null"))
        examples["/media/usb/gpulab-backup.key"] = str(key)
        recipient = host.run(f"age-keygen -y <<'END'\n{key.read_text()}END\n").strip()
        made = Site(lab, inventory, checkout, Guide("restore.md", checkout), examples, recipient)
        shutil.copy2(lab.path, made.path)
        (checkout.path / "group_vars").mkdir()
        (checkout.path / "group_vars/all.yml").write_text(f"backup_enabled: true\nbackup_recipients: [{recipient}]\n")
        play(made.path).expect_success()
        yield made


def config_map(name: str, value: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"value": value}}


@pytest.fixture(scope="module")
def archive(site: Site) -> Path:
    """A backup, after which objects and a pod with a GPU were created, and one was changed and one deleted."""
    site.cluster.start_gpu_pod("before", 1)
    site.cluster.apply(*(config_map(name, "before") for name in ("kept", "changed", "deleted")))
    guide = Guide("backup.md", site.checkout)
    assert f"encrypted for {site.key}" in guide.through("gpulab.kubernetes.backup").output
    assert guide.left() == []
    made = site.fetch()
    site.examples["gpulab-lab-20261128T140003Z.tar.age"] = str(made)
    site.cluster.start_gpu_pod("after", 1)
    site.cluster.apply(config_map("new", "after"), config_map("changed", "after"))
    site.cluster.kubectl("delete", "configmap", "deleted")
    return made


@pytest.mark.usefixtures("archive")
def test_preview_names_what_is_lost_and_changes_nothing(site: Site) -> None:
    before = site.host.run("ls -lR /etc/kubernetes")
    run = site.guide.through("--check")
    assert "deleted since will exist again" in run.output
    assert re.search(r"default/after.* with 1 GPU on gpu1: it was created after the snapshot", run.output)
    assert "default/before" not in run.output
    assert site.host.run("ls -lR /etc/kubernetes") == before
    assert site.host.run("ls /var/lib/gpulab/restore").strip() == ""


def test_archive_that_does_not_fit_is_refused(site: Site, tmp_path: Path) -> None:
    archive = site.back_up()
    data = archive.read_bytes()
    place = data.index(b"-----BEGIN CERTIFICATE-----")
    changed = data[: place + 30] + bytes([data[place + 30] ^ 1]) + data[place + 31 :]
    for content, words in ((data[: len(data) // 2], "is truncated"), (changed, "was changed")):
        path = tmp_path / archive.name
        path.write_bytes(content)
        run = site.restore(path, restore_confirm="my")
        assert run.status and words in run.failures()
    run = site.restore(archive, restore_confirm="my", cluster_name="another")
    assert run.status and "A cluster keeps the names that it got first" in run.failures()
    run = site.restore(archive)
    assert run.status and "restore_confirm=my" in run.failures()


def test_lost_control_plane_is_not_initialized_again_but_restored(
    site: Site, archive: Path, figure: Callable[[str, float], None]
) -> None:
    # What a client that watches has seen last.
    seen = json.loads(site.cluster.kubectl("get", "--raw", CONFIG_MAPS))["metadata"]["resourceVersion"]
    destroy(site.host)
    assert "its cluster existed before, as the host gpu1" in refused(site.path)
    key = Path(site.examples["/media/usb/gpulab-backup.key"]).read_text()
    preview = site.restore(archive, "--check", restore_age_identity=key).expect_success()
    assert "What that is can't be read any more" in preview.words, preview.output
    begun = time.monotonic()
    run = site.guide.through("restore_confirm")
    cluster = site.cluster
    cluster.kubectl("wait", "--for=condition=Ready", "nodes", "--all", "--timeout=120s")
    took = time.monotonic() - begun
    figure("restored", took)
    assert took <= RESTORED
    assert "default/after" in run.output
    found = {item["metadata"]["name"]: item["data"] for item in cluster.get("configmaps")["items"]}
    assert {found[name]["value"] for name in ("kept", "changed", "deleted")} == {"before"} and "new" not in found
    # It is told to list again, and never continues with a state of the lost time.
    watched = cluster.kubectl("get", "--raw", f"{CONFIG_MAPS}?watch=1&timeoutSeconds=5&resourceVersion={seen}")
    assert [json.loads(line)["object"]["code"] for line in watched.splitlines()] == [410]
    newer = json.loads(cluster.kubectl("get", "--raw", CONFIG_MAPS))["metadata"]["resourceVersion"]
    assert int(newer) > int(seen)
    # The pod that the snapshot has was not restarted, and only the other one has ended.
    running_pods = {each["metadata"]["name"]: each for each in cluster.get("pods")["items"]}
    assert running_pods.keys() == {"before"}
    assert running_pods["before"]["status"]["containerStatuses"][0]["restartCount"] == 0
    (worker,) = site.inventory.workers
    ended = (
        "for i in $(seq 60); do crictl pods --name after --state ready -q | grep -q . || exit 0; sleep 2; done; exit 1"
    )
    worker.run(ended, 150)
    cluster.delete_pod("before")
    site.guide.through("gpulab.kubernetes.site")
    assert site.guide.left() == []
    totals = json.loads((site.checkout.path / "gpulab-report.json").read_text())["totals"]
    assert totals["proven"] == totals["gpus"]


def test_archive_is_not_restored_twice(site: Site, archive: Path) -> None:
    site.cluster.apply(config_map("later", "later"))
    key = Path(site.examples["/media/usb/gpulab-backup.key"]).read_text()
    site.restore(archive, restore_confirm="my", restore_age_identity=key).expect_unchanged()
    assert site.cluster.get("configmap", "later")


@pytest.mark.parametrize("step", ["start", "configuration"])
def test_damaged_database_is_restored_also_after_an_interruption(site: Site, step: str) -> None:
    """A program that this step needs fails for a moment, as if the run were killed there."""
    host, cluster = site.host, site.cluster
    cluster.apply(config_map(f"before-{step}", "x"), gpu_pod(f"after-{step}", 1, None))
    made = site.back_up()
    host.run("systemctl stop kubelet; crictl ps --quiet --name etcd | xargs crictl stop --timeout 1")
    host.run("dd if=/dev/zero of=/var/lib/etcd/member/snap/db bs=4096 count=64 conv=notrunc; systemctl start kubelet")
    program = {"start": "/usr/bin/kubelet", "configuration": "/usr/bin/kubeadm"}[step]
    host.run(
        f"cp -p {program} /root/program; rm {program}; printf '#!/bin/sh\\nexit 9\\n' > {program}; chmod 755 {program}"
    )
    assert site.restore(made, restore_confirm="my", restore_health_timeout=20).status
    host.run(f"cp -f /root/program {program}; systemctl reset-failed kubelet || true")
    site.restore(made, restore_confirm="my").expect_success()
    cluster.kubectl("wait", "--for=condition=Ready", "nodes", "--all", "--timeout=120s")
    assert cluster.get("configmap", f"before-{step}")
    assert host.run("ls -d /var/lib/gpulab/aside-*/var/lib/etcd/member").strip()
    cluster.delete_pod(f"after-{step}")
