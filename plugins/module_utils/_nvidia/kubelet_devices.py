# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Find the pods that hold GPUs on this host, from the kubelet's files and the kernel, without an API.

The kubelet records devices of plugins in ``device-plugins/kubelet_internal_checkpoint`` and devices of claims in
``dra_manager_state``. It removes a pod from them only some time after the pod's end, so a pod only counts if a process
exists in its cgroup.
"""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .._cluster.dra import DRIVER
from .._errors import DomainError
from .._json import as_object, as_objects, needed_text, read_object

_CHECKPOINT = "device-plugins/kubelet_internal_checkpoint"
# Source: https://github.com/kubernetes/kubernetes/blob/master/pkg/kubelet/cm/dra/state/checkpoint.go
_CLAIMS = "dra_manager_state"
_EMPTY_DIRS = "volumes/kubernetes.io~empty-dir"
_POD_CGROUP = re.compile(r"pod([0-9a-f]{8}(?:[-_][0-9a-f]{4}){3}[-_][0-9a-f]{12}|[0-9a-f]{32})")


@dataclass
class Pod:
    """A pod with GPUs; ``devices`` are the plugin's ids, such as GPU UUIDs.

    ``namespace`` and ``name`` are empty if the kubelet's logs are gone. A device of a claim is ``DRIVER/POOL/DEVICE``,
    its resource is the driver. ``empty_dirs`` names the pod's emptyDir volumes, which are deleted with the pod.
    """

    uid: str
    namespace: str = ""
    name: str = ""
    devices: list[str] = field(default_factory=list)
    resources: list[str] = field(default_factory=list)
    empty_dirs: list[str] = field(default_factory=list)


def parse_checkpoint(text: str, prefix: str = "nvidia.com/") -> list[Pod]:
    """Return pods with devices of resources with this prefix, sorted by uid. Raise DomainError for other text."""
    try:
        entries = (json.loads(text).get("Data") or {}).get("PodDeviceEntries") or []
        pods: dict[str, Pod] = {}
        for entry in entries:
            if entry["ResourceName"].startswith(prefix):
                pod = pods.setdefault(entry["PodUID"], Pod(entry["PodUID"]))
                pod.devices = sorted({*pod.devices, *_ids(entry["DeviceIDs"])})
                pod.resources = sorted({*pod.resources, entry["ResourceName"]})
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise DomainError(f"Error while reading the kubelet's record of devices: {error!r}") from error
    return [pods[uid] for uid in sorted(pods)]


def parse_claims(text: str) -> list[Pod]:
    """Return pods with claims for devices of NVIDIA's DRA driver, sorted by uid. Raise DomainError for other text."""
    what = "the kubelet's record of claims"
    record = read_object(text, what)
    # Up to Kubernetes 1.31 the record had another format, for an API version that is not supported.
    if "Data" not in record and "entries" in record:
        return []
    pods: dict[str, Pod] = {}
    for claim in as_objects(read_object(needed_text(record, "Data", what), what).get("ClaimInfoStateList"), what):
        drivers = as_object(claim.get("DriverState") or {}, what)
        if DRIVER not in drivers:
            continue
        given = as_objects(as_object(drivers[DRIVER] or {}, what).get("Devices"), what)
        devices = {f"{DRIVER}/{each.get('PoolName')}/{each.get('DeviceName')}" for each in given}
        for uid in as_object(claim.get("PodUIDs") or {}, what):
            pod = pods.setdefault(uid, Pod(uid, resources=[DRIVER]))
            pod.devices = sorted({*pod.devices, *devices})
    return [pods[uid] for uid in sorted(pods)]


def held(pods: Iterable[Pod]) -> dict[str, str]:
    """Return device -> ``namespace/name`` of the pod that holds it, if the name is known.

    Devices of claims are omitted; the kubelet does not record their UUIDs.
    """
    return {
        device: f"{pod.namespace}/{pod.name}"
        for pod in pods
        if pod.name
        for device in pod.devices
        if not device.startswith(f"{DRIVER}/")
    }


def _ids(devices: Any) -> Iterable[str]:
    # Grouped by NUMA node since Kubernetes 1.20.
    if isinstance(devices, dict):
        return [str(item) for ids in devices.values() for item in ids]
    return [str(item) for item in devices]


def pods_of_cgroup(text: str) -> set[str]:
    """Return the pod uids in a ``/proc/PID/cgroup``. The systemd cgroup driver writes ``_`` instead of ``-``."""
    return {match.replace("_", "-") for match in _POD_CGROUP.findall(text)}


def parse_log_directory(name: str) -> tuple[str, str, str] | None:
    """Return (uid, namespace, name) from a directory name in /var/log/pods, ``NAMESPACE_NAME_UID``."""
    parts = name.split("_")
    return (parts[2], parts[0], parts[1]) if len(parts) == 3 else None


def running_pods(proc: Path) -> set[str]:
    found: set[str] = set()
    for entry in proc.iterdir():
        if entry.name.isdigit():
            # The process may have exited.
            with contextlib.suppress(OSError):
                found |= pods_of_cgroup((entry / "cgroup").read_text(errors="replace"))
    return found


def running_gpu_pods(kubelet_root: Path, proc: Path, logs: Path) -> list[Pod]:
    """Return the running pods that hold GPUs. Raise DomainError if a record of the kubelet can't be read."""
    holders = _holders(kubelet_root)
    if not holders:
        return []
    alive = running_pods(proc)
    names = pod_names(logs)
    pods = [holders[uid] for uid in sorted(holders) if uid in alive]
    for pod in pods:
        pod.namespace, pod.name = names.get(pod.uid, ("", ""))
        pod.empty_dirs = sorted(path.name for path in (kubelet_root / f"pods/{pod.uid}" / _EMPTY_DIRS).glob("*"))
    return pods


def gpu_devices(kubelet_root: Path) -> dict[str, int]:
    """Return pod uid -> number of GPUs or parts of them, also of pods that have ended. Raise DomainError."""
    return {uid: len(pod.devices) for uid, pod in _holders(kubelet_root).items()}


def _holders(kubelet_root: Path) -> dict[str, Pod]:
    holders: dict[str, Pod] = {}
    for name, parse in ((_CHECKPOINT, parse_checkpoint), (_CLAIMS, parse_claims)):
        text = _text(kubelet_root / name)
        for pod in parse(text) if text is not None else []:
            known = holders.setdefault(pod.uid, pod)
            known.devices = sorted({*known.devices, *pod.devices})
            known.resources = sorted({*known.resources, *pod.resources})
    return holders


def _text(path: Path) -> str | None:
    """Return the text of a record, None if the file does not exist."""
    try:
        return path.read_text(encoding="utf-8")
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise DomainError(f"Error while reading {path}: {error.strerror}") from error


def pod_names(logs: Path) -> dict[str, tuple[str, str]]:
    """Return pod uid -> (namespace, name) from the names of the log directories."""
    if not logs.is_dir():
        return {}
    parsed = (parse_log_directory(entry.name) for entry in logs.iterdir())
    return {entry[0]: entry[1:] for entry in parsed if entry}
