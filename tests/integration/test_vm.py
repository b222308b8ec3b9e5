"""A worker with its own kernel: an emulated virtual machine next to a control plane in a container.

Here kubeadm runs its preflight checks without an ignore list, swap is really turned off, modules are really loaded,
cgroups are version 2, and a reboot is a real one.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from support.cluster import Cluster, condition, gpu_pod
from support.hosts import ROOT, Host, Inventory
from support.lab import Lab, lab_command, running
from support.play import Run, play

from lab.nodes import vm

SPEC = ROOT / "tests" / "integration" / "specs" / "vm.yml"
# Every module starts a Python in an emulated machine.
SLOW = 3600
# On the disk of the root file system, and not in fstab.
SWAP_PARTITION = "/dev/vda2"
# The seconds that a pod needs to save its work, and where.
SAVING, SAVED = 40, "/var/lib/saved"
PERIODS = """
sed -i 's/^shutdownGracePeriod: .*/shutdownGracePeriod: 120s/
        s/^shutdownGracePeriodCriticalPods: .*/shutdownGracePeriodCriticalPods: 20s/' /var/lib/kubelet/config.yaml
test $(grep -c '^shutdownGracePeriod.*0s$' /var/lib/kubelet/config.yaml) = 2
systemctl restart kubelet
"""

if absent := vm.missing():
    pytest.skip(f"QEMU is missing: apt-get install {' '.join(absent)}", allow_module_level=True)


@dataclass(frozen=True)
class Machine:
    """The virtual machine, and the run that made it a node."""

    lab: Lab
    more: Path
    host: Host
    swaps: str
    run: Run

    def again(self, *arguments: str) -> Run:
        return play(self.lab.path, "-i", str(self.more), *arguments, timeout=SLOW)


def swaps(host: Host) -> list[str]:
    return host.run("cat /proc/swaps", SLOW).splitlines()[1:]


@pytest.fixture(scope="module")
def machine() -> Iterator[Machine]:
    with running("vm", SPEC) as lab:
        more = lab.directory / "vm.ini"
        lab_command("vm", "--name", lab.name, "--inventory", str(more))
        both = Inventory.read(lab.path, more)
        host = both.hosts[vm.NODE]
        swaps = host.run("cat /proc/swaps", SLOW)
        run = play(lab.path, "-i", str(more), timeout=SLOW).expect_success()
        yield Machine(lab, more, host, swaps, run)


def test_the_vm_joins_without_an_ignore_list(machine: Machine) -> None:
    variables = machine.host.variables
    assert variables["kubeadm_ignore_preflight_errors"] == []
    assert variables["containerd_cri_settings"] == {}
    assert vm.NODE in Cluster.of(machine.lab.inventory()).ready_nodes()


def test_the_vm_has_its_own_kernel(machine: Machine) -> None:
    assert machine.host.run("uname -r", SLOW) != Path("/proc/sys/kernel/osrelease").read_text()
    assert machine.host.run("stat -f -c %T /sys/fs/cgroup", SLOW).strip() == "cgroup2fs"
    loaded = {line.split()[0] for line in machine.host.run("cat /proc/modules", SLOW).splitlines()}
    assert {"overlay", "br_netfilter", "vxlan"} <= loaded
    switched = "net.ipv4.ip_forward net.bridge.bridge-nf-call-iptables net.bridge.bridge-nf-call-ip6tables"
    assert machine.host.run(f"sysctl -n {switched}", SLOW).split() == ["1", "1", "1"]


def test_swap_of_the_vm_was_turned_off(machine: Machine) -> None:
    assert "/swapfile" in machine.swaps and SWAP_PARTITION not in machine.swaps
    assert swaps(machine.host) == []


def test_a_swap_partition_that_systemd_activates_without_fstab_is_masked(machine: Machine) -> None:
    assert machine.host.run(f"blkid -o value -s TYPE {SWAP_PARTITION}", SLOW).strip() == "swap"
    # systemd names the swap unit after the disk's sequence number.
    device = machine.host.run("readlink -f $(sed -n s/^What=//p /run/systemd/generator.late/*.swap)", SLOW)
    assert device.strip() == SWAP_PARTITION
    assert machine.host.run("systemctl is-enabled swap.target || true", SLOW).strip() == "masked"


def test_the_vms_kernel_serves_and_mounts_nfs(machine: Machine, tmp_path: Path) -> None:
    """The containers next to the VM have no NFS client, so two pods of this node share the claim."""
    group = tmp_path / "server.ini"
    group.write_text(f"[nfs_server]\n{vm.NODE}\n")
    address = machine.host.variables["ansible_host"]
    values = {"cluster_storage": ["nfs_cache"], "nfs_cache_server": address, "nfs_cache_path": "/srv/gpulab"}
    values |= {"nfs_server_clients": [address], "nfs_cache_timeout": SLOW}
    arguments = ["-i", str(machine.more), "-i", str(group), "--limit", vm.NODE, "-e", json.dumps(values)]

    def storage(*more: str) -> Run:
        return play(machine.lab.path, *arguments, *more, playbook="playbooks/storage.yml", timeout=SLOW)

    run = storage().expect_success()
    assert f"/srv/gpulab {address}(rw,sync,no_subtree_check,root_squash)" in run.output
    assert f"another pod on {vm.NODE} read them" in run.output
    assert machine.host.run("stat -c %U /srv/gpulab", SLOW).strip() == "nobody"
    assert address in machine.host.run("exportfs", SLOW)
    storage().expect_unchanged()
    storage("-e", "nfs_cache_state=absent", "-e", "nfs_server_state=absent").expect_success()
    assert machine.host.run("exportfs", SLOW) == ""
    assert machine.host.run("ls -d /srv/gpulab", SLOW).strip() == "/srv/gpulab"


def saving_pod() -> dict[str, Any]:
    """Return a pod that needs a time after SIGTERM to save its work on the node's disk."""
    count = f"i=0; while [ $i -lt {SAVING} ]; do i=$((i+1)); echo $i >/saved/steps; sync; sleep 1; done; exit 0"
    pod = gpu_pod("saving", 0, vm.NODE)
    (container,) = pod["spec"]["containers"]
    container["command"] = ["/bin/sh", "-c", f"trap '{count}' TERM; while true; do sleep 1; done"]
    container["volumeMounts"] = [{"name": "saved", "mountPath": "/saved"}]
    pod["spec"]["volumes"] = [{"name": "saved", "hostPath": {"path": SAVED, "type": "DirectoryOrCreate"}}]
    pod["spec"] |= {"terminationGracePeriodSeconds": 2 * SAVING, "restartPolicy": "Never"}
    return pod


def test_pods_have_time_to_save_before_a_reboot_after_which_the_node_is_ready_again(machine: Machine) -> None:
    """A host with GPUs gets these periods when it joins; this machine has none."""
    cluster = Cluster.of(machine.lab.inventory())
    machine.host.run(PERIODS, SLOW)
    cluster.apply(saving_pod())
    cluster.kubectl("wait", "pod/saving", "--for=condition=Ready", f"--timeout={SLOW}s")
    before = machine.host.run("cat /proc/sys/kernel/random/boot_id", SLOW)
    machine.host.attempt("systemctl reboot", SLOW)
    end = time.monotonic() + SLOW / 3
    now = before
    while now == before:
        assert time.monotonic() < end, "the machine did not come back"
        time.sleep(5)
        done = machine.host.attempt("cat /proc/sys/kernel/random/boot_id", SLOW)
        now = done.stdout if done.returncode == 0 else before
    assert machine.host.run(f"cat {SAVED}/steps", SLOW).strip() == str(SAVING)
    pod = cluster.get("pod", "saving")
    # The kubelet ended it because of the reboot, and it had the time to end without an error.
    assert (pod["status"]["phase"], condition(pod, "DisruptionTarget")) == ("Succeeded", "True")
    cluster.delete_pod("saving")
    assert swaps(machine.host) == []
    assert machine.host.run("systemctl is-active --wait kubelet containerd", SLOW).split() == ["active", "active"]
    while vm.NODE not in cluster.ready_nodes() or cluster.boot_id(vm.NODE) != now.strip():
        assert time.monotonic() < end, "the node did not become Ready again"
        time.sleep(5)


def test_after_a_reboot_a_run_only_repeats_the_verification(machine: Machine) -> None:
    """A verification is valid for one boot of the node."""
    run = machine.again().expect_success()
    assert run.changed_tasks() == {
        "gpulab.kubernetes.acceptance : Verify that pods reach every GPU",
        "gpulab.kubernetes.report : Write the report",
    }
    machine.again().expect_unchanged()
