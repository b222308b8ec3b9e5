# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Decide which endpoint a cluster has: host and port of the API in its certificates and kubeconfigs. Pure.

kubeadm can't change it later, so an existing cluster keeps what it has. A name of this collection resolves to 127.0.0.1
on each node (role api_endpoint), and is unknown elsewhere. The control plane records it, and has it in its /etc/hosts.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ...module_utils._kubeadm import init_decision
from ...module_utils._kubeadm.membership import recorded_names
from ...module_utils._words import listing
from .._preflight.network import is_node_name

NAME, ADDRESS, EXTERNAL = "name", "address", "external"
_PORT = 6443
_STORED = re.compile(r"^controlPlaneEndpoint:[ \t]*[\"']?([^\s\"'#]+)", re.MULTILINE)
_LONGEST_LABEL = 63


@dataclass(frozen=True)
class Endpoint:
    """``kind`` is NAME, ADDRESS (of the control plane) or EXTERNAL (cluster_api_endpoint).

    ``server`` is host:port, empty for ADDRESS. ``api_name`` is the API's name, which the cluster of another kind does
    not use.
    """

    kind: str
    server: str
    api_name: str


def dns_label(text: str) -> str:
    """Return a text as a DNS label, ``cluster`` if nothing is left of it."""
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")[:_LONGEST_LABEL].strip("-") or "cluster"


def decide(given: str, wanted: str, there: str | None, known: Sequence[str] = ()) -> Endpoint:
    """Return the endpoint of a cluster.

    ``given`` is cluster_api_endpoint, ``wanted`` the API's name in a new cluster, ``known`` the names that this
    collection gave to this cluster. ``there`` is the endpoint that the cluster has, as host:port: empty if there is no
    cluster yet, None if it is unknown.
    """
    name = known[0] if known else wanted
    if given:
        return Endpoint(EXTERNAL, given, name)
    if there == "":
        return Endpoint(NAME, f"{name}:{_PORT}", name)
    host = (there or "").removesuffix(f":{_PORT}")
    return Endpoint(NAME, f"{host}:{_PORT}", host) if host in known else Endpoint(ADDRESS, "", name)


def existing(host: Mapping[str, Any]) -> str | None:
    """Return the endpoint of a control plane's cluster for ``decide``, from what preflight has read."""
    if not host:
        return None
    stored = _STORED.search(str(((host.get("control_plane") or {}).get("texts") or {}).get("ClusterConfiguration", "")))
    there = stored[1] if stored else str(host["cluster"].get("endpoint", ""))
    return None if host["cluster"]["finished"] and not there else there


def migration_problem(kind: str, exists: bool, left_out: Sequence[str]) -> str:
    """Return why the endpoint of a cluster can't become a name, as a sentence, empty if it can."""
    if not exists:
        return "There is no cluster yet. A new cluster gets a name with gpulab.kubernetes.site."
    if kind == EXTERNAL:
        return (
            "cluster_api_endpoint is set, so it stays the endpoint. If it is the control plane's address, remove "
            "the setting, and run this again."
        )
    if left_out:
        return f"--limit leaves out {listing(left_out)}, and all nodes need the name. Run this without --limit."
    return ""


def choose(
    host: Mapping[str, Any], record: str, given: str, api_name: str, name: str, derived: str
) -> dict[str, str | bool]:
    """Return the endpoint of a cluster, and the cluster's name, as cluster_endpoint_choice.

    ``host`` is what preflight has read of the control plane; without it, ``record`` is the control plane's record.
    ``api_name`` and ``name`` are the settings, ``derived`` is the name of the inventory. The names that a cluster got
    when it was created remain if its inventory is renamed.
    """
    cluster: Mapping[str, Any] = host["cluster"] if host else {"begun": True, **recorded_names(record)}
    is_there = _is_there(host, cluster)
    recorded = str(cluster.get("name", "")) if is_there else ""
    known = _known_names(cluster, host) if is_there else []
    label = name or recorded or dns_label(derived)
    served = [each for each in known if each in (cluster.get("api_server_names") or ())]
    wanted, there = api_name or f"api.{label}.internal", existing(host) if is_there else ""
    found = decide(given, wanted, there, known)
    if found.kind == ADDRESS and host:
        # A migration begins with the certificate. Without it, the name is that of a removed cluster.
        known = served
        found = decide(given, wanted, there, known)
    shown = name or (derived if recorded in ("", dns_label(derived)) else recorded)
    return {
        "kind": found.kind,
        "server": found.server,
        "api_name": found.api_name,
        # An interrupted migration has set up the name on some nodes.
        "is_named": found.kind == NAME or (found.kind == ADDRESS and bool(known)),
        "was_named": bool(served) or not host,
        "name": label,
        "shown_name": shown,
        "recorded_name": recorded,
        "recorded_api_name": known[0] if known else "",
    }


def is_stale(host: Mapping[str, Any], choice: Mapping[str, Any]) -> bool:
    """Return whether the names in the /etc/hosts of a host, as preflight has read it, are those of a removed cluster.

    ``choice`` is that of ``choose``. A kubelet may use a name that the control plane has lost.
    """
    names = (host.get("hosts_file") or {}).get("names") or ()
    used = str((host.get("cluster") or {}).get("endpoint", "")).rpartition(":")[0]
    return bool(names) and not choice["is_named"] and not choice["was_named"] and used not in names


def _is_there(host: Mapping[str, Any], cluster: Mapping[str, Any]) -> bool:
    """Return whether there is a cluster: the files of a removed one, and of an init that starts again, don't count."""
    action = (host.get("control_plane") or {}).get("action")
    return bool(cluster.get("begun")) and action not in (init_decision.INIT, init_decision.CLEAN)


def _known_names(cluster: Mapping[str, Any], host: Mapping[str, Any]) -> list[str]:
    names = [cluster.get("api_name", ""), *((host.get("hosts_file") or {}).get("names") or ())]
    return [str(name) for name in dict.fromkeys(names) if "." in str(name) and is_node_name(str(name))]
