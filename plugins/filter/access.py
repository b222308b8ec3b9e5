# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import ipaddress
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Callable

from ansible import context
from ansible.errors import AnsibleError
from jinja2 import UndefinedError

from ..module_utils._kubeadm.kubeconfig import host_port
from ..module_utils._training.judge import largest_training
from ..plugin_utils._inventory import access
from ..plugin_utils._nodes import endpoint

DOCUMENTATION = r"""
name: access
short_description: Internal filters for the access to a cluster, and the commands that messages show
extends_documentation_fragment: gpulab.kubernetes.internal
"""


def api_server(address: str, endpoint: str = "") -> str:
    """Return host and port of the API server."""
    if endpoint or not address:
        return endpoint
    return host_port(address, 6443)


def expected_api(control_planes: Sequence[str], hosts: Mapping[str, Mapping[str, Any]], endpoint: str = "") -> str:
    """Return the probable address of the API server before any host is read."""
    if endpoint or not control_planes:
        return endpoint
    found = (_address(hosts, control_planes[0], name) for name in ("cluster_node_address", "ansible_host"))
    address = next(filter(None, found), "")
    return host_port(address, 6443) if address else ""


def cluster_endpoint(
    host: Mapping[str, Any],
    given: str,
    api_name: str,
    name: str,
    sources: Sequence[str],
    inventory_name: str = "",
    record: str = "",
) -> dict[str, str | bool]:
    """Choose the endpoint of a cluster from what preflight has read of its control plane, or from its record."""
    derived = access.cluster_name(str(inventory_name), [str(source) for source in sources])
    return endpoint.choose(host, str(record), str(given), str(api_name), str(name), derived)


def endpoint_migration_problem(choice: Mapping[str, Any], exists: bool, left_out: Sequence[str]) -> str:
    """Return why the endpoint of a cluster can't become a name, as a sentence, empty if it can."""
    return endpoint.migration_problem(choice["kind"], exists, list(left_out))


def endpoint_is_stale(host: Mapping[str, Any], choice: Mapping[str, Any]) -> bool:
    """Return whether the names in the /etc/hosts of a host are those of a removed cluster."""
    return endpoint.is_stale(host, choice)


def control_plane_addresses(control_planes: Sequence[str], hosts: Mapping[str, Mapping[str, Any]]) -> dict[str, str]:
    """Return the addresses of the control planes, as far as they are known, by their names in the inventory.

    Of one that does not answer, it is the address that the cluster has for its node.
    """
    nodes = [node for name in control_planes for node in _read(hosts, name).get("control_plane", {}).get("nodes", [])]
    known = {node["host"]: _usable([*node["addresses"], ""][0]) for node in nodes if node["control_plane"]}
    found = {name: _node_address(hosts, name) or known.get(name, "") for name in control_planes}
    return {name: address for name, address in found.items() if address}


def first_control_plane_read(
    control_planes: Sequence[str], hosts: Mapping[str, Mapping[str, Any]], otherwise: str
) -> str:
    """Return the first control plane that preflight has read, so that each run chooses the same one if all answer."""
    return next((name for name in control_planes if _read(hosts, name)), otherwise)


def _read(hosts: Mapping[str, Mapping[str, Any]], host: str) -> Mapping[str, Any]:
    """Return what preflight has read of a host, empty if it does not answer."""
    try:
        return hosts[host]["preflight_host"] or {}
    except (KeyError, AnsibleError, UndefinedError):
        return {}


def _node_address(hosts: Mapping[str, Mapping[str, Any]], host: str) -> str:
    """Return the node address of a host, empty if it depends on facts that are not known."""
    found = _address(hosts, host, "cluster_node_address")
    if found:
        return found
    try:
        return _usable((hosts[host].get("ansible_facts") or {})["default_ipv4"]["address"])
    except (KeyError, TypeError, AnsibleError, UndefinedError):
        return ""


def _address(hosts: Mapping[str, Mapping[str, Any]], host: str, name: str) -> str:
    """Return the value of a variable if it is a usable address, an empty string otherwise or if it refers to facts."""
    try:
        return _usable(hosts[host][name])
    except (KeyError, AnsibleError, UndefinedError):
        return ""


def _usable(text: Any) -> str:
    try:
        address = ipaddress.IPv4Address(str(text))
    except ValueError:
        return ""
    return "" if address.is_loopback or address.is_unspecified or address.is_multicast else str(address)


def kubeconfig_path(sources: Sequence[str], is_job: bool = False) -> str:
    """Choose where the controller keeps the administrator's kubeconfig."""
    return access.kubeconfig_path([str(source) for source in sources], is_job)


def next_steps(
    server: str,
    kubeconfig: str,
    control_plane: str,
    delegate: str = "localhost",
    tunnel: bool = False,
    free_gpus: Mapping[str, int] | None = None,
    kept: bool = False,
    is_job: bool = False,
) -> list[str]:
    """List the address of a cluster, its kubeconfig and the next commands."""
    inventories = [str(each) for each in context.CLIARGS.get("inventory") or ()]
    steps = access.Access(
        server=str(server),
        control_plane=str(control_plane),
        kubeconfig=str(kubeconfig),
        kubectl=delegate == "localhost" and not tunnel and shutil.which("kubectl") is not None,
        inventory=inventories,
        training=largest_training(free_gpus or {}),
        asks_password=asks_password(),
    )
    return steps.next_steps(Path.cwd(), terse=kept or is_job)


def asks_password() -> bool:
    """Return whether this run was given a become password."""
    return any(context.CLIARGS.get(name) for name in ("become_ask_pass", "become_password_file"))


def run_commands(value: Any, is_job: bool = False) -> Any:
    """Complete the commands of messages with the inventory of this run."""
    inventory = [str(each) for each in context.CLIARGS.get("inventory") or ()]
    options = access.run_options([] if is_job else inventory, asks_password(), Path.cwd())
    return access.run_commands(value, options)


class FilterModule:
    def filters(self) -> dict[str, Callable[..., Any]]:
        return {
            "api_server": api_server,
            "cluster_endpoint": cluster_endpoint,
            "control_plane_addresses": control_plane_addresses,
            "endpoint_is_stale": endpoint_is_stale,
            "endpoint_migration_problem": endpoint_migration_problem,
            "expected_api": expected_api,
            "first_control_plane_read": first_control_plane_read,
            "kubeconfig_path": kubeconfig_path,
            "next_steps": next_steps,
            "run_commands": run_commands,
        }
