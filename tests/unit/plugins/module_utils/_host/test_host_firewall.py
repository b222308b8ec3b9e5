# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import json
import shutil
import subprocess
import time
from typing import Any

import pytest
from ansible_collections.gpulab.kubernetes.plugins.module_utils._host.firewall import (
    nft_tables,
    read_iptables,
    read_nft,
)
from hypothesis import given
from hypothesis import strategies as st

PORTS = ["22/tcp", "6443/tcp", "10250/tcp", "8472/udp"]

# ufw 0.36 on Ubuntu 24.04 with `ufw allow 22` and `ufw allow 6443/tcp`, reduced to the rules for new connections.
UFW = """\
*filter
:INPUT DROP [0:0]
:FORWARD DROP [0:0]
:OUTPUT ACCEPT [0:0]
:ufw-before-input - [0:0]
:ufw-not-local - [0:0]
:ufw-reject-input - [0:0]
:ufw-skip-to-policy-input - [0:0]
:ufw-user-input - [0:0]
:ufw-logging-deny - [0:0]
-A INPUT -j ufw-before-input
-A INPUT -j ufw-reject-input
-A ufw-before-input -i lo -j ACCEPT
-A ufw-before-input -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT
-A ufw-before-input -m conntrack --ctstate INVALID -j ufw-logging-deny
-A ufw-before-input -m conntrack --ctstate INVALID -j DROP
-A ufw-before-input -p icmp -m icmp --icmp-type 3 -j ACCEPT
-A ufw-before-input -p udp -m udp --sport 67 --dport 68 -j ACCEPT
-A ufw-before-input -j ufw-not-local
-A ufw-before-input -d 224.0.0.251/32 -p udp -m udp --dport 5353 -j ACCEPT
-A ufw-before-input -j ufw-user-input
-A ufw-not-local -m addrtype --dst-type LOCAL -j RETURN
-A ufw-not-local -m addrtype --dst-type MULTICAST -j RETURN
-A ufw-not-local -m limit --limit 3/min --limit-burst 10 -j ufw-logging-deny
-A ufw-not-local -j DROP
-A ufw-logging-deny -m limit --limit 3/min -j LOG --log-prefix "[UFW BLOCK] "
-A ufw-user-input -p tcp -m tcp --dport 22 -j ACCEPT
-A ufw-user-input -p udp -m udp --dport 22 -j ACCEPT
-A ufw-user-input -p tcp -m tcp --dport 6443 -j ACCEPT
COMMIT
*nat
:PREROUTING ACCEPT [0:0]
-A PREROUTING -p tcp -m tcp --dport 10250 -j ACCEPT
COMMIT
"""

# A node of a running cluster: chains of kube-proxy and flannel, some of which drop marked packets or services without
# endpoints.
KUBERNETES = """\
*filter
:INPUT ACCEPT [0:0]
:KUBE-FIREWALL - [0:0]
:KUBE-NODEPORTS - [0:0]
:KUBE-PROXY-FIREWALL - [0:0]
-A INPUT -m conntrack --ctstate NEW -m comment --comment "kubernetes load balancer firewall" -j KUBE-PROXY-FIREWALL
-A INPUT -m comment --comment "kubernetes health check service ports" -j KUBE-NODEPORTS
-A INPUT -j KUBE-FIREWALL
-A KUBE-FIREWALL ! -s 127.0.0.0/8 -d 127.0.0.0/8 -m comment --comment "block incoming localnet" -j DROP
-A KUBE-PROXY-FIREWALL -j DROP
COMMIT
"""


def iptables(*rules: str, policy: str = "ACCEPT") -> str:
    return "\n".join(["*filter", f":INPUT {policy} [0:0]", *(f"-A INPUT {rule}" for rule in rules), "COMMIT", ""])


def blocked(text: str) -> list[str]:
    found = read_iptables(text)
    return [port for port in PORTS if found.blocks(port)]


@pytest.mark.parametrize(
    ("text", "ports"),
    [
        ("", []),
        (iptables(), []),
        (iptables(policy="DROP"), PORTS),
        (iptables("-p tcp -m tcp --dport 22 -j ACCEPT", policy="DROP"), PORTS[1:]),
        (iptables("-p tcp -m multiport --dports 22,6443,10000:11000 -j ACCEPT", policy="DROP"), ["8472/udp"]),
        (iptables("-m state --state ESTABLISHED -j ACCEPT", "-i lo -j ACCEPT", "-j REJECT"), PORTS),
        (iptables("-m conntrack --ctstate NEW -j ACCEPT", "-j DROP"), []),
        (iptables("-p tcp -m tcp --dport 6443 -j REJECT --reject-with icmp-port-unreachable"), ["6443/tcp"]),
        (iptables("-p udp -j DROP"), ["8472/udp"]),
        # The rule accepts an unknown source, which may be the other nodes.
        (iptables("-s 10.0.0.0/8 -j ACCEPT", policy="DROP"), []),
        (iptables("-i eth1 -p tcp -m tcp --dport 6443 -j ACCEPT", policy="DROP"), ["22/tcp", "10250/tcp", "8472/udp"]),
        # The rule drops an unknown source, which may not be a node.
        (iptables("-s 203.0.113.7/32 -j DROP", "! -i eth0 -j DROP"), []),
        (iptables("-i docker0 -j ACCEPT", "-m conntrack --ctstatus DNAT -j ACCEPT", policy="DROP"), PORTS),
        (iptables("-p tcp -m tcp --dport 1:1023 -j RETURN", "-j DROP"), PORTS[1:]),
        # A program, or the kernel's SYN proxy, decides.
        (iptables("-j NFQUEUE --queue-num 0 --queue-bypass", policy="DROP"), []),
        (iptables("-p tcp -m tcp --dport 1:7000 -j SYNPROXY", policy="DROP"), ["10250/tcp", "8472/udp"]),
        (UFW, ["10250/tcp", "8472/udp"]),
        (KUBERNETES, []),
        ("*filter\n:INPUT ACCEPT\n:a -\n-A INPUT -j a\n-A a -g b\n-A b -p tcp -j DROP\n", PORTS[:3]),
        ("*filter\n:INPUT ACCEPT\n-A INPUT -j a\n-A a -j b\n-A b -j a\n", []),
        ('*filter\n:INPUT ACCEPT\n-A INPUT -m comment --comment "unbalanced -j DROP\n', []),
    ],
)
def test_blocked_ports_are_found_in_iptables_rules(text: str, ports: list[str]) -> None:
    assert blocked(text) == ports


# Every Ubuntu image of Oracle's cloud, shortened.
ORACLE = """\
*filter
:INPUT ACCEPT [0:0]
:FORWARD ACCEPT [0:0]
-A INPUT -m state --state RELATED,ESTABLISHED -j ACCEPT
-A INPUT -p icmp -j ACCEPT
-A INPUT -i lo -j ACCEPT
-A INPUT -p udp -m udp --sport 123 -j ACCEPT
-A INPUT -p tcp -m state --state NEW -m tcp --dport 22 -j ACCEPT
-A INPUT -j REJECT --reject-with icmp-host-prohibited
-A FORWARD -j REJECT --reject-with icmp-host-prohibited
COMMIT
"""


@pytest.mark.parametrize(
    ("rule", "fits"),
    [
        # Rules that match no new connection of a node.
        ("-p udp -m udp --sport 123", False),
        ("-p tcp -m multiport --sports 53,67:68", False),
        ("-p udp -m multiport --ports 53,123", False),
        ("-p udp -m udp --sport 8472", False),
        ("-i lo", False),
        ("-i tailscale0", False),
        ("-i wg+", False),
        ("-s 127.0.0.0/8", False),
        ("-d 224.0.0.0/4", False),
        ("-d 255.255.255.255/32", False),
        ("-m pkttype --pkt-type broadcast", False),
        ("-m addrtype --dst-type MULTICAST", False),
        ("-m addrtype --src-type LOCAL", False),
        ("-m mark --mark 0x40000/0xff0000", False),
        ("-m conntrack --ctstate RELATED,ESTABLISHED", False),
        ("-p tcp -m tcp ! --tcp-flags FIN,SYN,RST,ACK SYN", False),
        ("-p tcp -m tcp --tcp-flags ACK ACK", False),
        ("! -p udp ! -p tcp", False),
        ("-p esp", False),
        # Rules that match.
        ("-p 17 -m udp --dport 8472", True),
        ("-p udp -m udp --sport 1024:65535 --dport 8472", True),
        ("-p all", True),
        ("-s 0.0.0.0/0", True),
        ("! -p icmp", True),
        ("-m addrtype --dst-type LOCAL", True),
        ("! -i lo", True),
        # Rules that may match, so that neither an accept nor a drop is certain.
        ("-s 10.0.0.0/8", None),
        ("-i eth1", None),
        ("-m set --match-set nodes src", None),
        ("-p udp -m udp --sport 50000:65535", False),
        ("-p udp -m udp --sport 40000:65535", None),
        ("-m mark --mark 0x7", None),
        ("! -s 203.0.113.0/24", None),
    ],
)
def test_whether_an_iptables_rule_matches_a_new_connection_is_known(rule: str, fits: bool | None) -> None:
    accepts = not read_iptables(iptables(f"{rule} -j ACCEPT", "-j DROP")).blocks("8472/udp")
    drops = read_iptables(iptables(f"{rule} -j DROP")).blocks("8472/udp")
    assert (accepts, drops) == {True: (True, True), False: (False, False), None: (True, False)}[fits]


@pytest.mark.parametrize(
    ("interface", "rules", "blocks"),
    [
        ("eth0", ["-i tailscale0 -j ACCEPT", "-j REJECT"], True),
        ("tailscale0", ["-i tailscale0 -j ACCEPT", "-j REJECT"], False),
        ("eth0", ["-i eth1 -j ACCEPT", "-j DROP"], True),
        ("eth1", ["-i eth1 -j ACCEPT", "-j DROP"], False),
        ("eth1", ["-i eth+ -j ACCEPT", "-j DROP"], False),
        ("eth0", ["! -i eth1 -j DROP"], True),
        ("eth0", ["-i eth0 -p tcp -j DROP"], True),
        ("br-lan", ["-i br-lan -j ACCEPT", "-j DROP"], False),
        ("eth0", ["-i eth0 -s 10.0.0.0/8 -j ACCEPT", "-j DROP"], False),
        ("eth0", ["-i eth0 -j lan", "-i eth1 -j ACCEPT", "-j DROP"], True),
    ],
)
def test_rules_for_an_interface_only_apply_to_that_interface(interface: str, rules: list[str], blocks: bool) -> None:
    assert read_iptables(iptables(*rules)).blocks("6443/tcp", interface) == blocks


PODS = "10.244.0.0/16"
VXLAN, HOST_GW = ["cni0", "flannel.1"], ["cni0", "eth0"]
FLANNEL = ["-A FORWARD -j FLANNEL-FWD", f"-A FLANNEL-FWD -s {PODS} -j ACCEPT", f"-A FLANNEL-FWD -d {PODS} -j ACCEPT"]
TAILSCALE = [
    "-A FORWARD -j ts-forward",
    "-A ts-forward -i tailscale0 -j MARK --set-xmark 0x40000/0xff0000",
    "-A ts-forward -m mark --mark 0x40000/0xff0000 -j ACCEPT",
    "-A ts-forward -o tailscale0 -j ACCEPT",
]
DOCKER_RULES = [
    "-A FORWARD -j DOCKER-USER",
    "-A FORWARD -j DOCKER-FORWARD",
    "-A DOCKER-FORWARD -i docker0 -j ACCEPT",
    "-A DOCKER-FORWARD -o docker0 -j DOCKER",
    "-A DOCKER ! -i docker0 -o docker0 -j DROP",
]
LIBVIRT = ["-A FORWARD -o virbr0 -j REJECT", "-A FORWARD -i virbr0 -j REJECT"]
KUBE = [
    "-A FORWARD -m conntrack --ctstate NEW -j KUBE-PROXY-FIREWALL",
    "-A FORWARD -j KUBE-FORWARD",
    "-A KUBE-FORWARD -m conntrack --ctstate INVALID -j DROP",
    "-A KUBE-FORWARD -m mark --mark 0x4000/0x4000 -j ACCEPT",
]
REJECT = "-A FORWARD -j REJECT --reject-with icmp-host-prohibited"


@pytest.mark.parametrize(
    ("rules", "interfaces", "rejects"),
    [
        ([], VXLAN, False),
        ([REJECT], VXLAN, True),
        ([REJECT], [], False),
        ([REJECT], ["cni0"], False),
        ([REJECT, *FLANNEL], VXLAN, True),
        ([*FLANNEL, REJECT], VXLAN, False),
        ([*TAILSCALE, REJECT], VXLAN, True),
        ([*DOCKER_RULES, *KUBE, *LIBVIRT], VXLAN, False),
        ([*KUBE, REJECT], VXLAN, True),
        ([*DOCKER_RULES, "-A DOCKER-USER -j DROP"], VXLAN, True),
        ([*DOCKER_RULES, "-A DOCKER-USER -i eth0 -j DROP"], VXLAN, False),
        (["-A FORWARD -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT", REJECT], VXLAN, True),
        (["-A FORWARD -s 10.88.0.0/16 -j ACCEPT", "-A FORWARD -d 10.88.0.0/16 -j ACCEPT", REJECT], VXLAN, True),
        ([f"-A FORWARD -s {PODS} -j ACCEPT", REJECT], VXLAN, False),
        (["-A FORWARD -s 10.0.0.0/8 -j ACCEPT", REJECT], VXLAN, False),
        (["-A FORWARD -s 10.244.1.0/24 -j ACCEPT", REJECT], VXLAN, False),
        (["-A FORWARD -i cni0 -j ACCEPT", "-A FORWARD -o cni0 -j ACCEPT", REJECT], VXLAN, False),
        (["-A FORWARD -i cni0 -j ACCEPT", REJECT], VXLAN, True),
        (["-A FORWARD -p tcp -m multiport --dports 53,80,443 -j ACCEPT", REJECT], VXLAN, True),
        (["-A FORWARD -p tcp -m tcp --dport 25 -j REJECT"], VXLAN, False),
        (["-A FORWARD -i eth0 -j DROP"], VXLAN, False),
        (["-A FORWARD -i eth0 -j DROP"], HOST_GW, True),
        (["-A FORWARD -p udp -j DROP"], VXLAN, True),
        (["-A FORWARD -m addrtype --dst-type LOCAL -j ACCEPT", REJECT], VXLAN, True),
    ],
)
def test_whether_iptables_forwards_packets_of_pods_is_known(
    rules: list[str], interfaces: list[str], rejects: bool
) -> None:
    for policy in ("ACCEPT", "DROP"):
        found = read_iptables("\n".join(["*filter", f":FORWARD {policy} [0:0]", *rules, "COMMIT", ""]))
        assert found.rejects_pods(PODS, interfaces) == ("FORWARD" if rejects else "")
    assert found.rejects_pods("not a network", interfaces) == ""


def test_the_firewall_of_oracles_images_blocks_the_cluster() -> None:
    found = read_iptables(ORACLE)
    assert [port for port in PORTS if found.blocks(port)] == PORTS[1:]
    assert found.rejects_pods(PODS, VXLAN) == "FORWARD"
    assert read_iptables(UFW).rejects_pods(PODS, VXLAN) == ""


def table(
    chains: list[dict[str, Any]],
    rules: list[dict[str, Any]],
    sets: list[dict[str, Any]] | None = None,
    maps: list[dict[str, Any]] | None = None,
) -> str:
    return json.dumps(
        {
            "nftables": [
                {"metainfo": {"version": "1.0.6"}},
                *({"set": entry} for entry in sets or []),
                *({"map": entry} for entry in maps or []),
                *({"chain": chain} for chain in chains),
                *({"rule": rule} for rule in rules),
            ]
        }
    )


INPUT = {"family": "inet", "table": "filter", "name": "input", "type": "filter", "hook": "input", "policy": "drop"}
OPEN = {**INPUT, "policy": "accept"}


def rule(*expressions: dict[str, Any], chain: str = "input") -> dict[str, Any]:
    return {"family": "inet", "table": "filter", "chain": chain, "expr": list(expressions)}


def dport(value: Any, protocol: str = "tcp") -> dict[str, Any]:
    return {"match": {"op": "==", "left": {"payload": {"protocol": protocol, "field": "dport"}}, "right": value}}


STATES = {"vmap": {"key": {"ct": {"key": "state"}}, "data": {"set": [["established", {"accept": None}]]}}}
LOOPBACK = {"match": {"op": "==", "left": {"meta": {"key": "iifname"}}, "right": "lo"}}
SOURCE = {"match": {"op": "==", "left": {"payload": {"protocol": "ip", "field": "saddr"}}, "right": "10.0.0.9"}}
DOCKER = {"match": {"op": "==", "left": {"meta": {"key": "iifname"}}, "right": "docker0"}}
ETH0 = {"match": {"op": "==", "left": {"meta": {"key": "iifname"}}, "right": "eth0"}}
ICMP = {"match": {"op": "==", "left": {"payload": {"protocol": "icmp", "field": "type"}}, "right": "echo-request"}}
IPV6 = {"match": {"op": "==", "left": {"payload": {"protocol": "ip6", "field": "saddr"}}, "right": "fe80::1"}}
DNAT = {"match": {"op": "in", "left": {"ct": {"key": "status"}}, "right": "dnat"}}
PROTOCOL = {"match": {"op": "==", "left": {"meta": {"key": "l4proto"}}, "right": {"set": ["tcp", "udp"]}}}


def match(left: dict[str, Any], right: Any, op: str = "==") -> dict[str, Any]:
    return {"match": {"op": op, "left": left, "right": right}}


def payload(field: str, right: Any, protocol: str = "ip", op: str = "==") -> dict[str, Any]:
    return match({"payload": {"protocol": protocol, "field": field}}, right, op)


def meta(key: str, right: Any, op: str = "==") -> dict[str, Any]:
    return match({"meta": {"key": key}}, right, op)


TYPE = {"fib": {"result": "type", "flags": "daddr"}}


@pytest.mark.parametrize(
    ("expression", "fits"),
    [
        (payload("sport", 123, "udp"), False),
        (payload("sport", {"set": [53, {"range": [67, 68]}]}, "th"), False),
        (payload("sport", {"range": [1024, 65535]}, "udp"), True),
        (meta("iifname", "tailscale0"), False),
        (meta("iifname", {"set": ["lo", "wg0"]}), False),
        (meta("iifname", "lo", "!="), True),
        (meta("iifname", "eth1"), None),
        (meta("nfproto", "ipv6"), False),
        (meta("nfproto", "ipv4"), True),
        (meta("protocol", "ip6"), False),
        (meta("pkttype", {"set": ["broadcast", "multicast"]}), False),
        (meta("mark", 262144), False),
        (meta("mark", 7), None),
        (meta("l4proto", {"set": ["tcp", "udp"]}), True),
        (match(TYPE, {"set": ["broadcast", "anycast", "multicast"]}), False),
        (match(TYPE, "local"), True),
        (payload("saddr", {"prefix": {"addr": "127.0.0.0", "len": 8}}), False),
        (payload("daddr", "224.0.0.251"), False),
        (payload("saddr", {"set": [{"elem": {"val": "10.0.0.9", "timeout": 60}}]}), None),
        (payload("saddr", {"range": ["10.0.0.1", "10.0.0.9"]}), None),
        (payload("saddr", {"prefix": {"addr": "fe80::", "len": 10}}, "ip6"), False),
        (match({"ct": {"key": "state"}}, ["established", "related"], "in"), False),
        (match({"ct": {"key": "direction"}}, "original"), None),
        (
            match({"concat": [{"meta": {"key": "iifname"}}, {"payload": {"protocol": "tcp", "field": "dport"}}]}, "@x"),
            None,
        ),
    ],
)
def test_whether_an_nftables_rule_matches_a_new_connection_is_known(
    expression: dict[str, Any], fits: bool | None
) -> None:
    accepts = not read_nft(table([INPUT], [rule(expression, {"accept": None})])).blocks("8472/udp")
    drops = read_nft(table([OPEN], [rule(expression, {"drop": None})])).blocks("8472/udp")
    assert (accepts, drops) == {True: (True, True), False: (False, False), None: (True, False)}[fits]


FORWARD = {**INPUT, "name": "forward", "hook": "forward"}
FIREWALLD = [
    rule(match({"ct": {"key": "state"}}, {"set": ["established", "related"]}, "in"), {"accept": None}, chain="forward"),
    rule({"jump": {"target": "policies"}}, chain="forward"),
    rule({"reject": {"type": "icmpx"}}, chain="forward"),
    rule(meta("iifname", "eth0"), {"goto": {"target": "public"}}, chain="policies"),
    rule({"goto": {"target": "public"}}, chain="policies"),
    rule(meta("oifname", "eth0"), {"accept": None}, chain="public"),
]
TRUSTED = rule(payload("saddr", {"prefix": {"addr": "10.244.0.0", "len": 16}}), {"accept": None}, chain="forward")


@pytest.mark.parametrize(
    ("chain", "rules", "rejects"),
    [
        (FORWARD, [], True),
        ({**FORWARD, "policy": "accept"}, [], False),
        # The table of iptables, in which flannel's rules precede the policy.
        ({**FORWARD, "family": "ip", "table": "filter"}, [], False),
        ({**FORWARD, "family": "ip", "table": "mine"}, [], True),
        ({**FORWARD, "table": "mine"}, [], True),
        ({**FORWARD, "policy": "accept"}, FIREWALLD, True),
        ({**FORWARD, "policy": "accept"}, [TRUSTED, *FIREWALLD], False),
        (FORWARD, [TRUSTED], False),
        (FORWARD, [rule(meta("iifname", "docker0"), {"accept": None}, chain="forward")], True),
    ],
)
def test_whether_nftables_forwards_packets_of_pods_is_known(
    chain: dict[str, Any], rules: list[dict[str, Any]], rejects: bool
) -> None:
    assert read_nft(table([chain], rules)).rejects_pods(PODS, VXLAN) == ("forward" if rejects else "")


NEW = match({"ct": {"key": "state"}}, "new", "in")
LIMIT = {"limit": {"rate": 10, "per": "second", "inv": True}}
FLOOD = {"op": "add", "elem": {"payload": {"protocol": "ip", "field": "saddr"}}, "set": "@flood"}


@pytest.mark.parametrize(
    "statement",
    [
        {"set": {**FLOOD, "stmt": [LIMIT]}},
        {"set": FLOOD},
        {"meter": {"name": "m", "key": FLOOD["elem"], "size": 65535, "stmt": LIMIT}},
        {"ct count": {"val": 50, "inv": True}},
        {"quota": {"val": 10, "val_unit": "mbytes", "inv": True}},
        {"last": None},
        {"match": None},
        {"something new": {"val": 1}},
        {"xt": {"type": "match", "name": "hashlimit"}},
        "limit",
        LIMIT,
    ],
)
def test_a_rule_with_an_uncertain_condition_does_not_block(statement: Any) -> None:
    for rules in ([rule(NEW, statement, {"drop": None})], [rule(statement, {"jump": {"target": "mine"}})]):
        text = table([OPEN], [*rules, rule({"drop": None}, chain="mine")])
        assert [port for port in PORTS if read_nft(text).blocks(port)] == []
    assert not read_nft(table([INPUT], [rule(statement, {"accept": None})])).blocks("22/tcp")


@pytest.mark.parametrize(
    "statement",
    [
        {"counter": {"packets": 1, "bytes": 2}},
        {"log": {"prefix": "x"}},
        {"log": None},
        {"mangle": {"key": {"meta": {"key": "mark"}}, "value": 1}},
        {"notrack": None},
    ],
)
def test_a_rule_with_a_condition_that_always_matches_blocks(statement: dict[str, Any]) -> None:
    assert read_nft(table([OPEN], [rule(statement, {"drop": None})])).blocks("22/tcp")
    assert read_nft(table([INPUT], [rule(statement)])).blocks("22/tcp")


@pytest.mark.parametrize(
    "statement",
    [
        {"queue": {"num": 0, "flags": "bypass"}},
        {"queue": None},
        {"synproxy": {"mss": 1460}},
        {"xt": {"type": "target", "name": "NFQUEUE"}},
    ],
)
def test_a_rule_that_leaves_the_decision_to_a_program_does_not_block(statement: dict[str, Any]) -> None:
    assert not read_nft(table([INPUT], [rule(statement)])).blocks("22/tcp")
    assert read_nft(table([INPUT], [rule(dport(6443), statement)])).blocks("22/tcp")


@pytest.mark.parametrize("text", ["[" * 100_000, '{"nftables": ' + "[" * 100_000 + "]" * 100_000 + "}"])
def test_a_list_that_is_nested_too_deeply_is_ignored(text: str) -> None:
    assert read_nft(text).chains == {} and nft_tables(text, iptables_too=True) == []


@pytest.mark.parametrize(
    ("text", "ports"),
    [
        ("", []),
        ("[]", []),
        (table([INPUT], []), PORTS),
        (table([OPEN], []), []),
        (table([INPUT], [rule(LOOPBACK, {"accept": None}), rule(STATES)]), PORTS),
        (table([INPUT], [rule(dport({"set": [22, {"range": [6000, 7000]}]}), {"accept": None})]), PORTS[2:]),
        (table([INPUT], [rule(dport("@in"), {"accept": None})], [{"name": "in", "elem": [22, 6443]}]), PORTS[2:]),
        (table([INPUT], [rule(dport("@none"), {"accept": None})]), PORTS),
        (table([INPUT], [rule(PROTOCOL, dport(8472, "th"), {"accept": None})]), PORTS[:3]),
        (table([INPUT], [rule(SOURCE, {"accept": None})]), []),
        (table([OPEN], [rule(SOURCE, {"drop": None})]), []),
        (
            table([INPUT], [rule(ICMP, {"accept": None}), rule(DNAT, {"accept": None}), rule(IPV6, {"accept": None})]),
            PORTS,
        ),
        (table([INPUT], [rule(DOCKER, {"accept": None})]), PORTS),
        (table([INPUT], [rule(ETH0, {"accept": None})]), []),
        (table([OPEN], [rule(dport(6443), {"counter": {}}, {"reject": {"type": "tcp reset"}})]), ["6443/tcp"]),
        (table([OPEN], [rule({"xt": {"type": "match", "name": "physdev"}}, {"drop": None})]), []),
        (
            table([OPEN], [rule({"jump": {"target": "mine"}}), rule({"drop": None}, chain="mine")]),
            PORTS,
        ),
        (
            table(
                [OPEN],
                [
                    rule(
                        {
                            "vmap": {
                                "key": {"payload": {"protocol": "tcp", "field": "dport"}},
                                "data": {"set": [[6443, {"drop": None}], [22, {"accept": None}]]},
                            }
                        }
                    )
                ],
            ),
            ["6443/tcp"],
        ),
        (
            table(
                [OPEN],
                [rule({"vmap": {"key": {"payload": {"protocol": "tcp", "field": "dport"}}, "data": "@ports"}})],
                maps=[{"name": "ports", "elem": [[6443, {"drop": None}], [22, {"accept": None}]]}],
            ),
            ["6443/tcp"],
        ),
    ],
)
def test_blocked_ports_are_found_in_nftables_rules(text: str, ports: list[str]) -> None:
    found = read_nft(text)
    assert [port for port in PORTS if found.blocks(port)] == ports


def test_tables_that_filter_incoming_packets_are_found() -> None:
    def chain(family: str, name: str, hook: str | None = "input") -> dict[str, Any]:
        return {"family": family, "table": name, "name": "c", **({"hook": hook} if hook else {})}

    text = table(
        [
            chain("inet", "firewalld"),
            chain("inet", "firewalld", None),
            chain("ip", "filter"),
            chain("ip6", "mine"),
            chain("inet", "forwarding", "forward"),
            chain("ip", "kube-proxy"),
        ],
        [],
    )
    assert nft_tables(text, iptables_too=True) == [("inet", "firewalld")]
    assert nft_tables(text, True, ("input", "forward")) == [("inet", "firewalld"), ("inet", "forwarding")]
    assert nft_tables(text, iptables_too=False) == [("inet", "firewalld"), ("ip", "filter")]


@given(st.text())
def test_any_text_is_parsed_without_an_error(text: str) -> None:
    read_iptables(f"*filter\n:INPUT DROP\n-A INPUT {text}").blocks("22/tcp")
    read_nft(text).blocks("22/tcp")
    nft_tables(text, iptables_too=True)


_JSON = st.recursive(
    st.one_of(st.none(), st.integers(), st.sampled_from(["lo", "tcp", "@x", "input", "dport", "drop"])),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(
            st.sampled_from(["match", "left", "right", "payload", "meta", "key", "vmap", "data", "set", "jump", "op"]),
            inner,
            max_size=4,
        ),
    ),
    max_leaves=12,
)


@given(_JSON)
def test_any_nftables_expression_is_parsed_without_an_error(expression: Any) -> None:
    text = table([INPUT], [{"chain": "input", "expr": [expression, {"accept": None}]}])
    read_nft(text).blocks("6443/tcp")


@pytest.mark.skipif(shutil.which("nft") is None, reason="compares with what nft itself prints")
def test_the_ruleset_of_debians_example_is_judged() -> None:
    rules = """
    table inet filter {
      chain input {
        type filter hook input priority filter; policy drop;
        iif lo accept
        ct state vmap { established : accept, related : accept, invalid : drop }
        icmp type echo-request accept
        ct status dnat accept
        ip protocol icmp accept
        ip6 saddr fe80::/10 accept
        tcp dport { 22, 6443 } accept
        udp dport 8000-9000 accept
      }
    }
    """
    program = f"cat <<'EOF' | nft -f - && nft -j list table inet filter\n{rules}\nEOF"
    result = subprocess.run(["unshare", "-rn", "sh", "-c", program], capture_output=True, text=True, check=False)
    if result.returncode != 0:
        pytest.skip(f"no network namespace of our own: {result.stderr}")
    found = read_nft(result.stdout)
    assert [port for port in PORTS if found.blocks(port)] == ["10250/tcp"]


@pytest.mark.parametrize("last", ["-j DROP", ""])
def test_chains_with_many_jumps_are_judged_in_linear_time(last: str) -> None:
    rules = [f"-A c{level} -j c{level + 1}\n" * 9 for level in range(60)]
    text = f"*filter\n:INPUT ACCEPT\n-A INPUT -j c0\n{''.join(rules)}-A c60 {last}\n"
    begun = time.process_time()
    assert read_iptables(text).blocks("6443/tcp") == bool(last)
    assert time.process_time() - begun < 5


@pytest.mark.parametrize("policy", ["ACCEPT", "DROP"])
def test_a_loop_of_chains_is_left(policy: str) -> None:
    loop = "-A a -j a\n-A a -j b\n-A b -g a\n" * 9
    text = f"*filter\n:INPUT {policy}\n-A INPUT -j a\n{loop}"
    assert read_iptables(text).blocks("6443/tcp") == (policy == "DROP")
    assert read_iptables(f"{text}-A INPUT -j DROP\n").blocks("6443/tcp")


def test_a_long_sequence_of_jumps_is_followed() -> None:
    jumps = "".join(f"-A c{number} -j c{number + 1}\n" for number in range(5000))
    assert not read_iptables(f"*filter\n:INPUT ACCEPT\n-A INPUT -j c0\n{jumps}-A c5000 -j DROP\n").blocks("22/tcp")


def follow(rules: dict[int, list[tuple[str, int, int]]], chain: int, port: int) -> str:
    """Return the verdict of a chain, evaluated rule by rule like in the kernel."""
    for verb, target, match in rules[chain]:
        if match not in (0, port):
            continue
        if verb in ("ACCEPT", "DROP"):
            return verb
        if verb == "RETURN":
            return ""
        verdict = follow(rules, chain + target, port) if chain + target in rules else ""
        if verdict or verb == "goto":
            return verdict
    return ""


RULE = st.tuples(
    st.sampled_from(["ACCEPT", "DROP", "RETURN", "jump", "goto"]), st.integers(1, 3), st.sampled_from([0, 22, 80])
)


@given(st.lists(st.lists(RULE, max_size=4), min_size=1, max_size=6), st.booleans())
def test_the_verdict_is_the_kernels(chains: list[list[tuple[str, int, int]]], drops: bool) -> None:
    rules = dict(enumerate(chains))
    lines = [f"*filter\n:INPUT {'DROP' if drops else 'ACCEPT'} [0:0]"]
    for chain, (verb, target, match) in [(chain, rule) for chain, found in rules.items() for rule in found]:
        name = f"c{chain}" if chain else "INPUT"
        does = f"-{verb[0]} c{chain + target}" if verb in ("jump", "goto") else f"-j {verb}"
        lines.append(f"-A {name} {f'-p tcp --dport {match} ' if match else ''}{does}")
    for port in (22, 80, 6443):
        wanted = (follow(rules, 0, port) or ("DROP" if drops else "")) == "DROP"
        assert read_iptables("\n".join(lines)).blocks(f"{port}/tcp") == wanted


LINES = st.lists(st.text(st.sampled_from('-A:* INPUTjaDROP"!,'), max_size=12))


@given(LINES)
def test_any_lines_of_a_table_are_parsed_without_an_error(lines: list[str]) -> None:
    for start in ("", ":", "-A ", "-A INPUT -j "):
        text = "*filter\n:INPUT ACCEPT\n" + "".join(f"{start}{line}\n" for line in ["", *lines])
        read_iptables(text).blocks("22/tcp")
