# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The pods of a verification and the parsing of their logs. Pure functions."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .._cluster.objects import GPU, OWNER, OWNER_LABEL
from .._cluster.pods import pod_on
from .target import Gpu

PART = "acceptance"
LABELS = {OWNER_LABEL: OWNER, "app.kubernetes.io/part-of": PART}
CHECK, HOLD = "check", "hold"
SERVICE, PORT = "network", 8080

# Nodes pull the image simultaneously, but the API creates pods one after another.
_LEAST_TIME, _PODS_PER_SECOND = 300, 4

_END = "acceptance: end of list"
_ROW = re.compile(r"^((?:GPU|MIG)-[0-9A-Za-z/-]+), (.+)$")
_PART = re.compile(r"^MIG (\S+)\s+Device\s+\d+: \(UUID: (MIG-[0-9A-Za-z/-]+)\)$")
_DEVICE = re.compile(r"^(/dev/nvidia\d+|GPU \d+: .+)$")

# The pod keeps its GPU until it is deleted, so that no GPU can be verified twice.
_HOLD = f"nvidia-smi --query-gpu=uuid,name --format=csv,noheader && nvidia-smi -L && echo '{_END}' && exec sleep 86400"
_ISOLATION = (
    'for device in /dev/nvidia[0-9]*; do if [ -e "$device" ]; then echo "$device"; fi; done; '
    f"if command -v nvidia-smi >/dev/null; then nvidia-smi -L; fi; echo '{_END}'"
)


@dataclass(frozen=True)
class Settings:
    """Settings; ``holder`` is who runs the verification, ``timeout`` in seconds, 0 to derive it from the GPUs.

    ``tolerations`` are those of pods for which free GPUs are counted; the verification's own pods tolerate all taints.
    """

    namespace: str
    image: str
    network_image: str
    timeout: int
    holder: str = ""
    plugin_namespace: str = "nvidia-device-plugin"
    tolerations: Sequence[Mapping[str, Any]] = ()


def time_limit(timeout: int, gpu_pods: int) -> tuple[int, str]:
    """Return the seconds until all pods must have reported, and a description of how they are derived."""
    if timeout:
        return timeout, "acceptance_timeout"
    words = f"{_LEAST_TIME} s and 1 s for each {_PODS_PER_SECOND} of {gpu_pods} GPU pods; or set acceptance_timeout"
    return _LEAST_TIME + gpu_pods // _PODS_PER_SECOND, words


def gpu_pod(settings: Settings, node: str, number: int, resource: str = GPU) -> dict[str, Any]:
    """Return a pod that runs the image's own check on a GPU, then prints which GPU it was and holds it."""
    asks = {"limits": {resource: 1}}
    check = {"name": CHECK, "image": settings.image, "resources": asks}
    hold = {"name": HOLD, "image": settings.image, "command": ["/bin/sh", "-c", _HOLD], "resources": asks}
    return _pod(settings, f"gpu-{number}-{node}", "gpu", node, [hold], [check])


def isolation_pod(settings: Settings, node: str) -> dict[str, Any]:
    """Return a pod that requests no GPU but sets the variable with which images request all of them."""
    container = {
        "name": CHECK,
        "image": settings.image,
        "command": ["/bin/sh", "-c", _ISOLATION],
        "env": [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}],
    }
    return _pod(settings, f"isolation-{node}", "isolation", node, [container])


def network_pod(settings: Settings, node: str) -> dict[str, Any]:
    """Return a pod that answers requests, and connects to other pods on request."""
    container = {
        "name": "netexec",
        "image": settings.network_image,
        "args": ["netexec", f"--http-port={PORT}", "--udp-port=-1"],
        "readinessProbe": {"httpGet": {"path": "/hostname", "port": PORT}, "periodSeconds": 1, "failureThreshold": 30},
    }
    return _pod(settings, f"network-{node}", "network", node, [container])


def service(settings: Settings) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": SERVICE, "namespace": settings.namespace, "labels": LABELS},
        "spec": {"selector": {"acceptance": "network"}, "ports": [{"port": 80, "targetPort": PORT}]},
    }


def _pod(
    settings: Settings,
    name: str,
    kind: str,
    node: str,
    containers: list[dict[str, Any]],
    init: list[dict[str, Any]] | None = None,
) -> dict[str, Any]:
    return pod_on(
        node,
        name,
        settings.namespace,
        {**LABELS, "acceptance": kind},
        settings.timeout + 300,
        {"initContainers": init or [], "containers": containers},
    )


def ended(log: str) -> bool:
    """Return whether a pod's report is complete."""
    return any(line.strip() == _END for line in log.splitlines())


def reported(log: str) -> list[Gpu]:
    """Return the GPUs that nvidia-smi lists in a pod. With a MIG device it also lists the GPU, which is ignored."""
    parts = [match for match in (_PART.match(line.strip()) for line in log.splitlines()) if match]
    if parts:
        return [Gpu(part[2], part[1]) for part in parts]
    rows = (_ROW.match(line.strip()) for line in log.splitlines())
    return [Gpu(row[1], row[2].strip()) for row in rows if row]


def leaked(log: str) -> list[str]:
    """Return the devices that a pod without a GPU request sees."""
    return [line.strip() for line in log.splitlines() if _DEVICE.match(line.strip())]


def last_words(log: str, lines: int = 20) -> str:
    """Return the end of a program's output, without empty lines."""
    told = [line.rstrip() for line in log.splitlines() if line.strip() and line.strip() != _END]
    return "\n".join(told[-lines:])
