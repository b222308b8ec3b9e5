# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which pods of a host hold GPUs right now, from kubelet's own records and the kernel, without any API.

Kubelet writes who got which device to ``device-plugins/kubelet_internal_checkpoint``. It forgets a pod only some time
after its end, so a pod counts while a process lives in its cgroup.
"""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .._errors import DomainError

_CHECKPOINT = "device-plugins/kubelet_internal_checkpoint"
_EMPTY_DIRS = "volumes/kubernetes.io~empty-dir"
_POD_CGROUP = re.compile(r"pod([0-9a-f]{8}(?:[-_][0-9a-f]{4}){3}[-_][0-9a-f]{12}|[0-9a-f]{32})")


@dataclass
class Pod:
    """``devices`` are the plugin's ids, such as GPU UUIDs; the names are empty when kubelet's logs are gone.

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


def held(pods: Iterable[Pod]) -> dict[str, str]:
    """Device -> ``namespace/name`` of the pod that holds it, of those whose names are known."""
    return {device: f"{pod.namespace}/{pod.name}" for pod in pods if pod.name for device in pod.devices}


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
    """Raises DomainError when kubelet's record can't be read; a host without one has no such pod."""
    checkpoint = kubelet_root / _CHECKPOINT
    try:
        text = checkpoint.read_text(encoding="utf-8")
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        raise DomainError(f"Error while reading {checkpoint}: {error.strerror}") from error
    holders = parse_checkpoint(text)
    if not holders:
        return []
    alive = running_pods(proc)
    names = pod_names(logs)
    pods = [pod for pod in holders if pod.uid in alive]
    for pod in pods:
        pod.namespace, pod.name = names.get(pod.uid, ("", ""))
        pod.empty_dirs = sorted(path.name for path in (kubelet_root / f"pods/{pod.uid}" / _EMPTY_DIRS).glob("*"))
    return pods


def pod_names(logs: Path) -> dict[str, tuple[str, str]]:
    """Pod uid -> (namespace, name), by the names of the directories with the pods' logs."""
    if not logs.is_dir():
        return {}
    parsed = (parse_log_directory(entry.name) for entry in logs.iterdir())
    return {entry[0]: entry[1:] for entry in parsed if entry}
