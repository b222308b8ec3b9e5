# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Decides which ports a host's packet filter refuses, from what iptables-save and nft print. Pure.

Only what surely drops a new connection from another machine counts: a rule that looks at source addresses, interfaces
or marks is given the benefit of the doubt.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

# Chains and tables of the cluster itself, which never stand in its way.
_CLUSTER_CHAIN = re.compile(r"(?:KUBE|FLANNEL|CNI|DOCKER|cali|CILIUM)[-_]")
_CLUSTER_TABLES = {"kube-proxy", "flannel-ipv4", "flannel-ipv6", "flannel", "docker", "cilium"}
# Interfaces by which no other node comes in.
_INSIDE = re.compile(r"(?:lo|docker|podman|virbr|lxc|lxd|cni|flannel|veth|br-)")
# Kernels allow 16 jumps in nftables; iptables-legacy has no such limit.
_DEPTH = 200
_DROPS = {"DROP", "REJECT"}
# Options of iptables that do not narrow what a rule matches, with their number of values.
_NEUTRAL = {"-m": 1, "--match": 1, "--comment": 1, "--reject-with": 1, "--log-prefix": 1, "--log-level": 1}


@dataclass
class Rule:
    verdict: str = ""  # accept, drop, jump, goto, return, or empty
    target: str = ""
    protocols: set[str] = field(default_factory=set)
    ports: list[tuple[int, int]] = field(default_factory=list)
    states: set[str] = field(default_factory=set)
    never: bool = False
    uncertain: bool = False

    def applies(self, protocol: str, port: int) -> bool:
        return not (
            self.never
            or (self.protocols and protocol not in self.protocols)
            or (self.ports and not any(first <= port <= last for first, last in self.ports))
            or (self.states and "new" not in self.states)
        )


@dataclass
class Filter:
    """Chains by name; ``entries`` are those at the input hook, with whether their policy is to drop."""

    chains: dict[str, list[Rule]] = field(default_factory=dict)
    entries: dict[str, bool] = field(default_factory=dict)

    def blocks(self, port: str) -> bool:
        """Whether it surely refuses a port such as ``6443/tcp``."""
        number, _slash, protocol = port.partition("/")
        verdicts: dict[str, str] = {}
        for chain, policy_drops in self.entries.items():
            verdict = self._walk(chain, protocol or "tcp", int(number), verdicts, 0)
            if verdict == "drop" or (not verdict and policy_drops):
                return True
        return False

    def _walk(self, chain: str, protocol: str, port: int, verdicts: dict[str, str], depth: int) -> str:
        """The verdict of a chain, of which ``verdicts`` are known already; no kernel accepts a chain in a loop."""
        if chain not in verdicts and depth < _DEPTH:
            verdicts[chain] = ""
            verdicts[chain] = self._judge(chain, protocol, port, verdicts, depth)
        return verdicts.get(chain, "")

    def _judge(self, chain: str, protocol: str, port: int, verdicts: dict[str, str], depth: int) -> str:
        for rule in self.chains.get(chain, []):
            if not rule.applies(protocol, port):
                continue
            verdict = rule.verdict
            if verdict in ("jump", "goto"):
                if _CLUSTER_CHAIN.match(rule.target):
                    continue
                verdict = self._walk(rule.target, protocol, port, verdicts, depth + 1)
                if not verdict and rule.verdict == "goto" and not rule.uncertain:
                    return ""
            if verdict == "accept" or (verdict == "drop" and not rule.uncertain):
                return verdict
            if verdict == "return" and not rule.uncertain:
                return ""
        return ""


def read_iptables(text: str) -> Filter:
    """The filter table of ``iptables-save``."""
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
        elif line.startswith("-A "):
            try:
                words = shlex.split(line)
            except ValueError:
                continue
            if len(words) > 1:
                result.chains.setdefault(words[1], []).append(_iptables_rule(words[2:]))
    return result


def _iptables_rule(words: list[str]) -> Rule:
    rule, position = Rule(), 0
    while position < len(words):
        word = words[position]
        value = words[position + 1] if position + 1 < len(words) else ""
        if word == "!":
            rule.uncertain = True
            # What is negated says nothing that we could use.
            position += 3
            continue
        if word in ("-j", "--jump", "-g", "--goto"):
            verdict = {"ACCEPT": "accept", "RETURN": "return", **dict.fromkeys(_DROPS, "drop")}.get(value)
            rule.verdict, rule.target = verdict or ("goto" if word in ("-g", "--goto") else "jump"), value
        elif word in ("-p", "--protocol"):
            rule.protocols = {value}
        elif word in ("--dport", "--destination-port", "--dports"):
            rule.ports = [_range(part, ":") for part in value.split(",")]
        elif word in ("--state", "--ctstate"):
            rule.states = {state.lower() for state in value.split(",")}
        elif (word in ("-i", "--in-interface") and _INSIDE.match(value)) or word == "--ctstatus":
            # A new connection has no status (such as DNAT) yet.
            rule.never = True
        elif word == "--dst-type":
            rule.never = rule.never or value != "LOCAL"
        elif word not in _NEUTRAL and word.startswith("-"):
            rule.uncertain = True
        position += 1 + (word in _NEUTRAL or bool(value and not value.startswith("-") and value != "!"))
    return rule


def nft_tables(text: str, iptables_too: bool) -> list[tuple[str, str]]:
    """(family, table) of those with a filter at the input hook, from ``nft -j list chains``.

    ``iptables_too``: iptables-save speaks for the tables that iptables keeps in nftables.
    """
    tables = {}
    for chain in _items(text, "chain"):
        table = (str(chain.get("family")), str(chain.get("table")))
        of_iptables = table == ("ip", "filter") and iptables_too
        if chain.get("hook") == "input" and table[0] in ("ip", "inet") and not of_iptables:
            tables[table] = table[1] not in _CLUSTER_TABLES
    return [table for table, wanted in tables.items() if wanted]


def read_nft(text: str) -> Filter:
    """A table, from ``nft -j list table ...``."""
    result = Filter()
    sets = {str(item.get("name")): item.get("elem", []) for item in _items(text, "set")}
    for chain in _items(text, "chain"):
        result.chains.setdefault(str(chain.get("name")), [])
        if chain.get("hook") == "input":
            result.entries[str(chain.get("name"))] = chain.get("policy") == "drop"
    for item in _items(text, "rule"):
        result.chains.setdefault(str(item.get("chain")), []).extend(_nft_rules(item.get("expr", []), sets))
    return result


def _items(text: str, kind: str) -> Iterator[Mapping[str, Any]]:
    try:
        listed = json.loads(text)
    except ValueError:
        return
    entries = listed.get("nftables") if isinstance(listed, dict) else None
    for entry in entries if isinstance(entries, list) else ():
        if isinstance(entry, dict) and isinstance(entry.get(kind), dict):
            yield entry[kind]


def _nft_rules(expressions: Any, sets: Mapping[str, Any]) -> list[Rule]:
    """One rule, or as many as a verdict map has entries."""
    rule = Rule()
    for expression in expressions if isinstance(expressions, list) else ():
        if not isinstance(expression, dict):
            continue
        for kind, value in expression.items():
            if kind == "vmap" and isinstance(value, dict):
                return list(_vmap(value, rule, sets))
            if kind == "match" and isinstance(value, dict):
                _narrow(rule, value.get("left"), value.get("right"), value.get("op") in ("==", "in"), sets)
            else:
                _verdict(rule, kind, value)
    return [rule]


def _vmap(value: Mapping[str, Any], outer: Rule, sets: Mapping[str, Any]) -> Iterator[Rule]:
    data = value.get("data")
    for entry in _elements(data, sets):
        if isinstance(entry, list) and len(entry) == 2 and isinstance(entry[1], dict):
            rule = Rule(
                "", "", set(outer.protocols), list(outer.ports), set(outer.states), outer.never, outer.uncertain
            )
            _narrow(rule, value.get("key"), entry[0], True, sets)
            for kind, target in entry[1].items():
                _verdict(rule, kind, target)
            yield rule


def _verdict(rule: Rule, kind: str, value: Any) -> None:
    if kind in ("accept", "return"):
        rule.verdict = kind
    elif kind in ("drop", "reject"):
        rule.verdict = "drop"
    elif kind in ("jump", "goto") and isinstance(value, dict):
        rule.verdict, rule.target = kind, str(value.get("target"))
    elif kind in ("xt", "limit"):
        rule.uncertain = True


def _narrow(rule: Rule, left: Any, right: Any, positive: bool, sets: Mapping[str, Any]) -> None:
    values = list(_elements(right, sets))
    subject, protocol = _subject(left)
    if protocol == "ip6" or (positive and subject == "status"):
        # Nodes talk IPv4, and a new connection has no status (such as DNAT) yet.
        rule.never = True
    elif not positive:
        rule.uncertain = True
    elif subject == "dport":
        rule.ports = [_nft_range(value) for value in values] or [(0, -1)]
    elif subject in ("l4proto", "protocol"):
        rule.protocols = set(map(str, values))
    elif subject == "state":
        rule.states = {str(value) for value in values}
    elif subject in ("iif", "iifname") and values and all(_INSIDE.match(str(value)) for value in values):
        rule.never = True
    else:
        rule.uncertain = True
    if protocol not in ("", "th", "ip", "ip6", "ether"):
        rule.protocols = {protocol}


def _subject(left: Any) -> tuple[str, str]:
    """What a match looks at, and the protocol to whose header that belongs."""
    if isinstance(left, dict):
        for kind in ("payload", "meta", "ct"):
            where = left.get(kind)
            if isinstance(where, dict):
                return str(where.get("field") or where.get("key") or ""), str(where.get("protocol") or "")
    return "", ""


def _elements(value: Any, sets: Mapping[str, Any]) -> Iterable[Any]:
    if isinstance(value, str) and value.startswith("@"):
        value = sets.get(value[1:], [])
    if isinstance(value, dict) and "set" in value:
        value = value["set"]
    return value if isinstance(value, list) else [value]


def _nft_range(value: Any) -> tuple[int, int]:
    if isinstance(value, dict) and isinstance(value.get("range"), list) and len(value["range"]) == 2:
        return _range(f"{value['range'][0]}-{value['range'][1]}", "-")
    return _range(str(value), "-")


def _range(text: str, separator: str) -> tuple[int, int]:
    first, found, last = text.partition(separator)
    try:
        return int(first or 0), int(last or 65535) if found else int(first)
    except ValueError:
        # A service name, which we can't resolve: let it match nothing.
        return 0, -1
