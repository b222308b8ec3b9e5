"""A cluster made by release 0.2.0 gets each minor of the table while its only worker trains, the last one with three
control planes.

etcd's heartbeat is 250 ms and its election timeout 2.5 s here (specs/upgrade-all.yml).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from support import releases
from support.api_prober import KINDS, ApiProber, admin_access, kubelet_server
from support.cluster import Cluster
from support.gpu_pod_prober import GpuPodProber
from support.hosts import Inventory
from support.lab import Lab, lab_command, running
from support.play import Run, play, variables

SPEC = Path(__file__).parent / "specs" / "upgrade-all.yml"
OLDEST, MIDDLE, NEWEST = "1.35.8", "1.36.5", "1.37.2"
UPGRADE = "playbooks/upgrade_cluster.yml"
# The most that still counts as done, in seconds: with one control plane, and with three.
GAP, GAP_OF_THREE = 90, 5
Figure = Callable[[str, float], None]


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    versions = [word for version in (OLDEST, MIDDLE, NEWEST) for word in ("--kubernetes", version)]
    lab_command("build", *versions, "--with", "etcd", timeout=7200)
    with running("upgrade-all", SPEC) as started:
        env = {"ANSIBLE_COLLECTIONS_PATH": str(releases.install("0.2.0", started.directory / "release"))}
        site = "gpulab.kubernetes.site"
        play(started.path, *to(OLDEST), playbook=site, cwd=started.directory, env=env).expect_success()
        play(started.path, *to(OLDEST)).expect_success()
        yield started


@pytest.fixture(scope="module")
def inventory(lab: Lab) -> Inventory:
    return lab.inventory()


def to(version: str) -> list[str]:
    return variables(cluster_kubernetes_version=version, cluster_disruption_policy="defer")


def finish(lab: Lab, cluster: Cluster, version: str, *more: str) -> None:
    """Upgrade the worker, which is free now, and assert that everything has the version, and nothing is pending."""
    play(lab.path, *more, *to(version)).expect_success()
    play(lab.path, *more, *to(version), playbook=UPGRADE).expect_unchanged()
    play(lab.path, *more, *to(version)).expect_unchanged()
    nodes = cluster.get("nodes")["items"]
    assert {node["status"]["nodeInfo"]["kubeletVersion"] for node in nodes} == {f"v{version}"}


def expect_left(run: Run) -> None:
    run.expect_success()
    assert "gpu1 is left for a later run" in run.words


def test_one_control_plane_gets_the_next_minor(lab: Lab, inventory: Inventory, tmp_path: Path, figure: Figure) -> None:
    cluster, host = Cluster.of(inventory), inventory.control_plane
    refused = play(lab.path, *to(NEWEST), playbook=UPGRADE)
    assert refused.status and f"-e cluster_kubernetes_version={MIDDLE}" in refused.failures()
    with (
        GpuPodProber(cluster, inventory.hosts["gpu1"], "training") as training,
        ApiProber(admin_access(host), tmp_path / "answers.jsonl") as prober,
    ):
        prober.wait()
        expect_left(play(lab.path, *to(MIDDLE), playbook=UPGRADE))
        steps = training.expect_running()
    assert (steps.restarts, steps.lost) == (0, 0)
    for kind in KINDS:
        figure(f"gap ({kind})", prober.gap(kind).seconds)
        assert prober.gap(kind).seconds <= GAP
    finish(lab, cluster, MIDDLE)


def test_three_control_planes_get_the_last_minor(
    lab: Lab, inventory: Inventory, tmp_path: Path, figure: Figure
) -> None:
    cluster, worker = Cluster.of(inventory), inventory.hosts["gpu1"]
    three = lab.path.with_name("three.ini")
    three.write_text("[control_plane]\ncp1\ncp2\ncp3\n")
    more = ("-i", str(three))
    # Clusters of release 0.2.0 know the address of their control plane only.
    play(lab.path, *to(MIDDLE), playbook="playbooks/migrate_endpoint.yml").expect_success()
    play(lab.path, *more, *to(MIDDLE)).expect_success()
    access = admin_access(inventory.control_plane).through(kubelet_server(worker))
    with (
        GpuPodProber(cluster, worker, "training") as training,
        ApiProber(access, tmp_path / "answers.jsonl", worker) as prober,
    ):
        prober.wait()
        expect_left(play(lab.path, *more, *to(NEWEST), playbook=UPGRADE))
        steps = training.expect_running()
    assert (steps.restarts, steps.lost) == (0, 0)
    for kind in KINDS:
        figure(f"gap of three ({kind})", prober.gap(kind).seconds)
        assert prober.gap(kind).seconds <= GAP_OF_THREE
    finish(lab, cluster, NEWEST, *more)
    for name in ("cp1", "cp2", "cp3"):
        assert "etcd:3.7.0-0" in inventory.hosts[name].run("cat /etc/kubernetes/manifests/etcd.yaml")
    # The backups know the tools of the new etcd.
    play(lab.path, *more, *to(NEWEST), playbook="playbooks/backup.yml").expect_success()
