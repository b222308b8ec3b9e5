# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What to verify on each host, and what an earlier verification still covers. Pure functions."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from .._cluster import objects
from .._cluster.dra import Claims
from .._cluster.objects import Object

PRODUCT_LABEL = "nvidia.com/gpu.product"
COUNT_LABEL = "nvidia.com/gpu.count"
DRIVER_LABEL = "nvidia.com/cuda.driver-version.full"
LABELS = (PRODUCT_LABEL, COUNT_LABEL, DRIVER_LABEL)
# The state of an unreachable host.
SILENT = "silent"


@dataclass(frozen=True)
class Gpu:
    """A GPU or MIG device for a pod. Up to ``replicas`` pods may share it."""

    uuid: str
    name: str
    resource: str = objects.GPU
    replicas: int = 1


@dataclass(frozen=True)
class Host:
    """A host's data. ``held`` maps UUIDs of GPUs to the pods that hold them, from the kubelet's record.

    ``known``: the number of GPUs that its driver knows, including GPUs that do not respond and have no UUID.
    ``containerd``: default_runtime, cdi, systemd_cgroup by runtime, and conflicts; empty if not read. ``physical``: the
    responding GPUs; ``gpus`` are what pods get of them. ``sharing``: mode, replicas, strategy, amounts by resource, and
    a complaint. ``own_plugin``: this collection's device plugin offers the GPUs, with labels and device isolation.
    """

    node: str
    gpus: tuple[Gpu, ...] = ()
    pci: int = 0
    expected: int | None = None
    state: str = "ok"
    complaint: str = ""
    advice: str = ""
    driver: str = ""
    toolkit: str = ""
    held: Mapping[str, str] = field(default_factory=dict)
    known: int = 0
    containerd: Mapping[str, Any] = field(default_factory=dict)
    physical: tuple[Gpu, ...] = ()
    sharing: Mapping[str, Any] = field(default_factory=dict)
    own_plugin: bool = True

    @property
    def models(self) -> tuple[str, ...]:
        """The names of the physical GPUs."""
        return tuple(gpu.name for gpu in self.physical)

    @property
    def wanted(self) -> int:
        """The number of GPUs that should exist."""
        return max(len(self.models), self.known, self.pci) if self.expected is None else self.expected

    @property
    def amounts(self) -> Mapping[str, int]:
        """Resource -> amount that the node should offer."""
        return self.sharing.get("amounts") or ({objects.GPU: self.wanted} if self.wanted else {})

    @property
    def provable(self) -> int:
        """The number of GPUs and MIG devices to verify."""
        return max(0, self.wanted - len(self.models)) + len(self.gpus)

    @property
    def shared(self) -> bool:
        return any(gpu.replicas > 1 for gpu in self.gpus)


@dataclass(frozen=True)
class PluginLog:
    """Log lines of the device plugin about GPUs that it does not offer, and a remedy if known."""

    words: str = ""
    do: str = ""


@dataclass(frozen=True)
class Target:
    """A host and its node, None if the cluster has no such node.

    ``held``: resource -> pods that hold some of it -> amount.
    """

    host: Host
    node: Object | None
    held: Mapping[str, Mapping[str, int]] = field(default_factory=dict)

    @property
    def holders(self) -> dict[str, int]:
        """Pods that hold the node's GPUs -> amount."""
        found: dict[str, int] = {}
        for pods in self.held.values():
            for pod, amount in pods.items():
                found[pod] = found.get(pod, 0) + amount
        return found

    @property
    def name(self) -> str:
        return self.host.node

    @property
    def capacity(self) -> int:
        return sum(self.amount_of(name, "capacity") for name in self.host.amounts)

    @property
    def allocatable(self) -> int:
        return sum(self.amount_of(name) for name in self.host.amounts)

    def amount_of(self, resource: str, kind: str = "allocatable") -> int:
        return objects.quantity(self.node, kind, resource) if self.node else 0

    @property
    def unheld(self) -> dict[str, int]:
        """Resource -> amount that no pod holds."""
        return {
            name: max(0, self.amount_of(name) - sum(self.held.get(name, {}).values())) for name in self.host.amounts
        }

    @property
    def unheld_total(self) -> int:
        """The number of GPUs, shares and MIG devices that no pod holds."""
        return sum(self.unheld.values())

    @property
    def differing(self) -> dict[str, int]:
        """Resources with a wrong amount -> current amount."""
        found = {name: self.amount_of(name) for name in self.host.amounts}
        former = [name for name in objects.gpu_resources(self.node or {}) if name not in found]
        wrong = {name: amount for name, amount in found.items() if amount != self.host.amounts[name]}
        return {**wrong, **{name: self.amount_of(name) for name in former}}

    @property
    def ready(self) -> bool:
        return self.node is not None and objects.is_ready(self.node)

    @property
    def provable(self) -> bool:
        """Whether pods can run on the node and the host's GPUs are known."""
        return self.ready and self.host.state != SILENT

    @property
    def info(self) -> Mapping[str, str]:
        """The node's versions and boot id, from its kubelet."""
        found: Mapping[str, str] = ((self.node or {}).get("status") or {}).get("nodeInfo") or {}
        return found

    @property
    def labels(self) -> dict[str, str]:
        """The node's labels about GPUs."""
        have = ((self.node or {}).get("metadata") or {}).get("labels") or {}
        return {key: have[key] for key in sorted(have) if key.startswith("nvidia.com/")}

    @property
    def identity(self) -> str:
        """The identity of the node since its last boot."""
        uid = ((self.node or {}).get("metadata") or {}).get("uid", "")
        return f"{uid} {self.info.get('bootID', '')}"

    def fingerprint(self, image: str) -> str:
        """Return a hash of everything that a verification of this host's GPUs depends on."""
        told = {
            "identity": self.identity,
            # The driver's state, which may change to unhealthy.
            "state": self.host.state,
            "gpus": sorted(gpu.uuid for gpu in self.host.gpus),
            "wanted": self.host.wanted,
            "amounts": [self.capacity, self.allocatable],
            "sharing": dict(self.host.sharing),
            "labels": [self.labels.get(label) for label in LABELS],
            "driver": self.host.driver,
            "toolkit": self.host.toolkit,
            "containerd": dict(self.host.containerd),
            "versions": [self.info.get(key) for key in ("kernelVersion", "containerRuntimeVersion", "kubeletVersion")],
            "image": image,
        }
        return hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()


def targets(
    hosts: Sequence[Host], nodes: Iterable[Object], pods: Iterable[Object], claims: Claims, namespace: str
) -> list[Target]:
    """Return each host with its node and the pods there, without the verification's own in ``namespace``."""
    by_name = {objects.name(node): node for node in nodes}
    others = [pod for pod in pods if pod["metadata"].get("namespace") != namespace]
    holding = {
        name: objects.holders(others, claims, name) for name in {name for host in hosts for name in host.amounts}
    }
    return [
        Target(host, by_name.get(host.node), {name: holding[name].get(host.node, {}) for name in host.amounts})
        for host in hosts
    ]


def still_proven(target: Target, earlier: Mapping[str, Any] | None, image: str) -> bool:
    """Return whether an earlier entry of this host in a report is still valid.

    GPUs that were in use then and are free now must be verified now.
    """
    if not earlier or earlier["problems"] or not target.provable:
        return False
    covered = {device["uuid"] for device in earlier["devices"] if device["state"] != "missing"}
    return (
        earlier["fingerprint"] == target.fingerprint(image)
        and target.unheld_total <= earlier["pods"]
        and covered >= {gpu.uuid for gpu in target.host.gpus}
    )


def lost_gpus(host: Host, earlier: Mapping[str, Any] | None) -> tuple[int, dict[str, str]]:
    """Return how many physical GPUs are missing compared with ``earlier``, and UUID -> name of those.

    None are missing if the inventory expects the present number.
    """
    known, present = (earlier or {}).get("known", {}), {gpu.uuid for gpu in host.physical}
    fewer = (earlier or {}).get("known_count", 0) - len(present)
    if host.state == SILENT or host.expected == len(present) or fewer <= 0:
        return 0, {}
    return fewer, {uuid: name for uuid, name in known.items() if uuid not in present}


def known_gpus(host: Host, earlier: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return the GPUs to look for the next time, present ones first, and their expected number."""
    fewer, lost = lost_gpus(host, earlier)
    present = {gpu.uuid: gpu.name for gpu in host.physical}
    return {"known": {**present, **lost}, "known_count": len(present) + fewer}


def still_connected(found: Sequence[Target], earlier: Mapping[str, Any] | None) -> bool:
    """Return whether an earlier verification of the pod network covers these nodes since their last boot."""
    if not earlier or earlier.get("problems"):
        return False
    return all(target.ready for target in found) and {target.identity for target in found} <= set(earlier["nodes"])


def label_problem(target: Target) -> str:
    """Return what is wrong with the labels of GPU feature discovery, empty if they fit the host."""
    host, have = target.host, target.labels
    if not host.gpus or not host.own_plugin:
        return ""
    missing = [label for label in LABELS if label not in have]
    if missing:
        return f"the node has no label {', '.join(missing)}: GPU feature discovery has not labeled it"
    # With strategy single, MIG devices count as GPUs.
    count = len(host.gpus if host.sharing.get("strategy") == "single" else host.models)
    if have[COUNT_LABEL] != str(count):
        return f"label {COUNT_LABEL} is {have[COUNT_LABEL]}, nvidia-smi has {count}"
    products = {product(name) for name in host.models}
    if not any(have[PRODUCT_LABEL] == name or have[PRODUCT_LABEL].startswith(f"{name}-") for name in products):
        return f"label {PRODUCT_LABEL} is {have[PRODUCT_LABEL]}, nvidia-smi has {', '.join(sorted(products))}"
    if host.driver and have[DRIVER_LABEL] != host.driver:
        return f"label {DRIVER_LABEL} is {have[DRIVER_LABEL]}, the host's driver is {host.driver}"
    return ""


def product(name: str) -> str:
    """Return a GPU's name in GPU feature discovery's form for labels (internal/lm/resource.go, sanitise)."""
    kept = "".join(
        character for character in name if (character.isascii() and character.isalnum()) or character in "-_. "
    )
    return "-".join(kept.split())
