# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Choose the GPUs to measure, with reasons for omitting the others. Pure functions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .._cluster import objects
from .._cluster.dra import Claims
from .._cluster.isolation import isolation
from .._cluster.maintenance import work_on
from .._cluster.nodes import cordoned, labels_of
from .._cluster.objects import Object
from .._training import images
from .figures import Gpu

_STRATEGY = "nvidia.com/gpu.sharing-strategy"


@dataclass(frozen=True)
class LeftOut:
    gpu: Gpu
    reason: str

    def fields(self) -> dict[str, Any]:
        return {**self.gpu.fields(), "reason": self.reason}


@dataclass(frozen=True)
class Place:
    """A node to measure: ``count`` pods of ``image``, each of which gets one of ``gpus``.

    ``rest``: why there are more GPUs than pods, else empty. ``holders``: pods that already hold GPUs.
    """

    node: str
    gpus: tuple[Gpu, ...]
    count: int
    image: str
    rest: str = ""
    holders: frozenset[str] = frozenset()


def plan(
    hosts: Iterable[Mapping[str, Any]],
    nodes: Iterable[Object],
    pods: Iterable[Object],
    claims: Claims,
    namespace: str,
    candidates: Sequence[str],
) -> tuple[list[Place], list[LeftOut]]:
    """Return the nodes to measure and the omitted GPUs.

    Together they contain all GPUs of ``hosts`` (the module's ``nodes``). Pods of an interrupted run in ``namespace`` do
    not count, because they are removed first. Each node uses the first of the images ``candidates`` that runs on its
    GPUs.
    """
    by_name = {objects.name(node): node for node in nodes}
    holding = objects.holders((pod for pod in pods if pod["metadata"].get("namespace") != namespace), claims)
    places: list[Place] = []
    left_out: list[LeftOut] = []
    for host in hosts:
        name, node = host["name"], by_name.get(host["name"])
        gpus = [_gpu(name, each) for each in host["gpus"]]
        if not gpus and host["pci"]:
            complaint = host["complaint"] or "nvidia-smi lists none"
            left_out.append(LeftOut(Gpu(name, ""), f"the driver reports no GPU: {complaint}"))
        elif host["pci"] > len(gpus):
            listed = f"nvidia-smi lists only {len(gpus)} of the {host['pci']} GPUs on the PCI bus"
            left_out.append(LeftOut(Gpu(name, ""), listed))
        image, complaint = images.choose_image(candidates, [node] if node else [])
        closed = _node_reason(node, max(len(gpus), host["pci"])) or complaint
        used = {uuid: pod for uuid, pod in host["held"].items() if pod.partition("/")[0] != namespace}
        reasons = [_gpu_reason(each, used) or closed for each in host["gpus"]]
        left_out += [LeftOut(gpu, reason) for gpu, reason in zip(gpus, reasons) if reason]
        free = [gpu for gpu, reason in zip(gpus, reasons) if not reason]
        if node is None or not free:
            continue
        held = holding.get(name, {})
        offered = objects.quantity(node, "allocatable")
        count = min(len(free), max(0, offered - sum(held.values())))
        unknown = sorted(set(held) - set(used.values()))
        rest = f"in use by {', '.join(unknown)}" if unknown else f"the node offers only {offered} GPUs to pods"
        if count:
            remaining = rest if count < len(free) else ""
            places.append(Place(name, tuple(free), count, image, remaining, frozenset(held)))
        else:
            left_out += [LeftOut(gpu, rest) for gpu in free]
    return places, left_out


def _node_reason(node: Object | None, gpus: int) -> str:
    """Return why no GPU of a node is measured, empty if some may be."""
    if node is None:
        return "the cluster has no such node"
    if not objects.is_ready(node):
        return objects.not_ready_reason(node)
    if isolation(node):
        return f"the node is isolated: {isolation(node)['reason']}"
    if work_on(node) or cordoned(node):
        return "the node is cordoned"
    shared = objects.quantity(node, "allocatable") > gpus or f"{objects.GPU}.shared" in objects.gpu_resources(node)
    # Partitioned GPUs are not shared; a node may have both kinds.
    if labels_of(node).get(_STRATEGY, "none") not in ("", "none") or shared:
        return "several pods share it, so the others would be measured, too"
    return ""


def _gpu_reason(gpu: Mapping[str, Any], used: Mapping[str, str]) -> str:
    mig = gpu.get("mig") or {}
    if not gpu.get("uuid"):
        return "it does not respond"
    if mig.get("devices") or mig.get("current") == "Enabled":
        return "it is partitioned into MIG devices"
    return f"in use by {used[gpu['uuid']]}" if gpu["uuid"] in used else ""


def _gpu(node: str, gpu: Mapping[str, Any]) -> Gpu:
    return Gpu(node, gpu.get("uuid") or "", gpu.get("index"), gpu.get("name") or "", gpu.get("memory_total_mib"))
