"""The hosts of a cluster that is reset are as they were before its first run."""

from __future__ import annotations

import re
import shlex
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from support.cluster import Cluster
from support.footprint import Footprint
from support.guides import Checkout, Guide
from support.hosts import Host, Inventory
from support.lab import lab_command, running
from support.play import Run, play, variables

SPEC = Path(__file__).parent / "specs" / "one-worker.yml"
RESET = "playbooks/reset.yml"
# Differences that stay, as patterns of their lines, with the reason.
REASONS = {
    "files: /etc/(passwd|g?shadow|group)-?:": "users and groups of packages, which dpkg does not remove",
    "files: /etc/ld.so.cache": "the order of libraries",
    "files: /var/lib/apt/(extended_states|periodic)": "apt's own records",
    "files: /var/lib/systemd": "times of timers, and the random seed",
    "files: /var/lib/gpulab": "backups",
    "files: /var/lib/containerd": "a disk of its own, whose permissions containerd has changed",
    "files: /usr/lib/modules/": "an empty directory of DKMS",
    "units: network-online.target": "of systemd, started for the kubelet",
}
# The most lines of a host that have a reason.
MOST = 10
# Of this test's kubectl, of Ansible, and of the simulated GPUs, which keep their state there.
OF_THE_TEST = "/root/.kube /root/.ansible /home/gpulab/.ansible /var/lib/nvidia-simulated"
NO_REMOVAL = """#!/bin/sh
case " $* " in *" -s "*) exec /usr/bin/apt-get "$@";; esac
exit 1
"""


@dataclass(frozen=True)
class Site:
    """A cluster, what its hosts had before, and how long its first run took."""

    inventory: Inventory
    checkout: Checkout
    before: dict[str, Footprint]
    seconds: float

    @property
    def path(self) -> Path:
        return self.checkout.path / "my.ini"

    @property
    def hosts(self) -> dict[str, Host]:
        return self.inventory.hosts

    def reset(self, *options: str, **further: object) -> Run:
        return play(self.path, *variables(reset_confirm="my", **further), *options, playbook=RESET)

    def set_up(self) -> float:
        begun = time.monotonic()
        play(self.path).expect_success()
        return time.monotonic() - begun

    def expect_as_before(self) -> None:
        """Assert that nothing differs from before the first run but what has a reason."""
        known = re.compile("|".join(REASONS))
        for name, host in self.hosts.items():
            host.run(f"rm -rf {OF_THE_TEST}")
            lines = self.before[name].difference(Footprint.take(host))
            left = [line for line in lines if not known.match(line)]
            assert not left, "\n".join([name, *left])
            assert len(lines) <= MOST, "\n".join([name, *lines])


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    lab_command("build", "--with", "etcd")
    with running("reset", SPEC) as lab:
        inventory = lab.inventory()
        checkout = Checkout(lab.directory / "checkout", replacing={"reset_confirm=lab": "reset_confirm=my"})
        checkout.fill()
        (checkout.path / "my.ini").write_text(lab.path.read_text())
        before = {name: Footprint.take(host) for name, host in inventory.hosts.items()}
        made = Site(inventory, checkout, before, 0)
        yield replace(made, seconds=made.set_up())


def test_commands_of_the_guide_leave_no_trace(site: Site) -> None:
    guide = Guide("uninstall.md", site.checkout)
    preview = guide.through("--check --diff").expect_success()
    assert "remove package kubelet" in preview.output
    guide.through("reset_confirm").expect_success()
    assert guide.left() == []
    site.expect_as_before()


def test_second_reset_changes_nothing(site: Site) -> None:
    site.reset().expect_unchanged()
    site.expect_as_before()


def test_cluster_is_set_up_again_as_quickly(site: Site, figure: Callable[[str, float], None]) -> None:
    seconds = site.set_up()
    figure("site.yml after a reset, in seconds", seconds)
    assert seconds <= site.seconds * 1.1
    assert Cluster.of(site.inventory).ready_nodes() == set(site.hosts)


def test_host_that_is_still_a_node_is_refused(site: Site) -> None:
    run = site.reset("--limit", "gpu1,localhost")
    assert run.status != 0 and "gpu1 is still a node of the cluster. First run" in run.words
    assert Cluster.of(site.inventory).ready_nodes() == set(site.hosts)


def test_reset_works_with_a_dead_etcd_and_after_an_interruption(site: Site) -> None:
    site.hosts["cp1"].run("mv /etc/kubernetes/manifests/etcd.yaml /root/ && sleep 30")
    refused = site.reset()
    assert refused.status != 0 and "add -e reset_last_etcd_copy=lose" in refused.words
    site.hosts["cp1"].run("mv /root/etcd.yaml /var/tmp/")
    # As if the first reset had been killed on the worker, where it would remove the packages.
    program = "/usr/local/bin/apt-get"
    site.hosts["gpu1"].run(f"printf %s {shlex.quote(NO_REMOVAL)} >{program} && chmod +x {program}")
    assert site.reset(reset_last_etcd_copy="lose").status != 0
    site.hosts["gpu1"].run("test -e /var/lib/gpulab/reset.json && rm /usr/local/bin/apt-get")
    site.reset(reset_last_etcd_copy="lose").expect_success()
    site.hosts["cp1"].run("rm /var/tmp/etcd.yaml")
    site.expect_as_before()
