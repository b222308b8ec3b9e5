# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Parse and check the machines and the user that were typed for a new cluster. Pure."""

from __future__ import annotations

import ipaddress
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from ...module_utils._problem import Problem
from ...module_utils._words import listing

FORM = "NAME:ADDRESS or NAME:ADDRESS:GPUS, such as gpu1:192.0.2.21:4"
# A host name (RFC 1123).
_NAME = re.compile(r"(?=.{1,253}\Z)(?:[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?(?:\.(?!\Z)|\Z))+")
# The last label of a DNS name is never a number, and Ansible would read these as numbers.
_NUMBER = re.compile(r"[0-9]+(?:e[0-9]+)?|0[xob][0-9a-f]*", re.IGNORECASE)
_USER = re.compile(r"[A-Za-z_][A-Za-z0-9._-]{0,31}", re.ASCII)
# Groups of the inventory, and the controller.
_RESERVED = ("all", "ungrouped", "workers", "localhost")
_MOST_GPUS = 64


@dataclass(frozen=True)
class Machine:
    """A machine; ``address`` is its name if SSH resolves it, ``gpus`` is 0 if their number was not given."""

    name: str
    address: str
    gpus: int = 0


class Wrong(NamedTuple):
    kind: str
    what: str
    why: str
    do: str


def read_machines(entries: Any) -> tuple[list[Machine], list[Problem]]:
    """Parse machines as NAME, NAME:ADDRESS or NAME:ADDRESS:GPUS, the control plane first; also return problems.

    An entry may contain several machines, separated by commas, and blanks instead of colons. YAML reads an entry with a
    blank after its colon as a dictionary.
    """
    given = [text.strip() for entry in _entries(entries) for text in entry.split(",")]
    texts = [re.sub(r"\s*:\s*|\s+", ":", text) for text in given if text]
    machines: list[Machine] = []
    problems: list[Problem] = []
    for text in texts:
        found = [_problem(wrong, re.sub(r".*@", "***@", text)) for wrong in _wrong(text)]
        problems += found
        if not found:
            machines.append(_machine(text))
    if not texts:
        do = f"Write {FORM}; the first machine is the control plane"
        problems.append(_problem(Wrong("no_machine", "No machine was given", "A cluster needs one", do), ""))
    names = [(_parts(text)[0], text) for text in texts if "@" not in text]
    problems += _twice("name", names, "The inventory would have one host in place of them")
    problems += _twice(
        "address",
        [(machine.address, machine.name) for machine in machines],
        "They are one machine under several names, or one of them has the address of another",
    )
    return machines, problems


def read_user(user: str) -> list[Problem]:
    """Return what is wrong with a user name."""
    if _USER.fullmatch(user):
        return []
    what, why = "It is not a valid name for a user", "SSH logs in to all machines with it"
    do = "Write the name of a user with sudo rights, such as admin, without a host and a password"
    return [Problem("user_wrong", what, "init_user", why, do, re.sub(r"(?s)[:@].*", "...", user) or "User")]


def _problem(wrong: Wrong, entry: str) -> Problem:
    return Problem(wrong.kind, wrong.what, "init_hosts", wrong.why, wrong.do, entry)


def _parts(text: str) -> tuple[str, str | None, str | None]:
    name, *rest = text.split(":", 2)
    address, gpus = (*rest, None, None)[:2]
    return name, address, gpus


def _entries(given: Any) -> Iterator[str]:
    if isinstance(given, Mapping):
        yield from (f"{name}:{rest}" for name, rest in given.items())
    elif isinstance(given, (list, tuple)):
        for each in given:
            yield from _entries(each)
    elif given is not None:
        yield str(given)


def _machine(text: str) -> Machine:
    name, address, gpus = _parts(text)
    return Machine(name, address or name, int(gpus or 0))


def _wrong(text: str) -> Iterator[Wrong]:
    """Yield what is wrong with one machine: with the whole text, or else with each of its parts."""
    name, address, gpus = _parts(text)
    if "@" in text:
        why = "The user is the same for all machines"
        yield Wrong("machine_wrong", "A user does not belong here", why, f"Write {FORM}, and give init_user")
    elif "://" in text:
        yield Wrong("machine_wrong", "It contains a URL", "SSH needs an address or a DNS name", f"Write {FORM}")
    elif _has_ipv6(text):
        why = "The cluster and this collection support only IPv4"
        yield Wrong("ipv6", "It contains an IPv6 address", why, "Write the IPv4 address of the machine")
    elif text.count(":") > 2:
        why = "A machine has a name, an address and a number of GPUs"
        yield Wrong("machine_wrong", "It has too many parts", why, f"Write {FORM}, with commas between machines")
    else:
        yield from _wrong_name(name)
        yield from _wrong_address(name, address)
        yield from _wrong_gpus(gpus)


def _wrong_name(name: str) -> Iterator[Wrong]:
    why = "It becomes the name of the host in the inventory"
    if _is_ipv4(name):
        do = f"Write the name before the address, such as cp1:{name}"
        yield Wrong("name_wrong", f"{name} is an address in place of a name", why, do)
    elif name.lower() in _RESERVED:
        why = "Ansible uses this name for a group, or for your own computer"
        yield Wrong("name_wrong", f"The name {name} is reserved", why, "Choose another name, such as gpu1")
    elif not _NAME.fullmatch(name) or _NUMBER.fullmatch(name):
        do = "Use letters, digits, '-' and '.', such as gpu1"
        yield Wrong("name_wrong", f"{name!r} is not a valid name for a host", why, do)


def _wrong_address(name: str, address: str | None) -> Iterator[Wrong]:
    why = "SSH connects to it"
    if address is None or (_is_ipv4(address) and _is_single_host(address)):
        return
    shown = name if _NAME.fullmatch(name) else "gpu1"
    if address == "" or address.isdigit():
        do = f"Write the address after the name, as in {shown}:192.0.2.21:4, or the name twice if SSH finds it by that"
        what = f"{address} is not an address" if address else "The address is missing"
        yield Wrong("address_wrong", what, why, do)
    elif "/" in address:
        do = "Write the address without the length of its network"
        yield Wrong("address_wrong", f"{address!r} is a network", why, do)
    elif _is_ipv4(address):
        yield Wrong("address_wrong", f"{address} is not the address of a single machine", why, "Write its own address")
    elif not _NAME.fullmatch(address) or _NUMBER.fullmatch(address.rpartition(".")[2]):
        do = "Write an IPv4 address, or a name that DNS or your SSH configuration knows"
        yield Wrong("address_wrong", f"{address!r} is not a valid IPv4 address or name", why, do)


def _wrong_gpus(gpus: str | None) -> Iterator[Wrong]:
    if gpus is None or (re.fullmatch(r"[1-9][0-9]?", gpus, re.ASCII) and int(gpus) <= _MOST_GPUS):
        return
    do = "Write how many GPUs the machine has, or leave the number out"
    if re.fullmatch(r"[0-9]{3,5}", gpus, re.ASCII):
        do += "; a port of SSH belongs in the inventory (ansible_port)"
    what = f"{gpus!r} is not a number of GPUs from 1 to {_MOST_GPUS}" if gpus else "The number of GPUs is missing"
    yield Wrong("gpus_wrong", what, "Preflight compares it with what the machine has", do)


def _twice(part: str, values: Iterable[tuple[str, str]], why: str) -> Iterator[Problem]:
    """Yield values that several machines share; ``values``: name or address, and a label of the machine."""
    found: dict[str, list[str]] = defaultdict(list)
    for value, title in values:
        found[value.lower()].append(title)
    for value, titles in found.items():
        if len(titles) > 1:
            what = f"{len(titles)} machines have the {part} {value}"
            yield Problem(f"{part}_twice", what, "init_hosts", why, f"Give each its own {part}", listing(titles))


def _is_ipv4(text: str) -> bool:
    try:
        ipaddress.IPv4Address(text)
    except ValueError:
        return False
    return True


def _is_single_host(address: str) -> bool:
    known = ipaddress.IPv4Address(address)
    return not (known.is_unspecified or known.is_multicast or known.is_reserved)


def _has_ipv6(text: str) -> bool:
    """Return whether the text is an IPv6 address, possibly after a name or before a number of GPUs."""
    rest = text.partition(":")[2]
    for part in (text, rest, rest.rpartition(":")[0]):
        try:
            ipaddress.IPv6Address(re.sub(r"[][]|%.*", "", part))
        except ValueError:
            continue
        return True
    return False
