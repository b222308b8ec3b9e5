# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Choose where the agent of Kubernetes' queues runs, and how images built on a host reach the cluster. Pure."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ...module_utils._cluster.kubeconfig import build
from ...module_utils._containerd.registry import MISSING
from ...module_utils._kubeadm.kubeconfig import Kubeconfig, endpoint, host_port

Object = Mapping[str, Any]
# Annotation of the agent's ServiceAccount: ``cluster``, or the host's name in the inventory.
_PLACE = "gpulab.kubernetes/agent-place"
_CLUSTER = "cluster"
# The limit of useradd.
_LONGEST_USER = 32
_MINIKUBE = "minikube.k8s.io/name"


@dataclass(frozen=True)
class Host:
    """The host that the agent runs on: its name and addresses, versions of Docker and its plugins."""

    name: str
    addresses: Sequence[str]
    version: str
    plugins: Sequence[str]


@dataclass(frozen=True)
class Decision:
    """A decision; ``load`` is an argument of launch_agent.py: a socket's path, a command, or empty to load nothing."""

    problems: Sequence[str] = ()
    load: str = ""


def plan_place(settings: Mapping[str, Any], builder: Mapping[str, Any], found: Mapping[str, Any]) -> Decision:
    """Check the place of the agent, and choose how the cluster gets its images.

    ``settings`` and ``found`` are those of the filter wandb_agent_plan, ``builder`` is of W&B's configuration.
    """
    problems = list(_place_problems(settings, found["accounts"]))
    if settings["place"] == _CLUSTER:
        return Decision([*problems, *_image_problems(settings["image"], found["image_state"], found["nodes"])])
    if settings["chart"]:
        problems.append(
            "W&B's chart runs the agent in the cluster: remove wandb_launch_chart_path, or set "
            "wandb_launch_agent_place=cluster"
        )
    if len(settings["user"]) > _LONGEST_USER:
        problems.append(
            f"{settings['user']}, the user of the agent, has more than {_LONGEST_USER} characters: shorten "
            "wandb_launch_name"
        )
    if not found["host"]:
        problems.append(
            f"{settings['host'] or 'the host of the agent'} could not be read, or is not a host of this play: see the "
            "error above, or correct wandb_launch_agent_host"
        )
        return Decision(problems)
    host = Host(**found["host"])
    if not host.version:
        problems.append(f"Docker does not respond on {host.name}: run gpulab.kubernetes.docker first")
    if builder.get("type", "docker") != "docker":
        return Decision(problems)
    if host.version and "buildx" not in host.plugins:
        problems.append(
            f"Docker on {host.name} has no buildx, which builds the images: add buildx to docker_plugins and run "
            "gpulab.kubernetes.docker, or set wandb_launch_agent_config={'builder': {'type': 'noop'}}"
        )
    destination = str(builder.get("destination") or "")
    if destination:
        problems.extend(_destination_problems(destination.removeprefix("https://")))
        return Decision(problems)
    load, problem = _choose_loading(found["nodes"], host, settings["socket"])
    return Decision([*problems, *([problem] if problem else [])], load)


def _place_problems(settings: Mapping[str, Any], accounts: Sequence[Object]) -> Iterator[str]:
    wanted = _CLUSTER if settings["place"] == _CLUSTER else settings["host"]
    for account in accounts:
        now = (account["metadata"].get("annotations") or {}).get(_PLACE) or _CLUSTER
        if now != wanted:
            where, place = ("in the cluster", _CLUSTER) if now == _CLUSTER else (f"on {now}", "host")
            more = "" if now == _CLUSTER else f" -e wandb_launch_agent_host={now}"
            yield (
                f"the agent {settings['name']} already runs {where}: remove it there first, with "
                f"-e wandb_launch_state=absent -e wandb_launch_agent_place={place}{more}"
            )


def _image_problems(reference: str, state: str, nodes: Sequence[Object]) -> Iterator[str]:
    # Without a registry, images are loaded on the nodes.
    there = {
        name for node in nodes for image in node["status"].get("images") or [] for name in image.get("names") or []
    }
    # A node lists an image with its tag, and separately with its digest.
    if state == MISSING and reference.partition("@")[0] not in there:
        yield (
            f"the registry has no image {reference}, which W&B does not publish for each release: set "
            "wandb_launch_image to a tag that exists; or build the image from roles/wandb_launch/files/agent of this "
            "collection, push it, and set wandb_launch_image to its name; or set wandb_launch_agent_place=host"
        )


def _destination_problems(repository: str) -> Iterator[str]:
    # wandb/sdk/launch/builder/docker_builder.py splits the image's reference at its only colon.
    if ":" in repository:
        yield (
            f"wandb can't push to {repository}: it takes no registry with a port, and no tag: use a registry at port "
            "443, or leave out builder.destination on a cluster of one node"
        )


def _choose_loading(nodes: Sequence[Object], host: Host, socket: str) -> tuple[str, str]:
    """Return how to load an image on the only node (empty if not needed), and why that is impossible, or empty."""
    if len(nodes) != 1:
        return "", (
            f"images that {host.name} builds would reach only one of {len(nodes)} nodes: set "
            "wandb_launch_agent_config={'builder': {'type': 'docker', 'destination': 'registry.example.org/jobs'}} "
            "(the nodes pull from there), or 'noop' as the type"
        )
    (node,) = nodes
    name, status = node["metadata"]["name"], node["status"]
    runtime = status["nodeInfo"]["containerRuntimeVersion"].partition(":")[0]
    if any(address["address"] in host.addresses for address in status.get("addresses") or []):
        # Kubernetes and the builder use the same Docker.
        if runtime == "docker":
            return "", ""
        return (socket, "") if runtime == "containerd" else ("", _unknown_runtime(name, runtime))
    if (node["metadata"].get("labels") or {}).get(_MINIKUBE):
        # A container of the host's Docker with the node's name. `minikube image load` does the same over SSH.
        programs = {"docker": "docker load", "containerd": "ctr --namespace k8s.io images import -"}
        if runtime in programs:
            return f"docker exec --interactive {name} {programs[runtime]}", ""
        return "", _unknown_runtime(name, runtime)
    return "", (
        f"the only node, {name}, is not {host.name}: correct wandb_launch_agent_host, or set builder.destination in "
        "wandb_launch_agent_config"
    )


def _unknown_runtime(node: str, runtime: str) -> str:
    return (
        f"images can't be loaded into the container runtime of {node} ({runtime}): set builder.destination in "
        "wandb_launch_agent_config"
    )


def kubeconfig(secret: Object, slices: Sequence[Object], namespace: str) -> str:
    """Return a kubeconfig with a ServiceAccount's token and the address that the API announces.

    ``secret`` is of the type kubernetes.io/service-account-token, ``slices`` are those of the Service kubernetes. Empty
    if one of them does not exist yet.
    """
    data = secret.get("data") or {}
    server = server_url(slices)
    if not (data.get("token") and data.get("ca.crt") and server):
        return ""
    authority, token = (base64.b64decode(data[key]).decode() for key in ("ca.crt", "token"))
    config = Kubeconfig(server, *endpoint(server), ca=authority, token=token)
    return json.dumps(build(config, namespace=namespace), indent=2)


def server_name(slices: Sequence[Object]) -> str:
    """Return the address of the API for a proxy's exceptions, empty if there is none."""
    server = server_url(slices)
    return endpoint(server)[0] if server else ""


def server_url(slices: Sequence[Object]) -> str:
    """Return the URL of the first endpoint, empty if there is none."""
    for each in slices:
        port = next((port["port"] for port in each.get("ports") or [] if port.get("name") == "https"), None)
        for ready in each.get("endpoints") or []:
            for address in ready["addresses"]:
                if port:
                    return f"https://{host_port(address, port)}"
    return ""
