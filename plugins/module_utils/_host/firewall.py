# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Parse a host's packet filter from the output of iptables-save and nft. Pure functions."""

from __future__ import annotations

import json
import shlex
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

from .._json import as_mapping, as_mappings
from .packet_filter import Condition, Filter, Rule

# The cluster's own tables, which never block it.
_OF_IPTABLES = ("ip", "filter")
_CLUSTER_TABLES = {"kube-proxy", "flannel-ipv4", "flannel-ipv6", "flannel", "docker", "cilium"}
_DROPS = {"DROP", "REJECT"}
# A program, or the kernel with SYN cookies, decides; such packets are assumed to be accepted.
_DECIDED_ELSEWHERE = {"NFQUEUE", "QUEUE", "SYNPROXY"}
# Options of iptables that do not restrict a rule, with their number of values.
_NEUTRAL = {"-m": 1, "--match": 1, "--comment": 1, "--reject-with": 1, "--log-prefix": 1, "--log-level": 1}
_TARGETS = {
    "ACCEPT": "accept",
    "RETURN": "return",
    **dict.fromkeys(_DROPS, "drop"),
    **dict.fromkeys(_DECIDED_ELSEWHERE, "accept"),
}
_PROTOCOLS = {"6": "tcp", "17": "udp", "1": "icmp", "0": "all"}
# Options of iptables -> what they match.
_OPTIONS = {
    **dict.fromkeys(("-p", "--protocol"), "protocol"),
    **dict.fromkeys(("--dport", "--destination-port", "--dports", "--destination-ports"), "dport"),
    **dict.fromkeys(("--sport", "--source-port", "--sports", "--source-ports"), "sport"),
    "--ports": "port",
    **dict.fromkeys(("--state", "--ctstate"), "state"),
    "--ctstatus": "status",
    **dict.fromkeys(("-i", "--in-interface"), "in"),
    **dict.fromkeys(("-o", "--out-interface"), "out"),
    **dict.fromkeys(("-s", "--source", "--src"), "source"),
    **dict.fromkeys(("-d", "--destination", "--dst"), "destination"),
    "--dst-type": "destination type",
    "--src-type": "source type",
    "--pkt-type": "packet type",
    "--mark": "mark",
    "--syn": "syn",
}
_VERBATIM = {"in", "out"}


def read_iptables(text: str) -> Filter:
    """Parse the filter table of ``iptables-save``."""
    result, table = Filter(), ""
    for line in text.splitlines():
        if line.startswith("*"):
            table = line[1:].strip()
        elif table != "filter":
            continue
        elif line.startswith(":"):
            name, policy = [*line[1:].split(), "", "-"][:2]
            result.chains.setdefault(name, [])
            if name == "INPUT":
                result.entries[name] = policy in _DROPS
            elif name == "FORWARD":
                # The policy applies after the pod network's rules, which accept the packets.
                result.forwards[name] = False
        elif line.startswith("-A "):
            try:
                words = shlex.split(line)
            except ValueError:
                continue
            if len(words) > 1:
                result.chains.setdefault(words[1], []).append(_iptables_rule(words[2:]))
    return result


def _iptables_rule(words: list[str]) -> Rule:
    rule, position, positive = Rule(), 0, True
    while position < len(words):
        word = words[position]
        value = words[position + 1] if position + 1 < len(words) else ""
        if word == "!":
            positive = False
            position += 1
            continue
        has_value = word in _NEUTRAL or bool(value and not value.startswith("-") and value != "!")
        if word in ("-j", "--jump", "-g", "--goto"):
            verdict = _TARGETS.get(value)
            rule.verdict, rule.target = verdict or ("goto" if word in ("-g", "--goto") else "jump"), value
        elif word in _OPTIONS:
            subject = _OPTIONS[word]
            values = value.split(",") if has_value else []
            values = values if subject in _VERBATIM else [one.lower().replace(":", "-") for one in values]
            if subject == "protocol":
                values = [_PROTOCOLS.get(one, one) for one in values]
            rule.conditions.append(Condition(subject, tuple(values), positive))
        elif word == "--tcp-flags" and position + 2 < len(words):
            rule.conditions.append(Condition("flags", tuple(words[position + 1 : position + 3]), positive))
            position += 1
        elif word not in _NEUTRAL and word.startswith("-"):
            rule.conditions.append(Condition(word))
        position += 1 + has_value
        positive = True
    return rule


def nft_tables(text: str, iptables_too: bool, hooks: Collection[str] = ("input",)) -> list[tuple[str, str]]:
    """Return (family, table) of the tables that filter at one of the hooks, from ``nft -j list chains``.

    With ``iptables_too``, the tables of iptables in nftables are skipped, because iptables-save lists them.
    """
    tables = {}
    for chain in _items(text)["chain"]:
        table = (str(chain.get("family")), str(chain.get("table")))
        of_iptables = table == _OF_IPTABLES and iptables_too
        if chain.get("hook") in hooks and table[0] in ("ip", "inet") and not of_iptables:
            tables[table] = table[1] not in _CLUSTER_TABLES
    return [table for table, wanted in tables.items() if wanted]


def read_nft(text: str) -> Filter:
    """Parse a table from ``nft -j list table ...``."""
    result, items = Filter(), _items(text)
    sets = {str(item.get("name")): item.get("elem", []) for item in (*items["set"], *items["map"])}
    for chain in items["chain"]:
        name, drops = str(chain.get("name")), chain.get("policy") == "drop"
        result.chains.setdefault(name, [])
        if chain.get("hook") == "input":
            result.entries[name] = drops
        elif chain.get("hook") == "forward":
            # Only in iptables' own table can the pod network's rules come before the policy; a drop in any other table
            # is final.
            result.forwards[name] = drops and (chain.get("family"), chain.get("table")) != _OF_IPTABLES
    for item in items["rule"]:
        result.chains.setdefault(str(item.get("chain")), []).extend(_nft_rules(item.get("expr", []), sets))
    return result


def _items(text: str) -> Mapping[str, list[Mapping[str, Any]]]:
    """Return the listed items by kind; unknown kinds are empty."""
    found: dict[str, list[Mapping[str, Any]]] = defaultdict(list)
    try:
        listed = json.loads(text)
    except (ValueError, RecursionError):
        return found
    for entry in as_mappings(as_mapping(listed).get("nftables")):
        for kind, item in entry.items():
            found[kind] += as_mappings([item])
    return found


def _nft_rules(expressions: Any, sets: Mapping[str, Any]) -> list[Rule]:
    """Return one rule, or one for each entry of a verdict map."""
    rule = Rule()
    for expression in expressions if isinstance(expressions, list) else ():
        if not isinstance(expression, dict):
            rule.conditions.append(Condition(f"statement {expression}"))
            continue
        for kind, value in expression.items():
            if kind == "vmap" and isinstance(value, dict):
                return list(_vmap(value, rule, sets))
            if kind == "match" and isinstance(value, dict):
                rule.conditions += _conditions(value.get("left"), value.get("right"), value.get("op"), sets)
            else:
                _verdict(rule, kind, value)
    return [rule]


def _vmap(value: Mapping[str, Any], outer: Rule, sets: Mapping[str, Any]) -> Iterator[Rule]:
    for entry in _elements(value.get("data"), sets):
        if isinstance(entry, list) and len(entry) == 2 and isinstance(entry[1], dict):
            rule = Rule(conditions=[*outer.conditions, *_conditions(value.get("key"), entry[0], "==", sets)])
            for kind, target in entry[1].items():
                _verdict(rule, kind, target)
            yield rule


def _verdict(rule: Rule, kind: str, value: Any) -> None:
    """Add a statement to the rule. A statement that may restrict the rule, such as a limit, is an unknown condition."""
    of_iptables = str(value.get("name")) if kind == "xt" and isinstance(value, dict) else ""
    if kind in ("queue", "synproxy") or of_iptables in _DECIDED_ELSEWHERE:
        rule.verdict = "accept"
    elif kind in ("accept", "return"):
        rule.verdict = kind
    elif kind in ("drop", "reject"):
        rule.verdict = "drop"
    elif kind in ("jump", "goto") and isinstance(value, dict):
        rule.verdict, rule.target = kind, str(value.get("target"))
    elif kind not in _HARMLESS:
        rule.conditions.append(Condition(f"statement {kind}"))


# Statements that neither restrict a rule nor accept or drop packets.
_HARMLESS = {"counter", "log", "mangle", "comment", "notrack", "snat", "dnat", "masquerade", "redirect"}
# (kind of expression, field) in nftables -> what it matches.
_FIELDS = {
    ("payload", "dport"): "dport",
    ("payload", "sport"): "sport",
    ("payload", "saddr"): "source",
    ("payload", "daddr"): "destination",
    ("payload", "protocol"): "protocol",
    ("meta", "l4proto"): "protocol",
    ("meta", "nfproto"): "family",
    ("meta", "protocol"): "family",
    ("meta", "pkttype"): "packet type",
    ("meta", "mark"): "mark",
    ("ct", "state"): "state",
    ("ct", "status"): "status",
    **{("meta", name): "in" for name in ("iif", "iifname")},
    **{("meta", name): "out" for name in ("oif", "oifname")},
}


def _conditions(left: Any, right: Any, operator: Any, sets: Mapping[str, Any]) -> Iterator[Condition]:
    subject, protocol = _subject(left)
    if protocol in ("ip6", "icmpv6"):
        # Nodes use IPv4.
        yield Condition("never")
        return
    if protocol not in ("", "th", "ip", "ether"):
        yield Condition("protocol", (protocol,))
    values = tuple(_nft_value(value, subject) for value in _elements(right, sets))
    known = operator in ("==", "in", "!=")
    yield Condition(subject if known else "", values, operator != "!=")


def _subject(left: Any) -> tuple[str, str]:
    """Return what a match examines, and the protocol of that header."""
    for kind in ("payload", "meta", "ct") if isinstance(left, dict) else ():
        where = left.get(kind)
        if isinstance(where, dict):
            name, protocol = str(where.get("field") or where.get("key") or ""), str(where.get("protocol") or "")
            return _FIELDS.get((kind, name), ""), protocol
    fib = left.get("fib") if isinstance(left, dict) else None
    if isinstance(fib, dict) and fib.get("result") == "type":
        flags = str(fib.get("flags"))
        return "destination type" if "daddr" in flags else "source type" if "saddr" in flags else "", ""
    return "", ""


def _elements(value: Any, sets: Mapping[str, Any]) -> Iterable[Any]:
    if isinstance(value, str) and value.startswith("@"):
        value = sets.get(value[1:], [])
    if isinstance(value, dict) and "set" in value:
        value = value["set"]
    return value if isinstance(value, list) else [value]


def _nft_value(value: Any, subject: str) -> str:
    if isinstance(value, dict) and isinstance(value.get("elem"), dict):
        value = value["elem"].get("val")
    if isinstance(value, dict) and isinstance(value.get("range"), list) and len(value["range"]) == 2:
        return f"{value['range'][0]}-{value['range'][1]}"
    if isinstance(value, dict) and isinstance(value.get("prefix"), dict):
        return f"{value['prefix'].get('addr')}/{value['prefix'].get('len')}"
    if subject == "mark" and isinstance(value, int):
        return hex(value)
    return _PROTOCOLS.get(str(value), str(value)) if subject == "protocol" else str(value)
