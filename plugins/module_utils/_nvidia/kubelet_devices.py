# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which pods of a host hold GPUs right now, from kubelet's own records and the kernel, without any API.

Kubelet writes who got which device of a plugin to ``device-plugins/kubelet_internal_checkpoint``, and who got which
device by a claim to ``dra_manager_state``. It forgets a pod only some time after its end, so a pod counts while a
process lives in its cgroup.
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
# https://github.com/kubernetes/kubernetes/blob/master/pkg/kubelet/cm/dra/state/checkpoint.go
_CLAIMS = "dra_manager_state"
_EMPTY_DIRS = "volumes/kubernetes.io~empty-dir"
_POD_CGROUP = re.compile(r"pod([0-9a-f]{8}(?:[-_][0-9a-f]{4}){3}[-_][0-9a-f]{12}|[0-9a-f]{32})")


@dataclass
class Pod:
    """``devices`` are the plugin's ids, such as GPU UUIDs; the names are empty when kubelet's logs are gone.

    A device that was got by a claim is ``DRIVER/POOL/DEVICE``, and its resource is the driver.

    ``empty_dirs`` names its volumes of the kind emptyDir, whose contents end with the pod.
    """

    uid: str
    namespace: str = ""
    name: str = ""
    devices: list[str] = field(default_factory=list)
    resources: list[str] = field(default_factory=list)
    empty_dirs: list[str] = field(default_factory=list)


def parse_checkpoint(text: str, prefix: str = "nvidia.com/") -> list[Pod]:
    """Pods with devices of the resources that begin with ``prefix``, by uid. Raises DomainError for other text."""
    try:
        entries = (json.loads(text).get("Data") or {}).get("PodDeviceEntries") or []
        pods: dict[str, Pod] = {}
        for entry in entries:
            if entry["ResourceName"].startswith(prefix):
                pod = pods.setdefault(entry["PodUID"], Pod(entry["PodUID"]))
                pod.devices = sorted({*pod.devices, *_ids(entry["DeviceIDs"])})
                pod.resources = sorted({*pod.resources, entry["ResourceName"]})
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise DomainError(f"Error while reading the kubelet's record of devices: {error!r}") from error
    return [pods[uid] for uid in sorted(pods)]


def parse_claims(text: str) -> list[Pod]:
    """Pods with claims to which NVIDIA's DRA driver gave devices, by uid. Raises DomainError for other text."""
    what = "the kubelet's record of claims"
    record = read_object(text, what)
    # Up to Kubernetes 1.31 the record had another form, for an API version that is not read here.
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
    """Device of a plugin -> ``namespace/name`` of the pod that holds it, of those whose names are known.

    Of a device that was got by a claim, kubelet has no UUID.
    """
    return {
        device: f"{pod.namespace}/{pod.name}"
        for pod in pods
        if pod.name
        for device in pod.devices
        if not device.startswith(f"{DRIVER}/")
    }


def _ids(devices: Any) -> Iterable[str]:
    # By NUMA node since Kubernetes 1.20.
    if isinstance(devices, dict):
        return [str(item) for ids in devices.values() for item in ids]
    return [str(item) for item in devices]


def pods_of_cgroup(text: str) -> set[str]:
    """The pod uids in a ``/proc/PID/cgroup``. The systemd driver writes ``_`` where a uid has ``-``."""
    return {match.replace("_", "-") for match in _POD_CGROUP.findall(text)}


def parse_log_directory(name: str) -> tuple[str, str, str] | None:
    """(uid, namespace, name) from a directory of /var/log/pods, ``NAMESPACE_NAME_UID``."""
    parts = name.split("_")
    return (parts[2], parts[0], parts[1]) if len(parts) == 3 else None


def running_pods(proc: Path) -> set[str]:
    found: set[str] = set()
    for entry in proc.iterdir():
        if entry.name.isdigit():
            # Processes come and go.
            with contextlib.suppress(OSError):
                found |= pods_of_cgroup((entry / "cgroup").read_text(errors="replace"))
    return found


def running_gpu_pods(kubelet_root: Path, proc: Path, logs: Path) -> list[Pod]:
    """Raises DomainError when one of kubelet's records can't be read; a host without any has no such pod."""
    holders: dict[str, Pod] = {}
    for name, parse in ((_CHECKPOINT, parse_checkpoint), (_CLAIMS, parse_claims)):
        text = _text(kubelet_root / name)
        for pod in parse(text) if text is not None else []:
            known = holders.setdefault(pod.uid, pod)
            known.devices = sorted({*known.devices, *pod.devices})
            known.resources = sorted({*known.resources, *pod.resources})
    if not holders:
        return []
    alive = running_pods(proc)
    names = pod_names(logs)
    pods = [holders[uid] for uid in sorted(holders) if uid in alive]
    for pod in pods:
        pod.namespace, pod.name = names.get(pod.uid, ("", ""))
        pod.empty_dirs = sorted(path.name for path in (kubelet_root / f"pods/{pod.uid}" / _EMPTY_DIRS).glob("*"))
    return pods


def _text(path: Path) -> str | None:
    """The text of a record, None if there is none."""
    try:
        return path.read_text(encoding="utf-8")
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise DomainError(f"Error while reading {path}: {error.strerror}") from error


def pod_names(logs: Path) -> dict[str, tuple[str, str]]:
    """Pod uid -> (namespace, name), by the names of the directories with the pods' logs."""
    if not logs.is_dir():
        return {}
    parsed = (parse_log_directory(entry.name) for entry in logs.iterdir())
    return {entry[0]: entry[1:] for entry in parsed if entry}
