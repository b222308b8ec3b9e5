# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Callable

from ansible.module_utils.parsing.convert_bool import boolean

from ..plugin_utils._nodes.control_plane import control_plane_plan, pending_notice, stores_configuration
from ..plugin_utils._nodes.deferral import with_deferral, without_deferral
from ..plugin_utils._nodes.disruption import decide
from ..plugin_utils._nodes.etcd_join import join_plan, machine_of
from ..plugin_utils._nodes.kubelet import kubelet_plan, kubelet_upload
from ..plugin_utils._nodes.kubernetes import (
    cluster_version,
    kubernetes_packages,
    node_version,
    only_programs_are_newer,
    pending_upgrade,
)
from ..plugin_utils._nodes.plan import api_host as choose_api_host
from ..plugin_utils._nodes.plan import host_of
from ..plugin_utils._nodes.plan import plan as plan_nodes
from ..plugin_utils._nodes.standing import standing_notice

DOCUMENTATION = r"""
name: plan
short_description: Internal filters for the plan of a run
extends_documentation_fragment: gpulab.kubernetes.internal
"""

# Role -> the role without which it can't do its work.
_NEEDS = {"nvidia_container_toolkit": "nvidia_driver"}


def select_enabled(entries: Iterable[Any]) -> Any:
    """Select the entries of a list or dictionary whose "when" is true or missing, and omit "when"."""
    # Ansible evaluates a value of a variable when it is read.
    if isinstance(entries, Mapping):
        return dict(_enabled((name, entries[name]) for name in entries))
    return [entry for _index, entry in _enabled(enumerate(entries))]


def _enabled(entries: Iterable[tuple[Any, Mapping[str, Any]]]) -> Iterator[tuple[Any, dict[str, Any]]]:
    for place, entry in entries:
        if boolean(entry.get("when", True)):
            yield place, {key: entry[key] for key in entry if key != "when"}


def cluster_plan(reading: Mapping[str, Any], network: str, namespace: str, installers: bool) -> dict[str, list[str]]:
    """Determine which roles have pending changes in the cluster."""
    if "failed_state" in reading or "states" not in reading:
        roles = ("node_pools", network, "nvidia_driver_installer", "nvidia_device_plugin")
        return {role: ["everything, since the cluster could not be read"] for role in roles}
    states = reading["states"]
    plugins = states.get("plugins", {})
    found = {
        "node_pools": [f"node {name}" for name in states.get("pools", {}).get("changes", {})],
        network: [*_changed_objects(states, "network"), *_missing_rollouts(states, "network rollout")],
        "nvidia_driver_installer": [*plugins.get("installers", []), *(["the drivers of pods"] if installers else [])],
        "nvidia_device_plugin": [
            *(f"ClusterPolicy {name}" for name in plugins.get("policies", [])),
            *(_plugin_title(each) for each in plugins.get("plugins", []) if each["namespace"] != namespace),
            *(problem["what"] for problem in plugins.get("problems", [])),
            *(node["summary"] or f"sharing of {name}" for name, node in _pending_sharing(states)),
            *_changed_objects(states, "plugin"),
            *(words for name in states if name.startswith("rollout of ") for words in _missing_rollouts(states, name)),
        ],
    }
    return {role: words for role, words in found.items() if words}


def _changed_objects(states: Mapping[str, Any], name: str) -> list[str]:
    return list(states.get(name, {}).get("changes", []))


def _missing_rollouts(states: Mapping[str, Any], name: str) -> Iterator[str]:
    for each in states.get(name, {}).get("missing", []):
        yield f"{each['node']}: {each['text']}" if each.get("node") else each["text"]


def _pending_sharing(states: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for name, node in states.get("sharing", {}).get("nodes", {}).items():
        if node["differs"] or node["drained"]:
            yield name, node


def _plugin_title(plugin: Mapping[str, Any]) -> str:
    return f"{plugin['kind']} {plugin['namespace']}/{plugin['name']}"


def deferral_file(record: str, purpose: str, users: Sequence[str], **entry: Any) -> dict[str, Any]:
    """Return the file that records a deferral (``entry``: change, pending, now), or its end without ``users``."""
    return with_deferral(record, purpose, users=users, **entry) if users else without_deferral(record, purpose)


def disruption(
    pods: Sequence[Mapping[str, Any]],
    policy: str,
    node: str,
    change: str,
    processes: Sequence[Mapping[str, Any]] = (),
    **more: Any,
) -> dict[str, Any]:
    """Decide what happens to the users of GPUs before a change that would interrupt them."""
    return decide(policy, node, change, pods, processes, **more)


def host_plan(
    reading: Mapping[str, Any],
    roles: Iterable[str],
    finished: bool = True,
    driver_source: str = "cuda_repository",
    driver_loaded: bool = True,
    stores_kubelet: bool = False,
) -> dict[str, list[str]]:
    """Determine which roles have pending changes on a host.

    ``stores_kubelet``: whether the host is the one from which the kubelet's new configuration is stored in the cluster.
    """
    roles = list(roles)
    if _unread(reading, roles):
        return {role: ["everything, since the host could not be read"] for role in roles}
    found: dict[str, list[str]] = {role: [] for role in roles}
    for name, result in reading["states"].items():
        role, _separator, state = name.partition("/")
        if result["changed"]:
            found[role].append(state + _restart_note(result))
    if not finished:
        found["kubeadm"].append("membership in the cluster")
    if stores_kubelet:
        found["kubeadm"].append("the kubelet's configuration in the cluster")
    if "nvidia_driver" in found and driver_source in ("preinstalled", "daemonset") and not driver_loaded:
        found["nvidia_driver"].append("an answer")
    for role, needed in _NEEDS.items():
        if found.get(role) and not found.get(needed, True):
            found[needed].append("an answer")
    return {role: words for role, words in found.items() if words}


def _unread(reading: Mapping[str, Any], roles: list[str]) -> bool:
    """Return whether the pending changes are unknown, because a state of these roles could not be read.

    failed_when clears ``failed``, but the result still lacks the state that failed and those after it.
    """
    if "states" not in reading:
        return True
    return "failed_state" in reading and str(reading["failed_state"]).partition("/")[0] in roles


def _restart_note(result: Mapping[str, Any]) -> str:
    return " (restart)" if result.get("restart") else ""


def host_states(states: Mapping[str, Iterable[Mapping[str, Any]]], roles: Iterable[str]) -> list[dict[str, Any]]:
    """Combine the states of several roles into one list."""
    # Ansible evaluates a value of a variable when it is read.
    return [
        {"name": f"{role}/{state['name']}", "module": state["module"], "args": state.get("args", {})}
        for role in roles
        for state in states[role]
        if boolean(state.get("when", True))
    ]


def api_host(control_planes: Sequence[str], hostvars: Mapping[str, Any]) -> str:
    """Return the control plane through which the API is reached, from what preflight has read."""
    return choose_api_host(host_of(name, hostvars[name], control_planes) for name in control_planes)


def etcd_join_plan(
    etcd: Mapping[str, Any], host: str, joining: Iterable[str], hostvars: Mapping[str, Any], resumes: bool
) -> dict[str, Any]:
    """Decide whether a host may join with a new member of etcd, and which members are removed before."""
    machines = [machine_of(name, hostvars[name]) for name in joining]
    return join_plan(etcd, machine_of(host, hostvars[host]), machines, boolean(resumes))


def node_plan(
    names: Iterable[str], hostvars: Mapping[str, Any], control_planes: Sequence[str] = ()
) -> dict[str, dict[str, Any]]:
    """Decide what a run does with each node and with the cluster."""
    return plan_nodes([host_of(name, hostvars[name], control_planes) for name in names])


def plan_lines(
    plans: Mapping[str, Mapping[str, Iterable[str]]],
    deferred: Mapping[str, Iterable[str]] | None = None,
    control_planes: Mapping[str, Iterable[str]] | None = None,
) -> list[str]:
    """Return a plan, and sentences about deferred changes by host, as lines of text.

    ``control_planes`` are pending changes of the control plane by host.
    """
    for host, why in (control_planes or {}).items():
        plans = {**plans, host: {**plans.get(host, {}), "control plane": why}}
    hosts: dict[tuple[str, ...], list[str]] = {}
    for host, plan in plans.items():
        lines = tuple(f"  {role}: {', '.join(changes)}" for role, changes in plan.items())
        hosts.setdefault(lines, []).append(host)
    found = [line for lines, names in hosts.items() if lines for line in (f"{', '.join(names)}:", *lines)]
    return found + [f"{host}: {text}" for host, texts in (deferred or {}).items() for text in texts]


def plan_summary(plan: Mapping[str, Any]) -> str:
    """Return a plan as a sentence."""
    pending = any(plan["hosts"].values()) or bool(plan.get("control_planes"))
    if plan["cluster_is_known"] and not plan["cluster"] and not pending:
        return "Nothing is pending."
    return "site.yml would change what is shown above."


class FilterModule:
    def filters(self) -> dict[str, Callable[..., Any]]:
        return {
            "api_host": api_host,
            "select_enabled": select_enabled,
            "cluster_plan": cluster_plan,
            "cluster_version": cluster_version,
            "control_plane_notice": pending_notice,
            "control_plane_plan": control_plane_plan,
            "control_plane_standing": standing_notice,
            "control_plane_stores": stores_configuration,
            "deferral_file": deferral_file,
            "disruption": disruption,
            "etcd_join_plan": etcd_join_plan,
            "host_plan": host_plan,
            "host_states": host_states,
            "kubelet_plan": kubelet_plan,
            "kubelet_upload": kubelet_upload,
            "kubernetes_packages": kubernetes_packages,
            "node_plan": node_plan,
            "node_version": node_version,
            "only_programs_are_newer": only_programs_are_newer,
            "pending_upgrade": pending_upgrade,
            "plan_lines": plan_lines,
            "plan_summary": plan_summary,
        }
