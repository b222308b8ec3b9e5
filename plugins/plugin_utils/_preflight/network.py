# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Preflight's rules for the network of one host: ports, firewall, name, address, name servers."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ...module_utils._problem import Problem
from ...module_utils._words import listing
from .._resolver import resolv_conf, usable
from . import endpoint
from .model import Cluster, HostRule, Reading

_NODE_NAME = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_CLUSTER_PROGRAMS = (
    "etcd",
    "flanneld",
    "kube-apiserver",
    "kube-controller-manager",
    "kube-proxy",
    "kube-scheduler",
    "kubelet",
)


def ports(reading: Reading, cluster: Cluster) -> Iterator[Problem]:
    ours = reading.facts["cluster"]["begun"]
    for listener in reading.facts["listeners"]:
        program = listener["process"]
        if not endpoint.needs_port(reading, cluster, listener):
            continue
        if ours and (_of_the_cluster(program) or not reading.facts["is_root"]):
            continue
        who = f"{program} (process {listener['pid']})" if listener["pid"] else program or "another program"
        yield reading.problem(
            "port_in_use",
            f"Port {listener['port']}/{listener['protocol']} is in use by {who}",
            f"{listener['address']}:{listener['port']}",
            "Kubernetes needs this port",
            "Stop that program, or move it to another port",
        )


def firewall(reading: Reading, cluster: Cluster) -> Iterator[Problem]:
    found = reading.facts["firewall"]
    tool = found["tool"] or "packet filter"
    blocks = (found.get("interfaces") or {}).get(_node_interface(reading), found["blocks"])
    if found["active"] and found["blocks"] is None and reading.facts["is_root"]:
        yield reading.problem(
            "firewall_unreadable",
            f"A firewall ({tool}) is active, but its rules can't be read",
            tool,
            "It may block traffic between the nodes",
            f"Open these ports: {listing(cluster.settings['reachable_ports'])}",
        )
    elif blocks:
        commands = {"ufw": "ufw allow {}", "firewalld": "firewall-cmd --permanent --add-port={}"}
        command = commands.get(found["tool"], "")
        yield reading.problem(
            "firewall_blocks",
            f"A firewall ({tool}) blocks {listing(blocks)}",
            tool,
            "Nodes reach each other and the API server through these ports",
            "Open them for the other nodes"
            + (f": {'; '.join(command.format(port) for port in blocks)}" if command else "")
            + ("; firewall-cmd --reload" if found["tool"] == "firewalld" else ""),
        )


def forwarding(reading: Reading, cluster: Cluster) -> Iterator[Problem]:
    found = reading.facts["firewall"]
    chain = (found.get("forwards") or {}).get(_node_interface(reading), found.get("forward"))
    tool, pods = found["tool"] or "packet filter", cluster.settings["cluster_pod_network"]
    if not chain:
        return
    if tool == "firewalld":
        do = f"Trust the pods: firewall-cmd --permanent --zone=trusted --add-source={pods}; firewall-cmd --reload"
    elif tool == "nftables":
        do = f"Add rules before it, in this chain: ip saddr {pods} accept; ip daddr {pods} accept"
    else:
        do = (
            "Remove the rule that rejects everything (iptables -S shows it), or add rules before it: "
            f"iptables -I {chain} -s {pods} -j ACCEPT; iptables -I {chain} -d {pods} -j ACCEPT. Save them, so that "
            "they are there after a reboot"
        )
    yield reading.problem(
        "firewall_rejects_pods",
        f"A firewall ({tool}) rejects what pods of different nodes send each other",
        f"chain {chain}",
        "flannel adds its rules behind the existing ones, where they have no effect",
        do,
    )


def _node_interface(reading: Reading) -> str:
    address = str(reading.settings["node_address"])
    return next((str(one["interface"]) for one in reading.facts["addresses"] if one["address"] == address), "")


def is_node_name(text: str) -> bool:
    return bool(_NODE_NAME.fullmatch(text)) and len(text) <= 253 and text != "localhost"


def name(reading: Reading, cluster: Cluster) -> Iterator[Problem]:
    node = str(reading.settings["node_name"])
    if not is_node_name(node):
        yield reading.problem(
            "node_name_invalid",
            f"{node!r} is not a valid name for a node",
            "host name, cluster_node_name",
            "Names of nodes are DNS names: lower-case letters, digits, dots and hyphens, and not localhost",
            "Rename the host (hostnamectl set-hostname NAME), or set cluster_node_name",
        )


def node_address(reading: Reading, cluster: Cluster) -> Iterator[Problem]:
    wanted = str(reading.settings["node_address"])
    own = [entry["address"] for entry in reading.facts["addresses"]]
    if not wanted:
        yield reading.problem(
            "node_address_unknown",
            "The host has no default route, so its address in the cluster is unknown",
            "cluster_node_address",
            "Nodes reach each other by one address per node",
            f"Set cluster_node_address for the host, to one of {listing(own) or '(it has no address)'}",
        )
    elif wanted not in own:
        yield reading.problem(
            "node_address_not_on_host",
            f"The node address {wanted} is not on this host",
            "cluster_node_address",
            "The kubelet and the API server can't use an address that the host does not have",
            f"Set cluster_node_address to one of {listing(own) or '(it has no address)'}",
        )


def resolver(reading: Reading, cluster: Cluster) -> Iterator[Problem]:
    """Check the resolv.conf for the kubelet. On a finished host, only a missing file is a problem."""
    found, shared = reading.facts["resolver"], cluster.settings["kubelet_configuration"].get("resolvConf")
    path = resolv_conf(found, reading.settings["resolv_conf"], shared, reading.finished)
    nameservers = found["files"].get(path)
    if not path or (reading.finished and nameservers is not None):
        return
    where = "kubeadm_resolv_conf"
    change = "Set kubeadm_resolv_conf for the host to a file that contains the real name servers"
    if reading.finished:
        where = "/var/lib/kubelet/config.yaml"
        better = resolv_conf(found, reading.settings["resolv_conf"], shared, finished=False)
        change = f"Set resolvConf to {better} in this file, then: systemctl restart kubelet"
    if nameservers is None:
        yield reading.problem(
            "resolv_conf_missing",
            f"The kubelet needs the name servers in {path}, but there is no such file",
            where,
            "Pods don't start without this file",
            change,
        )
    elif not usable(nameservers):
        yield reading.problem(
            "resolv_conf_unusable",
            f"{path} contains no name server that pods can reach ({listing(nameservers) or 'it lists none'})",
            where,
            "CoreDNS and other pods get their name servers from this file, and a loopback address in it means the pod "
            "itself",
            change,
        )


def _of_the_cluster(program: str) -> bool:
    # The kernel truncates process names to 15 characters.
    return any(program == name or (len(program) == 15 and name.startswith(program)) for name in _CLUSTER_PROGRAMS)


RULES: tuple[HostRule, ...] = (ports, firewall, forwarding, name, node_address, resolver, *endpoint.RULES)
