# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Callable

from ..module_utils._problem import Problem
from ..plugin_utils._filter_errors import filter_errors
from ..plugin_utils._inventory.access import typed
from ..plugin_utils._inventory.variables import known_values
from ..plugin_utils._preflight import cluster as cluster_rules
from ..plugin_utils._preflight import containerd as containerd_rules
from ..plugin_utils._preflight import control_planes, endpoint, existing, in_use, machines, node_in_use
from ..plugin_utils._preflight import gpu as gpu_rules
from ..plugin_utils._preflight import host as host_rules
from ..plugin_utils._preflight.existing import version_to_install
from ..plugin_utils._preflight.failure import failure
from ..plugin_utils._preflight.lost import NOT_FOR_RESTORES, kept_files
from ..plugin_utils._preflight.model import Cluster, Reading, readings
from ..plugin_utils._preflight.problem_text import full_text, known_fields, note, screen

DOCUMENTATION = r"""
name: preflight
short_description: Internal filters for preflight
extends_documentation_fragment: gpulab.kubernetes.internal
"""

# Values for hosts that need no answer, as expressions.
_DEFAULTS = {
    "cluster_existing_packages": "'refuse'",
    "cluster_existing_sources": "'refuse'",
    "nvidia_driver_source": "'cuda_repository'",
    "cluster_node_name": "(ansible_facts['nodename'] | default('') | lower)",
}
_CLUSTER_RULES = (
    *cluster_rules.RULES,
    *gpu_rules.CLUSTER_RULES,
    *in_use.CLUSTER_RULES,
    *endpoint.CLUSTER_RULES,
    *control_planes.RULES,
    *machines.RULES,
)
_HOST_RULES = (*host_rules.RULES, *containerd_rules.RULES, *gpu_rules.RULES, *existing.RULES, *node_in_use.RULES)
_CLUSTER_NOTES = (*cluster_rules.NOTES, *in_use.NOTES, *machines.NOTES)
_HOST_NOTES = (*host_rules.NOTES, *node_in_use.NOTES)


def access_problems(result: Mapping[str, Any], host: str, ansible_core: str) -> list[dict[str, Any]]:
    """Find out why Ansible can't work on a host."""
    reading = Reading(host, {}, result)
    return [problem.fields() for problem in failure(reading, Cluster((reading,), {"ansible_core": ansible_core}))]


def host_needs(
    table: Mapping[str, Any], host: str, names: Sequence[str], network: str, backend: str
) -> dict[str, list[str]]:
    """List the ports and kernel modules that Kubernetes needs on a host. ``names`` are the control planes."""
    needs: Sequence[Mapping[str, Sequence[str]]] = (
        table["node"],
        table["control_plane" if host in names else "worker"],
        table.get("control_planes", {}) if host in names and len(names) > 1 else {},
        table["networks"].get(network, {}).get(backend, {}),
    )
    return {key: [value for each in needs for value in each.get(key, ())] for key in table["node"]}


def inventory_addresses(hostvars: Mapping[str, Mapping[str, Any]], hosts: Iterable[str]) -> list[str]:
    """List the addresses that the inventory gives hosts, without those that depend on facts."""
    names = ("cluster_node_address", "ansible_host")
    return list(dict.fromkeys(str(value) for host in hosts for value in known_values(names, hostvars[host]).values()))


@filter_errors("writing the answers of preflight")
def preflight_answers(problems: Iterable[Mapping[str, Any]], settings: Mapping[str, Mapping[str, Any]]) -> str:
    """Return the settings that keep the existing state of the hosts, as a file of variables."""
    answers: dict[str, dict[str, str]] = {}
    whys: dict[str, list[str]] = {}
    for problem in problems:
        for name, value in problem.get("answers", {}).items():
            answers.setdefault(name, {})[problem["host"]] = value
            whys.setdefault(name, []).append(f"{problem['host'] or 'The whole cluster'}: {problem['what']}")
    lines = []
    for name, of_hosts in answers.items():
        tag = ""
        if name in _DEFAULTS:
            now = {host: str(values[key]) for host, values in settings.items() if (key := _setting_key(name)) in values}
            kept = {host: value for host, value in now.items() if value and f"'{value}'" != _DEFAULTS[name]}
            mapping = ", ".join(f"{host!r}: {value!r}" for host, value in {**kept, **of_hosts}.items())
            value = f"{{{{ {{{mapping}}}.get(inventory_hostname, {_DEFAULTS[name]}) }}}}"
        elif len(set(of_hosts.values())) == 1:
            value = next(iter(of_hosts.values()))
            # Values found on hosts must not be evaluated as templates.
            tag = "!unsafe " if "{" in value else ""
        else:
            continue
        lines += ["", *(f"# {' '.join(why.split())}" for why in dict.fromkeys(whys[name]))]
        # JSON is valid YAML.
        lines.append(f"{name}: {tag}{json.dumps(value, ensure_ascii=False)}")
    head = [
        "---",
        "# Settings that keep what was found, for review. Use it with -e @FILE, or put it into group_vars/all.",
    ]
    return "\n".join([*head, *lines]) + "\n" if lines else ""


def _setting_key(name: str) -> str:
    return name.removeprefix("cluster_")


@filter_errors("listing the notes of preflight")
def preflight_notes(hosts: Mapping[str, Any], settings: Mapping[str, Any]) -> list[str]:
    """List what may become a problem on hosts before anything changes."""
    cluster = Cluster(readings(hosts), settings)
    found = [each for rule in _CLUSTER_NOTES for each in rule(cluster)]
    judged = [reading for reading in cluster.read if not reading.left_out]
    found += [each for rule in _HOST_NOTES for reading in judged for each in rule(reading, cluster)]
    return [f"{f'{each.host}: ' if each.host else ''}{each.what}. {each.why}. {each.do}." for each in found]


@filter_errors("checking the rules of preflight")
def preflight_problems(hosts: Mapping[str, Any], settings: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Find all problems with hosts and settings before anything changes."""
    return [problem.fields() for problem in _find(Cluster(readings(hosts), settings))]


def _find(cluster: Cluster) -> list[Problem]:
    problems = [problem for rule in _CLUSTER_RULES for problem in rule(cluster)]
    for reading in cluster.readings:
        if not reading.facts:
            # One control plane is enough for what is compared with it.
            known = reading.left_out and cluster.control_plane
            problems += [] if known and known.finished else failure(reading, cluster)
            continue
        for rule in () if reading.left_out else _HOST_RULES:
            problems += rule(reading, cluster)
    if cluster.settings.get("restores"):
        problems = [problem for problem in problems if problem.kind not in NOT_FOR_RESTORES]
    order = ["", *(reading.host for reading in cluster.readings)]
    return sorted(problems, key=lambda problem: order.index(problem.host))


def preflight_report(problems: Iterable[Mapping[str, Any]], answers: Mapping[str, str] | None = None) -> str:
    """Format the problems that preflight found as text."""
    return full_text(problems, note(answers) if answers else "")


def preflight_screen(
    problems: Iterable[Mapping[str, Any]],
    answers: Mapping[str, str] | None = None,
    file: str = "",
    error: str = "",
) -> dict[str, Any]:
    """Format the problems that preflight found for one screen."""
    found, noted = list(problems), note(answers) if answers else ""
    full, known = full_text(found, noted), known_fields(found)
    if not file:
        return {"lines": full.splitlines(), "full": "", "problems": known}
    lines, is_short = screen(found, noted, typed(file, Path.cwd()), error)
    return {"lines": lines, "full": full if is_short else "", "problems": known}


class FilterModule:
    def filters(self) -> dict[str, Callable[..., Any]]:
        return {
            "access_problems": access_problems,
            "host_needs": host_needs,
            "inventory_addresses": inventory_addresses,
            "kept_files": kept_files,
            "version_to_install": version_to_install,
            "preflight_answers": preflight_answers,
            "preflight_notes": preflight_notes,
            "preflight_problems": preflight_problems,
            "preflight_report": preflight_report,
            "preflight_screen": preflight_screen,
        }
