# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Preflight's rules for the name of the API, which resolves to 127.0.0.1 on each node of a cluster that has one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ...module_utils._problem import Problem
from ...module_utils._words import listing
from .model import Cluster, ClusterRule, HostRule, Reading
from .recorded import control_plane_facts, document

_PORT = 6443
_HOSTS = "/etc/hosts"
_OTHER = "cluster_api_endpoint=HOST:PORT uses an address or a name of your own instead"


def needs_port(reading: Reading, cluster: Cluster, listener: Mapping[str, Any]) -> bool:
    """Return whether a host needs the port of a listener, which is not this collection's HAProxy on a worker."""
    if listener["port"] != _PORT or reading.host in cluster.settings["control_plane"]:
        return True
    # Not by the name in /etc/hosts: it may be that of a removed cluster, or lost with the block.
    is_ours = listener["process"] == "haproxy" and reading.facts["hosts_file"]["has_proxy"]
    return bool(cluster.settings["api_name"]) and not is_ours


def name_elsewhere(reading: Reading, cluster: Cluster) -> Iterator[Problem]:
    name, hosts = cluster.settings["api_name"], reading.facts["hosts_file"]
    found = hosts["elsewhere"]
    # The host may have been asked for another name, before the name of the cluster was known.
    if name and name == hosts["name"] and found:
        yield reading.problem(
            "api_name_elsewhere",
            f"The name {name} resolves to {listing(found)} on this host",
            f"{_HOSTS}, DNS, cluster_api_name",
            "This collection maps it to 127.0.0.1, where each node reaches an API server of the cluster",
            "Set cluster_api_name to a name that does not exist yet, or remove the other entries; if they are those of "
            f"your load balancer, set cluster_api_endpoint to {name}:{_PORT}",
        )


def hosts_file(reading: Reading, cluster: Cluster) -> Iterator[Problem]:
    """Check that /etc/hosts can be written, and stays as it is after a reboot. Not for a host that has the name."""
    name, found = cluster.settings["api_name"], reading.facts["hosts_file"]
    if not name or name in found["names"]:
        return
    if found["is_mount"]:
        yield reading.problem(
            "hosts_file_is_mount",
            f"{_HOSTS} is a mount of its own, as in many containers, and can't be replaced",
            _HOSTS,
            f"This file maps {name} to 127.0.0.1, where the node reaches the API",
            f"Let the machine have a file of its own (such as podman run --no-hosts); {_OTHER}",
        )
    if found["rewritten"] and not found["has_template"]:
        yield reading.problem(
            "hosts_file_rewritten",
            f"cloud-init writes {_HOSTS} at each boot (manage_etc_hosts), from a template that does not exist",
            "/etc/cloud/templates/hosts.debian.tmpl",
            f"{name} would be unknown after a reboot, and the node would not find the API",
            "Write `manage_etc_hosts: false` into /etc/cloud/cloud.cfg.d/99-hosts.cfg, or reinstall the package "
            f"cloud-init; {_OTHER}",
        )


def names(cluster: Cluster) -> Iterator[Problem]:
    """Check that the settings do not differ from the names that the cluster got when it was created."""
    for setting, record, what in (
        ("cluster_name", "recorded_name", "The cluster"),
        ("cluster_api_name", "recorded_api_name", "The API of the cluster"),
    ):
        wanted, there = cluster.settings[setting], cluster.settings[record]
        if wanted and there and wanted != there:
            yield Problem(
                f"{setting}_differs",
                f"{what} is called {there}, but {setting} is {wanted}",
                setting,
                "A cluster keeps the names that it got first",
                f"Set {setting} to {there}, or remove it",
                answers=((setting, there),),
            )


def external_endpoint(cluster: Cluster) -> Iterator[Problem]:
    """Check that cluster_api_endpoint is not the name to which this collection leads the nodes of this cluster."""
    name, endpoint = cluster.settings["recorded_api_name"], cluster.settings["cluster_api_endpoint"]
    if name and not cluster.settings["api_name"] and endpoint.lower() in (name, f"{name}:{_PORT}"):
        yield Problem(
            "api_endpoint_is_name",
            f"cluster_api_endpoint is {endpoint}, the name that this collection gave to the API of the cluster",
            "cluster_api_endpoint",
            f"With this setting, {_HOSTS} and HAProxy on the nodes, which lead the name to the API, are not managed",
            "Remove cluster_api_endpoint",
        )


def api_server_address(cluster: Cluster) -> Iterator[Problem]:
    """Check that the API server of a cluster that has a name also listens at 127.0.0.1, to which the name resolves."""
    recorded = [document(found, "ClusterConfiguration") for _reading, found in control_plane_facts(cluster)]
    for made in (cluster.settings["cluster_configuration"], *recorded):
        address = _bind_address(made)
        if cluster.settings["api_name"] and address:
            yield Problem(
                "api_server_address",
                f"The API server listens only at {address}",
                "apiServer.extraArgs (bind-address) in kubeadm_cluster_configuration or the cluster",
                f"{cluster.settings['api_name']} resolves to 127.0.0.1 on the control plane, too",
                "Remove bind-address, or set cluster_api_endpoint to the control plane's address",
            )
            return


def _bind_address(made: Mapping[str, Any]) -> str:
    """Return the only address at which the API server listens, empty if it listens at all."""
    server = made.get("apiServer")
    arguments = server.get("extraArgs") if isinstance(server, Mapping) else None
    # A mapping before v1beta4.
    if isinstance(arguments, list):
        arguments = {str(each.get("name")): each.get("value") for each in arguments if isinstance(each, Mapping)}
    found = str(arguments.get("bind-address") or "") if isinstance(arguments, Mapping) else ""
    return "" if found in ("0.0.0.0", "::") else found


RULES: tuple[HostRule, ...] = (name_elsewhere, hosts_file)
CLUSTER_RULES: tuple[ClusterRule, ...] = (api_server_address, external_endpoint, names)
