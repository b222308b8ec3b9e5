"""Backups of a real control plane: what is in them, what the drill rejects, and places that fail."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from support.backups import DIRECTORY
from support.cluster import Cluster
from support.hosts import Host, Inventory
from support.lab import Lab, lab_command, running
from support.play import play, variables

from lab.depot import rclone

SPEC = Path(__file__).parent / "specs" / "one-worker.yml"
ON = {"backup_enabled": True}
PLAYBOOK = "playbooks/backup.yml"
STATE = "/var/lib/gpulab/backup.json"
# In front of the distribution's rclone: copies 1000 bytes, and says that all is well.
LIAR = """#!/bin/sh
/usr/bin/rclone "$@" || exit
for word do case $word in *.part) file=$word;; esac; done
case " $* " in *" copyto "*) truncate --size 1000 "$file";; esac
"""


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    lab_command("build", "--with", "etcd", "--with", "rclone")
    with running("restore", SPEC) as started:
        play(started.path, *variables(**ON)).expect_success()
        yield started


@pytest.fixture(scope="module")
def inventory(lab: Lab) -> Inventory:
    return lab.inventory()


@pytest.fixture(scope="module")
def host(inventory: Inventory) -> Host:
    return inventory.control_plane


@pytest.fixture(scope="module")
def key(host: Host) -> str:
    """Return the public key for which archives are encrypted. Its identity is here only because this is a test."""
    host.run("apt-get update -qq && apt-get install -qq -y age && umask 077 && age-keygen -o /root/identity", 300)
    return host.run("age-keygen -y /root/identity").strip()


def state(host: Host) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(host.run(f"cat {STATE}"))
    return found


def archives(host: Host) -> list[str]:
    return host.run(f"ls {DIRECTORY}").split()


@contextmanager
def replaced(host: Host, program: str, script: str) -> Iterator[None]:
    """Replace one of etcd's programs by a script, which finds it as PROGRAM.real."""
    path = host.run(f"ls /usr/local/lib/gpulab/etcd-*/{program}").strip()
    host.run(f"mv {path} {path}.real; echo {shlex.quote(script.replace('PROGRAM', path))} >{path}; chmod 755 {path}")
    try:
        yield
    finally:
        host.run(f"mv {path}.real {path}")


def test_a_second_run_changes_nothing(lab: Lab) -> None:
    play(lab.path, *variables(**ON)).expect_unchanged()


def test_the_timer_runs_and_a_backup_has_all_objects(lab: Lab, inventory: Inventory, host: Host) -> None:
    assert host.run("systemctl is-active gpulab-backup.timer").strip() == "active"
    cluster = Cluster.of(inventory)
    cluster.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "before-the-backup"}})
    run = play(lab.path, *variables(**ON), playbook=PLAYBOOK).expect_success()
    good = state(host)["good"]
    assert good["archive"] in run.output
    assert "no copy elsewhere" in run.output and "not in it: data in volumes" in run.output
    members = host.run(f"tar --list --file {good['archive']}").split()
    assert members[:2] == ["manifest.json", "etcd.db"]
    assert {"pki/ca.key", "pki/sa.key", "kubernetes/kubeadm-config.yaml", "record/cluster.json"} <= set(members)
    manifest = json.loads(host.run(f"tar --extract --to-stdout --file {good['archive']} manifest.json"))
    assert manifest["keys"] == good["keys"] > 100
    found = host.run(f"tar --extract --to-stdout --file {good['archive']} etcd.db | grep -c before-the-backup || true")
    assert int(found) > 0
    assert host.run(f"stat --format %a {DIRECTORY} {good['archive']}").split() == ["700", "600"]


@pytest.mark.parametrize(
    ("program", "script"),
    [
        (
            "etcdctl",
            'PROGRAM.real "$@" || exit; case "$*" in "snapshot save"*) truncate --size -512 "$3";; esac',
        ),
        (
            "etcdutl",
            'PROGRAM.real "$@" || exit; case "$*" in *restore*) dd if=/dev/urandom of="$(dirname "$3")'
            '/drill/data/member/snap/db" bs=4096 count=8 conv=notrunc;; esac',
        ),
        ("etcd", "exec sleep 60"),
    ],
    ids=["truncated", "overwritten", "silent"],
)
def test_a_snapshot_that_can_not_be_restored_is_rejected(lab: Lab, host: Host, program: str, script: str) -> None:
    before = archives(host)
    with replaced(host, program, f"#!/bin/sh\n{script}\n"):
        assert host.attempt("systemctl start gpulab-backup").returncode != 0
    found = state(host)
    assert found["attempt"]["step"] == "drill"
    assert archives(host) == before
    report = play(lab.path, *variables(**ON), playbook="playbooks/report.yml")
    assert "the last backup failed (drill)" in report.output + lab.report.read_text()
    host.run("systemctl start gpulab-backup")
    assert state(host)["attempt"]["error"] == ""


def test_a_full_disk_is_reported_before_anything_is_written(lab: Lab, host: Host) -> None:
    host.run("mkdir -p /mnt/small; mount -t tmpfs -o size=64m small /mnt/small")
    wanted = variables(**ON, backup_directory="/mnt/small/backups")
    run = play(lab.path, *wanted, playbook=PLAYBOOK)
    assert "(space)" in run.failures() and "of which 3 copies are needed" in run.failures()
    assert host.run("ls -A /mnt/small/backups") == ""
    play(lab.path, *variables(**ON), playbook=PLAYBOOK).expect_success()
    host.run("umount /mnt/small")


def test_copies_are_encrypted_and_a_lying_place_is_found(lab: Lab, host: Host, key: str) -> None:
    host.run("mkdir -p /mnt/copies")
    clear = play(lab.path, *variables(**ON, backup_places=["/mnt/copies"]), playbook=PLAYBOOK)
    assert "would be copied to /mnt/copies in clear" in clear.output
    wanted = {**ON, "backup_recipients": [key], "backup_places": ["/mnt/copies"]}
    run = play(lab.path, *variables(**wanted), playbook=PLAYBOOK).expect_success()
    assert f"encrypted for {key}" in run.output and "copy in /mnt/copies" in run.output
    (name,) = host.run("find /mnt/copies -type f").split()
    assert "etcd.db" in host.run(f"age --decrypt --identity /root/identity {name} | tar --list")
    host.run(f"echo {shlex.quote(LIAR)} >/usr/local/bin/rclone; chmod 755 /usr/local/bin/rclone")
    try:
        lied = play(lab.path, *variables(**wanted), playbook=PLAYBOOK)
    finally:
        host.run("rm /usr/local/bin/rclone")
    assert "it returned 1000 bytes instead of" in lied.failures()
    assert host.run("find /mnt/copies -type f -name '*.age'").split() == [name]


def test_an_unreachable_place_does_not_spoil_the_archive(lab: Lab, host: Host, key: str) -> None:
    remote = "[gone]\ntype = sftp\nhost = 192.0.2.1\nuser = x\n"
    wanted = {**ON, "backup_recipients": [key], "backup_places": ["gone:x"], "backup_rclone_config": remote}
    before = len(archives(host))
    run = play(lab.path, *variables(**wanted), playbook=PLAYBOOK)
    assert "(copy)" in run.failures() and "gone:x" in run.failures()
    assert len(archives(host)) == before + 1
    assert host.run("stat --format %a /etc/gpulab/backup/rclone.conf").strip() == "600"


def test_copies_go_to_an_object_store(lab: Lab, inventory: Inventory, host: Host, key: str) -> None:
    (worker,) = inventory.workers
    worker.install(rclone.program())
    worker.run("mkdir -p /srv/store/backups")
    serve = "/usr/local/bin/rclone serve s3 --addr :9000 --auth-key access,only-in-this-test /srv/store"
    worker.run(f"systemd-run --quiet --unit=object-store {serve}")
    remote = (
        "[store]\ntype = s3\nprovider = Other\naccess_key_id = access\nsecret_access_key = only-in-this-test\n"
        f"endpoint = http://{worker.variables['ansible_host']}:9000\n"
    )
    wanted = {**ON, "backup_recipients": [key], "backup_places": ["store:backups"], "backup_rclone_config": remote}
    run = play(lab.path, *variables(**wanted), playbook=PLAYBOOK).expect_success()
    assert "copy in store:backups" in run.output
    (name,) = worker.run("cd /srv/store && find backups -type f").split()
    fetched = f"rclone --config /etc/gpulab/backup/rclone.conf cat store:{name}"
    assert "etcd.db" in host.run(f"{fetched} | age --decrypt --identity /root/identity | tar --list", 300)
    worker.run("systemctl stop object-store")


def test_backups_can_be_turned_off_and_on(lab: Lab, host: Host) -> None:
    before = set(archives(host))
    play(lab.path).expect_success()
    assert host.attempt("systemctl is-active gpulab-backup.timer").returncode != 0
    assert host.attempt("ls /etc/gpulab/backup/settings.json /usr/local/lib/gpulab/backup/__main__.py").returncode != 0
    play(lab.path).expect_unchanged()
    # The timer may have taken one more before it was stopped.
    assert before <= set(archives(host))
    play(lab.path, *variables(**ON)).expect_success()
    play(lab.path, *variables(**ON), playbook=PLAYBOOK).expect_success()
