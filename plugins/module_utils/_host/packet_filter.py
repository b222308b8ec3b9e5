# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Evaluate the chains of a packet filter for new connections. Pure functions.

Only a certain drop counts: rules with source addresses, unknown interfaces or marks are assumed to accept. Rules that
can't match a new connection (another source port or interface, a multicast address) are ignored.
"""

from __future__ import annotations

import fnmatch
import ipaddress
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

# The cluster's own chains, which never block it.
_CLUSTER_CHAIN = re.compile(r"(?:KUBE|FLANNEL|CNI|DOCKER|cali|CILIUM)[-_]")
# For forwarded packets, flannel's chain accepts, and DOCKER-USER contains administrators' rules.
_CLUSTER_CHAIN_FORWARD = re.compile(r"(?:KUBE|cali|CILIUM)[-_]")
# Interfaces that other nodes do not use, unless one of them has the node's address.
_INSIDE = re.compile(r"(?:lo$|docker|podman|virbr|lxc|lxd|cni|flannel|veth|br-|tailscale|wg|tun|tap|zt|nebula)")
# Kernels allow 16 jumps in nftables; iptables-legacy has no such limit.
_DEPTH = 200
# Linux's range of source ports (net.ipv4.ip_local_port_range); NCCL also listens in it.
_EPHEMERAL = (32768, 60999)
_FORWARDED_PORT = 40000
# Marks that Tailscale and kube-proxy set on their own packets.
_MARKS = ("0x40000", "0x4000", "0x80000", "0x8000")
_UNREAL_SOURCES = tuple(map(ipaddress.IPv4Network, ("127.0.0.0/8", "169.254.0.0/16", "224.0.0.0/4")))
_UNREAL_DESTINATIONS = (*_UNREAL_SOURCES, ipaddress.IPv4Network("255.255.255.255/32"))


@dataclass(frozen=True)
class Packet:
    """The first packet of a connection. Empty fields are unknown, but an empty ``leaves`` means the host itself."""

    protocol: str
    port: int
    arrives: str = ""
    leaves: str = ""
    pods: ipaddress.IPv4Network | None = None  # source and destination of a forwarded packet

    @property
    def forwarded(self) -> bool:
        return bool(self.leaves)


@dataclass(frozen=True)
class Condition:
    """One match of a rule: ``subject`` is what it examines; ``positive`` is False if it is negated."""

    subject: str
    values: tuple[str, ...] = ()
    positive: bool = True

    def fits(self, packet: Packet) -> bool | None:
        """Return whether a packet matches; None if unknown."""
        found = self._fits(packet)
        return found if found is None or self.positive else not found

    def _fits(self, packet: Packet) -> bool | None:
        judge = _SUBJECTS.get(self.subject)
        return judge(self.values, packet) if judge else None


@dataclass
class Rule:
    verdict: str = ""  # accept, drop, jump, goto, return, or empty
    target: str = ""
    conditions: list[Condition] = field(default_factory=list)

    def fits(self, packet: Packet) -> bool | None:
        found = [condition.fits(packet) for condition in self.conditions]
        return False if False in found else None if None in found else True


@dataclass
class Filter:
    """Chains by name; ``entries`` and ``forwards`` are hooked chains, with True if their policy is drop.

    In ``forwards``, a policy counts only if the pod network's rules can't come before it.
    """

    chains: dict[str, list[Rule]] = field(default_factory=dict)
    entries: dict[str, bool] = field(default_factory=dict)
    forwards: dict[str, bool] = field(default_factory=dict)

    def blocks(self, port: str, interface: str = "") -> bool:
        """Return whether a port such as ``6443/tcp`` is certainly refused at an interface (empty: any)."""
        number, _slash, protocol = port.partition("/")
        packet = Packet(protocol or "tcp", int(number), interface)
        return bool(self._dropping(self.entries, packet))

    def rejects_pods(self, network: str, interfaces: Sequence[str]) -> str:
        """Return the chain that certainly rejects traffic between pods on different nodes; empty if there is none.

        ``interfaces`` are those between which a node forwards the traffic; with fewer than two, nothing is known.
        """
        try:
            pods = ipaddress.IPv4Network(network)
        except ValueError:
            return ""
        for arrives in interfaces:
            for leaves in interfaces:
                for protocol in ("tcp", "udp") if arrives != leaves and arrives and leaves else ():
                    chain = self._dropping(self.forwards, Packet(protocol, _FORWARDED_PORT, arrives, leaves, pods))
                    if chain:
                        return chain
        return ""

    def _dropping(self, entries: Mapping[str, bool], packet: Packet) -> str:
        verdicts: dict[str, str] = {}
        for chain, policy_drops in entries.items():
            verdict = self._walk(chain, packet, verdicts, 0)
            if verdict == "drop" or (not verdict and policy_drops):
                return chain
        return ""

    def _walk(self, chain: str, packet: Packet, verdicts: dict[str, str], depth: int) -> str:
        """Return the verdict of a chain; ``verdicts`` has the chains evaluated so far. Kernels reject loops."""
        if chain not in verdicts and depth < _DEPTH:
            verdicts[chain] = ""
            verdicts[chain] = self._judge(chain, packet, verdicts, depth)
        return verdicts.get(chain, "")

    def _judge(self, chain: str, packet: Packet, verdicts: dict[str, str], depth: int) -> str:
        skipped = _CLUSTER_CHAIN_FORWARD if packet.forwarded else _CLUSTER_CHAIN
        for rule in self.chains.get(chain, []):
            fits, verdict = rule.fits(packet), rule.verdict
            if fits is False:
                continue
            if verdict in ("jump", "goto"):
                if skipped.match(rule.target):
                    continue
                verdict = self._walk(rule.target, packet, verdicts, depth + 1)
                if not verdict and rule.verdict == "goto" and fits:
                    return ""
            if verdict == "accept" or (verdict == "drop" and fits):
                return verdict
            if verdict == "return" and fits:
                return ""
        return ""


def _is_protocol(values: Sequence[str], packet: Packet) -> bool:
    return packet.protocol in values or "all" in values


def _is_port(values: Sequence[str], packet: Packet) -> bool:
    return any(first <= packet.port <= last for first, last in map(_range, values))


def _is_source_port(values: Sequence[str], packet: Packet) -> bool | None:
    """Compare with the ephemeral ports; a rule for only a few source ports (53, 123) does not let nodes in."""
    low, high = _EPHEMERAL
    spans = [(max(first, low), min(last, high)) for first, last in map(_range, values)]
    share = sum(max(0, last - first + 1) for first, last in spans) / (high - low + 1)
    return True if share >= 1 else None if share > 1 / 2 else False


def _is_either_port(values: Sequence[str], packet: Packet) -> bool | None:
    return _is_port(values, packet) or _is_source_port(values, packet)


def _is_new(values: Sequence[str], packet: Packet) -> bool:
    return "new" in values


def _is_incoming(values: Sequence[str], packet: Packet) -> bool | None:
    return _is_interface(values, packet.arrives)


def _is_outgoing(values: Sequence[str], packet: Packet) -> bool | None:
    return _is_interface(values, packet.leaves)


def _is_interface(values: Sequence[str], name: str) -> bool | None:
    if name:
        return any(fnmatch.fnmatchcase(name, re.sub(r"\+$", "*", value)) for value in values)
    return False if values and all(_INSIDE.match(value) for value in values) else None


def _is_source(values: Sequence[str], packet: Packet) -> bool | None:
    return _is_address(values, packet, _UNREAL_SOURCES)


def _is_destination(values: Sequence[str], packet: Packet) -> bool | None:
    return _is_address(values, packet, _UNREAL_DESTINATIONS)


def _is_address(values: Sequence[str], packet: Packet, unreal: Iterable[ipaddress.IPv4Network]) -> bool | None:
    """Compare with an address; pod traffic has an unknown address in the pod network."""
    try:
        networks = [ipaddress.IPv4Network(value, strict=False) for value in values]
    except ValueError:
        return None
    if any(network.prefixlen == 0 for network in networks):
        return True
    if packet.pods is None:
        return False if all(any(network.subnet_of(one) for one in unreal) for network in networks) else None
    if any(packet.pods.subnet_of(network) for network in networks):
        return True
    return None if any(packet.pods.overlaps(network) for network in networks) else False


def _is_destination_type(values: Sequence[str], packet: Packet) -> bool:
    return ("unicast" if packet.forwarded else "local") in values


def _is_source_type(values: Sequence[str], packet: Packet) -> bool:
    return "unicast" in values


def _is_packet_type(values: Sequence[str], packet: Packet) -> bool:
    return bool({"unicast", "host"} & set(values))


def _is_marked(values: Sequence[str], packet: Packet) -> bool | None:
    # Tailscale marks packets that arrive at its interface.
    own = packet.arrives.startswith("tailscale")
    return False if all(value.partition("/")[0] in _MARKS for value in values) and not own else None


def _is_flagged(values: Sequence[str], packet: Packet) -> bool:
    """Return whether the flags match SYN alone, as in the first packet of a TCP connection."""
    return packet.protocol == "tcp" and {"SYN"} & set(values[0].split(",")) == set(values[1].split(",")) - {"NONE"}


def _is_family(values: Sequence[str], packet: Packet) -> bool:
    # Nodes use IPv4.
    return bool({"ipv4", "ip"} & set(values))


_SUBJECTS: Mapping[str, Callable[[Sequence[str], Packet], bool | None]] = {
    "protocol": _is_protocol,
    "dport": _is_port,
    "sport": _is_source_port,
    "port": _is_either_port,
    "state": _is_new,
    # A new connection has no status (such as DNAT) yet.
    "status": lambda values, packet: False,
    "in": _is_incoming,
    "out": _is_outgoing,
    "source": _is_source,
    "destination": _is_destination,
    "destination type": _is_destination_type,
    "source type": _is_source_type,
    "packet type": _is_packet_type,
    "mark": _is_marked,
    "family": _is_family,
    "flags": _is_flagged,
    # SYN opens a TCP connection.
    "syn": lambda values, packet: packet.protocol == "tcp",
    "never": lambda values, packet: False,
}


def _range(text: str) -> tuple[int, int]:
    first, found, last = text.partition("-")
    try:
        return int(first or 0), int(last or 65535) if found else int(first)
    except ValueError:
        # A service name can't be resolved here; it matches nothing.
        return 0, -1
