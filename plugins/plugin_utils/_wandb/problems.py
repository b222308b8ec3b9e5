# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What prevents queues of W&B Launch from working as declared, checked before any change."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ...module_utils._wandb.refusals import refusals
from .fit import VARIABLE, fit_problems, greatest_amount, limit_problems, pod_templates

_TYPES: dict[str, Any] = {"integer": int, "number": (int, float), "string": str}
_LONGEST_NAME = 64


@dataclass(frozen=True)
class Cluster:
    """The cluster's nodes, namespaces and claims from the API."""

    nodes: Sequence[Mapping[str, Any]]
    namespaces: Sequence[Mapping[str, Any]]
    claims: Sequence[Mapping[str, Any]]

    def with_labels(self, selector: Mapping[str, str]) -> list[Mapping[str, Any]]:
        """Return the nodes with all of these labels."""
        return [
            node
            for node in self.nodes
            if all((node["metadata"].get("labels") or {}).get(key) == value for key, value in selector.items())
        ]

    def has(self, namespace: str) -> bool:
        return any(each["metadata"]["name"] == namespace for each in self.namespaces)

    def has_claim(self, namespace: str, name: str) -> bool:
        wanted = (namespace, name)
        return any((each["metadata"]["namespace"], each["metadata"]["name"]) == wanted for each in self.claims)


@dataclass(frozen=True)
class DockerHost:
    """A host that runs jobs as containers: its Docker's version, empty if it does not answer, and its GPUs."""

    version: str
    gpus: int


def problems(
    queues: Sequence[Mapping[str, Any]],
    absent: Sequence[str],
    cluster: Cluster | None,
    own_namespace: str,
    docker: DockerHost | None = None,
) -> Iterator[str]:
    """Yield sentences, each with what to do. ``queues`` are arguments of the module wandb_queue."""
    if docker and not docker.version:
        yield "Docker does not respond on this host: run gpulab.kubernetes.docker first"
    for name, count in Counter([*(queue["name"] for queue in queues), *absent]).items():
        if count > 1:
            yield (
                f"the queue {name} is named {count} times: keep only one entry, in wandb_launch_queues or "
                "wandb_launch_queues_absent"
            )
    for queue in queues:
        for text in _queue_problems(queue):
            yield f"queue {queue['name']}: {text}"
        if cluster and queue["resource"] == "kubernetes":
            for text in _cluster_problems(queue, cluster, own_namespace):
                yield f"queue {queue['name']}: {text}"
        if docker and queue["resource"] == "local-container" and (wanted := _docker_gpus(queue)) > docker.gpus:
            yield (
                f"queue {queue['name']}: its jobs may request {wanted} GPUs, but this host has {docker.gpus}: lower "
                "gpus, or the maximum of the variable"
            )


def _queue_problems(queue: Mapping[str, Any]) -> Iterator[str]:
    if not 1 <= len(queue["name"]) <= _LONGEST_NAME:
        yield f"a name has 1 to {_LONGEST_NAME} characters"
    for refused in refusals(queue["resource"], queue["resource_args"]):
        yield f"the launch agent refuses {refused}"
    if queue["resource"] == "kubernetes":
        for template in pod_templates(queue["resource_args"]):
            yield from limit_problems(template)
    for name in queue["unused"]:
        yield f"{name} has an effect only on a cluster: remove it"
    used = set(VARIABLE.findall(json.dumps(queue["resource_args"])))
    declared = set(queue["template_variables"])
    for name in sorted(declared - used):
        yield f"nothing uses the variable {name}: remove it, or put {{{{{name}}}}} into resource_args"
    for name in sorted(used - declared):
        yield f"{{{{{name}}}}} is not one of its variables: declare it"
    amounts = set(VARIABLE.findall(json.dumps(_amounts(queue))))
    for name, schema in queue["template_variables"].items():
        found = list(_variable_problems(name, schema))
        yield from found
        unbounded = schema.get("maximum") is None and not schema.get("enum")
        if not found and name in amounts and schema["type"] != "string" and unbounded:
            yield f"the variable {name} has no maximum, so a job may request any amount: set maximum or enum"


def _amounts(queue: Mapping[str, Any]) -> Any:
    """Return the parts of a queue that determine what its jobs request."""
    if queue["resource"] != "kubernetes":
        return [queue["resource_args"].get(name) for name in ("gpus", "cpus", "memory")]
    return [
        container.get("resources")
        for template in pod_templates(queue["resource_args"])
        for _place, container in template.containers()
    ]


def _variable_problems(name: str, schema: Mapping[str, Any]) -> Iterator[str]:
    kind = _TYPES.get(schema.get("type", ""))
    if kind is None:
        yield f"the variable {name} needs a type: {', '.join(_TYPES)}"
        return
    for key in ("default", "minimum", "maximum"):
        value = schema.get(key)
        if value is not None and (isinstance(value, bool) or not isinstance(value, kind)):
            yield f"{key} of the variable {name} must be of its type, {schema['type']}: {value!r}"
            return
    low, high, default = schema.get("minimum"), schema.get("maximum"), schema.get("default")
    choices = schema.get("enum")
    if choices is not None:
        yield from _enum_problems(name, schema, kind)
    if schema["type"] == "string":
        return
    if low is not None and high is not None and low > high:
        yield f"minimum of the variable {name} is greater than its maximum"
    elif default is not None and not _is_between(low, default, high):
        yield f"default of the variable {name} is not between its minimum and maximum"


def _enum_problems(name: str, schema: Mapping[str, Any], kind: Any) -> Iterator[str]:
    choices = schema["enum"]
    if not isinstance(choices, list) or not choices:
        yield f"enum of the variable {name} must be a list of values"
        return
    wrong = [each for each in choices if isinstance(each, bool) or not isinstance(each, kind)]
    if wrong:
        yield f"enum of the variable {name} must have values of its type, {schema['type']}: {wrong[0]!r}"
        return
    default = schema.get("default")
    if default is not None and default not in choices:
        yield f"default of the variable {name}, {default!r}, is not one of its enum"
    if schema["type"] != "string":
        outside = [each for each in choices if not _is_between(schema.get("minimum"), each, schema.get("maximum"))]
        if outside:
            yield f"enum of the variable {name} has {outside[0]!r}, which is not between its minimum and maximum"


def _is_between(low: Any, value: Any, high: Any) -> bool:
    return bool((low is None or low <= value) and (high is None or value <= high))


def _cluster_problems(queue: Mapping[str, Any], cluster: Cluster, own_namespace: str) -> Iterator[str]:
    namespace = (queue["resource_args"].get("metadata") or {}).get("namespace") or "default"
    if namespace != own_namespace and not cluster.has(namespace):
        yield f"there is no namespace {namespace}: create it, or set wandb_launch_job_namespace"
    templates = list(pod_templates(queue["resource_args"]))
    for template in templates:
        yield from _claim_problems(template.spec, namespace, cluster)
        who = "its jobs" if len(templates) == 1 else f"its pods of {template.place}"
        nodes = cluster.with_labels(template.spec.get("nodeSelector") or {})
        yield from fit_problems(queue, template.spec, nodes, cluster.with_labels({}), who)


def _claim_problems(pod: Mapping[str, Any], namespace: str, cluster: Cluster) -> Iterator[str]:
    for volume in pod.get("volumes") or []:
        claim = (volume.get("persistentVolumeClaim") or {}).get("claimName")
        if claim and not cluster.has_claim(namespace, claim):
            yield (
                f"the namespace {namespace} has no claim {claim}: create it, for example with "
                f"gpulab.kubernetes.storage -e nfs_cache_namespace={namespace} -e nfs_cache_claim={claim}"
            )


def _docker_gpus(queue: Mapping[str, Any]) -> int:
    """Return the maximum number of GPUs that a container of the queue may request."""
    return int(greatest_amount(queue, queue["resource_args"].get("gpus", 0)))
