# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import PurePath
from typing import Any, Callable

from ansible import context

from ..module_utils._words import counted
from ..plugin_utils._inventory import cluster, hosts, provider, variables
from ..plugin_utils._inventory.sources import absent
from ..plugin_utils._inventory.sources import problems as source_problems
from ..plugin_utils._progress.text import printable
from .access import run_commands

DOCUMENTATION = r"""
name: inventory
short_description: Internal filters for the inventory
extends_documentation_fragment: gpulab.kubernetes.internal
"""


def cluster_members(
    hostvars: Mapping[str, Any], names: Sequence[str], groups: Mapping[str, Sequence[str]], run: Sequence[str]
) -> str:
    """Describe which hosts of the inventory are in the cluster."""
    wanted = dict(zip(("Control plane", "Workers"), names))
    members = [host for name in names for host in groups.get(name, [])]
    places = variables.places({host: hostvars[host] for host in members})
    lines = [printable(line) for line in hosts.lines(wanted, groups, places, run)]
    return "\n".join([*lines, *_closing(hostvars, names, groups)])


def _closing(hostvars: Mapping[str, Any], names: Sequence[str], groups: Mapping[str, Sequence[str]]) -> list[str]:
    """Return the end of a run that only checks the inventory."""
    playbooks = [PurePath(str(each)).name for each in context.CLIARGS.get("args") or ()]
    if playbooks not in (["gpulab.kubernetes.inventory"], ["inventory.yml"]):
        return []
    control_planes, workers = (dict.fromkeys(groups.get(name, [])) for name in names)
    given = [hostvars[host].get("cluster_expected_gpus") for host in workers]
    gpus = sum(int(each) for each in given if str(each).isdecimal())
    counts = [counted(len(control_planes), "control plane"), counted(len(workers), "worker")]
    expected = f", {counted(gpus, 'GPU')} expected" * bool(gpus)
    return [
        f"The inventory is right: {', '.join(counts)}{expected}. Nothing was contacted.",
        run_commands("Next: ansible-playbook gpulab.kubernetes.preflight -i INVENTORY"),
    ]


def cluster_provider(
    setting: str, kubeadm: Sequence[str], minikube: Sequence[str], run: Sequence[str]
) -> dict[str, Any]:
    """Choose the cluster of an inventory that a run is about."""
    return asdict(provider.choose_cluster(str(setting), list(kubeadm), list(minikube), list(run)))


def inventory_hints(groups: Mapping[str, Sequence[str]], names: Mapping[str, str], sources: Sequence[str]) -> str:
    """Find out why an inventory has no hosts in the groups that a run needs."""
    unread = [
        problem for problem in source_problems(sources, groups.get("all", [])) if problem.kind == "inventory_unread"
    ]
    found = [f"{problem.what}. {problem.do}." for problem in unread]
    found += [f"There is no file {source}." for source in absent(sources)]
    if found:
        return printable(" ".join(found))
    for variable, name in names.items():
        kind = variable.removeprefix("cluster_").removesuffix("_group")
        meant = hosts.likely_group(name, kind, groups, names.values()) if not groups.get(name) else ""
        if meant:
            hint = hosts.rename(meant, name, variable, groups)
            found.append(f"{hint[0].upper()}{hint[1:]}.")
    names_of_groups = [name for name in groups if name not in ("all", "ungrouped")]
    have = f"the groups {', '.join(names_of_groups)}" if names_of_groups else "no groups"
    found.append(f"The inventory has {have}. Give an inventory (-i FILE) with {_needed(names)}, and check --limit.")
    return printable(" ".join(found))


def _needed(names: Mapping[str, str]) -> str:
    if set(cluster.GROUPS) <= set(names):
        return "these groups"
    return f"this group, or name another one with -e {next(iter(names))}=GROUP"


class FilterModule:
    def filters(self) -> dict[str, Callable[..., Any]]:
        return {
            "cluster_members": cluster_members,
            "cluster_provider": cluster_provider,
            "inventory_hints": inventory_hints,
        }
