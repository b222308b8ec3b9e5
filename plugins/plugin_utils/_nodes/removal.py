# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Decide how nodes are removed from a cluster, or why they are not. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ...module_utils._json import as_mapping, as_mappings, as_texts
from ...module_utils._words import listing
from .disruption import decide

LOSE = "lose"
_OTHER = "another machine or installation answers, so it is not reset"
Facts = Mapping[str, Any]


def wanted_names(value: Any) -> list[str]:
    """Return the names in a list, or in a text with commas, in order and each once."""
    names = value.split(",") if isinstance(value, str) else list(value or ())
    return list(dict.fromkeys(str(name).strip() for name in names if str(name).strip()))


def run_problem(
    names: Sequence[str],
    control_planes: Sequence[str],
    answering: Sequence[str],
    left_out: Sequence[str],
    unread: Sequence[str] = (),
) -> str:
    """Return why no node can be removed in this run, as sentences, empty if nothing prevents it.

    ``unread`` are named hosts that answer, but could not be read, which is a failure of its own.
    """
    if not names:
        return "no node is named. Name one or several with -e node=NAME,NAME."
    if left_out:
        return f"--limit leaves out {listing(left_out)}. Run this without it, and name the nodes with -e node=NAME."
    if unread:
        return f"{listing(unread)} could not be read. Fix what the failed task shows, and run this again."
    if not answering:
        return f"no control plane answers ({listing(control_planes)}). Repair one of them, and run this again."
    return ""


def control_plane_refusal(name: str) -> str:
    """Return why a control plane is not removed, as sentences."""
    return f"{name} is a control plane. This playbook removes workers only."


def removal_plan(
    found: Facts,
    readings: Mapping[str, Facts],
    control_planes: Sequence[str],
    authority: Sequence[str],
    data: str,
    policy: str,
) -> dict[str, Any]:
    """Return the ``problems`` (sentences), the ``lines`` that show what is removed, and the ``targets``.

    ``found`` is the result of node_removal_info, ``readings`` are those of preflight_info by host, empty for a host
    that does not answer; ``authority`` are the hashes of the cluster's CA. Each target has its ``name``, its ``host``
    in the inventory and the ``recorded_host``, ``node`` and ``uid`` (empty if there is no node any more),
    ``addresses``, ``machine_id``, whether its host is ``silent``, whether the node's pods are evicted (``drains``),
    whether the host is ``reset``, and the name of the node in the ``record`` of those that were not reset, empty if it
    is in none.
    """
    targets = [_target(each, readings.get(each["host"]) or {}, authority) for each in found["targets"]]
    problems = list(_problems(found, readings, control_planes, authority, policy))
    if found["volumes"] and data != LOSE:
        problems.append(
            f"these volumes would be lost: {'; '.join(map(_volume, found['volumes']))}. Copy what you need, delete the "
            "claims, or give up their data with -e remove_node_data=lose."
        )
    return {"problems": problems, "lines": list(_lines(targets, found)), "targets": targets}


def _target(entry: Facts, reading: Facts, authority: Sequence[str]) -> dict[str, Any]:
    node, removed = as_mapping(entry["node"]), as_mapping(entry["removed"])
    name = _name(entry)
    resets = _resets(entry, reading, authority)
    return {
        "name": entry["name"],
        "host": entry["host"],
        "recorded_host": str(node.get("host") or ""),
        "node": name if node else "",
        "record": name if removed or (node and resets) else "",
        "uid": str(node.get("uid") or ""),
        "addresses": as_texts(node.get("addresses")),
        "machine_id": str(node.get("machine_id") or reading.get("machine_id") or ""),
        "silent": not reading,
        # A kubelet that has stopped would never confirm the end of a pod.
        "drains": bool(node) and (bool(node.get("ready")) or bool(reading)),
        "reset": resets,
    }


def _resets(entry: Facts, reading: Facts, authority: Sequence[str]) -> bool:
    """Return whether the machine that answers is that of the node, by its certificate, or without one by its ID."""
    cluster, machine = as_mapping(reading.get("cluster")), reading.get("machine_id")
    known = {str(as_mapping(entry[key]).get("machine_id") or "") for key in ("node", "removed")} - {""}
    if not cluster.get("ca_hashes"):
        return machine in known
    name = cluster.get("node_name")
    return _is_ours(cluster, authority) and (name == _name(entry) if name else machine in known)


def _is_ours(cluster: Facts, authority: Sequence[str]) -> bool:
    return bool(set(authority) & set(as_texts(cluster.get("ca_hashes"))))


def _name(entry: Facts) -> str:
    """Return the name of the node, also of one that is gone: then what the record, or else the host says."""
    found = as_mapping(entry["node"]) or as_mapping(entry["removed"])
    return str(found.get("name") or entry["claimed"])


def _problems(
    found: Facts,
    readings: Mapping[str, Facts],
    control_planes: Sequence[str],
    authority: Sequence[str],
    policy: str,
) -> Iterator[str]:
    for entry in found["targets"]:
        node, reading = as_mapping(entry["node"]), readings.get(entry["host"]) or {}
        cluster = as_mapping(reading.get("cluster"))
        if entry["problem"]:
            yield f"{entry['problem']}."
        elif node.get("control_plane") or entry["host"] in control_planes or cluster.get("role") == "control_plane":
            yield control_plane_refusal(entry["name"])
        elif not node and cluster.get("ca_hashes") and not _is_ours(cluster, authority):
            yield f"{entry['name']} is a node of another cluster. Use the inventory of that cluster."
        elif node.get("ready") and not reading:
            yield from _unasked(entry, policy)


def _unasked(entry: Facts, policy: str) -> Iterator[str]:
    """Yield why jobs prevent the removal of a node whose kubelet works, while its host can't be asked."""
    what = f"the removal of {entry['name']}"
    refusal = decide(policy, entry["node"]["name"], what, entry["pods"], [], may_defer=False)
    if entry["pods"] and (refusal["refusal"] or refusal["action"] == "wait"):
        names = listing(f"{pod['namespace']}/{pod['name']}" for pod in entry["pods"])
        yield (
            f"{entry['name']} runs pods that use its GPUs: {names}. Its host does not answer, so the run can't wait "
            "for them. Choose with -e cluster_disruption_policy=drain (evict them), =signal (with time to save) or "
            "=ignore."
        )


def _lines(targets: Sequence[Facts], found: Facts) -> Iterator[str]:
    for each in targets:
        yield f"{each['name']}: {'; '.join(_steps(each))}"
    if found["volumes"]:
        yield f"Lost volumes (their claims stay; delete them): {'; '.join(map(_volume, found['volumes']))}"
    if found["stranded"]:
        yield (
            f"W&B Launch: no other node matches the node selector of {listing(found['stranded'])}. Their pods will be "
            "pending until one does."
        )


def _steps(target: Facts) -> Iterator[str]:
    if target["node"]:
        yield f"drain and delete the node {target['node']}" if target["drains"] else f"delete the node {target['node']}"
    else:
        yield "not a node of this cluster"
    if target["reset"]:
        yield "reset the host"
    elif target["node"] and not target["host"]:
        yield "the inventory has no host to reset"
    elif target["node"] or target["record"]:
        yield "the host does not answer, so it is not reset" if target["silent"] else _OTHER


def removal_result(target: Facts) -> str:
    """Return what has become of a node, as a sentence."""
    if target["reset"]:
        return f"{target['name']} was removed from the cluster, and its host was reset."
    if target["node"] or target["record"]:
        return (
            f"{target['name']} was deleted in the cluster but not reset: "
            + ("its host does not answer. " if target["host"] and target["silent"] else "")
            + "The cluster remembers it. When the machine is back, run this again, or reinstall it."
        )
    return f"{target['name']} is not a node of this cluster, and there is nothing to reset."


def _volume(volume: Facts) -> str:
    claim = f"claim {volume['claim']}" if volume["claim"] else "no claim"
    return f"{volume['name']} ({claim}, {volume['where']})"


def selectors(queues: Any, agent: Any) -> dict[str, Any]:
    """Return the node selectors of W&B Launch's queues and of its agent, by what has them."""
    found = {f"queue {queue.get('name')}": queue.get("node_selector") for queue in as_mappings([*(queues or ())])}
    return {name: dict(each) for name, each in {**found, "the agent": agent}.items() if each}
