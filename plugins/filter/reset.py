# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, Callable

from ..module_utils._files import read_text
from ..module_utils._kubeadm.kubeconfig import KubeconfigError, read_kubeconfig
from ..module_utils._kubeadm.x509 import CertificateError, certificates, public_key_hash
from ..plugin_utils._nodes import reset
from ..plugin_utils._nodes.removal import api_host

DOCUMENTATION = r"""
name: reset
short_description: Internal filters for the reset of hosts
extends_documentation_fragment: gpulab.kubernetes.internal
"""


def reset_decision(
    variables: Mapping[str, Any],
    selected: Sequence[str],
    hosts: Sequence[str],
    control_planes: Sequence[str],
    name: str,
    settings: Mapping[str, Any],
    nodes: Collection[str] | None = None,
    members: Collection[str] | None = None,
    authority: Collection[str] = (),
) -> dict[str, Any]:
    """Return what ``reset.decide`` decides about the hosts of this run, as host_reset has read them."""
    found = {host: dict(variables[host].get("__reset_found") or {}) for host in selected}
    for host, each in found.items():
        each["node"] = str(variables[host].get("__reset_node") or "")
    return reset.decide(found, selected, hosts, control_planes, name, settings, nodes, members, authority)


def reset_kubeconfig(path: str, variables: Mapping[str, Any], control_planes: Sequence[str]) -> bool:
    """Return whether a kubeconfig on the controller belongs to the cluster of the control planes that are reset."""
    found = [(variables[host].get("__reset_found") or {}).get("cluster") or {} for host in control_planes]
    hashes = {each for cluster in found for each in cluster.get("ca_hashes") or ()}
    try:
        authority = read_kubeconfig(read_text(Path(path).expanduser()) or "").ca
        return bool(hashes & {public_key_hash(each) for each in certificates(authority or "")})
    except (KubeconfigError, CertificateError):
        return False


def reset_asked(variables: Mapping[str, Any], control_planes: Sequence[str], hosts: Sequence[str]) -> str:
    """Return the control plane outside of this run that answers and is asked about it, empty if there is none."""
    readings = {name: variables[name].get("__reset_asked") or {} for name in control_planes}
    return api_host(hosts, control_planes, readings)


def reset_name(variables: Mapping[str, Any], control_planes: Sequence[str]) -> str:
    """Return the name of the cluster in the record of the first control plane that was read, empty if none has one."""
    clusters = [
        (variables[host].get("__reset_found") or {}).get("cluster") or variables[host].get("__reset_asked") or {}
        for host in control_planes
    ]
    return next((name for cluster in clusters if (name := str(cluster.get("name") or ""))), "")


class FilterModule:
    def filters(self) -> dict[str, Callable[..., Any]]:
        return {
            "reset_asked": reset_asked,
            "reset_decision": reset_decision,
            "reset_kubeconfig": reset_kubeconfig,
            "reset_name": reset_name,
        }
