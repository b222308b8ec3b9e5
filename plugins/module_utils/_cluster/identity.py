# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Verify which host of the inventory a node belongs to. Pure functions.

A node's name comes from its host, so root on a host could use another node's name. Only the controller's knowledge
counts: the record on the node, an address in the inventory, or that this run saw the host join.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .._errors import DomainError
from . import objects
from .node_list import CONTROL_PLANE, RECORD
from .nodes import Object, annotations_of, labels_of

_RENAME = "Otherwise correct the name of the host: hostnamectl set-hostname NAME on the host, or cluster_node_name"


@dataclass(frozen=True)
class Identity:
    """The claim that the inventory host ``host`` is the node ``node``, with the controller's evidence.

    ``addresses`` are from the inventory. ``control_plane``: the run uses this host's administrator kubeconfig, so root
    on it has all permissions in the cluster anyway. ``joined``: this run saw the node appear when the host joined.
    """

    node: str
    host: str
    addresses: tuple[str, ...] = ()
    control_plane: bool = False
    joined: bool = False


def read(values: Mapping[str, Any], node: str | None = None) -> Identity:
    """Parse a value of the lookup node_identity for ``node``. Raise DomainError for anything else."""
    try:
        if node is not None and values["node"] != node:
            raise TypeError(f"it is about the node {values['node']}, not {node}")
        addresses = tuple(str(address) for address in values.get("addresses", []))
        flags = [values.get(name, False) for name in ("control_plane", "joined")]
        if not all(isinstance(flag, bool) for flag in flags):
            raise TypeError("control_plane and joined must be true or false")
        return Identity(str(values["node"]), str(values["host"]), addresses, *flags)
    except (KeyError, TypeError, AttributeError) as error:
        raise DomainError(
            f"Error while reading whose node it is: it is not a value of the lookup node_identity ({error!r})"
        ) from error


def problem(node: Object, claim: Identity) -> str:
    """Return why a host must not change this node, in sentences; empty if it is the host's own node."""
    name, host = objects.name(node), claim.host
    record = annotations_of(node).get(RECORD)
    if record is not None:
        return (
            ""
            if record == host
            else f"the node belongs to the inventory host {record!a:.80} (annotation {RECORD}). If that is an earlier "
            f"name of {host}, remove the annotation: kubectl annotate node {name} {RECORD}-. {_RENAME}"
        )
    internal = _internal(node)
    if claim.joined or (claim.control_plane and CONTROL_PLANE in labels_of(node)):
        return ""
    if {_plain(address) for address in claim.addresses} & {_plain(address) for address in internal} - {""}:
        return ""
    given = f"the address {', '.join(claim.addresses)}" if claim.addresses else "no address"
    return (
        f"the node has the address {', '.join(internal) or '(none)'}, but the inventory gives {host} {given}. If it is "
        f"the node of {host}, set cluster_node_address of {host} to the node's address in the inventory, without "
        f"reference to facts, which come from the host. {_RENAME}"
    )


def problems(nodes: Mapping[str, Object], claims: Sequence[Identity]) -> Iterator[str]:
    """Yield the problems of all hosts, with their names. Nodes that do not exist belong to no host yet."""
    hosts: dict[str, list[str]] = {}
    for claim in claims:
        hosts.setdefault(claim.node, []).append(claim.host)
    for name, claimants in hosts.items():
        if len(claimants) > 1:
            yield (
                f"the hosts {' and '.join(sorted(claimants))} claim to be node {name}. Give each host its own name: "
                "hostnamectl set-hostname NAME on the host, or cluster_node_name"
            )
    for claim in claims:
        words = problem(nodes[claim.node], claim) if claim.node in nodes else ""
        if words and len(hosts[claim.node]) == 1:
            yield f"host {claim.host} claims to be node {claim.node}: {words}"


def refuse(found: Sequence[str]) -> None:
    """Raise DomainError if there are problems."""
    if found:
        raise DomainError(
            "Error while checking which host each node belongs to; nothing was changed:\n"
            + "\n".join(f"- {words}." for words in found)
        )


def check(node: Object, values: Mapping[str, Any] | None) -> None:
    """Raise DomainError if the host in a value of the lookup claims another host's node; None claims nothing."""
    if values is not None:
        name = objects.name(node)
        refuse(list(problems({name: node}, [read(values, name)])))


def _internal(node: Object) -> list[str]:
    listed = (node.get("status") or {}).get("addresses") or []
    return [str(each.get("address")) for each in listed if each.get("type") == "InternalIP"]


def _plain(address: str) -> str:
    """Return a uniform form of an address, so that different notations of IPv6 are equal."""
    try:
        return str(ipaddress.ip_address(address))
    except ValueError:
        return ""
