# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Find the rules, chains and tables of kube-proxy, the kubelet, flannel and the CNI plugins. Pure functions.

Only chains and tables with their exact names are removed, and rules of other chains that lead to them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass

from .._json import as_mapping, as_mappings, as_text

_CHAINS = r"KUBE-[A-Z0-9-]+|FLANNEL-(?:POSTRTG|FWD)"
_CNI_CHAINS = r"CNI-HOSTPORT-(?:DNAT|MASQ|SETMARK)|CNI-(?:DN-)?[0-9a-f]{20,28}"
_TABLES = {"kube-proxy", "flannel-ipv4", "flannel-ipv6"}
_CNI_TABLES = {"cni_hostport", "cni_plugins_masquerade"}
# flannel's rules in chains of the system.
_COMMENT = re.compile(r'--comment "?flanneld (?:masq|forward)\b')
_JUMP = re.compile(r" (?:-j|-g|--jump|--goto) (\S+)")
_WORD = re.compile(r"[A-Za-z0-9_.+-]{1,64}")
_IPTABLES = {"filter", "nat", "mangle", "raw", "security"}
_BUILT_IN = {"PREROUTING", "INPUT", "FORWARD", "OUTPUT", "POSTROUTING"}


@dataclass(frozen=True)
class Removal:
    """Input for iptables-restore --noflush, and how many chains and rules it removes by table."""

    text: str
    counts: dict[str, int]


def iptables_removal(saved: str, cni_too: bool) -> Removal:
    """Return what removes the cluster's chains from the output of iptables-save.

    ``cni_too``: no other CNI configuration is on the host, so the chains of the CNI plugins belong to the cluster.
    """
    ours = re.compile(f"{_CHAINS}|{_CNI_CHAINS}" if cni_too else _CHAINS)
    out: list[str] = []
    counts: dict[str, int] = {}
    for table, chains, rules in _tables(saved):
        mine = [chain for chain in chains if ours.fullmatch(chain)]
        leading = [rule for rule in rules if _chain(rule) not in mine and _leads(rule, ours)]
        if mine or leading:
            out += [f"*{table}", *(f"-D{rule[2:]}" for rule in leading)]
            # A declared chain is emptied, so that no rule leads to one that is removed.
            out += [*(f":{chain} - [0:0]" for chain in mine), *(f"-X {chain}" for chain in mine), "COMMIT"]
            counts[table] = len(mine) + len(leading)
    return Removal("".join(f"{line}\n" for line in out), counts)


def _tables(saved: str) -> Iterator[tuple[str, list[str], list[str]]]:
    table, chains, rules = "", list[str](), list[str]()
    for line in [*saved.splitlines(), "*"]:
        line = re.sub(r"^\[\d+:\d+\] ", "", line.strip())
        if line.startswith("*"):
            if table in _IPTABLES:
                yield table, chains, rules
            table, chains, rules = line[1:], [], []
        elif line.startswith(":") and _WORD.fullmatch(line[1:].split(" ")[0]):
            chains.append(line[1:].split(" ")[0])
        elif line.startswith("-A ") and line.isprintable():
            rules.append(line)


def _chain(rule: str) -> str:
    return rule.split(" ")[1]


def _leads(rule: str, ours: re.Pattern[str]) -> bool:
    # A comment may contain anything.
    bare = re.sub(r'"(?:[^"\\]|\\.)*"', '""', rule)
    return bool(_COMMENT.search(rule)) or any(ours.fullmatch(target) for target in _JUMP.findall(bare))


def nft_tables(listed: str, cni_too: bool) -> list[tuple[str, str]]:
    """Return family and name of the cluster's own tables in the output of ``nft -j list ruleset``."""
    wanted = _TABLES | (_CNI_TABLES if cni_too else set())
    return [(family, name) for family, name in _read(listed)[0] if name in wanted]


def empty_tables(listed: str) -> list[tuple[str, str]]:
    """Return the tables that iptables has created and that have no effect: no rules, and all policies accept."""
    tables, content = _read(listed)
    return [
        (family, name)
        for family, name in tables
        if family in ("ip", "ip6") and name in _IPTABLES and content.get((family, name)) and all(content[family, name])
    ]


def _read(listed: str) -> tuple[list[tuple[str, str]], dict[tuple[str, str], list[bool]]]:
    """Return the tables, and for each whether each of its objects is a built-in chain that accepts."""
    try:
        found = as_mapping(json.loads(listed))
    except (ValueError, RecursionError):
        found = {}
    tables: list[tuple[str, str]] = []
    content: dict[tuple[str, str], list[bool]] = {}
    for entry in as_mappings(found.get("nftables")):
        for kind, value in entry.items():
            fields = as_mapping(value)
            family, table = as_text(fields.get("family")), as_text(fields.get("table"))
            if kind == "table" and _WORD.fullmatch(as_text(fields.get("name"))):
                tables.append((family, as_text(fields.get("name"))))
            elif kind != "metainfo":
                harmless = kind == "chain" and fields.get("policy") == "accept" and fields.get("name") in _BUILT_IN
                content.setdefault((family, table), []).append(harmless)
    return tables, content
