# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reports, for the tests of the page: a cluster that is well, one with everything wrong, one with hostile names."""

from __future__ import annotations

import copy
from typing import Any

HOSTILE = "<script>alert(1)</script>\"'><img src=x onerror=alert(2)>{{ 7 * 7 }}"
PINS = {"kubelet": "1.36.4-1.1", "containerd.io": "2.3.6", "nvidia-container-toolkit": "1.20.1"}


def device(index: int, state: str = "proven", **more: Any) -> dict[str, Any]:
    return {
        "uuid": f"GPU-6f2b1c0e-0d0f-4d2c-9f39-0c2f0a8e7a{index:02d}",
        "name": "NVIDIA A100-SXM4-40GB",
        "state": state,
        "index": index,
        "pci_bus_id": f"00000000:{index + 7:02X}:00.0",
        "memory_total_mib": 40960,
        "temperature_c": 34,
        "healthy": True,
        "health": [],
        "mig": [],
        **more,
    }


def xid(number: int, severity: str, what: str, advice: str, over: bool = False) -> dict[str, Any]:
    known = {"xid": number, "severity": severity, "what": what, "advice": advice, "over": over, "count": 2}
    times = {"first": "2026-11-22T00:58:00Z", "last": "2026-11-22T01:00:00Z"}
    return {**known, **times, "pci_bus_id": "00000000:0A:00.0", "message": what}


def matrix(count: int, kind: str) -> dict[str, Any]:
    names = [f"GPU{index}" for index in range(count)]
    return {"gpus": names, "matrix": {a: {b: "X" if a == b else kind for b in names} for a in names}}


def host(*devices: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {
        "inventory_name": "",
        "roles": ["worker"],
        "reachable": True,
        "os": "Debian GNU/Linux 13 (trixie)",
        "gpus": {"expected": len(devices), "proven": len(devices), "in_use": 0},
        "devices": list(devices),
        "labels": {},
        "topology": {},
        "versions": [
            {"component": name, "wanted": wanted, "found": f"{wanted}-1~debian.13~trixie", "drift": False}
            for name, wanted in PINS.items()
        ],
        "certificates": [],
        "problems": [],
        **more,
    }


def paths(*names: str, broken: str = "") -> list[dict[str, Any]]:
    return [{"from": a, "to": b, "ok": broken not in (a, b)} for a in names for b in names if a != b]


def well() -> dict[str, Any]:
    """Three hosts, six GPUs, all proven."""
    certificates = [
        {"name": "apiserver", "expires": "2027-11-21T09:30:00Z", "days_left": 364, "authority": False},
        {"name": "ca", "expires": "2036-11-18T09:30:00Z", "days_left": 3649, "authority": True},
    ]
    return {
        "generated": "2026-11-21T04:00:00Z",
        "observed": "2026-11-22T02:00:00Z",
        "cluster": {"kubernetes_version": "v1.36.4", "endpoint": "https://192.0.2.11:6443"},
        "hosts": {
            "cp1": host(roles=["control_plane"], certificates=certificates),
            "gpu1": host(*map(device, range(4)), topology=matrix(4, "PHB")),
            "gpu2": host(*map(device, range(2)), topology=matrix(2, "NV12")),
        },
        "network": {"pod_to_pod": paths("cp1", "gpu1", "gpu2"), "service": True, "dns": True, "problems": []},
        "isolation": {"gpu1": True, "gpu2": True},
        "totals": {"gpus": 6, "proven": 6, "in_use": 0},
        "checks": ["Test PASSED"],
        "simulated": True,
        "kept": False,
        "problems": [],
        "phases": [
            {"name": "Find everything that is wrong, before anything changes", "seconds": 6.5},
            {"name": "Install the container runtime", "seconds": 41.2},
            {"name": "Make the cluster", "seconds": 72.9},
        ],
        "actions": [],
    }


def ill() -> dict[str, Any]:
    """Every state of a GPU, MIG devices, a host that is gone, drift, certificates that end."""
    report = copy.deepcopy(well())
    slices = [{"profile": profile} for profile in ("3g.20gb", "2g.10gb", "1g.5gb", "1g.5gb")]
    devices = [
        device(0, mig=slices),
        device(1, "in_use", pod="research/train-0"),
        device(2, "missing", reason="the device plugin offers 7 of 8 GPUs"),
        device(
            3, healthy=False, health=["GPU is lost"], state="missing", reason="nvidia-smi does not list it any more"
        ),
        *(device(index) for index in range(4, 8)),
    ]
    shared = {"nvidia.com/gpu.sharing-strategy": "time-slicing", "nvidia.com/gpu.replicas": "4"}
    actions = [
        ("error", "gpu2", "", "Failed to connect to the host via ssh", "See that it is up and reached by SSH."),
        ("error", "gpu1", "GPU-6f2b", "GPU 3 is not well: GPU is lost", "Look at nvidia-smi -q and dmesg."),
        ("warning", "gpu3", "", "containerd.io is 2.2.0-1, 2.3.6 is wanted", "Run site.yml."),
        ("warning", "cp1", "", "certificate apiserver expires in 12 days", "kubeadm certs renew apiserver"),
    ]
    keys = ("severity", "host", "gpu", "what", "do")
    cp1 = report["hosts"]["cp1"]
    cp1["certificates"][0] |= {"days_left": 12}
    cp1["certificates"].append({"name": "admin.conf", "expires": "2026-11-01T00:00:00Z", "days_left": -21})
    xids = [
        xid(79, "critical", "the GPU has fallen off the bus", "Reboot the host."),
        xid(31, "warning", "a program touched memory that isn't its own", "Start it again."),
        xid(48, "critical", "uncorrectable memory error", "Reset it.", over=True),
        xid(45, "info", "a program's work was removed", "Nothing has to be done for it alone."),
    ]
    isolated = {"reason": "GPU 3: GPU is lost", "since": "2026-11-22T01:00:00Z", "policy": "taint"}
    drifted = [{"component": "containerd.io", "wanted": "2.3.6", "found": "2.2.0-1", "drift": True}]
    report["hosts"] |= {
        "gpu1": host(*devices, topology=matrix(8, "NV12"), problems=[{"host": "gpu1", "gpu": "", "cause": "lost"}])
        | {"xids": xids, "isolated": isolated},
        "gpu2": host(*map(device, range(2)), reachable=False, failure="no route to host"),
        "gpu3": host(device(0), device(1, "in_use", pod="a/b"), labels=shared, versions=drifted),
    }
    report |= {
        "totals": {"gpus": 12, "proven": 6, "in_use": 2},
        "network": {"pod_to_pod": paths("cp1", "gpu1", "gpu2", "gpu3", broken="gpu3"), "service": False, "dns": True},
        "actions": [dict(zip(keys, action)) for action in actions],
        "simulated": False,
    }
    return report


def hostile() -> dict[str, Any]:
    """Names that would be markup if they were not escaped, in every place that takes a text from outside."""
    report = ill()
    found: dict[str, Any] = _with(report, HOSTILE)
    found["hosts"] = {f"{name}{HOSTILE}": entry for name, entry in found["hosts"].items()}
    return found


def _with(value: Any, words: str, key: str = "") -> Any:
    if isinstance(value, dict):
        return {name: _with(each, words, name) for name, each in value.items()}
    if isinstance(value, list):
        return [_with(each, words, key) for each in value]
    keep = key in ("state", "severity", "gpus") or not isinstance(value, str) or value.startswith(("NV", "PHB"))
    return value if keep else f"{value}{words}"
