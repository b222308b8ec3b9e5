# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Convert declared queues of W&B Launch to W&B's form, and compare them with the existing ones."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from .._cluster.quantities import read_quantity
from .._json import as_object, as_objects, needed_text, read_json
from .._mappings import merged

Values = dict[str, Any]
# Resource for each template variable of that name, unless a value is given.
_AMOUNTS = {"gpus": "nvidia.com/gpu", "cpu": "cpu", "memory": "memory"}
_DOCKER_AMOUNTS = {"gpus": "gpus", "cpu": "cpus", "memory": "memory"}
# Path of additional CAs for agents and jobs: Python's requests, Go (wandb-core) and Python's ssl, and git.
AUTHORITIES = "/etc/wandb-ca"
CA_VARIABLES = ("REQUESTS_CA_BUNDLE", "SSL_CERT_FILE", "GIT_SSL_CAINFO")
# Settings that only apply to clusters. The agent mounts no volumes into Docker containers.
_CLUSTER_ONLY = ("namespace", "node_selector", "tolerations", "volumes")


@dataclass(frozen=True)
class Queue:
    """A queue in W&B's form; ``variables`` are JSON schemas by name."""

    name: str
    resource: str = "kubernetes"
    arguments: Mapping[str, Any] = field(default_factory=dict)
    variables: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    prioritization: str = "DISABLED"

    def shown(self) -> Values:
        """Return the queue for a diff."""
        return {
            "name": self.name,
            "resource": self.resource,
            "resource_args": dict(self.arguments),
            "template_variables": {name: dict(schema) for name, schema in sorted(self.variables.items())},
            "prioritization": self.prioritization,
        }


def declared(setting: Mapping[str, Any], defaults: Mapping[str, Any]) -> Values:
    """Return the arguments of the module wandb_queue for an entry of wandb_launch_queues.

    ``defaults`` has the jobs' namespace, node_selector, tolerations, environment and, with additional certificate
    authorities, the name of their ConfigMap (authorities). ``unused`` in the result names settings that do not apply to
    this type of queue.
    """
    resource = setting.get("type") or "kubernetes"
    unused = () if resource == "kubernetes" else _CLUSTER_ONLY
    setting = {**setting, "env": {**(defaults.get("environment") or {}), **(setting.get("env") or {})}}
    variables = {
        name: {key: value for key, value in schema.items() if value is not None}
        for name, schema in (setting.get("variables") or {}).items()
    }
    made = (
        _job({**defaults, **_given(setting)}, variables) if resource == "kubernetes" else _container(setting, variables)
    )
    return {
        "name": setting["name"],
        "resource": resource,
        "resource_args": merged(made, setting.get("resource_args") or {}),
        "template_variables": variables,
        "prioritization": "V0" if setting.get("priorities") else "DISABLED",
        "unused": [name for name in unused if setting.get(name)],
    }


def from_api(name: str, config: Any, resource: str, variables: Any, prioritization: str) -> Queue:
    """Return a queue from fields of wandb's RunQueue. Raise DomainError.

    The fields are its config, type, template_variables and prioritization_mode.
    """
    what = f"the queue {name} of W&B"
    by_type = as_object(_loaded(config, what).get("resource_args") or {}, f"the arguments of {what}")
    arguments = as_object(by_type.get(resource) or {}, f"the arguments of {what}")
    what = f"a template variable of {what}"
    schemas = {
        needed_text(each, "name", what): _loaded(each.get("schema"), what) for each in as_objects(variables, what)
    }
    return Queue(name, resource, arguments, schemas, prioritization or "DISABLED")


def _loaded(value: Any, what: str) -> dict[str, Any]:
    """Return an object, parsed if it is JSON; empty if there is none."""
    return as_object(read_json(value, what) if isinstance(value, str) else value or {}, what)


def _given(setting: Mapping[str, Any]) -> Values:
    return {key: value for key, value in setting.items() if value is not None}


def _amounts(setting: Mapping[str, Any], variables: Mapping[str, Any], names: Mapping[str, str]) -> Values:
    found = {}
    for name, resource in names.items():
        value = f"{{{{{name}}}}}" if name in variables else setting.get(name)
        if value:
            found[resource] = value
    return found


def _job(setting: Mapping[str, Any], variables: Mapping[str, Any]) -> Values:
    mounts = [{"name": f"volume-{n}", "mountPath": path} for n, path in enumerate(setting.get("volumes") or {})]
    volumes: list[Values] = [
        {"name": f"volume-{n}", "persistentVolumeClaim": {"claimName": claim}}
        for n, claim in enumerate((setting.get("volumes") or {}).values())
    ]
    if setting.get("shared_memory"):
        mounts.append({"name": "shared-memory", "mountPath": "/dev/shm"})
        memory = {"medium": "Memory", "sizeLimit": setting["shared_memory"]}
        volumes.append({"name": "shared-memory", "emptyDir": memory})
    environment = {name: str(value) for name, value in (setting.get("env") or {}).items()}
    if setting.get("authorities"):
        mounts.append({"name": "authorities", "mountPath": AUTHORITIES, "readOnly": True})
        volumes.append({"name": "authorities", "configMap": {"name": setting["authorities"]}})
        environment = {**dict.fromkeys(CA_VARIABLES, f"{AUTHORITIES}/ca.crt"), **environment}
    container: Values = {"name": "job", "image": "${image_uri}"}
    pod: Values = {"restartPolicy": "Never"}
    amounts = _amounts(setting, variables, _AMOUNTS)
    for part, name, value in (
        (container, "resources", {"limits": amounts} if amounts else None),
        (container, "env", [{"name": name, "value": value} for name, value in environment.items()]),
        (container, "volumeMounts", mounts),
        (pod, "nodeSelector", setting.get("node_selector")),
        (pod, "tolerations", setting.get("tolerations")),
        (pod, "volumes", volumes),
    ):
        if value:
            part[name] = value
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"namespace": setting["namespace"]},
        "spec": {"backoffLimit": 0, "template": {"spec": {**pod, "containers": [container]}}},
    }


def _container(setting: Mapping[str, Any], variables: Mapping[str, Any]) -> Values:
    environment = [f"{name}={value}" for name, value in (setting.get("env") or {}).items()]
    amounts = {**_amounts(setting, variables, _DOCKER_AMOUNTS), "shm-size": setting.get("shared_memory")}
    found = {**{name: _docker_amount(name, value) for name, value in amounts.items()}, "env": environment}
    return {name: value for name, value in found.items() if value}


def _docker_amount(name: str, value: Any) -> str:
    """Return an amount for ``docker run``, which accepts ``8g`` but neither ``500m`` of a CPU nor ``8Gi``."""
    text = str(value or "")
    quantity = read_quantity(text) if name == "cpus" or any(letter.isupper() for letter in text) else None
    return text if quantity is None else f"{float(quantity):.12g}"
