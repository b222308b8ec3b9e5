# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Check names and addresses of the cluster's hosts in the inventory, and names of groups. Pure.

No host is contacted.
"""

from __future__ import annotations

import difflib
import ipaddress
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from ...module_utils._problem import Problem
from ...module_utils._words import listing
from .references import CONNECTION

Groups = Mapping[str, Sequence[str]]

# What ssh refuses in a host name (valid_hostname in ssh.c), and the comma, which is not allowed in DNS names.
_NEVER_A_NAME = re.compile(r"""-.*|.*[\s,'`"$\\;&<>|(){}\x00-\x1f\x7f].*""", re.DOTALL)
_RANGE = re.compile(r"\[[0-9a-z]+[-:.]+[0-9a-z]+\]", re.IGNORECASE)
_PLACEHOLDER = re.compile(r"<.*>|change[-_ ]?me!?|your[-_ ].*|x+\.x+\.x+\.x+|todo|replace[-_ ]?me|xxx+", re.IGNORECASE)
_PASSWORD_PLACEHOLDER = re.compile(r"<.*>")
_NETWORK = re.compile(r"(?P<address>[0-9.]+|[0-9a-f:]+)/[0-9]+", re.IGNORECASE)
_FOUR_NUMBERS = re.compile(r"[0-9]+(?:\.[0-9]+){3}")
_HOST_AND_PORT = re.compile(r"(?P<host>[^:\s]+):(?P<port>[0-9]+)")
# Variables whose values may be left as a placeholder, or empty.
_GIVEN = ("ansible_host", "ansible_user", "ansible_password", "ansible_become_password", "ansible_ssh_private_key_file")
_SSH = ("ssh", "smart", "paramiko", "paramiko_ssh", "ansible.builtin.ssh", "ansible.builtin.paramiko_ssh", "")
# Similarity of words in a name: a missing, doubled or exchanged letter counts, but not another word.
_MISSPELT_WORD, _MISSPELT_PREFIX = 0.75, 0.85
# Variables of plugins from other collections.
_OF_OTHER_PLUGINS = re.compile(r"ansible_(?:doas|dzdo|ksu|machinectl|pbrun|pfexec|pmrun|psrp|runas|sesu|winrm)_")
# Wrong name -> Ansible's variable.
_CALLED = {
    "ansible_ip": "ansible_host",
    "ansible_address": "ansible_host",
    "ansible_ssh_address": "ansible_host",
    "ansible_ssh_hostname": "ansible_host",
    "ansible_username": "ansible_user",
    "ansible_ssh_username": "ansible_user",
    "ansible_pass": "ansible_password",
    "ansible_sudo": "ansible_become",
    "ansible_sudo_password": "ansible_become_password",
    "ansible_key_file": "ansible_ssh_private_key_file",
    "ansible_ssh_key": "ansible_ssh_private_key_file",
    "ansible_ssh_key_file": "ansible_ssh_private_key_file",
    "ansible_python": "ansible_python_interpreter",
}
# Names of these groups in other projects, without punctuation and a final s.
_ALIASES = {
    "control_plane": "master controlplane controlplanenode kubecontrolplane kubemaster k8smaster k3sserver server "
    "controller manager head kubernetesmaster kubernetescontrolplane mastername masternode controlnode initmaster "
    "primary firstmaster",
    "workers": "worker workernode node kubenode kubeworker k8snode k8sworker k3sagent agent gpuworker gpu gpunode "
    "gpuhost compute computenode slave minion kubernetesworker kubernetesnode host machine",
}
_SHOWN = 20


def names(members: Mapping[str, Mapping[str, Any]]) -> Iterator[Problem]:
    """Yield names to which SSH can't connect; ``members``: by host, known values of variables that override them."""
    for host, values in members.items():
        if _address(values) or not _uses_ssh(values) or _is_address(host):
            continue
        if _RANGE.search(host):
            do = "Write a range of hosts with a colon, as in gpu[01:04]"
        elif not _NEVER_A_NAME.fullmatch(host) and not _wrong_address(host):
            continue
        elif host.startswith("<") or "," in host or " " in host.strip():
            do = "Write one name per line, without commas, blanks and brackets, such as gpu1"
        else:
            name = "Use letters, digits, '-', '_' and '.', such as gpu1, and set ansible_host to the address"
            do = _wrong_address(host) or name
        yield Problem(
            "host_name_wrong",
            f"{host!r} is not a valid name for a host",
            "inventory",
            "Ansible takes it for the host's name as it is written, and connects to it",
            do,
            host,
        )


def connections(host: str, values: Mapping[str, Any], raw: Mapping[str, Any]) -> Iterator[Problem]:
    """Yield misspelled names and impossible values of connection variables; ``values`` are the known ones."""
    facts = raw.get("ansible_facts") or {}
    for name, value in raw.items():
        # A list can't be meant for a variable that takes a text.
        if name.removeprefix("ansible_") in facts or isinstance(value, (list, tuple, Mapping)):
            continue
        near = _near_connection(name)
        if near:
            yield Problem(
                "variable_unknown",
                f"Ansible has no variable {name}",
                name,
                f"It looks like a misspelling of {near}, which would keep its default",
                f"Write {near}, or choose a more different name for your own variable",
                host,
            )
    for name in _GIVEN:
        value = values.get(name)
        form = _PASSWORD_PLACEHOLDER if "password" in name else _PLACEHOLDER
        # A template may be empty on purpose. Without a user, ssh uses its own default.
        literal = raw.get(name)
        empty = name == "ansible_host" and isinstance(literal, str) and not literal.strip()
        if empty or (isinstance(value, str) and form.fullmatch(value.strip())):
            yield Problem(
                "placeholder",
                f"{name} is empty" if empty else f"{name} is still a placeholder",
                name,
                "Ansible would use it as it is",
                "Replace it with your own value, or remove the variable",
                host,
            )
    if _uses_ssh(values):
        yield from _host(host, values)
        yield from _port(host, values)


def _uses_ssh(values: Mapping[str, Any]) -> bool:
    return str(values.get("ansible_connection", "ssh")) in _SSH


def _address(values: Mapping[str, Any]) -> str:
    """Return a host's address in the inventory, empty for none."""
    return str(values.get("ansible_host", values.get("ansible_ssh_host", ""))).strip()


def _near_connection(name: str) -> str:
    """Return the connection variable that was meant, empty if the name is correct or probably another variable."""
    if name in _CALLED:
        return _CALLED[name]
    if name in CONNECTION or name in _MAGIC or _OF_OTHER_PLUGINS.match(name):
        return ""
    words = re.split(r"[-_]", name)
    if words[0] != "ansible" and not _is_same_word(words[0], "ansible", _MISSPELT_PREFIX):
        return ""
    meant = [known for known in sorted(CONNECTION) if _is_misspelling(words, known.split("_"))]
    return next(iter(difflib.get_close_matches(name, meant, n=1, cutoff=0)), "")


def _is_misspelling(words: Sequence[str], known: Sequence[str]) -> bool:
    """Return whether the names differ slightly in one word, or only in punctuation between words."""
    different = [(one, other) for one, other in zip(words, known) if one != other]
    if len(words) == len(known) and len(different) == 1:
        return _is_same_word(*different[0], _MISSPELT_WORD)
    return "".join(words) == "".join(known)


def _is_same_word(one: str, other: str, least: float) -> bool:
    near = sorted(one) == sorted(other) or difflib.SequenceMatcher(None, one, other).ratio() >= least
    return one.isalpha() and near


# Ansible's own variables, which every host has.
_MAGIC = {
    "ansible_check_mode",
    "ansible_collection_name",
    "ansible_config_file",
    "ansible_dependent_role_names",
    "ansible_diff_mode",
    "ansible_facts",
    "ansible_forks",
    "ansible_inventory_sources",
    "ansible_limit",
    "ansible_local",
    "ansible_loop",
    "ansible_parent_role_names",
    "ansible_play_batch",
    "ansible_play_hosts",
    "ansible_play_hosts_all",
    "ansible_play_name",
    "ansible_play_role_names",
    "ansible_playbook_python",
    "ansible_role_name",
    "ansible_role_names",
    "ansible_run_tags",
    "ansible_search_path",
    "ansible_skip_tags",
    "ansible_verbosity",
    "ansible_version",
}


def _host(host: str, values: Mapping[str, Any]) -> Iterator[Problem]:
    address = _address(values)
    if address and not _is_address(address) and not _PLACEHOLDER.fullmatch(address):
        do = _wrong_address(address)
        if not do and _NEVER_A_NAME.fullmatch(address):
            do = "Write an address or a DNS name, such as 192.0.2.21"
        if do:
            yield Problem(
                "ansible_host_wrong",
                f"ansible_host is {address!r}, which is not an address or a name",
                "ansible_host",
                "SSH could not connect to it",
                do,
                host,
            )


def _wrong_address(text: str) -> str:
    """Return what to do about a text that looks like an address, but is neither an address nor a name."""
    found, network = _HOST_AND_PORT.fullmatch(text), _NETWORK.fullmatch(text)
    if "://" in text:
        return "Write an address or a DNS name, such as 192.0.2.21"
    if found:
        return f"Write ansible_host={found['host']} ansible_port={found['port']}"
    if network:
        return f"Write the address without the length of its network: {network['address']}"
    if _FOUR_NUMBERS.fullmatch(text.rpartition("@")[2]):
        return "" if _is_address(text.rpartition("@")[2]) else "Write an address whose numbers are at most 255"
    return ""


def _port(host: str, values: Mapping[str, Any]) -> Iterator[Problem]:
    port = str(values.get("ansible_port", 22)).strip()
    if not (re.fullmatch(r"[0-9]{1,5}", port, re.ASCII) and 1 <= int(port) <= 65535):
        yield Problem(
            "ansible_port_wrong",
            f"ansible_port is {port!r}, which is not a port",
            "ansible_port",
            "SSH could not connect to it",
            "Write a number from 1 to 65535, or remove the variable for port 22",
            host,
        )


def same_address(hosts: Mapping[str, Mapping[str, Any]]) -> Iterator[Problem]:
    """Yield hosts with the same address and port; ``hosts`` are the known values of connection variables."""
    found: dict[tuple[str, ...], list[str]] = defaultdict(list)
    for host, values in hosts.items():
        if _uses_ssh(values):
            address = (_address(values) or host).lower()
            way = [str(values.get(f"ansible_ssh_{name}", "")) for name in ("args", "common_args", "extra_args")]
            port = str(values.get("ansible_port", values.get("ansible_ssh_port", 22)))
            found[(address, port, *way)].append(host)
    for place, sharing in found.items():
        if len(sharing) > 1:
            yield Problem(
                "host_address_twice",
                f"Hosts {listing(sharing)} have the same address {place[0]}",
                "ansible_host",
                "They are one machine under several names, or one of them has the address of another",
                "Give each host its own address; a machine that is control plane and worker has one name, in both "
                "groups",
            )


def same_node(hosts: Mapping[str, Mapping[str, Any]]) -> Iterator[Problem]:
    """Yield hosts whose nodes would have the same name or address."""
    for name, what in (("cluster_node_name", "name"), ("cluster_node_address", "address")):
        found = defaultdict(list)
        for host, values in hosts.items():
            if values.get(name):
                found[str(values[name]).lower()].append(host)
        for value, sharing in found.items():
            if len(sharing) > 1:
                yield Problem(
                    f"node_{what}_twice",
                    f"Hosts {listing(sharing)} have the same node {what} {value}",
                    name,
                    "The second node would replace the first in the cluster",
                    f"Set {name} for each host by itself (host_vars), not for a group",
                )


def likely_group(wanted: str, kind: str, groups: Groups, taken: Iterable[str]) -> str:
    """Return the group that was probably meant as ``wanted``, empty for none; ``kind``: its default name."""
    others = [name for name, hosts in groups.items() if hosts and name not in ("all", "ungrouped", *taken)]
    for name in others:
        if letters(name) in (letters(wanted), letters(kind)):
            return name
    aliases = _ALIASES.get(kind, "").split()
    for name in others:
        if letters(name) in aliases:
            return name
    near = difflib.get_close_matches(wanted.lower(), [name.lower() for name in others], n=1, cutoff=0.7)
    return next((name for name in others if near and name.lower() == near[0]), "")


def rename(group: str, wanted: str, variable: str, groups: Groups) -> str:
    return (
        f"the inventory has the group {group} ({_shown(groups[group])}): rename it to {wanted}, or run with "
        f"-e {variable}={group}"
    )


def letters(name: str) -> str:
    """Return a name in lower case without punctuation and the s of a plural."""
    return re.sub(r"[^a-z0-9]", "", name.lower()).removesuffix("s")


def lines(wanted: Mapping[str, str], groups: Groups, addresses: Mapping[str, str], run: Sequence[str]) -> list[str]:
    """Return lines that list the cluster's hosts; ``wanted``: group names by role, ``run``: the hosts of this run."""
    members = dict.fromkeys(host for group in wanted.values() for host in groups.get(group, []))
    found = []
    for kind, group in wanted.items():
        hosts = groups.get(group, [])
        shown = _shown([f"{host} ({addresses[host]})" if addresses.get(host, host) != host else host for host in hosts])
        found.append(f"{kind}: {shown or 'none'}" if len(hosts) < 2 else f"{kind} ({len(hosts)}): {shown}")
    rest: dict[str, list[str]] = {}
    for group, hosts in groups.items():
        if group not in ("all", "ungrouped"):
            for host in hosts:
                if host not in members and not any(host in listed for listed in rest.values()):
                    rest.setdefault(group, []).append(host)
    if rest:
        found.append(
            "not in the cluster: " + "; ".join(f"{_shown(hosts)} (group {group})" for group, hosts in rest.items())
        )
    absent = [host for host in members if host not in run]
    if absent:
        found.append(f"left out of this run (--limit): {_shown(absent)}")
    return found


def _shown(hosts: Sequence[str]) -> str:
    more = len(hosts) - _SHOWN
    return listing(hosts[:_SHOWN]) + (f" and {more} more" if more > 0 else "")


def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text.strip("[]").partition("%")[0])
    except ValueError:
        return False
    return True
