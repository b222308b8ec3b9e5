"""Show a lab, and open shells or kubectl for it."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

from lab import depot, gpusim, paths
from lab.depot import serve
from lab.nodes import machine, podman, state, system
from lab.nodes.errors import LabError
from lab.nodes.spec import Node
from lab.nodes.state import State

_ADMIN = "/etc/kubernetes/admin.conf"
_VERSION = "cluster_kubernetes_version"


@dataclass(frozen=True)
class Row:
    """One node as `status` shows it."""

    node: str
    os: str
    address: str
    groups: str
    gpus: str
    state: str


def known(name: str) -> State:
    """Return an existing lab. Raises LabError."""
    system.require_podman()
    found = state.load(name)
    if found is None:
        others = ", ".join(state.names()) or "none"
        raise LabError(
            f"Error while looking for the lab {name}: it doesn't exist (there are: {others}). "
            f"`python -m lab up --name {name}` makes it."
        )
    return found


def rows(lab: State) -> list[Row]:
    """Return the nodes of a lab with their current states."""
    containers = podman.containers(lab.name)
    return [_row(lab, node, containers.get(machine.container(lab.name, node.name), "missing")) for node in _nodes(lab)]


def _row(lab: State, node: Node, container: str) -> Row:
    member = lab.nodes.get(node.name)
    now = container
    if container == "running":
        now = podman.answers(machine.container(lab.name, node.name), "systemctl", "is-system-running")[1]
        if not (member and member.ready):
            now += ", not finished: run up again"
    gpus = f"{node.gpus.count} {node.gpus.model.upper()} (simulated)" if node.gpus else "-"
    return Row(node.name, node.os, member.address if member else "-", ", ".join(node.groups), gpus, now)


def depot_state(lab: State) -> str:
    """Return a description of the depot's address for this lab."""
    address = serve.networks().get(f"gpulab-{lab.name}")
    if not address:
        return "not on this lab's network: `python -m lab up` connects it"
    return f"http://{address} (packages), {address}:5000 (images)"


def node(lab: State, name: str) -> Node:
    """Return a node of a lab. Raises LabError."""
    for candidate in _nodes(lab):
        if candidate.name == name:
            return candidate
    raise LabError(
        f"Error while looking for the node {name}: the lab {lab.name} has {', '.join(n.name for n in _nodes(lab))}."
    )


def _nodes(lab: State) -> tuple[Node, ...]:
    return lab.described().nodes


def shell(lab: State, name: str, command: list[str]) -> list[str]:
    """Return the command line that opens a shell on a node, or runs a command there, as Ansible's user."""
    member = lab.nodes.get(node(lab, name).name)
    if member is None:
        raise LabError(
            f"Error while opening a shell on {name}: it isn't made yet. `python -m lab up --name {lab.name}`"
        )
    return machine.ssh(lab.name, member.address, *command, terminal=os.isatty(0))


def kubectl_program(lab: State) -> Path:
    """Return the depot's kubectl for a lab. Raises LabError."""
    version = str(lab.described().vars.get(_VERSION, depot.DEFAULT_KUBERNETES))
    program = paths.component_dir("kubernetes", f"v{version}") / "kubectl"
    if not program.is_file():
        raise LabError(f"Error while looking for kubectl {version}: it isn't built. `python -m lab build` builds it.")
    return program


def kubectl(lab: State) -> tuple[Path, Path]:
    """Return the depot's kubectl for a lab and its cluster's current kubeconfig. Raises LabError."""
    program = kubectl_program(lab)
    for candidate in _nodes(lab):
        if "control_plane" not in candidate.groups:
            continue
        status, text = podman.answers(machine.container(lab.name, candidate.name), "cat", _ADMIN)
        if status == 0:
            kubeconfig = paths.lab_dir(lab.name) / "admin.conf"
            state.write_private(kubeconfig, by_address(text, lab.nodes[candidate.name].address) + "\n")
            return program, kubeconfig
    raise LabError(
        f"Error while looking for the cluster of the lab {lab.name}: no control plane has {_ADMIN} yet. "
        f"Run first: ansible-playbook site.yml -i {lab.inventory}"
    )


def by_address(kubeconfig: str, address: str) -> str:
    """Return a kubeconfig with an address if its server is a name, which only the nodes know."""
    return re.sub(
        r"^( *)server: https://([a-z][a-z0-9.-]*):([0-9]+)$",
        rf"\1server: https://{address}:\3\n\1tls-server-name: \2",
        kubeconfig,
        flags=re.MULTILINE,
    )


def fault(lab: State, name: str, kind: str, gpu: int | None) -> str:
    """Set or clear a fault of a node's simulated GPUs, and return the new state. Raises LabError, DepotError."""
    if node(lab, name).gpus is None:
        raise LabError(f"Error while switching on {kind}: the node {name} has no GPUs.")
    container = machine.container(lab.name, name)
    return gpusim.fault(lambda argv: podman.execute(container, argv, doing=f"running {argv[0]} on {name}"), kind, gpu)
