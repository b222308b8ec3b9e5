# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What has to be proven on each host, and what an earlier proof still covers. Pure."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ansible_collections.gpulab.kubernetes.plugins.module_utils import _pods
from ansible_collections.gpulab.kubernetes.plugins.module_utils._pods import Object

PRODUCT_LABEL = "nvidia.com/gpu.product"
COUNT_LABEL = "nvidia.com/gpu.count"
DRIVER_LABEL = "nvidia.com/cuda.driver-version.full"
LABELS = (PRODUCT_LABEL, COUNT_LABEL, DRIVER_LABEL)
# The state of a host that could not be asked.
SILENT = "silent"


@dataclass(frozen=True)
class Gpu:
    uuid: str
    name: str


@dataclass(frozen=True)
class Host:
    """What a host said about itself. ``held`` maps the UUID of a GPU to the pod that holds it, as kubelet has it.

    ``known``: how many GPUs its driver knows of, those among them that don't answer, which have no UUID.
    ``containerd``: default_runtime, cdi, systemd_cgroup by runtime, and conflicts; empty where it was not read.
    """

    node: str
    gpus: tuple[Gpu, ...] = ()
    pci: int = 0
    expected: int | None = None
    state: str = "ok"
    complaint: str = ""
    driver: str = ""
    toolkit: str = ""
    held: Mapping[str, str] = field(default_factory=dict)
    known: int = 0
    containerd: Mapping[str, Any] = field(default_factory=dict)

    @property
    def wanted(self) -> int:
        """How many GPUs should be there."""
        return max(len(self.gpus), self.known, self.pci) if self.expected is None else self.expected


@dataclass(frozen=True)
class Target:
    """A host beside its node, None when the cluster has no such node, and the pods that hold its GPUs."""

    host: Host
    node: Object | None
    holders: Mapping[str, int] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return self.host.node

    @property
    def capacity(self) -> int:
        return _pods.quantity(self.node, "capacity") if self.node else 0

    @property
    def allocatable(self) -> int:
        return _pods.quantity(self.node, "allocatable") if self.node else 0

    @property
    def free(self) -> int:
        """GPUs that no pod holds."""
        return max(0, self.allocatable - sum(self.holders.values()))

    @property
    def ready(self) -> bool:
        return self.node is not None and _pods.is_ready(self.node)

    @property
    def provable(self) -> bool:
        """Whether pods can run there, and the host has told what they should find."""
        return self.ready and self.host.state != SILENT

    @property
    def info(self) -> Mapping[str, str]:
        """The node's versions, its boot id among them, as its kubelet reports them."""
        found: Mapping[str, str] = ((self.node or {}).get("status") or {}).get("nodeInfo") or {}
        return found

    @property
    def labels(self) -> dict[str, str]:
        """Those labels of the node that speak about GPUs."""
        have = ((self.node or {}).get("metadata") or {}).get("labels") or {}
        return {key: have[key] for key in sorted(have) if key.startswith("nvidia.com/")}

    @property
    def identity(self) -> str:
        """This node since its last boot."""
        uid = ((self.node or {}).get("metadata") or {}).get("uid", "")
        return f"{uid} {self.info.get('bootID', '')}"

    def fingerprint(self, image: str) -> str:
        """Changes with everything that a proof of this host's GPUs depends on, and with nothing else."""
        told = {
            "identity": self.identity,
            # A driver that was well and is not any more, by its own account or by the kernel log.
            "state": self.host.state,
            "gpus": sorted(gpu.uuid for gpu in self.host.gpus),
            "wanted": self.host.wanted,
            "amounts": [self.capacity, self.allocatable],
            "labels": [self.labels.get(label) for label in LABELS],
            "driver": self.host.driver,
            "toolkit": self.host.toolkit,
            "containerd": dict(self.host.containerd),
            "versions": [self.info.get(key) for key in ("kernelVersion", "containerRuntimeVersion", "kubeletVersion")],
            "image": image,
        }
        return hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()


def read_hosts(entries: Iterable[Mapping[str, Any]]) -> list[Host]:
    """Hosts from the module's option ``nodes``."""
    return [
        Host(
            node=entry["name"],
            gpus=tuple(Gpu(gpu["uuid"], gpu.get("name") or "") for gpu in entry["gpus"] or [] if gpu.get("uuid")),
            pci=entry["pci"],
            expected=entry["expected"],
            state=entry["state"],
            complaint=entry["complaint"] or "",
            driver=entry["driver"] or "",
            toolkit=entry["toolkit"] or "",
            held=dict(entry["held"] or {}),
            known=len(entry["gpus"] or []),
            containerd=dict(entry["containerd"] or {}),
        )
        for entry in entries
    ]


def targets(hosts: Iterable[Host], nodes: Iterable[Object], pods: Iterable[Object], namespace: str) -> list[Target]:
    """Each host with its node and the pods of others there; those in ``namespace`` are the proof's own."""
    by_name = {_pods.name(node): node for node in nodes}
    holding = _pods.holders(pod for pod in pods if pod["metadata"].get("namespace") != namespace)
    return [Target(host, by_name.get(host.node), holding.get(host.node, {})) for host in hosts]


def still_proven(target: Target, earlier: Mapping[str, Any] | None, image: str) -> bool:
    """Whether an earlier entry of this host in a report still holds.

    GPUs that were in use then and are free now have to be proven now.
    """
    if not earlier or earlier.get("problems") or not target.provable:
        return False
    return earlier.get("fingerprint") == target.fingerprint(image) and target.free <= earlier["gpus"]["proven"]


def still_connected(found: Sequence[Target], earlier: Mapping[str, Any] | None) -> bool:
    """Whether an earlier proof of the pod network covers these nodes since their last boot."""
    if not earlier or earlier.get("problems"):
        return False
    return all(target.ready for target in found) and {target.identity for target in found} <= set(earlier["nodes"])


def label_problem(target: Target) -> str:
    """What is wrong with the labels of GPU feature discovery, nothing if they fit the host."""
    host, have = target.host, target.labels
    if not host.gpus:
        return ""
    missing = [label for label in LABELS if label not in have]
    if missing:
        return f"the node has no label {', '.join(missing)}: GPU feature discovery has not labelled it"
    if have[COUNT_LABEL] != str(len(host.gpus)):
        return f"label {COUNT_LABEL} says {have[COUNT_LABEL]}, nvidia-smi has {len(host.gpus)}"
    products = {product(gpu.name) for gpu in host.gpus}
    if not any(have[PRODUCT_LABEL] == name or have[PRODUCT_LABEL].startswith(f"{name}-") for name in products):
        return f"label {PRODUCT_LABEL} says {have[PRODUCT_LABEL]}, nvidia-smi has {', '.join(sorted(products))}"
    if host.driver and have[DRIVER_LABEL] != host.driver:
        return f"label {DRIVER_LABEL} says {have[DRIVER_LABEL]}, the host's driver is {host.driver}"
    return ""


def product(name: str) -> str:
    """A GPU's name as GPU feature discovery writes it into a label (internal/lm/resource.go, sanitise)."""
    kept = "".join(
        character for character in name if (character.isascii() and character.isalnum()) or character in "-_. "
    )
    return "-".join(kept.split())
