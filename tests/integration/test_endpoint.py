"""The endpoint of a cluster becomes a name: interrupted at each step and resumed, and no pod is restarted.

The cluster was created by release 0.2.0, whose clusters have an address.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml
from support import backups, releases
from support.api_prober import Access, ApiProber, admin_access, kubelet_server
from support.cluster import Cluster
from support.gpu_pod_prober import GpuPodProber
from support.guides import Checkout, Guide
from support.hosts import Host, Inventory
from support.lab import Lab, lab_command, running
from support.play import play, variables

SPEC = Path(__file__).parent / "specs" / "one-worker.yml"
PLAYBOOK = "playbooks/migrate_endpoint.yml"
NAME = "api.my.internal"
LONGEST_GAP = 20
# The first task of each step, at which the run is killed.
STEPS = (
    "gpulab.kubernetes.kubeadm : Add the name to the certificate of the API server",
    "gpulab.kubernetes.api_endpoint : Set up the name of the API, and HAProxy on a worker",
    "gpulab.kubernetes.api_endpoint : Change the endpoint",
    "Let the administrators' kubeconfigs use the name",
    "Let kube-proxy and later joins use the name",
    "gpulab.kubernetes.cluster_api : Keep a copy of the kubeconfig on the controller",
)
PARTS = """
cat /etc/hosts
grep -h server: /etc/kubernetes/kubelet.conf
systemctl is-active gpulab-api-endpoint haproxy || true
"""


@dataclass(frozen=True)
class Site:
    lab: Lab
    guide: Guide
    inventory: Inventory

    @property
    def path(self) -> Path:
        return self.guide.checkout.path / "my.ini"

    @property
    def cluster(self) -> Cluster:
        return Cluster.of(self.inventory)

    @property
    def address(self) -> str:
        found: str = self.inventory.control_plane.variables["ansible_host"]
        return found

    @property
    def worker(self) -> Host:
        return self.inventory.hosts["gpu1"]

    def kept(self) -> str:
        return self.path.with_name("my-admin.conf").read_text()


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    lab_command("build", "--with", "etcd")
    with running("endpoint", SPEC) as lab:
        inventory = lab.inventory()
        checkout = Checkout(lab.directory / "checkout", host=inventory.hosts["gpu1"])
        checkout.fill()
        made = Site(lab, Guide("api-endpoint.md", checkout), inventory)
        shutil.copy2(lab.path, made.path)
        release = releases.install("0.2.0", lab.directory / "release")
        env = {"ANSIBLE_COLLECTIONS_PATH": str(release)}
        play(made.path, playbook="gpulab.kubernetes.site", cwd=checkout.path, env=env).expect_success()
        yield made


def test_cluster_with_an_address_stays_as_it_is(site: Site) -> None:
    run = play(site.path).expect_success()
    assert run.changed_tasks() == {
        # The patch with the periods of a shutdown, which takes effect with the next upgrade of the node.
        "gpulab.kubernetes.kubeadm : Install the Kubernetes packages, and configure kubelet and crictl",
        # For how long nfd-master stays on a node that is lost.
        "gpulab.kubernetes.nvidia_device_plugin : Apply the device plugin and feature discovery",
    }
    play(site.path).expect_unchanged()
    assert NAME not in site.worker.run(PARTS)
    (context,) = yaml.safe_load(site.kept())["contexts"]
    assert context["name"] == "kubernetes-admin@kubernetes"


def test_steps_are_listed_and_nothing_changes(site: Site) -> None:
    before = site.worker.run(PARTS)
    run = site.guide.through("--check")
    for words in (f"+{NAME}", f"{NAME} resolves to 127.0.0.1", "kubelet.conf: https://", "ConfigMap kubeadm-config"):
        assert words in run.output, words
    assert site.worker.run(PARTS) == before


def test_endpoint_changes_with_a_short_gap_although_each_step_is_interrupted(
    site: Site, tmp_path: Path, figure: Callable[[str, float], None]
) -> None:
    access = admin_access(site.inventory.control_plane)
    controller, node = tmp_path / "controller.log", tmp_path / "worker.log"
    with (
        GpuPodProber(site.cluster, site.worker, "training") as training,
        ApiProber(access, controller) as outside,
        ApiProber(access, node, site.worker) as inside,
    ):
        outside.wait()
        inside.wait()
        for step in STEPS:
            run = play(site.path, playbook=PLAYBOOK, env={"GPULAB_KILL_AT": step})
            assert run.status == -9, f"{step}: not killed\n{run.tail()}"
            # The former endpoint is valid at each moment.
            assert site.cluster.ready_nodes() == {"cp1", "gpu1"}
        site.guide.through("migrate_endpoint")
        steps, gaps = training.steps(), {kind: outside.gap(kind) for kind in ("list", "write")}
        gaps |= {f"{kind} of a worker": inside.gap(kind) for kind in ("list", "write")}
    for kind, gap in gaps.items():
        figure(f"gap ({kind})", gap.seconds)
    assert (steps.restarts, steps.lost) == (0, 0)
    assert {kind: gap for kind, gap in gaps.items() if gap.seconds > LONGEST_GAP} == {}, gaps


def test_everything_uses_the_name_and_the_address_is_still_valid(site: Site) -> None:
    parts = site.worker.run(PARTS)
    assert f"127.0.0.1 {NAME}" in parts and parts.split()[-2:] == ["active", "inactive"]
    assert kubelet_server(site.worker) == f"https://{NAME}:6443"
    maps = site.cluster.get("configmaps", "--all-namespaces")["items"]
    found = {each["metadata"]["name"]: str(each.get("data")) for each in maps}
    for name in ("kubeadm-config", "cluster-info", "kube-proxy"):
        assert f"{NAME}:6443" in found[name], name
    former = Access.read(site.kept())
    assert former.server == f"https://{site.address}:6443" and former.server_name == NAME


def test_page_describes_what_is_on_the_hosts(site: Site) -> None:
    site.guide.through("getent hosts")
    assert site.guide.left() == []


def test_next_run_changes_nothing(site: Site) -> None:
    play(site.path, playbook=PLAYBOOK).expect_unchanged()
    play(site.path).expect_unchanged()


def test_renamed_inventory_does_not_rename_the_cluster(site: Site) -> None:
    renamed = site.path.with_name("west.ini")
    shutil.copy2(site.path, renamed)
    play(renamed).expect_success()
    assert kubelet_server(site.worker) == f"https://{NAME}:6443"
    assert f"127.0.0.1 {NAME}" in site.worker.run(PARTS)


def test_worker_reaches_the_api_again_after_its_proxy_was_killed_or_its_name_removed(site: Site) -> None:
    site.worker.run(
        "systemctl kill --signal=KILL gpulab-api-endpoint; sleep 3; systemctl is-active gpulab-api-endpoint"
    )
    site.worker.run("sed -i '/gpulab.kubernetes/,/gpulab.kubernetes/d' /etc/hosts")
    play(site.path).expect_success()
    assert f"127.0.0.1 {NAME}" in site.worker.run(PARTS)
    play(site.path).expect_unchanged()


def test_cluster_of_a_former_release_is_restored_when_it_is_lost(site: Site) -> None:
    host, wanted = site.inventory.control_plane, variables(backup_enabled=True)
    play(site.path, *wanted).expect_success()
    play(site.path, *wanted, playbook="playbooks/backup.yml").expect_success()
    archive = backups.fetch(host, site.path.parent)
    backups.destroy(host)
    restored = variables(backup_enabled=True, restore_archive=str(archive), restore_confirm="my")
    play(site.path, *restored, playbook="playbooks/restore.yml").expect_success()
    play(site.path, *wanted).expect_success()
    assert site.cluster.ready_nodes() == {"cp1", "gpu1"}
    assert f"127.0.0.1 {NAME}" in site.worker.run(PARTS)
    play(site.path, *wanted).expect_unchanged()
