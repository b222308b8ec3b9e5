# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Check and compare exports of an NFS server. Pure."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

_PATH = re.compile(r"(?:/[A-Za-z0-9._-]+)+", re.ASCII)
# A host name, a wildcard or a netgroup. A blank or a parenthesis would begin another client or its options.
_NAME = re.compile(r"@?[A-Za-z0-9*?_\[][A-Za-z0-9*?._\[\]-]*", re.ASCII)
_OPTION = re.compile(r"[a-z_]+(?:=[A-Za-z0-9.:/_-]+)?", re.ASCII)
_ANONYMOUS = re.compile(r"anon[ug]id=(.*)", re.ASCII)
_IDENTITY = re.compile(r"[1-9][0-9]{0,9}", re.ASCII)
_LARGEST_IDENTITY = 2**32 - 2
# exportfs escapes blanks this way.
_ESCAPED = re.compile(r"\\([0-7]{3})")
OPEN = "is not limited to known addresses. Name the nodes or their network, or set nfs_server_any_client"
# Options that apply by default, and their opposites.
_CONTRARY = (
    ("ro", "rw"),
    ("secure", "insecure"),
    ("root_squash", "no_root_squash"),
    ("no_all_squash", "all_squash"),
)
_ROOT = ("root_squash", "no_root_squash")


def path_problems(path: Any) -> Iterator[str]:
    """Yield what is wrong with a directory to export, as the end of a sentence."""
    if not _PATH.fullmatch(str(path)) or ".." in str(path).split("/"):
        yield (
            "it must be an absolute path of letters, digits, '.', '_' and '-' without a slash at the end, such as "
            f"/srv/gpulab, not {str(path)!r:.120}"
        )


def client_problems(clients: Iterable[Any]) -> Iterator[str]:
    """Yield what is wrong with the form of clients that may mount it."""
    for client in clients:
        if _network(client) is None and not _NAME.fullmatch(str(client)):
            yield (
                f"{str(client)!r:.120} must be an address or a network, such as 192.0.2.21 or 192.0.2.0/24, or a host "
                "name, a netgroup (@name) or *"
            )


def open_clients(clients: Iterable[Any]) -> list[str]:
    """Return clients that are not limited to known addresses: names, wildcards, netgroups, networks of all addresses.

    DNS or NIS, not the inventory, decides which host has a name.
    """
    return [str(client) for client in clients if not (network := _network(client)) or network.prefixlen == 0]


def _network(client: Any) -> ipaddress.IPv4Network | ipaddress.IPv6Network | None:
    try:
        return ipaddress.ip_network(str(client))
    except ValueError:
        return None


def option_problems(options: Iterable[Any]) -> Iterator[str]:
    """Yield what is wrong with the options of an export."""
    for option in options:
        if option in _ROOT:
            yield f"{option} can't be set here; set nfs_server_no_root_squash instead"
        elif not _OPTION.fullmatch(str(option)):
            yield f"{str(option)!r:.60} is not an option of exports(5), such as rw, sync or anonuid=1000"
        elif (found := _ANONYMOUS.fullmatch(str(option))) and not _is_identity(found[1]):
            yield (
                f"the value in {option} must be a number from 1 to {_LARGEST_IDENTITY}: with 0, a squashed root would "
                "remain root. Set nfs_server_no_root_squash if you want that"
            )


def _is_identity(text: str) -> bool:
    return bool(_IDENTITY.fullmatch(text)) and int(text) <= _LARGEST_IDENTITY


def differences(etab: str, path: str, line: str = "") -> list[str]:
    """Return how the exports of a directory in /var/lib/nfs/etab, the server's table, differ from a line of exports(5).

    An empty line means no export. The server uses canonical host names, so only the number of names can be compared.
    """
    active, wanted = _clients_of(etab, path), _clients_of(line, path)
    surplus = [client for client in active if client not in wanted]
    missing = [client for client in wanted if client not in active]
    aliases = min(*(sum(map(_is_host_name, found)) for found in (surplus, missing)))
    found = []
    for clients, words in ((surplus, "exported to {}, which the file does not have"), (missing, "not exported to {}")):
        names = [client for client in clients if _is_host_name(client)]
        found += [words.format(client) for client in clients if client not in names[:aliases]]
    for client in wanted:
        if client in active and (options := _differing(active[client], wanted[client])):
            found.append(f"exported to {client} with {', '.join(options)}")
    return found


def _clients_of(text: str, path: str) -> dict[str, list[str]]:
    """Return a directory's clients with their options from exports(5) or etab; invalid lines are skipped."""
    found: dict[str, list[str]] = {}
    for line in text.splitlines():
        fields = line.split()
        if fields and _ESCAPED.sub(lambda code: chr(int(code[1], 8)), fields[0].strip('"')) == path:
            for client, _parenthesis, options in (field.partition("(") for field in fields[1:]):
                found[_normalized(client)] = options.rstrip(")").split(",")
    return found


def _normalized(client: str) -> str:
    network = _network(client)
    if network is None:
        return client.lower()
    return str(network if network.num_addresses > 1 else network.network_address)


def _is_host_name(client: str) -> bool:
    return _network(client) is None and not set(client) & set("@*?[/")


def _differing(active: Sequence[str], wanted: Sequence[str]) -> list[str]:
    """Return active options for access and identity that contradict the wanted ones."""
    found = []
    for default, other in _CONTRARY:
        if not {default, other} <= set(wanted):
            expected = other if other in wanted else default
            found += [option for option in (default, other) if option in active and option != expected]
    for kind in "ug":
        nobody = [*_anonymous(["anonuid=65534", "anongid=65534", *wanted], kind).values()][-1]
        found += [option for option, identity in _anonymous(active, kind).items() if identity != nobody]
    return found


def _anonymous(options: Iterable[str], kind: str) -> dict[str, int]:
    """Return the options anonuid (kind u) or anongid (g) with their values; the server shows large ones as negative."""
    matches = [re.fullmatch(rf"anon{kind}id=(-?[0-9]{{1,10}})", option) for option in options]
    return {match[0]: int(match[1]) % 2**32 for match in matches if match}


def export(
    path: str,
    clients: Sequence[str],
    options: Sequence[str],
    no_root_squash: bool,
    insecure: Sequence[str] = (),
    any_client: bool = False,
) -> str:
    """Return a line of exports(5) for clients; ``insecure`` clients may also use ports above 1023.

    Raises ValueError with the reason.
    """
    problems = [f"nfs_server_path: {words}" for words in path_problems(path)]
    for name, listed in (("nfs_server_clients", clients), ("nfs_server_insecure_clients", insecure)):
        problems += [f"{name}: {words}" for words in client_problems(listed)]
        if opened := [] if any_client else open_clients(listed):
            problems.append(f"{name}: {', '.join(opened)} {OPEN}")
    problems += [f"nfs_server_options: {words}" for words in option_problems(options)]
    if not [*clients, *insecure]:
        problems.append("nfs_server_clients: there is no address to which to export")
    if problems:
        raise ValueError("; ".join(problems))
    root = "no_root_squash" if no_root_squash else "root_squash"
    usual = ",".join([*options, root])
    loose = ",".join([*(option for option in options if option not in ("secure", "insecure")), "insecure", root])
    entries = {**dict.fromkeys(clients, usual), **dict.fromkeys(insecure, loose)}
    return " ".join([path, *(f"{client}({words})" for client, words in entries.items())])


def clients(hostvars: Mapping[str, Mapping[str, Any]], hosts: Sequence[str]) -> list[str]:
    """Return the node addresses of hosts. Raises ValueError for an unknown address: no node may be locked out."""
    found = {}
    for host in hosts:
        values = hostvars[host]
        facts = (values.get("ansible_facts") or {}).get("default_ipv4") or {}
        found[host] = str(values.get("cluster_node_address") or facts.get("address") or "")
    unknown = [host for host, address in found.items() if not address]
    if unknown:
        raise ValueError(
            f"the address of {', '.join(unknown)} is unknown. Run without --limit, set cluster_node_address, or list "
            "the clients in nfs_server_clients"
        )
    return list(dict.fromkeys(found.values()))


def without(text: str, addresses: Iterable[str]) -> str:
    """Return a file of exports(5) without the clients that are these addresses; a line without clients is left out."""
    gone = {_normalized(address) for address in addresses}
    lines = []
    for line in text.splitlines():
        path, *clients = line.split()[:1] if line.startswith("#") else line.split() or [""]
        kept = [client for client in clients if _normalized(client.partition("(")[0]) not in gone]
        if kept == clients:
            lines.append(line)
        elif kept:
            lines.append(" ".join([path, *kept]))
    return "".join(f"{line}\n" for line in lines)
