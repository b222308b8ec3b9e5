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

# ufw 0.36 on Ubuntu 24.04 with `ufw allow 22` and `ufw allow 6443/tcp`, shortened to the path of a new connection.
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

# A node of a running cluster: kube-proxy's and flannel's chains, some of which drop what is marked or has no endpoint.
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
        # Who may come in is not known, so it may be the other nodes.
        (iptables("-s 10.0.0.0/8 -j ACCEPT", policy="DROP"), []),
        (iptables("-i eth1 -p tcp -m tcp --dport 6443 -j ACCEPT", policy="DROP"), ["22/tcp", "10250/tcp", "8472/udp"]),
        # Who is kept out is not known either.
        (iptables("-s 203.0.113.7/32 -j DROP", "! -i eth0 -j DROP"), []),
        (iptables("-i docker0 -j ACCEPT", "-m conntrack --ctstatus DNAT -j ACCEPT", policy="DROP"), PORTS),
        (iptables("-p tcp -m tcp --dport 1:1023 -j RETURN", "-j DROP"), PORTS[1:]),
        (UFW, ["10250/tcp", "8472/udp"]),
        (KUBERNETES, []),
        ("*filter\n:INPUT ACCEPT\n:a -\n-A INPUT -j a\n-A a -g b\n-A b -p tcp -j DROP\n", PORTS[:3]),
        ("*filter\n:INPUT ACCEPT\n-A INPUT -j a\n-A a -j b\n-A b -j a\n", []),
        ('*filter\n:INPUT ACCEPT\n-A INPUT -m comment --comment "unbalanced -j DROP\n', []),
    ],
)
def test_iptables(text: str, ports: list[str]) -> None:
    assert blocked(text) == ports


def table(chains: list[dict[str, Any]], rules: list[dict[str, Any]], sets: list[dict[str, Any]] | None = None) -> str:
    return json.dumps(
        {
            "nftables": [
                {"metainfo": {"version": "1.0.6"}},
                *({"set": entry} for entry in sets or []),
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
    ],
)
def test_nft(text: str, ports: list[str]) -> None:
    found = read_nft(text)
    assert [port for port in PORTS if found.blocks(port)] == ports


def test_tables_that_matter() -> None:
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
    assert nft_tables(text, iptables_too=False) == [("inet", "firewalld"), ("ip", "filter")]


@given(st.text())
def test_any_text_has_a_result(text: str) -> None:
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
def test_any_expression_has_a_result(expression: Any) -> None:
    text = table([INPUT], [{"chain": "input", "expr": [expression, {"accept": None}]}])
    read_nft(text).blocks("6443/tcp")


@pytest.mark.skipif(shutil.which("nft") is None, reason="compares with what nft itself prints")
def test_ruleset_of_debians_example() -> None:
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
def test_chains_that_jump_to_others_many_times_are_judged_in_linear_time(last: str) -> None:
    rules = [f"-A c{level} -j c{level + 1}\n" * 9 for level in range(60)]
    text = f"*filter\n:INPUT ACCEPT\n-A INPUT -j c0\n{''.join(rules)}-A c60 {last}\n"
    begun = time.process_time()
    assert read_iptables(text).blocks("6443/tcp") == bool(last)
    assert time.process_time() - begun < 5


@pytest.mark.parametrize("policy", ["ACCEPT", "DROP"])
def test_a_loop_of_chains_ends(policy: str) -> None:
    loop = "-A a -j a\n-A a -j b\n-A b -g a\n" * 9
    text = f"*filter\n:INPUT {policy}\n-A INPUT -j a\n{loop}"
    assert read_iptables(text).blocks("6443/tcp") == (policy == "DROP")
    assert read_iptables(f"{text}-A INPUT -j DROP\n").blocks("6443/tcp")


def test_a_long_way_of_jumps_ends() -> None:
    jumps = "".join(f"-A c{number} -j c{number + 1}\n" for number in range(5000))
    assert not read_iptables(f"*filter\n:INPUT ACCEPT\n-A INPUT -j c0\n{jumps}-A c5000 -j DROP\n").blocks("22/tcp")


def follow(rules: dict[int, list[tuple[str, int, int]]], chain: int, port: int) -> str:
    """Return the verdict of a chain as the kernel finds it, rule by rule."""
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
def test_the_verdict_is_that_of_the_kernel(chains: list[list[tuple[str, int, int]]], drops: bool) -> None:
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
def test_any_lines_of_a_table_have_a_result(lines: list[str]) -> None:
    for start in ("", ":", "-A ", "-A INPUT -j "):
        text = "*filter\n:INPUT ACCEPT\n" + "".join(f"{start}{line}\n" for line in ["", *lines])
        read_iptables(text).blocks("22/tcp")
