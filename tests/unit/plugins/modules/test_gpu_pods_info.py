# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpulab.kubernetes.plugins.module_utils._nvidia.kubelet_devices import Pod, held

TRAIN = "0f1f2a5e-3f61-4e3e-8a51-6b0f2b1a9d10"
DONE = "aaaaaaaa-3f61-4e3e-8a51-6b0f2b1a9d10"


def entry(uid: str, resource: str, devices: Any) -> dict[str, Any]:
    return {"PodUID": uid, "ContainerName": "c", "ResourceName": resource, "DeviceIDs": devices, "AllocResp": ""}


class Host:
    def __init__(self, root: Path, run: Any) -> None:
        self.root = root
        self._run = run
        for name in ("kubelet/device-plugins", "proc", "pods"):
            (root / name).mkdir(parents=True)
        self.checkpoint = root / "kubelet/device-plugins/kubelet_internal_checkpoint"

    def allocate(self, *entries: dict[str, Any]) -> None:
        self.checkpoint.write_text(json.dumps({"Data": {"PodDeviceEntries": list(entries)}, "Checksum": 1}))

    def claim(self, *claims: dict[str, Any]) -> None:
        kind = {"kind": "DRACheckpoint", "apiVersion": "checkpoint.dra.kubelet.k8s.io/v1"}
        data = json.dumps({**kind, "ClaimInfoStateList": list(claims)})
        (self.root / "kubelet/dra_manager_state").write_text(json.dumps({"Data": data, "Checksum": 1}))

    def process(self, pid: int, cgroup: str) -> None:
        (self.root / f"proc/{pid}").mkdir()
        (self.root / f"proc/{pid}/cgroup").write_text(cgroup)

    def run(self, timeout: float = 0) -> dict[str, Any]:
        args = {
            "timeout": timeout,
            "kubelet_root": str(self.root / "kubelet"),
            "proc": str(self.root / "proc"),
            "pod_logs": str(self.root / "pods"),
        }
        result: dict[str, Any] = self._run("gpu_pods_info", args)
        return result


@pytest.fixture
def host(tmp_path: Path, run_module: Any) -> Host:
    return Host(tmp_path / "host", run_module)


def test_a_host_without_a_kubelet_has_no_pods(host: Host) -> None:
    assert host.run()["pods"] == []


@pytest.mark.parametrize(("ends_after", "left"), [(0.3, 0), (60, 1)])
def test_the_last_processes_of_a_pod_are_waited_for(host: Host, ends_after: float, left: int) -> None:
    host.allocate(entry(TRAIN, "nvidia.com/gpu", {"0": ["GPU-1"]}))
    host.process(10, f"0::/kubepods.slice/kubepods-pod{TRAIN.replace('-', '_')}.slice\n")
    timer = threading.Timer(ends_after, (host.root / "proc/10/cgroup").unlink)
    timer.start()
    assert len(host.run(timeout=1 if left else 20)["pods"]) == left
    timer.cancel()


def test_only_running_pods_with_gpus_are_returned(host: Host) -> None:
    host.allocate(
        entry(TRAIN, "nvidia.com/gpu", {"-1": ["GPU-2"], "0": ["GPU-1"]}),
        entry(TRAIN, "nvidia.com/mig-1g.5gb", {"0": ["MIG-1"]}),
        entry(DONE, "nvidia.com/gpu", {"-1": ["GPU-3"]}),
        entry("bbbbbbbb-3f61-4e3e-8a51-6b0f2b1a9d10", "example.com/nic", {"-1": ["nic0"]}),
    )
    (host.root / f"pods/research_train-0_{TRAIN}").mkdir()
    slice_name = TRAIN.replace("-", "_")
    host.process(10, f"0::/kubepods.slice/kubepods-pod{slice_name}.slice/cri-containerd-abc.scope\n")
    host.process(11, "0::/system.slice/sshd.service\n")
    pods = host.run()["pods"]
    assert [(pod["namespace"], pod["name"]) for pod in pods] == [("research", "train-0")]
    assert pods[0]["devices"] == ["GPU-1", "GPU-2", "MIG-1"]
    assert pods[0]["resources"] == ["nvidia.com/gpu", "nvidia.com/mig-1g.5gb"]
    assert pods[0]["empty_dirs"] == []
    for volume in ("empty-dir/scratch", "empty-dir/cache", "projected/token"):
        (host.root / f"kubelet/pods/{TRAIN}/volumes/kubernetes.io~{volume}").mkdir(parents=True)
    assert host.run()["pods"][0]["empty_dirs"] == ["cache", "scratch"]


@pytest.mark.parametrize(
    "cgroup",
    [
        f"12:memory:/kubepods/besteffort/pod{TRAIN}/abc\n1:name=systemd:/kubepods/besteffort/pod{TRAIN}/abc\n",
        f"0::/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{TRAIN.replace('-', '_')}.slice\n",
    ],
)
def test_both_cgroup_drivers_are_supported(host: Host, cgroup: str) -> None:
    host.allocate(entry(TRAIN, "nvidia.com/gpu", {"-1": ["GPU-1"]}))
    host.process(10, cgroup)
    assert [pod["uid"] for pod in host.run()["pods"]] == [TRAIN]


@pytest.mark.parametrize("text", ["", "[]", "[" * 100_000, '{"Data": {"PodDeviceEntries": [{"PodUID": 1}]}}'])
def test_an_unreadable_record_is_an_error(host: Host, text: str) -> None:
    host.checkpoint.write_text(text)
    result = host.run()
    assert result["failed"] and "record of devices" in result["msg"]


def claimed(uid: str, driver: str = "gpu.nvidia.com", *devices: str) -> dict[str, Any]:
    """Return a claim in the kubelet's checkpoint of Kubernetes 1.36 (pkg/kubelet/cm/dra/state)."""
    given = [
        {"PoolName": "gpu1", "DeviceName": name, "ShareID": None, "RequestNames": ["gpu"], "CDIDeviceIDs": None}
        for name in devices
    ]
    state = {driver: {"Devices": given or None}}
    return {"ClaimUID": "c", "ClaimName": "c", "Namespace": "team", "PodUIDs": {uid: {}}, "DriverState": state}


def test_pods_that_hold_gpus_through_claims_are_returned(host: Host) -> None:
    other = "bbbbbbbb-3f61-4e3e-8a51-6b0f2b1a9d10"
    channels = "cccccccc-3f61-4e3e-8a51-6b0f2b1a9d10"
    host.allocate(entry(other, "nvidia.com/gpu", {"-1": ["GPU-1"]}))
    host.claim(
        claimed(TRAIN, "gpu.nvidia.com", "gpu-0"),
        claimed(other),
        claimed(DONE, "gpu.nvidia.com", "gpu-2"),
        claimed(channels, "compute-domain.nvidia.com", "channel-0"),
    )
    (host.root / f"pods/research_train-0_{TRAIN}").mkdir()
    for pid, uid in enumerate((TRAIN, other, channels), 10):
        host.process(pid, f"0::/kubepods.slice/kubepods-pod{uid.replace('-', '_')}.slice\n")
    pods = host.run()["pods"]
    assert [(pod["name"], pod["devices"], pod["resources"]) for pod in pods] == [
        ("train-0", ["gpu.nvidia.com/gpu1/gpu-0"], ["gpu.nvidia.com"]),
        ("", ["GPU-1"], ["gpu.nvidia.com", "nvidia.com/gpu"]),
    ]
    # A node that only offers GPUs by DRA may have no record of plugins.
    host.checkpoint.unlink()
    assert [pod["uid"] for pod in host.run()["pods"]] == [TRAIN, other]


def test_a_device_of_a_claim_has_no_uuid() -> None:
    pods = [Pod(TRAIN, "research", "train-0", ["GPU-1", "gpu.nvidia.com/gpu1/gpu-0"])]
    assert held(pods) == {"GPU-1": "research/train-0"}


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"Data": 7}', '{"Data": "7"}', json.dumps({"Data": '{"ClaimInfoStateList": [7]}'})]
)
def test_an_unreadable_record_of_claims_is_an_error(host: Host, text: str) -> None:
    (host.root / "kubelet/dra_manager_state").write_text(text)
    result = host.run()
    assert result["failed"] and "record of claims" in result["msg"]


@pytest.mark.parametrize(
    "text",
    [
        '{"Data": "{\\"kind\\": \\"DRACheckpoint\\", \\"ClaimInfoStateList\\": null}", "Checksum": 1}',
        '{"version": "v1", "entries": [{"DriverName": "gpu.nvidia.com"}], "checksum": 1}',
    ],
    ids=["empty", "of Kubernetes 1.31"],
)
def test_a_record_may_contain_no_claims(host: Host, text: str) -> None:
    (host.root / "kubelet/dra_manager_state").write_text(text)
    assert host.run()["pods"] == []


def test_an_empty_record_means_no_pods(host: Host) -> None:
    host.checkpoint.write_text('{"Data": {"PodDeviceEntries": null, "RegisteredDevices": {}}, "Checksum": 2}')
    assert host.run()["pods"] == []
