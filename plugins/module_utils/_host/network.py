# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read a host's addresses, routes, ports in use, and packet filter."""

from __future__ import annotations

import contextlib
import json
import os
import re
import socket
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .._command import CommandError, CommandNotFoundError, Runner
from .._errors import DomainError
from .._files import text_or_nothing, under
from .._systemd import is_active
from .firewall import nft_tables, read_iptables, read_nft
from .packet_filter import Filter

# The kernel's numbers for listening sockets; an unconnected UDP socket is "closed".
_LISTENING = {"tcp": "0A", "udp": "07"}
_SOCKET = re.compile(r"socket:\[(\d+)\]")


def addresses(runner: Runner) -> list[dict[str, Any]]:
    """Return all global addresses: address, prefix, interface, family (inet or inet6)."""
    return [
        {
            "address": entry["local"],
            "prefix": entry.get("prefixlen", 0),
            "interface": link.get("ifname", ""),
            "family": entry.get("family", ""),
        }
        for link in _ip(runner, "address", "show")
        for entry in link.get("addr_info", [])
        if entry.get("local") and entry.get("scope") == "global"
    ]


def routes(runner: Runner) -> list[dict[str, str]]:
    """Return the main IPv4 table: destination (default or CIDR), gateway, interface, source."""
    return [
        {
            "destination": str(route["dst"]),
            "gateway": str(route.get("gateway", "")),
            "interface": str(route.get("dev", "")),
            "source": str(route.get("prefsrc", "")),
        }
        for route in _ip(runner, "-4", "route", "show")
        if route.get("dst")
    ]


def has_network_manager(runner: Runner) -> bool:
    """Return whether NetworkManager runs; it manages all devices that its configuration does not exclude."""
    return is_active(runner, "NetworkManager.service")


def default_address(found: Iterable[Mapping[str, Any]], table: Iterable[Mapping[str, str]]) -> str:
    """Return the address of the default route, empty if there is none."""
    default = next((route for route in table if route["destination"] == "default"), None)
    if default is None:
        return ""
    near = (entry for entry in found if entry["interface"] == default["interface"] and entry["family"] == "inet")
    return default["source"] or next((str(entry["address"]) for entry in near), "")


def read_sockets(text: str, protocol: str) -> Iterator[tuple[str, int, str]]:
    """Yield (address, port, inode) of the listening sockets in a table of /proc/net."""
    for line in text.splitlines()[1:]:
        fields = line.split()
        if len(fields) < 10 or fields[3] != _LISTENING[protocol]:
            continue
        address, colon, port = fields[1].rpartition(":")
        try:
            yield (_address(address) if colon else ""), int(port, 16), fields[9]
        except ValueError:
            continue


def listeners(root: str, ports: Iterable[str]) -> list[dict[str, Any]]:
    """Return the listeners on ports such as ``6443/tcp``: port, protocol, address, process, pid (0 if unknown)."""
    wanted = {(protocol or "tcp", int(number)) for number, _slash, protocol in (port.partition("/") for port in ports)}
    taken = _taken(root, wanted)
    owners = _owners(root, {inode for *_rest, inode in taken if inode != "0"})
    if any(inode not in owners for *_rest, inode in taken):
        # Processes that have exited no longer listen.
        taken = [one for one in _taken(root, wanted) if one in taken]
    return [
        {
            "port": port,
            "protocol": protocol,
            "address": address,
            "process": owners.get(inode, (0, "kernel" if inode == "0" else ""))[1],
            "pid": owners.get(inode, (0, ""))[0],
        }
        for port, protocol, address, inode in dict.fromkeys(taken)
    ]


def _taken(root: str, wanted: set[tuple[str, int]]) -> list[tuple[int, str, str, str]]:
    """Return (port, protocol, address, inode) of the sockets that listen on one of these ports."""
    taken = []
    for table in ("tcp", "tcp6", "udp", "udp6"):
        protocol = table[:3]
        if any(one == protocol for one, _number in wanted):
            for address, port, inode in read_sockets(text_or_nothing(root, f"/proc/net/{table}"), protocol):
                if (protocol, port) in wanted:
                    taken.append((port, protocol, address, inode))
    return taken


@dataclass(frozen=True)
class Traffic:
    """Traffic that the packet filter must accept: ``ports`` by one of ``interfaces`` (the usual one first).

    A node forwards ``pod_network`` between ``pod_interfaces``; an empty name in it stands for the usual interface.
    Empty: nothing is forwarded.
    """

    ports: Sequence[str]
    interfaces: Sequence[str] = ()
    pod_network: str = ""
    pod_interfaces: Sequence[str] = ()


def node_interfaces(found: Iterable[Mapping[str, Any]], table: Iterable[Mapping[str, str]]) -> list[str]:
    """Return the interfaces with IPv4 addresses, those of default routes first."""
    default = [route["interface"] for route in table if route["destination"] == "default"]
    names = [str(entry["interface"]) for entry in found if entry["family"] == "inet"]
    return list(dict.fromkeys([*(name for name in default if name in names), *names]))


def firewall(runner: Runner, root: str, traffic: Traffic) -> dict[str, Any]:
    """Read the packet filter: tool, active, blocks (refused ports; None if it can't be read), forward.

    ``forward`` is the chain that rejects pod traffic. ``blocks`` and ``forward`` are for the usual interface;
    ``interfaces`` and ``forwards`` have them for each interface.
    """
    try:
        filters, said = _filters(runner)
    except DomainError:
        filters, said = None, ""
    if filters is None:
        enabled = bool(re.search(r"^\s*ENABLED=yes", text_or_nothing(root, "/etc/ufw/ufw.conf"), re.MULTILINE))
        tool = "ufw" if enabled else ""
        return {"tool": tool, "active": enabled, "blocks": None, "interfaces": {}, "forward": "", "forwards": {}}
    blocked = {
        interface: [port for port in traffic.ports if any(found.blocks(port, interface) for _tool, found in filters)]
        for interface in traffic.interfaces or [""]
    }
    every = {port for ports in blocked.values() for port in ports}
    drops = [
        tool
        for tool, found in filters
        if any(found.entries.values()) or any(found.blocks(port, name) for name in blocked for port in every)
    ]
    usual = next(iter(blocked))
    rejecting = {
        interface: [
            (tool, chain)
            for tool, found in filters
            if (
                chain := found.rejects_pods(traffic.pod_network, [name or interface for name in traffic.pod_interfaces])
            )
        ]
        for interface in blocked
    }
    chains = {interface: found[0][1] if found else "" for interface, found in rejecting.items()}
    marked = (tool for mark, tool in (("ufw-", "ufw"), ("firewalld", "firewalld")) if mark in said)
    acting = [*drops, *(tool for found in rejecting.values() for tool, _chain in found)]
    return {
        "tool": next(marked, "") or (acting[0] if acting else ""),
        "active": bool(acting),
        "blocks": blocked[usual],
        "interfaces": {name: ports for name, ports in blocked.items() if name},
        "forward": chains[usual],
        "forwards": {name: chain for name, chain in chains.items() if name},
    }


def _filters(runner: Runner) -> tuple[list[tuple[str, Filter]] | None, str]:
    """Return the filters and a text that names their tools; None if they can't be read (not root)."""
    found, said = [], ""
    iptables = runner.find("iptables-save") is not None
    if iptables:
        result = runner.run(["iptables-save", "-t", "filter"])
        if result.rc != 0:
            return None, ""
        found.append(("iptables", read_iptables(result.stdout)))
        said += result.stdout
    if runner.find("nft") is not None:
        result = runner.run(["nft", "-j", "list", "chains"])
        if result.rc != 0:
            return None, ""
        for family, table in nft_tables(result.stdout, iptables, ("input", "forward")):
            listed = runner.run(["nft", "-j", "list", "table", family, table])
            found.append(("nftables", read_nft(listed.stdout)))
            said += table
    return found, said


def _owners(root: str, inodes: set[str]) -> dict[str, tuple[int, str]]:
    """Return (pid, program) by socket inode; inaccessible processes are omitted (not root)."""
    owners: dict[str, tuple[int, str]] = {}
    processes = under(root, "/proc")
    for process in processes.iterdir() if inodes and processes.is_dir() else ():
        if not process.name.isdigit():
            continue
        for inode in _sockets(process / "fd"):
            if inode in inodes:
                owners[inode] = (int(process.name), _program(process))
        if len(owners) == len(inodes):
            break
    return owners


def _sockets(descriptors: Path) -> set[str]:
    """Return the inodes of a process's open sockets, without descriptors that it has closed meanwhile."""
    found: set[str] = set()
    with contextlib.suppress(OSError):
        for link in descriptors.iterdir():
            with contextlib.suppress(OSError):
                match = _SOCKET.match(os.readlink(link))  # noqa: PTH115
                found.update(match.groups() if match else ())
    return found


def _program(process: Path) -> str:
    try:
        return (process / "exe").readlink().name.partition(" (deleted)")[0]
    except OSError:
        return text_or_nothing(str(process), "comm").strip()


def _ip(runner: Runner, *words: str) -> list[dict[str, Any]]:
    try:
        listed = json.loads(runner.check(["ip", "-j", *words], "reading the network").stdout or "[]")
    except CommandNotFoundError as error:
        # Otherwise the host would seem to have no addresses.
        raise DomainError("Error while reading the network: there is no program ip on this host") from error
    except (CommandError, ValueError):
        return []
    return [entry for entry in listed if isinstance(entry, dict)] if isinstance(listed, list) else []


def _address(text: str) -> str:
    """Parse an address in /proc/net: hexadecimal words in the machine's byte order."""
    raw = b"".join(int(text[start : start + 8], 16).to_bytes(4, "little") for start in range(0, len(text), 8))
    try:
        return socket.inet_ntop(socket.AF_INET if len(raw) == 4 else socket.AF_INET6, raw)
    except ValueError:
        return ""
