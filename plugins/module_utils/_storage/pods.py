# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The pods that verify a claim: one writes, others read its data. Also parses their logs. Pure functions."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from .._cluster.objects import OWNER, OWNER_LABEL
from .._cluster.pods import pod_on

LABELS = {OWNER_LABEL: OWNER, "app.kubernetes.io/part-of": "storage-check"}
SELECTOR = "app.kubernetes.io/part-of=storage-check"

_CONTAINER = "check"
_RESULT = re.compile(r"^storage-check: ([0-9.]+) ([0-9.]+) ([0-9a-f]{64})$", re.MULTILINE)
# /proc/uptime is the only clock with a resolution below a second that every shell can read.
_CLOCK = 0.01
# The directory has a fixed name, so that interrupted verifications do not leave more and more data.
_WRITE = """set -eu
here=/claim/.gpulab-check
trap 'rm -rf "$here"; exit 0' TERM INT
mkdir -p "$here"
dd if=/dev/urandom of=/scratch/data bs=1M count={size}
read -r begun rest </proc/uptime
dd if=/scratch/data of="$here/data" bs=1M conv=fsync
read -r ended rest </proc/uptime
sum=$(sha256sum </scratch/data)
echo "storage-check: $begun $ended ${{sum%% *}}"
sleep 86400 &
wait
"""
_READ = """set -eu
read -r begun rest </proc/uptime
dd if=/claim/.gpulab-check/data of=/dev/null bs=1M
read -r ended rest </proc/uptime
sum=$(sha256sum </claim/.gpulab-check/data)
echo "storage-check: $begun $ended ${sum%% *}"
"""


@dataclass(frozen=True)
class Settings:
    namespace: str
    image: str
    size_mib: int
    timeout: int


@dataclass(frozen=True)
class Trip:
    """A claim, the writer's node and the readers' nodes. ``made``: the claim was created by the check."""

    claim: str
    writer: str
    readers: tuple[str, ...]
    made: bool = False


@dataclass(frozen=True)
class Measured:
    """Result of a pod: seconds for reading or writing, and the checksum of the data."""

    seconds: float
    checksum: str

    def mib_per_s(self, size_mib: int) -> float:
        return round(size_mib / max(self.seconds, _CLOCK), 1)


def _fastest(size_mib: int) -> float:
    """Return the highest speed that the clock can measure."""
    return round(size_mib / _CLOCK, 1)


def measured(log: str) -> Measured | None:
    """Return the result in a pod's log, None if there is none yet."""
    found = _RESULT.search(log)
    return Measured(float(found[2]) - float(found[1]), found[3]) if found else None


def trips(nodes: list[str], claim: str, storage_class: str) -> list[Trip]:
    """Return a trip for a claim (the first node writes, the others read), or one per node for a class."""
    if storage_class:
        return [Trip(f"gpulab-check-{number}", node, (node,), True) for number, node in enumerate(nodes)]
    return [Trip(claim, nodes[0], tuple(nodes[1:]) or (nodes[0],))]


def claim(settings: Settings, name: str, storage_class: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name, "namespace": settings.namespace, "labels": LABELS},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": storage_class,
            "resources": {"requests": {"storage": f"{2 * settings.size_mib}Mi"}},
        },
    }


def writer(settings: Settings, trip: Trip) -> dict[str, Any]:
    """Return a pod that writes, and keeps the data until it is deleted."""
    scratch = {"medium": "Memory", "sizeLimit": f"{settings.size_mib + 16}Mi"}
    pod = _pod(settings, f"write-{trip.claim}", trip, trip.writer, _WRITE.format(size=settings.size_mib))
    pod["spec"]["volumes"].append({"name": "scratch", "emptyDir": scratch})
    pod["spec"]["containers"][0]["volumeMounts"].append({"name": "scratch", "mountPath": "/scratch"})
    return pod


def reader(settings: Settings, trip: Trip, node: str) -> dict[str, Any]:
    return _pod(settings, f"read-{trip.claim}-{node}", trip, node, _READ)


def _pod(settings: Settings, name: str, trip: Trip, node: str, script: str) -> dict[str, Any]:
    container = {
        "name": _CONTAINER,
        "image": settings.image,
        "command": ["/bin/sh", "-c", script],
        "volumeMounts": [{"name": "claim", "mountPath": "/claim"}],
    }
    spec = {
        "terminationGracePeriodSeconds": 30,
        "containers": [container],
        "volumes": [{"name": "claim", "persistentVolumeClaim": {"claimName": trip.claim}}],
    }
    own = f"storage-check-{name}"[:253]
    return pod_on(node, own, settings.namespace, LABELS, settings.timeout + 300, spec)


def summary(results: list[dict[str, Any]], size_mib: int) -> list[str]:
    """Return the measurements, one line per pod."""
    lines = []
    for result in results:
        lines.append(f"a pod on {result['writer']} wrote {size_mib} MiB at {result['write_mib_per_s']} MiB/s")
        for node, speed in result["readers"].items():
            fast = "more than " if speed == _fastest(size_mib) else ""
            how = "from the node's memory" if speed is None else f"at {fast}{speed} MiB/s"
            lines.append(f"{'another' if node == result['writer'] else 'a'} pod on {node} read them {how}")
    return lines
