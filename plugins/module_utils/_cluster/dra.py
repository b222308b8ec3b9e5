# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""GPUs offered by NVIDIA's DRA driver: their nodes, and the pods that hold them by claims.

Only resource.k8s.io/v1 is supported (https://github.com/kubernetes/api/blob/master/resource/v1/types.go). A cluster
without it has none of these objects.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from .._errors import DomainError
from .._json import as_mapping, as_mappings, as_text
from .._problem import Problem

Object = Mapping[str, Any]

_API = "/apis/resource.k8s.io/v1"
SLICES = f"{_API}/resourceslices"
CLASSES = f"{_API}/deviceclasses"
_CLAIMS = f"{_API}/resourceclaims"
# NVIDIA's other driver, compute-domain.nvidia.com, offers channels, not GPUs.
DRIVER = "gpu.nvidia.com"
_RESOURCES = "nvidia.com/"
# Keeps a device plugin off a node, both the GPU Operator's and this collection's.
_LEFT_OUT = "nvidia.com/gpu.deploy.device-plugin"
# A device plugin runs on nodes with one of these labels (affinity.yml.j2 of the role nvidia_device_plugin).
_OF_PLUGIN = ("gpulab.io/gpu", "feature.node.kubernetes.io/pci-10de.present", "nvidia.com/gpu.present")
_ABSENT = 404


class _Lists(Protocol):
    def items(self, path: str, **query: str) -> list[dict[str, Any]]: ...


@dataclass(frozen=True)
class Device:
    """A GPU or MIG device. ``request`` is the request in the claim that it was allocated to."""

    pool: str
    name: str
    request: str


@dataclass(frozen=True)
class Claim:
    """GPUs allocated to a claim. ``pods`` are the uids of pods that it is reserved for, empty if unknown."""

    devices: tuple[Device, ...]
    pods: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Claims:
    """The claims of a cluster with allocated GPUs, by namespace and name."""

    found: Mapping[tuple[str, str], Claim] = field(default_factory=dict)

    def devices_of(self, pod: Object) -> set[tuple[str, str]]:
        """Return (pool, name) of the GPUs that a pod holds by claims, without those also requested as a resource."""
        metadata = as_mapping(pod.get("metadata"))
        namespace, uid = as_text(metadata.get("namespace")) or "default", as_text(metadata.get("uid"))
        found: set[tuple[str, str]] = set()
        for name, counted in _claim_names(pod):
            claim = self.found.get((namespace, name))
            if claim and (not claim.pods or not uid or uid in claim.pods):
                found |= {(each.pool, each.name) for each in claim.devices if each.request not in counted}
        return found


NO_CLAIMS = Claims()


def parse_claims(items: Iterable[Any]) -> Claims:
    """Return the ResourceClaims with allocated GPUs. Claims with adminAccess only observe GPUs and are omitted."""
    found = {}
    for item in items:
        metadata, status = as_mapping(as_mapping(item).get("metadata")), as_mapping(as_mapping(item).get("status"))
        results = as_mappings(as_mapping(as_mapping(status.get("allocation")).get("devices")).get("results"))
        devices = tuple(
            Device(as_text(each.get("pool")), as_text(each.get("device")), as_text(each.get("request")))
            for each in results
            if each.get("driver") == DRIVER and each.get("adminAccess") is not True
        )
        if devices:
            reserved = as_mappings(status.get("reservedFor"))
            # A claim can also be reserved for a group of pods.
            only_pods = all(each.get("resource") == "pods" for each in reserved)
            uids = frozenset(as_text(each.get("uid")) for each in reserved) if only_pods else frozenset()
            found[as_text(metadata.get("namespace")) or "default", as_text(metadata.get("name"))] = Claim(devices, uids)
    return Claims(found)


def read_claims(lists: _Lists, pods: Iterable[Object]) -> Claims:
    """Return the cluster's claims; the API is only queried if one of the pods refers to a claim."""
    if not any(True for pod in pods for _name in _claim_names(pod)):
        return NO_CLAIMS
    try:
        return parse_claims(lists.items(_CLAIMS))
    except DomainError as error:
        if error.fields.get("status") != _ABSENT:
            raise
        return NO_CLAIMS


def gpus_by_node(slices: Iterable[Any]) -> dict[str, int]:
    """Return node -> number of GPUs and MIG devices that NVIDIA's DRA driver offers there.

    Slices of an earlier generation of a pool are outdated. The slice or the device names the GPU's node.
    """
    specs = [
        spec for item in slices for spec in [as_mapping(as_mapping(item).get("spec"))] if spec.get("driver") == DRIVER
    ]
    newest: dict[str, int] = {}
    for spec in specs:
        pool, generation = _pool(spec)
        newest[pool] = max(generation, newest.get(pool, generation))
    found: dict[str, int] = {}
    for spec in specs:
        pool, generation = _pool(spec)
        for device in as_mappings(spec.get("devices")) if generation == newest[pool] else []:
            node = as_text(spec.get("nodeName")) or as_text(device.get("nodeName"))
            if node:
                found[node] = found.get(node, 0) + 1
    return dict(sorted(found.items()))


def device_classes(items: Iterable[Any]) -> dict[str, str]:
    """Return NVIDIA's DeviceClasses: name -> resource that pods can request instead of a claim, empty if none."""
    found = {}
    for item in items:
        spec = as_mapping(as_mapping(item).get("spec"))
        resource = as_text(spec.get("extendedResourceName"))
        selectors = (
            as_text(as_mapping(each.get("cel")).get("expression")) for each in as_mappings(spec.get("selectors"))
        )
        if resource.startswith(_RESOURCES) or any(DRIVER in expression for expression in selectors):
            found[as_text(as_mapping(as_mapping(item).get("metadata")).get("name"))] = resource
    return dict(sorted(found.items()))


def nodes_offered_twice(gpus: Mapping[str, int], nodes: Iterable[Any], with_plugin: Collection[str] = ()) -> list[str]:
    """Return the nodes in ``gpus`` (offered by DRA) whose GPUs a device plugin offers too, or would when installed."""
    chosen = set(with_plugin)
    for node in nodes:
        metadata = as_mapping(as_mapping(node).get("metadata"))
        if _is_for_plugin(as_mapping(metadata.get("labels"))):
            chosen.add(as_text(metadata.get("name")))
    return sorted(name for name in gpus if name in chosen)


def _is_for_plugin(labels: Object) -> bool:
    """Return whether a device plugin would run on a node. The GPU Operator requires its own label."""
    own = as_text(labels.get(_LEFT_OUT))
    return own != "false" and (bool(own) or any(labels.get(name) == "true" for name in _OF_PLUGIN))


def twice_problem(nodes: Collection[str], classes: Mapping[str, str]) -> Problem:
    """Return the problem of these nodes and its two solutions."""
    names = [name for name, resource in classes.items() if resource.startswith(_RESOURCES)]
    taken = f" (DeviceClass {names[0]} takes the name {classes[names[0]]})" if names else ""
    return Problem(
        "gpus_offered_twice",
        f"The GPUs of {', '.join(sorted(nodes))} would be offered to pods twice: NVIDIA's DRA driver {DRIVER} offers "
        f"them by ResourceSlices{taken}, and NVIDIA's device plugin on the same node",
        "ResourceSlices of the cluster (kubectl get resourceslices)",
        "Neither knows which GPUs the other has allocated, so two pods could get the same GPU",
        "Remove the GPUs from the DRA driver when no pod holds a claim any more (Helm: resources.gpus.enabled=false "
        "keeps its ComputeDomains); or keep the DRA driver on these nodes: remove them from the inventory, run kubectl "
        f"label node NODE {_LEFT_OUT}=false, and wait until the device plugin has no pod there",
    )


def _claim_names(pod: Object) -> Iterator[tuple[str, frozenset[str]]]:
    """Yield the claims of a pod, each with the requests that are already counted as resources of its containers."""
    spec, status = as_mapping(pod.get("spec")), as_mapping(pod.get("status"))
    statuses = as_mappings(status.get("resourceClaimStatuses"))
    made = {as_text(each.get("name")): each.get("resourceClaimName") for each in statuses}
    for each in as_mappings(spec.get("resourceClaims")):
        name = as_text(each.get("resourceClaimName")) or as_text(made.get(as_text(each.get("name"))))
        if name:
            yield name, frozenset()
    extended = as_mapping(status.get("extendedResourceClaimStatus"))
    name = as_text(extended.get("resourceClaimName"))
    if name:
        mappings = as_mappings(extended.get("requestMappings"))
        counted = [each for each in mappings if as_text(each.get("resourceName")).startswith(_RESOURCES)]
        yield name, frozenset(as_text(each.get("requestName")) for each in counted)


def _pool(spec: Object) -> tuple[str, int]:
    pool = as_mapping(spec.get("pool"))
    generation = pool.get("generation")
    return as_text(pool.get("name")), generation if isinstance(generation, int) else 0
