# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Check the variables of a host on their own: types, choices, forms.

Ansible checks a role's variables when the role begins, which is too late: earlier roles have already changed the host.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ansible.errors import AnsibleError
from ansible.module_utils.common.arg_spec import ArgumentSpecValidator
from ansible.module_utils.common.yaml import yaml_load
from ansible.module_utils.errors import UnsupportedError
from jinja2 import UndefinedError

from ...module_utils._problem import Problem
from . import cluster, cluster_values, component_values, files, references, related_values, renamed, storage
from . import hosts as members
from .references import plain as _plain

Specification = Mapping[str, Mapping[str, Any]]

# Variable -> check of its value.
VALUES = {**cluster_values.VALUES, **component_values.VALUES}
_ROLES = Path(__file__).resolve().parents[3] / "roles"
_MARKUP = re.compile(r"\b[COV]\(([^)]*)\)")
_WHOLE = re.compile(r"[-+]?[0-9]+")
_LARGEST = 2**31 - 1
# How and where a host is reached.
_PLACES = (
    "ansible_connection",
    "ansible_host",
    "ansible_ssh_host",
    "ansible_port",
    "ansible_ssh_port",
    "ansible_ssh_args",
    "ansible_ssh_common_args",
    "ansible_ssh_extra_args",
)
_URL = re.compile(r"[a-z][a-z0-9+.-]*://[^\s/].*|file:///\S*")
_FORMS = (
    (re.compile(r".*_(?:http|https)_proxy"), _URL, "a URL, such as http://proxy.example.org:3128"),
    (
        re.compile(r".*_repository_url"),
        # apt's sources, and a password in them, are readable by all users.
        re.compile(rf"(?!\S+://[^/]*@)(?:{_URL.pattern})"),
        "a URL without a user or a password (cluster_apt_credentials takes them), such as "
        "https://mirror.example.org/debs",
    ),
    (
        re.compile(r"cluster_api_endpoint"),
        re.compile(r"(?:\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9.-]+):[0-9]{1,5}"),
        "host:port, such as api.example.org:6443",
    ),
    (
        re.compile(r"cluster_dns_domain"),
        re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*"),
        "a DNS domain in lower case, such as cluster.local",
    ),
)


def specification() -> dict[str, Mapping[str, Any]]:
    """Return the argument specification of every variable of this collection's roles."""
    options: dict[str, Mapping[str, Any]] = {}
    for path in sorted(_ROLES.glob("*/meta/argument_specs.yml")):
        specs = yaml_load(path.read_text(encoding="utf-8"))["argument_specs"]
        options |= specs["main" if "main" in specs else "settings"]["options"]
    return options


def find(
    host: str, variables: Mapping[str, Any], known: Specification, scope: references.Scope | None = None
) -> Iterator[Problem]:
    """Yield what is wrong with the variables of a host; ``scope``: what their templates may refer to."""
    scope = scope or references.Scope(variables)
    for name in references.connection_variables(scope):
        yield from references.problems(host, name, variables, scope, connection=True)
    yield from members.connections(host, known_values(references.CONNECTION, variables), scope.raw)
    for name in variables:
        if name not in known:
            continue
        yield from references.problems(host, name, variables, scope, connection=False)
        yield from wrong_value(host, name, variables, known)
    sources = [str(source) for source in variables.get("ansible_inventory_sources") or []]
    for name in (renamed.name_in_use(each, variables) for each in files.WRITTEN):
        path = _values([name], variables, known).get(name) if name in variables else None
        directory = files.inventory_directory(path, sources) if path else ""
        if directory:
            yield Problem(
                "file_in_inventory_directory",
                f"{name} is {path}, in the inventory directory {directory}",
                name,
                "Ansible reads each file in that directory as an inventory, and the next run would fail",
                f"Name a file outside of {directory}, or leave the variable out",
                host,
            )
    for names, rule in related_values.HOST:
        values = _values(names, variables, known)
        if len(values) == len(names):
            yield from rule(host, values)


def wrong_value(host: str, name: str, variables: Mapping[str, Any], known: Specification) -> Iterator[Problem]:
    """Yield what is wrong with the type, choice or form of one variable of a host; an old name means the new one."""
    option = known[renamed.new_name(name)]
    for wrong in _wrong_or_unknown(name, variables, option):
        yield Problem(
            "variable_wrong",
            " ".join(wrong.split()),
            name,
            "A role that reads it could fail after earlier ones have changed hosts",
            "Correct the value, or remove the variable to get its default. docs/variables.md describes it: "
            f"{first_line(option['description'])}",
            host,
        )


def across(
    hosts: Mapping[str, Mapping[str, Any]], known: Specification, groups: Mapping[str, Sequence[str]] | None
) -> Iterator[Problem]:
    """Yield what is wrong with the variables of all hosts of a cluster together, and with its groups."""
    first = next(iter(hosts.values()), None)
    if groups is not None and first is not None:
        named = known_values(cluster.GROUPS, first)
        yield from cluster.members([str(named.get(name, known[name]["default"])) for name in cluster.GROUPS], groups)
    for names, rule in (*cluster.RULES, *related_values.CLUSTER):
        values = {host: _values(names, variables, known) for host, variables in hosts.items()}
        if all(len(found) == len(names) for found in values.values()):
            yield from rule(values)


def addresses(hosts: Mapping[str, Mapping[str, Any]]) -> Iterator[Problem]:
    """Yield what is wrong with the names and addresses of all hosts of a cluster together."""
    names = (*_PLACES, "cluster_node_name", "cluster_node_address")
    known = {host: known_values(names, variables) for host, variables in hosts.items()}
    yield from members.names(_certain(("ansible_host", "ansible_ssh_host"), known, hosts))
    yield from members.same_address(_certain(_PLACES, known, hosts))
    yield from members.same_node(known)


def _certain(
    names: Iterable[str], known: Mapping[str, dict[str, Any]], hosts: Mapping[str, Mapping[str, Any]]
) -> dict[str, dict[str, Any]]:
    """Return the known values of these variables for hosts on which all of them are known."""
    return {host: values for host, values in known.items() if not any(_is_unknown(hosts[host], name) for name in names)}


def _is_unknown(variables: Mapping[str, Any], name: str) -> bool:
    try:
        _plain(variables.get(name))
    except (UndefinedError, AnsibleError):
        return True
    return False


def places(hosts: Mapping[str, Mapping[str, Any]]) -> dict[str, str]:
    """Return each host's address in the inventory, as far as it is known."""
    found = {host: known_values(("ansible_host", "ansible_ssh_host"), variables) for host, variables in hosts.items()}
    return {host: str(next(iter(known.values()))) for host, known in found.items() if known}


def known_values(names: Iterable[str], variables: Mapping[str, Any]) -> dict[str, Any]:
    """Return the known values that the inventory sets for these variables; null and omit count as not set."""
    found = {}
    for name in names:
        given = renamed.name_in_use(name, variables)
        if given in variables:
            # The value may refer to facts.
            with contextlib.suppress(UndefinedError, AnsibleError):
                value = _plain(variables[given])
                if not references.is_unset(value):
                    found[name] = value
    return found


def by_host(name: str, hosts: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Return the known values of one variable by host."""
    known = {host: known_values([name], variables) for host, variables in hosts.items()}
    return {host: values[name] for host, values in known.items() if values}


def servers(
    hosts: Mapping[str, Mapping[str, Any]],
    known: Specification,
    groups: Mapping[str, Sequence[str]],
    hostvars: Mapping[str, Mapping[str, Any]],
) -> Iterator[Problem]:
    """Yield what is wrong with the NFS server of the inventory, and with the cache on the cluster's hosts."""
    first: Mapping[str, Any] = next(iter(hosts.values()), {})
    group = str(known_values([storage.GROUP], first).get(storage.GROUP, known[storage.GROUP]["default"]))
    yield from storage.count(group, groups.get(group, []))
    caches = {host: _values(storage.CACHE, variables, known) for host, variables in hosts.items()}
    certain = {host: values for host, values in caches.items() if len(values) == len(storage.CACHE)}
    for host in groups.get(group, []):
        values = _values(storage.SERVER, hostvars[host], known)
        if len(values) == len(storage.SERVER):
            yield from storage.server(host, _addresses(host, hostvars[host]), values, certain)


def _addresses(host: str, variables: Mapping[str, Any]) -> set[str]:
    """Return the names and addresses of a host in the inventory."""
    known = known_values(("ansible_host", "cluster_node_address"), variables)
    return {host, *map(str, known.values())} - {""}


def _values(names: Iterable[str], variables: Mapping[str, Any], known: Specification) -> dict[str, Any]:
    """Return the known and valid values of these variables, or the defaults of those that are not set."""
    found = {}
    for name in names:
        given = renamed.name_in_use(name, variables)
        if given not in variables:
            default = known[name]["default"]
            if "{{" not in str(default):
                found[name] = default
        elif not _wrong_or_unknown(given, variables, known[name]):
            with contextlib.suppress(UndefinedError):
                found[name] = _plain(variables[given])
    return found


def first_line(description: str | Sequence[str]) -> str:
    """Return the first paragraph of a description without its markup."""
    first = description if isinstance(description, str) else description[0]
    return _MARKUP.sub(r"\1", " ".join(first.split()))


def _wrong_or_unknown(name: str, variables: Mapping[str, Any], option: Mapping[str, Any]) -> list[str]:
    """Return what is wrong with a value. Values that refer to facts are unknown before hosts are read, and accepted."""
    try:
        return list(_wrong(name, variables[name], option))
    except UndefinedError:
        return []


def _wrong(name: str, value: Any, option: Mapping[str, Any]) -> Iterator[str]:
    kind = option.get("type", "str")
    secret = any(part.get("no_log") for part in option.get("options", {}).values())
    if secret and not (isinstance(_plain(value), list) and all(isinstance(entry, Mapping) for entry in value)):
        yield f"{name} is not a list of mappings; its value contains secrets and is not shown"
    elif value is None:
        if "default" in option:
            yield f"{name} is empty (null)"
    elif kind == "list" and not isinstance(value, (list, tuple)):
        yield f"{name} is not a list: {_shown(value)}"
    elif option.get("elements") == "dict" and not all(isinstance(entry, Mapping) for entry in value):
        yield f"{name} has an entry that is not a mapping: {_shown(_plain(value))}"
    elif kind == "dict" and not isinstance(value, Mapping):
        yield f"{name} is not a mapping: {_shown(value)}"
    elif "options" in option and kind == "dict" and not all(isinstance(key, str) for key in value):
        yield f"{name} has a key that is not a string: {_shown(_plain(value))}"
    elif kind == "str" and isinstance(value, (list, tuple, Mapping)):
        yield f"{name} is not a string: {_shown(_plain(value))}"
    elif kind == "int" and "inf" in str(value).lower():
        # Ansible's own check fails on infinity.
        yield f"{name} is not a whole number in digits: {_shown(value)}"
    else:
        errors = list(ArgumentSpecValidator({name: dict(option)}).validate({name: _plain(value)}).errors)
        for error in errors:
            message = error.msg.replace(str(value), "***") if "@" in str(value) else error.msg
            yield _named_once(name, message, isinstance(error, UnsupportedError))
        if not errors:
            forms = list(_wrong_form(name, value, option))
            yield from forms
            rule = VALUES.get(renamed.new_name(name), lambda _value: ())
            yield from (f"{name}: {problem}" for problem in ([] if forms else rule(_plain(value))))


def _named_once(name: str, message: str, is_unknown_key: bool) -> str:
    """Return Ansible's message about a value with the variable's name only once."""
    message = message.removesuffix(f" found in {name}")
    rest = message.removeprefix(f"value of {name} ").removeprefix(f"argument '{name}' ")
    if rest != message:
        return f"{name} {rest}"
    return f"{name}: {'unknown key ' if is_unknown_key else ''}{message}"


def _shown(value: Any) -> str:
    """Return a value for a message, without a possible password in a URL."""
    return "***" if "@" in str(value) else repr(value)


def _wrong_number(name: str, value: Any, default: Any) -> Iterator[str]:
    """Check a number: Ansible also accepts true and 1e3. A negative one means no limit if it is the default."""
    whole = value.is_integer() if isinstance(value, float) else _WHOLE.fullmatch(str(value).strip())
    if isinstance(value, bool) or not whole:
        yield f"{name} is not a whole number in digits: {_shown(value)}"
    elif int(value) < 0 and str(value).strip() != str(default):
        yield f"{name} is negative: {value}"
    elif int(value) > _LARGEST:
        yield f"{name} is larger than {_LARGEST}: {value}"


def _wrong_form(name: str, value: Any, option: Mapping[str, Any]) -> Iterator[str]:
    """Check the form of a value. All numbers are counts or seconds."""
    if option.get("type") == "int":
        yield from _wrong_number(name, value, option.get("default"))
    for names, form, words in _FORMS:
        shown = _shown(str(value))
        if value != "" and names.fullmatch(name) and not form.fullmatch(str(value)):
            yield f"{name} must be {words}, not {shown}"
