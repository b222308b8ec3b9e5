# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Callable

from ansible import context
from ansible.errors import AnsibleError, AnsibleFilterError
from ansible.utils.vars import load_extra_vars
from jinja2 import UndefinedError, pass_context
from jinja2.runtime import Context

from ..module_utils._problem import Problem
from ..plugin_utils._inventory import files, names, notes, references, renamed, variable_files, variables
from ..plugin_utils._inventory.cluster import GROUP_VARIABLES, unused_groups
from ..plugin_utils._inventory.sources import problems as source_problems
from ..plugin_utils._progress.text import printable

DOCUMENTATION = r"""
name: variables
short_description: Internal filters for the variables of the inventory
extends_documentation_fragment: gpulab.kubernetes.internal
"""


def variable_notes(
    hostvars: Mapping[str, Any],
    hosts: Sequence[str],
    groups: Mapping[str, Sequence[str]] | None = None,
    sources: Sequence[str] = (),
) -> list[str]:
    """List what may be a mistake in the variables of hosts before connecting to any host."""
    raw_of = getattr(hostvars, "raw_get", hostvars.__getitem__)
    values = {host: hostvars[host] for host in hosts}
    found: list[Problem] = []
    if groups is not None:
        directory = playbook_directory(values.values())
        found += variable_files.find(sources, directory, groups, list(hostvars), are_errors=False)
        playbooks = [str(name) for name in context.CLIARGS.get("args") or [] if Path(str(name)).is_file()]
        found += variable_files.of_importing_playbooks(playbooks, sources, directory)
    raw = {host: raw_of(host) for host in hosts}
    modes = variables.by_host(names.MODE, values)
    given = written(raw, hostvars)
    found += names.find(given, modes, variables.specification(), are_errors=False)
    found += renamed.find(given, are_errors=False)
    for host, each in values.items():
        found += notes.connections(host, variables.known_values(notes.CONNECTION, each))
    return [printable(text) for text in notes.texts(found)]


def variable_problems(
    hostvars: Mapping[str, Any],
    hosts: Sequence[str],
    members: Sequence[str] | None = None,
    groups: Mapping[str, Sequence[str]] | None = None,
    later: Sequence[str] = (),
    sources: Sequence[str] = (),
    play_groups: Sequence[str] = (),
) -> list[dict[str, str]]:
    """Find problems in the variables of hosts before connecting to any host."""
    known = variables.specification()
    everybody = hosts if members is None else members
    for host in (*hosts, *everybody):
        if host not in hostvars:
            raise AnsibleFilterError(f"Error while checking variables: there is no host {host}")
    # Ansible collects the variables of a host and evaluates templates on each access to its hostvars.
    values = {host: hostvars[host] for host in dict.fromkeys((*everybody, *hosts))}
    members_values = {host: values[host] for host in everybody}
    found = list(source_problems(sources, set(hostvars)))
    if groups is not None:
        directory = playbook_directory(values.values())
        found += variable_files.find(sources, directory, groups, list(hostvars), are_errors=True)
    # A failed upgrade may have been rolled back to an unlisted version, which users keep by requesting it.
    is_upgrade = "nvidia_driver_upgrading" in later
    found += [
        problem
        for problem in variables.across(members_values, known, groups)
        if not (is_upgrade and problem.kind == "driver_version_unknown")
    ]
    group_names = {host: variables.known_values(GROUP_VARIABLES, each) for host, each in values.items()}
    found += unused_groups(group_names, _extra_variables(), play_groups)
    if groups is not None:
        found += variables.addresses(members_values)
        found += variables.servers(members_values, known, groups, hostvars)
        first = values[hosts[0]] if hosts else {}
        found += files.by_default(first, variables.known_values([files.PREFIX], first), later)
    raw_of = getattr(hostvars, "raw_get", hostvars.__getitem__)
    modes = variables.by_host(names.MODE, values)
    raw = {host: raw_of(host) for host in hosts}
    given = written(raw, hostvars)
    found += names.find(given, modes, known, are_errors=True)
    # A variable of -e takes precedence, whatever its old name is set to.
    overridden = {old for old, new in renamed.RENAMED.items() if new in _extra_variables()}
    found += renamed.find({host: {*each, *later} - overridden for host, each in given.items()}, are_errors=True)
    defined = {*known, *later}

    def other(host: str) -> Mapping[str, Any] | None:
        return raw_of(host) if host in hostvars else None

    for host in hosts:
        found += variables.find(host, values[host], known, references.Scope(raw[host], defined, other))
    return [_printable(problem.fields()) for problem in found]


def fact_variable_problems(hostvars: Mapping[str, Any], hosts: Sequence[str]) -> list[dict[str, Any]]:
    """Find problems in variables whose templates refer to facts. They are unknown until hosts are read."""
    known = variables.specification()
    raw_of = getattr(hostvars, "raw_get", hostvars.__getitem__)
    found: list[Problem] = []
    for host in hosts:
        templates = [name for name, value in raw_of(host).items() if name in known and references.words(value)]
        values = hostvars[host] if templates else {}
        for name in templates:
            # A variable that can't be evaluated is not an error, because the host's roles may not use it.
            with contextlib.suppress(AnsibleError):
                found += variables.wrong_value(host, name, values, known)
    return [_printable(problem.fields()) for problem in found]


@pass_context
def play_variable_problems(context: Context, names: Iterable[str]) -> list[dict[str, Any]]:
    """Find problems in those of the variables that a playbook sets. They are not part of hostvars."""
    known = variables.specification()
    found: list[Problem] = []
    for name in filter(known.__contains__, names):
        # What refers to facts can't be evaluated yet.
        with contextlib.suppress(AnsibleError, UndefinedError):
            found += variables.wrong_value("", name, {name: context.resolve_or_missing(name)}, known)
    return [_printable(problem.fields()) for problem in found]


def playbook_directory(hosts: Iterable[Mapping[str, Any]]) -> str:
    """Return the directory of the playbook of this run, next to which Ansible reads variables, too."""
    return next((str(values["playbook_dir"]) for values in hosts if "playbook_dir" in values), "")


def written(raw: Mapping[str, Mapping[str, Any]], hostvars: Any) -> dict[str, dict[str, Any]]:
    """Return the variables of hosts without those that earlier plays of the run have set (set_fact, register)."""
    manager, given = getattr(hostvars, "_variable_manager", None), set(_extra_variables())
    found = {}
    for host, own in raw.items():
        facts: set[str] = set()
        # The second cache has the facts that set_fact stored with cacheable, possibly in an earlier run.
        for cache in ("_nonpersistent_fact_cache", "_fact_cache"):
            with contextlib.suppress(KeyError):
                facts.update(getattr(manager, cache, {}).get(host) or ())
        facts -= given
        found[host] = {name: value for name, value in own.items() if name not in facts}
    return found


def _printable(fields: dict[str, Any]) -> dict[str, Any]:
    """Return a problem as a terminal can show it, whatever is in the values that it names."""
    return {name: printable(value) if isinstance(value, str) else value for name, value in fields.items()}


def _extra_variables() -> Collection[str]:
    """Return the names of the variables of -e, as Ansible has kept them, or all if it keeps them elsewhere."""
    kept = getattr(load_extra_vars, "extra_vars", None)
    return kept if kept is not None else GROUP_VARIABLES


class FilterModule:
    def filters(self) -> dict[str, Callable[..., Any]]:
        return {
            "fact_variable_problems": fact_variable_problems,
            "variable_notes": variable_notes,
            "play_variable_problems": play_variable_problems,
            "variable_problems": variable_problems,
        }
