"""One control plane becomes three and one again, each machine loses its power, and the first one is replaced.

etcd's heartbeat is 250 ms and its election timeout 2.5 s here (specs/control-planes.yml).
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml
from support.api_prober import KINDS, ApiProber, admin_access, kubelet_server
from support.backups import fetch
from support.cluster import Cluster
from support.gpu_pod_prober import GpuPodProber
from support.guides import Checkout, Guide
from support.hosts import Host
from support.lab import Lab, lab_command, running
from support.play import play, variables

SPEC = Path(__file__).parent / "specs" / "control-planes.yml"
TIMING = "heartbeat 250 ms, election 2.5 s"
CONTROL_PLANES = ("cp1", "cp2", "cp3")
NAME = "api.my.internal"
# The most that still counts as done, in seconds.
GAP, FAILOVER, BACK, REPLACEMENT = 3, 10, 180, 300
_PKI = "/etc/kubernetes/pki/etcd"
ETCDCTL = (
    f"/usr/local/lib/gpulab/etcd-*/etcdctl --cacert={_PKI}/ca.crt --cert={_PKI}/server.crt --key={_PKI}/server.key"
)
READY = "kubectl --kubeconfig=/etc/kubernetes/controller-manager.conf get --raw=/readyz"
# What changes on the controller if another control plane answers, and other hosts are verified.
KEPT = {
    "gpulab.kubernetes.cluster_api : Keep a copy of the kubeconfig on the controller",
    "gpulab.kubernetes.acceptance : Verify that pods reach every GPU",
    "gpulab.kubernetes.report : Write the report",
}
REPLACE, REMOVE = "playbooks/replace_node.yml", "playbooks/remove_node.yml"
Figure = Callable[[str, float], None]


@dataclass(frozen=True)
class Site:
    lab: Lab
    guide: Guide
    hosts: dict[str, Host]

    @property
    def path(self) -> Path:
        return self.guide.checkout.path / "my.ini"

    @property
    def cluster(self) -> Cluster:
        return self.through("cp1")

    def through(self, control_plane: str) -> Cluster:
        return Cluster(self.hosts[control_plane])

    @property
    def worker(self) -> Host:
        return self.hosts["gpu1"]

    def consists_of(self, *control_planes: str, workers: Sequence[str] = ("gpu1",)) -> None:
        """Write the inventory with these hosts in its groups."""
        text = self.lab.path.read_text()
        for group, names in (("control_plane", control_planes), ("workers", workers)):
            section = "\n".join([f"[{group}]", *names, ""])
            text, count = re.subn(rf"^\[{group}\]\n(?:[\w-]+\n)*", section, text, flags=re.MULTILINE)
            assert count == 1, group
        unused = {*self.hosts} - {*control_planes, *workers}
        text = "".join(line for line in text.splitlines(keepends=True) if line.split(" ")[0] not in unused)
        self.path.write_text(text)
        self.path.chmod(0o600)

    def put(self, machine: str, name: str) -> None:
        """Let another machine be the host ``name``."""
        lines = self.path.read_text().splitlines()
        (new,) = [line for line in self.lab.path.read_text().splitlines() if line.startswith(f"{machine} ")]
        new = f"{new.replace(machine, name, 1)} cluster_node_name={name}"
        changed = [new if line.startswith(f"{name} ") else line for line in lines]
        assert changed != lines
        self.path.write_text("\n".join(changed) + "\n")

    def members(self, through: str) -> list[dict[str, Any]]:
        """Return the members of etcd as a control plane has them."""
        found = self.hosts[through].run(f"{ETCDCTL} member list --write-out=json")
        listed: list[dict[str, Any]] = json.loads(found)["members"]
        return listed

    def power_off(self, name: str) -> None:
        lab_command("power-cut", "--name", self.lab.name, "--off", name)

    def power_on(self) -> None:
        lab_command("up", "--name", self.lab.name, "--spec", str(SPEC), "--inventory", str(self.lab.path))

    def wait_for(self, *nodes: str) -> None:
        """Wait until control planes are back. A node that was lost for a moment only is ready all the time."""
        end = time.monotonic() + BACK
        for name in nodes:
            while self.hosts[name].attempt(f"{ETCDCTL} endpoint health --cluster && {READY}").returncode:
                assert time.monotonic() < end, f"etcd or the API of {name} does not work within {BACK} s"
                time.sleep(2)
        ready: set[str] = set()
        while not {*nodes} <= ready:
            assert time.monotonic() < end, f"not ready within {BACK} s: {nodes}"
            time.sleep(2)
            with suppress(AssertionError):
                ready = self.cluster.ready_nodes()

    def wait_until_lost(self, node: str, through: str) -> None:
        end = time.monotonic() + BACK
        while node in self.through(through).ready_nodes():
            assert time.monotonic() < end, f"{node} is still ready after {BACK} s"
            time.sleep(2)


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    lab_command("build", "--with", "etcd")
    with running("control-planes", SPEC) as lab:
        inventory = lab.inventory()
        checkout = Checkout(lab.directory / "checkout", host=inventory.hosts["gpu1"])
        checkout.fill()
        made = Site(lab, Guide("control-planes.md", checkout), inventory.hosts)
        made.consists_of("cp1")
        play(made.path).expect_success()
        yield made


def inside(site: Site, log: Path) -> ApiProber:
    """Return a prober that reaches the API as the kubelet of the worker does."""
    access = admin_access(site.hosts["cp1"]).through(kubelet_server(site.worker))
    return ApiProber(access, log, site.worker)


def test_two_control_planes_are_refused(site: Site) -> None:
    site.consists_of("cp1", "cp2")
    run = play(site.path)
    assert run.status != 0 and "must contain 1, 3 or 5 hosts, but it has 2 (cp1, cp2)" in run.words


def test_one_becomes_three_while_the_api_answers(site: Site, tmp_path: Path, figure: Figure) -> None:
    site.consists_of(*CONTROL_PLANES)
    with (
        GpuPodProber(site.cluster, site.worker, "training") as training,
        ApiProber(admin_access(site.hosts["cp1"]), tmp_path / "controller.log") as outside,
        inside(site, tmp_path / "worker.log") as nodes,
    ):
        outside.wait()
        nodes.wait()
        site.guide.through("gpulab.kubernetes.plan")
        # Interrupted when the second one has joined, but nothing knows it yet.
        step = "gpulab.kubernetes.kubeadm : Wait until the control plane is healthy"
        run = play(site.path, env={"GPULAB_KILL_AT": step})
        assert run.status == -9, run.tail()
        site.guide.through("gpulab.kubernetes.site")
        steps = training.steps()
        gaps = {kind: outside.gap(kind) for kind in KINDS} | {f"{kind} of a worker": nodes.gap(kind) for kind in KINDS}
    for kind, gap in gaps.items():
        figure(f"gap ({kind}; {TIMING})", gap.seconds)
    assert (steps.restarts, steps.lost) == (0, 0)
    assert {kind: gap for kind, gap in gaps.items() if gap.seconds > GAP} == {}, gaps


def test_all_three_vote_and_nothing_is_left(site: Site) -> None:
    members = site.members("cp2")
    assert {each["name"] for each in members} == {*CONTROL_PLANES}
    assert not any(each.get("isLearner") for each in members)
    assert site.cluster.ready_nodes() >= {*CONTROL_PLANES, "gpu1"}
    secrets = site.cluster.get("secrets", "-n", "kube-system")["items"]
    assert "kubeadm-certs" not in {each["metadata"]["name"] for each in secrets}
    keys = "cat /etc/kubernetes/pki/ca.key /etc/kubernetes/pki/sa.key /etc/kubernetes/pki/etcd/ca.key | sha256sum"
    assert len({site.hosts[name].run(keys) for name in CONTROL_PLANES}) == 1
    for name in CONTROL_PLANES:
        host = site.hosts[name]
        assert host.run("stat -c %a /etc/kubernetes/pki/ca.key").strip() == "600"
        assert host.run(f"getent hosts {NAME}").split() == ["127.0.0.1", NAME]
        assert host.run("ls /run/gpulab/kubeadm* /var/lib/gpulab/kubeadm-join.json 2>/dev/null || true") == ""
        assert host.run("systemctl is-active gpulab-backup.timer").strip() == "active"


def test_workers_and_administrators_reach_all_of_them(site: Site) -> None:
    proxied = site.worker.run("cat /etc/gpulab/api-endpoint/haproxy.cfg")
    addresses = [str(site.hosts[name].variables["ansible_host"]) for name in CONTROL_PLANES]
    assert all(f"{address}:6443 check" in proxied for address in addresses)
    kept = yaml.safe_load(site.path.with_name("my-admin.conf").read_text())
    assert {each["name"] for each in kept["contexts"]} == {f"kubernetes-admin@{name}" for name in CONTROL_PLANES}
    site.guide.through("get-contexts")
    assert site.guide.left() == []


def test_a_second_run_changes_nothing(site: Site) -> None:
    play(site.path).expect_unchanged()


@pytest.mark.parametrize("name", CONTROL_PLANES)
@pytest.mark.parametrize("loss", [1, 2, 3])
def test_the_api_survives_the_loss_of_any_machine(
    site: Site, name: str, loss: int, tmp_path: Path, figure: Figure
) -> None:
    other = site.through("cp2" if name == "cp1" else "cp1")
    with GpuPodProber(other, site.worker, "training") as training, inside(site, tmp_path / "log") as prober:
        prober.wait()
        site.power_off(name)
        time.sleep(2 * FAILOVER)
        steps = training.steps()
    # Not before: they come over SSH, which can stall when the lab's bridge loses a port, and with it its address.
    gaps = {kind: prober.gap(kind) for kind in KINDS}
    site.power_on()
    site.wait_for(*CONTROL_PLANES)
    for kind, gap in gaps.items():
        figure(f"{name} lost ({loss}), gap ({kind}; {TIMING})", gap.seconds)
    assert (steps.restarts, steps.lost) == (0, 0)
    assert {kind: gap for kind, gap in gaps.items() if gap.seconds > FAILOVER} == {}, gaps


def test_a_run_works_without_the_first_control_plane(site: Site) -> None:
    site.power_off("cp1")
    play(site.path, "--limit", "!cp1").expect_success()
    site.power_on()
    site.wait_for(*CONTROL_PLANES)
    again = play(site.path).expect_success()
    assert again.changed_tasks() <= KEPT, again.changed()
    play(site.path).expect_unchanged()


def test_the_machine_of_a_node_that_runs_is_not_replaced(site: Site) -> None:
    run = play(site.path, *variables(node="cp1"), "--check", playbook=REPLACE).expect_success()
    assert "cp1: the machine that answers is that of the node, so nothing is removed" in run.words
    site.put("spare", "cp1")
    run = play(site.path, *variables(node="cp1"), playbook=REPLACE)
    assert run.status != 0 and "the former machine is still running: cp1 is healthy. Switch it off" in run.failures()
    assert len(site.members("cp2")) == len(CONTROL_PLANES)


def test_the_first_control_plane_is_replaced(site: Site, tmp_path: Path, figure: Figure) -> None:
    former = {each["ID"] for each in site.members("cp2")}
    with (
        GpuPodProber(site.through("cp2"), site.worker, "training") as training,
        inside(site, tmp_path / "log") as prober,
    ):
        prober.wait()
        # As if its disk were erased: the lab starts the machine again later.
        site.hosts["cp1"].run("systemctl disable kubelet && sync")
        site.power_off("cp1")
        site.wait_until_lost("cp1", "cp2")
        run = play(site.path)
        assert run.status != 0 and "a node cp1 (NotReady) of another machine" in run.failures()
        step = "gpulab.kubernetes.remove_node : Delete the node"
        run = play(site.path, *variables(node="cp1"), playbook=REPLACE, env={"GPULAB_KILL_AT": step})
        assert run.status == -9, run.tail()
        begun = time.monotonic()
        play(site.path, *variables(node="cp1"), playbook=REPLACE).expect_success()
        seconds = time.monotonic() - begun
        steps, gap = training.steps(), prober.gap("write")
    figure("replacement of the first control plane, in seconds", seconds)
    figure(f"gap (write) with a loss and its replacement ({TIMING})", gap.seconds)
    members = site.members("cp2")
    assert {each["name"] for each in members} == {*CONTROL_PLANES} and not any(
        each.get("isLearner") for each in members
    )
    assert len(former & {each["ID"] for each in members}) == len(former) - 1
    assert (steps.restarts, steps.lost) == (0, 0)
    assert seconds <= REPLACEMENT and gap.seconds <= FAILOVER
    play(site.path).expect_unchanged()


def test_two_of_three_are_lost(site: Site, tmp_path: Path) -> None:
    play(site.path, playbook="playbooks/backup.yml").expect_success()
    archive = fetch(site.hosts["cp3"], tmp_path)
    for name in ("cp2", "cp3"):
        site.power_off(name)
    site.consists_of("cp1")
    site.put("spare", "cp1")
    options = variables(restore_archive=str(archive), restore_confirm="my")
    play(site.path, *options, playbook="playbooks/restore.yml").expect_success()
    play(site.path).expect_success()
    site.consists_of(*CONTROL_PLANES)
    site.put("spare", "cp1")
    run = play(site.path, *variables(node="cp2,cp3"), playbook=REMOVE).expect_success()
    assert "cp3 was deleted in the cluster but not reset: its host does not answer." in run.words
    assert site.through("spare").ready_nodes() == {"cp1", "gpu1"} and len(site.members("spare")) == 1
    site.power_on()
    run = play(site.path, *variables(node="cp2,cp3"), playbook=REMOVE).expect_success()
    assert "cp3 was removed from the cluster, and its host was reset." in run.words
    play(site.path).expect_success()
    assert {each["name"] for each in site.members("spare")} == {*CONTROL_PLANES}


def test_three_become_one(site: Site) -> None:
    run = play(site.path, *variables(node="cp2,cp3"), playbook=REMOVE).expect_success()
    assert "cp3 was removed from the cluster, and its host was reset." in run.words
    assert site.through("spare").ready_nodes() == {"cp1", "gpu1"}
    site.consists_of("cp1")
    site.put("spare", "cp1")
    play(site.path).expect_success()
    play(site.path).expect_unchanged()
    proxied = site.worker.run("cat /etc/gpulab/api-endpoint/haproxy.cfg")
    assert [name for name in ("cp2", "cp3") if f"{site.hosts[name].variables['ansible_host']}:" in proxied] == []
