# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Choose the file from which a host's kubelet reads name servers for pods that use the host's, above all CoreDNS.

kubeadm decides by the host that runs init, and uses the same file for all nodes (kubernetes/kubeadm#3327, #3034).
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping, Sequence
from typing import Any

RESOLVED = "/run/systemd/resolve/resolv.conf"
USUAL = "/etc/resolv.conf"


def resolv_conf(resolver: Mapping[str, Any], wanted: str, shared: str | None, finished: bool) -> str:
    """Return the path for a host.

    ``resolver`` is from preflight_info, ``wanted`` the host's own setting (empty: none), ``shared`` that of the shared
    KubeletConfiguration (None: none). A ``finished`` host keeps its kubelet's present setting.
    """
    if finished and resolver["kubelet"] is not None:
        return str(resolver["kubelet"])
    if wanted or shared is not None:
        return wanted or str(shared)
    return RESOLVED if resolver["systemd_resolved"] else USUAL


def usable(nameservers: Sequence[str]) -> list[str]:
    """Return the name servers that a pod can reach: none on loopback, because a pod has its own."""
    return [server for server in nameservers if not _is_loopback(server)]


def _is_loopback(server: str) -> bool:
    try:
        return ipaddress.ip_address(server.partition("%")[0]).is_loopback
    except ValueError:
        return True
