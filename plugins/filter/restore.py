# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Callable

DOCUMENTATION = r"""
name: restore
short_description: Internal filters for the restore of a backup
extends_documentation_fragment: gpulab.kubernetes.internal
"""


def restore_trusted(variables: Mapping[str, Any], hosts: Sequence[str]) -> dict[str, list[str]]:
    """Return the hashes of the CAs that hosts trust, as preflight has read them."""
    read = {host: variables[host].get("preflight_host") or {} for host in hosts}
    return {host: [str(each) for each in found["cluster"]["ca_hashes"]] for host, found in read.items() if found}


def restore_endpoints(variables: Mapping[str, Any], hosts: Sequence[str]) -> dict[str, str]:
    """Return the endpoints of the API, as host:port, that the kubelets of hosts use, as preflight has read them."""
    read = {host: (variables[host].get("preflight_host") or {}).get("cluster") or {} for host in hosts}
    return {host: str(found["endpoint"]) for host, found in read.items() if found.get("endpoint")}


def restore_pods(variables: Mapping[str, Any], hosts: Sequence[str], reached: Sequence[str]) -> dict[str, Any]:
    """Return the pods that run on hosts by the names of their nodes, None for a host that was not read."""
    found = {}
    for host in hosts:
        name = (variables[host].get("preflight_host") or {}).get("node_name") or host
        read = variables[host].get("__restore_pods") or {}
        found[str(name)] = read.get("pods") if host in reached else None
    return found


class FilterModule:
    def filters(self) -> dict[str, Callable[..., Any]]:
        return {
            "restore_endpoints": restore_endpoints,
            "restore_pods": restore_pods,
            "restore_trusted": restore_trusted,
        }
