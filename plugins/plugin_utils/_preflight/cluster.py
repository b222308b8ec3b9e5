# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Preflight's rules for the cluster as a whole, and for hosts compared with each other."""

from __future__ import annotations

import ipaddress
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from statistics import median
from typing import Any

from ...module_utils._problem import Problem
from ...module_utils._versions import compare_versions
from ...module_utils._words import listing
from .lost import control_plane_lost, knows_cluster
from .model import Cluster, ClusterRule, Reading

# Interfaces that a pod network creates on a node.
_OF_THE_CLUSTER = re.compile(r"(?:cni|flannel|veth|kube-|nodelocaldns|tunl|cali|cilium|lxc|weave)")
# Each is a process of about 100 MB on the controller.
_MOST_FORKS = 100
# The version of the Python package that kubernetes.core needs.
_KUBERNETES_PACKAGE = "24.2.0"


def networks(cluster: Cluster) -> Iterator[Problem]:
    """Check the cluster's networks, each of which is valid, against each other and those of the hosts."""
    names = ("cluster_pod_network", "cluster_service_network")
    parsed = {name: ipaddress.IPv4Network(cluster.settings[name]) for name in names}
    nodes = {str(reading.settings["node_address"]) for reading in cluster.read}
    for reading in cluster.read:
        yield from _overlaps(reading, parsed, nodes)


def _overlaps(reading: Reading, parsed: dict[str, ipaddress.IPv4Network], nodes: set[str]) -> Iterator[Problem]:
    for variable, network in parsed.items():
        for destination, interface in sorted(set(_host_networks(reading, nodes))):
            if destination.overlaps(network):
                yield reading.problem(
                    "network_overlaps_host",
                    f"{variable} {network} overlaps the host's network {destination} ({interface})",
                    variable,
                    "Traffic to those addresses would leave or enter the cluster by mistake",
                    f"Set {variable} to a network that is not in use",
                )


def _host_networks(reading: Reading, nodes: set[str]) -> Iterator[tuple[ipaddress.IPv4Network, str]]:
    """Yield the networks that a host reaches without the pod network."""
    for route in reading.facts["routes"]:
        by_cluster = _OF_THE_CLUSTER.match(route["interface"]) or route["gateway"] in nodes
        if route["destination"] != "default" and not by_cluster:
            try:
                yield ipaddress.IPv4Network(route["destination"]), f"route by {route['interface']}"
            except ValueError:
                continue
    for entry in reading.facts["addresses"]:
        if entry["family"] == "inet" and not _OF_THE_CLUSTER.match(entry["interface"]):
            yield ipaddress.IPv4Network(entry["address"]), f"address of {entry['interface']}"


def unique_names(cluster: Cluster) -> Iterator[Problem]:
    yield from _unique(
        "node_name_twice",
        {reading.host: reading.settings["node_name"] for reading in cluster.read},
        ("Hosts {hosts} have the same node name {value}", "host name, cluster_node_name"),
        "The second host would replace the first in the cluster",
        "Give each host its own name: hostnamectl set-hostname NAME, or the variable cluster_node_name",
    )


def unique_addresses(cluster: Cluster) -> Iterator[Problem]:
    by_address: dict[str, list[Reading]] = defaultdict(list)
    for reading in cluster.read:
        by_address[str(reading.settings["node_address"])].append(reading)
    behind_nat = {address: _own_addresses(readings) for address, readings in by_address.items() if len(readings) > 1}
    for address, own in behind_nat.items():
        if own:
            yield Problem(
                "node_address_twice",
                f"Hosts {listing(own)} have the same node address {address}",
                "cluster_node_address",
                "Their default route leads out through a network that each of them has for itself, such as "
                "VirtualBox's NAT",
                "Set cluster_node_address to the address under which the others reach the host: "
                + listing(f"{value} for {host}" for host, value in own.items()),
            )
    yield from _unique(
        "node_address_twice",
        {
            reading.host: reading.settings["node_address"]
            for reading in cluster.read
            if not behind_nat.get(str(reading.settings["node_address"]))
        },
        ("Hosts {hosts} have the same node address {value}", "cluster_node_address"),
        "They may be one machine under two names in the inventory",
        "Give each host its own address, or remove the duplicate from the inventory",
    )


def _own_addresses(readings: list[Reading]) -> dict[str, str]:
    """Return one address for each host that no other host has, empty if a host has none."""
    have = {
        reading.host: [
            entry["address"]
            for entry in reading.facts["addresses"]
            if entry["family"] == "inet"
            and not entry["address"].startswith("127.")
            and not _OF_THE_CLUSTER.match(entry["interface"])
            and not entry["interface"].startswith(("docker", "br-", "virbr"))
        ]
        for reading in readings
    }
    own = {
        host: [one for one in addresses if all(one not in have[other] for other in have if other != host)]
        for host, addresses in have.items()
    }
    return {host: addresses[0] for host, addresses in own.items()} if all(own.values()) else {}


def left_out_control_plane(cluster: Cluster) -> Iterator[Problem]:
    """Check that a run that forms the cluster includes the control plane."""
    if cluster.settings.get("forms_cluster"):
        yield from _left_out(cluster)


def left_out_of_check(cluster: Cluster) -> Iterator[Problem]:
    """Check the same for a run that only checks hosts, which may be a subset."""
    if not cluster.settings.get("forms_cluster"):
        yield from _left_out(cluster)


def _left_out(cluster: Cluster) -> Iterator[Problem]:
    first = cluster.control_plane
    if first and first.left_out and not first.finished:
        lost = listing(first.facts["cluster"].get("damaged") or [])
        state = f"whose files are empty, cut off or missing: {lost}" if lost else "which has no cluster yet"
        what = f"--limit leaves out the control plane {first.host}, {state}"
        why = "Workers need its API" if lost else "Workers join the cluster that the control plane creates"
        do = f"Add {first.host} to --limit, or leave --limit out{'' if lost else ' the first time'}"
        yield Problem("control_plane_left_out", what, "--limit", why, do)


def forks(cluster: Cluster) -> Iterator[Problem]:
    """Check whether more forks would at least halve the rounds of a task."""
    hosts, given = sum(not reading.left_out for reading in cluster.readings), int(cluster.settings["forks"])
    useful = min(hosts, _MOST_FORKS)
    if useful > 2 * given:
        do = f"Add --forks {useful} to the command, or set forks in ansible.cfg"
        if cluster.settings["awx"]:
            do = f"Set awx_configure_forks to {useful}, or Forks in the job template"
        what, why = f"{hosts} hosts, {given} at a time", f"Every task takes {-(-hosts // given)} rounds"
        yield Problem("few_forks", what, "forks", why, do)


def unique_machine_ids(cluster: Cluster) -> Iterator[Problem]:
    yield from _unique(
        "machine_id_twice",
        {reading.host: reading.facts["machine_id"] for reading in cluster.read},
        ("Hosts {hosts} have the same machine ID {value}", "/etc/machine-id"),
        "They were cloned; their DHCP addresses, journals and leases would be mixed up",
        "On each clone: rm /etc/machine-id /var/lib/dbus/machine-id; systemd-machine-id-setup; reboot",
    )


def _unique(kind: str, values: dict[str, Any], what: tuple[str, str], why: str, do: str) -> Iterator[Problem]:
    hosts = defaultdict(list)
    for host, value in values.items():
        hosts[value].append(host)
    for value, names in hosts.items():
        if value and len(names) > 1:
            yield Problem(kind, what[0].format(hosts=listing(names), value=value), what[1], why, do)


def clocks(cluster: Cluster) -> Iterator[Problem]:
    offsets = [float(reading.facts["clock_offset"]) for reading in cluster.read]
    if not offsets:
        return
    middle, most, spread = median(offsets), float(cluster.settings["clock_skew_s"]), max(offsets) - min(offsets)
    for reading, offset in zip(cluster.read, offsets):
        # Two hosts are equally far from the middle, and both are named.
        if spread > most and abs(offset - middle) >= spread / 2 - 0.001:
            ahead = "ahead of" if offset > middle else "behind"
            yield reading.problem(
                "clock_differs",
                f"The clock is {abs(offset - middle):.0f} s {ahead} the other hosts' (the spread is {spread:.0f} s)",
                "system clock",
                f"Certificates and leases fail when clocks differ by more than {most:.0f} s",
                "Turn on time synchronization: timedatectl set-ntp true, then check timedatectl timesync-status",
            )


def api(cluster: Cluster) -> Iterator[Problem]:
    """Check that the host that uses the API reaches it and has what it needs; skipped if it was not read."""
    found, where = cluster.settings["api"], str(cluster.settings["api_delegate"])
    here = "this controller" if where == "localhost" else where
    # A silent host of the cluster is a problem of its own.
    if found.get("unreachable") and where not in {reading.host for reading in cluster.readings}:
        yield Problem(
            "api_delegate_silent",
            f"The host {where}, from which the API is used, can't be reached: {found.get('msg', '')}",
            "cluster_api_delegate",
            "Everything after kubeadm uses the API, so the run would stop at that point",
            "Check that it runs and that its ansible_host is right, or remove cluster_api_delegate",
        )
        return
    if found.get("reach") in ("silent", "unreachable"):
        yield Problem(
            "api_unreachable",
            f"The API's address {cluster.settings['api_endpoint']} can't be reached from {here}: {found['error']}",
            "cluster_api_endpoint, cluster_api_tunnel, cluster_api_delegate",
            "Everything after kubeadm uses the API, so the run would stop at that point",
            "Open that port (firewall, security group, VPN), or set cluster_api_tunnel=true to connect through SSH; "
            "preflight_check_api=false skips this check",
        )
    packages = found.get("packages", {"kubernetes": _KUBERNETES_PACKAGE, "yaml": "unknown"})
    version = str(packages["kubernetes"])
    if compare_versions(version or "0", _KUBERNETES_PACKAGE) < 0 or not packages["yaml"]:
        have = f"kubernetes {version}" if version else "no package kubernetes"
        need = f"{_KUBERNETES_PACKAGE} or newer is needed, with PyYAML"
        yield Problem(
            "api_packages_missing",
            f"The Python of {here} ({found['python']}) has {have}; {need}",
            "cluster_api_delegate",
            "The modules that use the API need it",
            f"{found['python']} -m pip install 'kubernetes>={_KUBERNETES_PACKAGE}' PyYAML"
            + ("" if where == "localhost" else ", or remove cluster_api_delegate and set cluster_api_tunnel=true"),
        )


def control_plane_unreached(cluster: Cluster) -> Iterator[Problem]:
    """Yield workers that certainly can't reach the API server."""
    yield from (problem for problem, sure in _unreached(cluster) if sure)


def control_plane_silent(cluster: Cluster) -> Iterator[Problem]:
    """Yield workers whose packets get no answer before there is a cluster: a firewall may wait for a listener."""
    yield from (problem for problem, sure in _unreached(cluster) if not sure)


def _unreached(cluster: Cluster) -> Iterator[tuple[Problem, bool]]:
    """Yield each problem of a worker that can't reach the API server, and whether that is certain.

    A refused connection is enough: packets reach the control plane and return.
    """
    first = cluster.control_plane
    api_runs = bool(first and first.finished) or cluster.settings["api"].get("reach") == "answered"
    for reading in cluster.read:
        found = reading.facts.get("api_reach") or {}
        if reading.left_out or found.get("reach") not in ("silent", "unreachable"):
            continue
        # A different address than the API's has no meaning here.
        if not reading.finished and found["endpoint"] != cluster.settings["api_endpoint"]:
            continue
        sure = found["reach"] == "unreachable" or api_runs or reading.finished
        yield (
            reading.problem(
                "control_plane_unreachable",
                f"The host can't reach the API server at {found['endpoint']}: {found['error']}",
                "routes, firewalls and security groups between the machines",
                "A worker joins the cluster through this address, and its kubelet uses it afterwards",
                "Allow this connection (TCP), or set cluster_node_address of the control plane to an address that all "
                "nodes reach; preflight_check_api=false skips this check",
            ),
            sure,
        )


def membership(cluster: Cluster) -> Iterator[Problem]:
    first, new = cluster.control_plane, cluster.settings.get("new_cluster")
    for reading in cluster.read:
        state = reading.facts["cluster"]
        if reading.host in cluster.settings["control_plane"]:
            elsewhere = first is None or first is reading or _differs(state["ca_hashes"], first)
            if state["role"] == "worker":
                whose = "another" if elsewhere else "this"
                yield _foreign(reading, f"this host is a worker of {whose} cluster, not a control plane")
            elif elsewhere and first not in (None, reading):
                yield _foreign(reading, f"it is a control plane of another cluster than {first.host}")
        elif state["role"] == "control_plane":
            yield _foreign(reading, "this host is a control plane, but a worker in the inventory")
        elif first and not first.facts["cluster"]["begun"] and not new and knows_cluster(reading, cluster):
            # The control plane has lost its data, which is a problem of its own.
            continue
        elif first and _differs(state["ca_hashes"], first):
            whose = "has another CA" if first.facts["cluster"]["ca_hashes"] else "has no cluster yet"
            yield _foreign(reading, f"it belongs to another cluster: {first.host} {whose}")


def _differs(hashes: Iterable[str], first: Reading) -> bool:
    """Return whether a host has a CA that is not that of the cluster."""
    return bool(hashes) and not set(hashes) & set(first.facts["cluster"]["ca_hashes"])


def _foreign(reading: Reading, why: str) -> Problem:
    server = reading.facts["cluster"]["server"]
    return reading.problem(
        "host_in_other_cluster",
        "The host already belongs to a cluster" + (f" ({server})" if server else ""),
        "/etc/kubernetes",
        why[0].upper() + why[1:],
        "Remove it from the inventory, or remove it from that cluster (kubectl drain, kubectl delete node) and run "
        "`kubeadm reset` on it yourself",
    )


RULES: tuple[ClusterRule, ...] = (
    networks,
    unique_names,
    unique_addresses,
    unique_machine_ids,
    left_out_control_plane,
    clocks,
    api,
    control_plane_unreached,
    control_plane_lost,
    membership,
)
NOTES: tuple[ClusterRule, ...] = (left_out_of_check, control_plane_silent, forks)
