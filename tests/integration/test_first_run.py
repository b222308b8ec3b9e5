"""The first run of a user: a shipped inventory, an ordinary user on a laptop, a sudo password on the hosts."""

from __future__ import annotations

import json
import re
import stat
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest
from support.cluster import Cluster
from support.hosts import Inventory
from support.lab import Lab, running
from support.laptop import Laptop, laptop, only_ssh
from support.play import Run

SPECS = Path(__file__).parent / "specs"
FIRST_RUN = "/var/lib/gpulab/first-run"


@dataclass(frozen=True)
class Scene:
    """Machines, and the shipped inventory that describes them.

    A scene also tells whether a firewall only lets SSH through to the machines, and which of them has sudo-rs.
    """

    name: str
    shipped: str
    firewall: bool = False
    sudo_rs: str = ""

    @property
    def spec(self) -> Path:
        return SPECS / f"first-run-{self.name}.yml"


SCENES = (
    Scene("three", "three-machines.ini", firewall=True),
    Scene("mirror", "own-mirror", sudo_rs="gpu1"),
    Scene("all-gpus", "three-machines-all-gpus.ini"),
    Scene("single", "single-node.ini"),
)


@dataclass(frozen=True)
class Machines:
    """The machines of a scene, bare until a test uses `first`."""

    scene: Scene
    lab: Lab
    user: Laptop
    path: Path

    def play(self, *arguments: str) -> Run:
        through_ssh = ["--extra-vars", "cluster_api_tunnel=true"] if self.scene.firewall else []
        return self.user.play(self.path, *through_ssh, *arguments)

    def inventory(self) -> Inventory:
        return self.lab.inventory()

    def set_on(self, host: str, setting: str) -> None:
        """Add a variable to a host's line in the inventory."""
        text, found = re.subn(rf"^({host} .*)$", rf"\1 {setting}", self.path.read_text(), flags=re.MULTILINE)
        assert found == 1, text
        self.path.write_text(text)


@pytest.fixture(scope="module", params=SCENES, ids=lambda scene: scene.name)
def machines(request: pytest.FixtureRequest) -> Iterator[Machines]:
    scene: Scene = request.param
    with ExitStack() as stack:
        lab = stack.enter_context(running("first-run", scene.spec))
        user = stack.enter_context(laptop())
        if scene.firewall:
            stack.enter_context(only_ssh(user, lab))
        yield Machines(scene, lab, user, user.inventory(lab, scene.shipped))


def test_if_only_ssh_reaches_the_machines_the_tunnel_is_suggested_before_anything_changes(machines: Machines) -> None:
    if not machines.scene.firewall:
        pytest.skip("everything leads to these machines")
    run = machines.user.play(machines.path)
    assert run.status != 0
    assert run.changed() == set()
    words = run.failures()
    for expected in ("6443", "cluster_api_tunnel"):
        assert expected in words, words


def test_if_sudo_is_sudo_rs_the_original_sudo_is_suggested_before_anything_changes(machines: Machines) -> None:
    host = machines.scene.sudo_rs
    if not host:
        pytest.skip("these machines have the original sudo")
    assert "sudo-rs" in machines.inventory().hosts[host].run("sudo --version")
    run = machines.user.play(machines.path)
    assert run.status != 0
    assert run.changed() == set()
    words = run.failures()
    # Ansible's own message only says that it waited for a prompt.
    for expected in (host, "sudo-rs", "ansible_become_exe=sudo.ws"):
        assert expected in words, words


@pytest.fixture(scope="module")
def first(machines: Machines) -> Run:
    if machines.scene.sudo_rs:
        machines.set_on(machines.scene.sudo_rs, "ansible_become_exe=sudo.ws")
    return machines.play().expect_success()


@pytest.mark.usefixtures("first")
def test_every_gpu_is_verified_by_a_pod(machines: Machines) -> None:
    expected = machines.inventory().expected_gpus()
    assert json.loads(machines.user.report.read_text())["totals"]["proven"] == sum(expected.values())
    assert Cluster.of(machines.inventory()).allocatable_gpus() == expected


@pytest.mark.usefixtures("first")
def test_all_gpu_hosts_get_the_same_driver_version(machines: Machines) -> None:
    hosts = [machines.inventory().hosts[name] for name in machines.inventory().expected_gpus()]
    loaded = {host.run("sed -n 's/^NVRM.* \\([0-9.]*[0-9]\\) .*/\\1/p' /proc/driver/nvidia/version") for host in hosts}
    assert len(loaded) == 1


def test_the_run_ends_with_a_private_kubeconfig_and_the_next_steps(machines: Machines, first: Run) -> None:
    kept = machines.path.with_name(f"{machines.path.stem}-admin.conf")
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    address = machines.inventory().control_plane.run("hostname -I").split()
    assert any(f"server: https://{each}:6443" in kept.read_text() for each in address)
    for words in (f"kubeconfig is {kept}", "get nodes", f"gpulab.kubernetes.verify -i {machines.path}"):
        assert words in first.output


@pytest.mark.usefixtures("first")
def test_nothing_ran_as_root_on_the_laptop(machines: Machines) -> None:
    assert machines.user.files_of_others() == []


@pytest.mark.usefixtures("first")
def test_original_state_of_each_host_is_recorded(machines: Machines) -> None:
    for host, text in records(machines).items():
        entries = [json.loads(line) for line in text.splitlines()]
        before = {(entry["kind"], entry["name"]): entry["before"] for entry in entries}
        assert len(before) == len(entries), host
        assert before["package", "kubelet"] is None and before["file", "/etc/containerd/config.toml"] is None
        assert before["file", "/etc/fstab"]["mode"] == "0644"
        # The lab's machines have swap, which the run turns off.
        run = machines.inventory().hosts[host].run
        assert re.search(r"^/\S+ none swap ", run(f"cat {FIRST_RUN}/files/etc/fstab"), flags=re.MULTILINE)
        assert run(f"stat --format=%a {FIRST_RUN} {FIRST_RUN}/record.jsonl").split() == ["700", "600"]


def records(machines: Machines) -> dict[str, str]:
    return {name: host.run(f"cat {FIRST_RUN}/record.jsonl") for name, host in machines.inventory().hosts.items()}


@pytest.mark.usefixtures("first")
def test_a_second_run_changes_nothing(machines: Machines) -> None:
    before = records(machines)
    machines.play().expect_unchanged()
    assert records(machines) == before
