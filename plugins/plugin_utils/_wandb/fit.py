# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether the largest job of a queue fits on a node, as the scheduler counts. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from ...module_utils._cluster import objects
from ...module_utils._cluster.nodes import untolerated_taint
from ...module_utils._cluster.quantities import read_quantity
from ...module_utils._json import as_mapping, as_mappings

VARIABLE = re.compile(r"\{\{\s*(\w+)\s*\}\}")
_GPU = "nvidia.com/gpu"
# Resource of the scheduler -> its name in messages, and its setting.
_RESOURCES = {
    _GPU: ("GPUs", "the maximum of the variable gpus"),
    "cpu": ("CPUs", "cpu, or the maximum of its variable"),
    "memory": ("of memory", "memory, or the values of its variable"),
}
_PASSING = ("node.kubernetes.io/", "node.cloudprovider.kubernetes.io/", "gpulab.io/")


@dataclass(frozen=True)
class PodTemplate:
    """The specification of pods, and its path in the resource arguments."""

    place: str
    spec: Mapping[str, Any]

    def containers(self) -> Iterator[tuple[str, Mapping[str, Any]]]:
        """Yield all containers with their paths, including init containers."""
        for key in ("containers", "initContainers"):
            for number, container in enumerate(as_mappings(self.spec.get(key))):
                yield f"{self.place}.{key}[{number}]".lstrip("."), container


def pod_templates(arguments: Any, place: str = "") -> Iterator[PodTemplate]:
    """Yield all pod specifications in a Job, a Pod, or any resource that contains pods."""
    if isinstance(arguments, list):
        for number, item in enumerate(arguments):
            yield from pod_templates(item, f"{place}[{number}]")
    if not isinstance(arguments, Mapping):
        return
    if as_mappings(arguments.get("containers")):
        yield PodTemplate(place, arguments)
        return
    for key, value in arguments.items():
        yield from pod_templates(value, f"{place}.{key}".lstrip("."))


def limit_problems(template: PodTemplate) -> Iterator[str]:
    """Yield requests that the API refuses: extended resources need a limit that equals the request."""
    for place, container in template.containers():
        resources = container.get("resources")
        requests, limits = (_by_name(as_mapping(resources).get(key)) for key in ("requests", "limits"))
        for name, amount in requests.items():
            if (_is_extended(name) or name.startswith("hugepages-")) and not _are_equal(limits.get(name), amount):
                yield (
                    f"{place} requests {amount} {name} without the same limit, which the API refuses: put it into "
                    "limits"
                )


def fit_problems(
    queue: Mapping[str, Any],
    pod: Mapping[str, Any],
    labeled: Sequence[Mapping[str, Any]],
    every: Sequence[Mapping[str, Any]],
    who: str = "its jobs",
) -> Iterator[str]:
    """Yield the resources of the largest pod of the queue that no node in ``labeled`` can provide.

    A resource that no node in ``every`` has is ignored, because DRA or a later device plugin may provide it.
    """
    refused = {objects.name(node): taint for node in labeled if (taint := _lasting_taint(node, pod))}
    nodes = [node for node in labeled if objects.name(node) not in refused]
    if not nodes:
        taints = ", ".join(sorted(set(refused.values())))
        yield (
            f"{who} do not tolerate {taints}, which every node on which they may run has: add it to tolerations"
            if taints
            else "no node has the labels of node_selector: correct it"
        )
        return
    others = [name for name in _other_resources(pod) if any(_offered_amount(node, name) for node in every)]
    wanted = {name: _requested_amount(queue, pod, name) for name in (*_RESOURCES, *others)}
    has = {objects.name(node): {name: _offered_amount(node, name) for name in wanted} for node in nodes}
    short = False
    for name in wanted:
        words, setting = _RESOURCES.get(name, (name, "its amount in resource_args"))
        greatest = max(amounts[name] for amounts in has.values())
        if wanted[name] > greatest:
            short = True
            yield (
                f"{who} may request {_format_amount(name, wanted[name])} {words}, but no node on which they may run "
                f"has more than {_format_amount(name, greatest)}: lower {setting}, or check node_selector and "
                "tolerations"
            )
    if not short and not any(all(wanted[name] <= amounts[name] for name in wanted) for amounts in has.values()):
        together = ", ".join(
            f"{_format_amount(name, amount)} {_RESOURCES.get(name, (name,))[0]}"
            for name, amount in wanted.items()
            if amount
        )
        yield f"{who} may request {together}, but no node on which they may run has all of that: lower one of them"


def _lasting_taint(node: Mapping[str, Any], pod: Mapping[str, Any]) -> str:
    """Return a taint that keeps the pods away, empty if none; temporary taints of Kubernetes do not count."""
    return untolerated_taint(node, pod.get("tolerations") or [], _PASSING)


def _offered_amount(node: Mapping[str, Any], name: str) -> Fraction:
    # Temporarily unhealthy GPUs are not allocatable.
    amounts = node["status"].get("capacity" if _is_extended(name) else "allocatable") or {}
    return read_quantity(str(amounts.get(name, "0"))) or Fraction(0)


def _requested_amount(queue: Mapping[str, Any], pod: Mapping[str, Any], name: str) -> Fraction:
    """Return the maximum amount that a pod may request, as Kubernetes counts (component-helpers' PodRequests).

    Containers run in parallel. An init container runs alone, in addition to earlier ones that keep running
    (restartPolicy Always).
    """
    whole = _amounts(pod).get(name)
    if whole is not None:
        return greatest_amount(queue, whole)
    lasting = first = Fraction(0)
    for container in as_mappings(pod.get("initContainers")):
        amount = greatest_amount(queue, _amounts(container).get(name, 0))
        if container.get("restartPolicy") == "Always":
            lasting += amount
            first = max(first, lasting)
        else:
            first = max(first, lasting + amount)
    together = sum(
        (greatest_amount(queue, _amounts(each).get(name, 0)) for each in as_mappings(pod.get("containers"))), lasting
    )
    return max(first, together)


def _amounts(part: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a container or pod requests; a limit without a request counts as the request."""
    resources = as_mapping(part.get("resources"))
    return {**_by_name(resources.get("limits")), **_by_name(resources.get("requests"))}


def _by_name(amounts: Any) -> dict[str, Any]:
    return {str(name): amount for name, amount in as_mapping(amounts).items()}


def _other_resources(pod: Mapping[str, Any]) -> list[str]:
    """Return the resources of device plugins in a pod other than whole GPUs, such as MIG devices."""
    containers = [*as_mappings(pod.get("containers")), *as_mappings(pod.get("initContainers"))]
    names = {name for container in containers for name in _amounts(container)}
    return sorted(name for name in names - {_GPU} if _is_extended(name))


def _is_extended(name: str) -> bool:
    return "/" in name and not name.partition("/")[0].endswith("kubernetes.io")


def _are_equal(limit: Any, amount: Any) -> bool:
    """Return whether amounts are equal; with a variable, only equal texts are."""
    texts = str(limit), str(amount)
    one, other = map(read_quantity, texts)
    return texts[0] == texts[1] if one is None or other is None else one == other


def _format_amount(name: str, amount: Fraction) -> str:
    return f"{float(amount / 2**30):.4g}Gi" if name == "memory" else f"{float(amount):.4g}"


def greatest_amount(queue: Mapping[str, Any], value: Any) -> Fraction:
    """Return the largest amount that a value can have with any value of its variable."""
    texts = [str(value)]
    if variable := VARIABLE.search(texts[0]):
        schema = queue["template_variables"].get(variable[1]) or {}
        bounds = [schema.get(key) for key in ("minimum", "default", "maximum")]
        values = schema.get("enum") or [bound for bound in bounds if bound is not None]
        texts = [VARIABLE.sub(str(each), texts[0]) for each in values]
    return max((amount for text in texts if (amount := read_quantity(text))), default=Fraction(0))
