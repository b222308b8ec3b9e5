# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Decide how nodes are removed from a cluster, or why they are not. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ...module_utils._etcd.members import HEALTHY, Member, member_of
from ...module_utils._etcd.quorum import Verdict, may_remove
from ...module_utils._json import as_mapping, as_mappings, as_texts
from ...module_utils._kubeadm.init_decision import ALIVE
from ...module_utils._words import listing
from .disruption import decide
from .etcd_join import owns
from .plan import Host
from .plan import api_host as choose_api_host

LOSE = "lose"
Facts = Mapping[str, Any]


def wanted_names(value: Any) -> list[str]:
    """Return the names in a list, or in a text with commas, in order and each once."""
    names = value.split(",") if isinstance(value, str) else list(value or ())
    return list(dict.fromkeys(str(name).strip() for name in names if str(name).strip()))


def api_host(names: Sequence[str], control_planes: Sequence[str], readings: Mapping[str, Facts]) -> str:
    """Return a control plane that stays and was read, preferably one whose API answers, empty if there is none."""
    left = [host for host in control_planes if host not in names and readings.get(host)]
    return choose_api_host(Host(host, True, True, answers=readings[host].get("api") == ALIVE) for host in left)


def run_problem(
    names: Sequence[str],
    control_planes: Sequence[str],
    there: str,
    left_out: Sequence[str],
    unread: Sequence[str] = (),
) -> str:
    """Return why no node can be removed in this run, as sentences, empty if nothing prevents it.

    ``there`` is the result of ``api_host``. ``unread`` are named hosts that answer, but could not be read, which is a
    failure of its own.
    """
    staying = [host for host in control_planes if host not in names]
    if not names:
        return "no node is named. Name one or several with -e node=NAME,NAME."
    if left_out:
        return f"--limit leaves out {listing(left_out)}. Run this without it, and name the nodes with -e node=NAME."
    if unread:
        return f"{listing(unread)} could not be read. Fix what the failed task shows, and run this again."
    if not staying:
        return (
            "no control plane would be left. A cluster with one control plane that is lost is restored "
            "(docs/restore.md), and gpulab.kubernetes.reset removes the whole cluster."
        )
    if not there:
        return f"no control plane answers ({listing(staying)}). Repair one of them, and run this again."
    return ""


def asks_etcd(found: Facts, readings: Mapping[str, Facts], control_planes: Sequence[str]) -> bool:
    """Return whether a control plane is to be removed, according to the inventory, the cluster or its host."""
    return any(_is_control_plane(each, readings.get(each["host"]) or {}, control_planes) for each in found["targets"])


def _is_control_plane(entry: Facts, reading: Facts, control_planes: Sequence[str]) -> bool:
    return (
        entry["host"] in control_planes
        or bool(as_mapping(entry["node"]).get("control_plane"))
        or as_mapping(reading.get("cluster")).get("role") == "control_plane"
    )


def removal_plan(
    found: Facts,
    readings: Mapping[str, Facts],
    control_planes: Sequence[str],
    authority: Sequence[str],
    etcd: Facts,
    settings: Facts,
) -> dict[str, Any]:
    """Return the ``problems`` (sentences), the ``lines`` that show what is removed, and the ``targets``.

    ``found`` is the result of node_removal_info, ``readings`` are those of preflight_info by host, empty for a host
    that does not answer; ``authority`` are the hashes of the cluster's CA; ``etcd`` is the result of etcd_info, without
    members if it was not asked. ``settings`` are ``data``, ``policy``, ``check`` (whether this is check mode), and
    ``replaces``, whether a new machine gets the name of the former one.

    Each target has its ``name``, its ``host`` in the inventory, ``node`` and ``uid`` (empty if there is no node any
    more), ``members`` (ids of the members of etcd that go with it), ``addresses``, ``machine_id``, whether the machine
    of the node ``answers``, or any (``silent`` if not), whether the node's pods are evicted (``drains``), whether the
    host is ``reset``, and with it data of etcd (``loses_etcd``), the name of the node in the ``record`` of those that
    were not reset, empty if it is in none, and whether it ``stays``, because its machine is no other one.
    """
    members = [member_of(each) for each in as_mappings(etcd.get("members") or [])]
    replaces = bool(settings.get("replaces"))
    targets = [
        _target(each, readings.get(each["host"]) or {}, authority, members, replaces) for each in found["targets"]
    ]
    for entry, target in zip(found["targets"], targets):
        # A member that has left has no last copy of etcd's data.
        is_control_plane = _is_control_plane(entry, readings.get(entry["host"]) or {}, control_planes)
        target["loses_etcd"] = target["reset"] and "members" in etcd and is_control_plane
    going = {name for each in targets for name in each["members"]}
    verdict = may_remove(members, going) if going else None
    problems = list(_problems(found, readings, authority, settings["policy"]))
    unasked = "members" not in etcd and not settings.get("check")
    if unasked and asks_etcd(found, readings, control_planes):
        problems.append("a control plane is named, but the members of etcd could not be read.")
    if replaces:
        problems += _replacement_problems(found["targets"], targets, readings, members)
    if verdict and not verdict.allowed:
        problems.append(f"etcd can't lose {listing(each.label for each in verdict.order)}: {verdict.reason}")
    if found["volumes"] and settings["data"] != LOSE and not all(each["stays"] for each in targets):
        problems.append(
            f"these volumes would be lost: {'; '.join(map(_volume, found['volumes']))}. Copy what you need, delete the "
            "claims, or give up their data with -e remove_node_data=lose."
        )
    healthy = {each.id for each in members if each.health == HEALTHY}
    # While a member is not healthy, no healthy one can leave.
    targets.sort(key=lambda each: not healthy.isdisjoint(each["members"]))
    return {"problems": problems, "lines": list(_lines(targets, found, verdict)), "targets": targets}


def _target(
    entry: Facts, reading: Facts, authority: Sequence[str], members: Sequence[Member], replaces: bool
) -> dict[str, Any]:
    name = _name(entry)
    answers = _answers(entry, reading, authority)
    cluster = as_mapping(reading.get("cluster"))
    # Also a new machine whose join was interrupted after the former one was removed.
    resumes = bool(cluster.get("begun")) and not entry["node"] and not _is_foreign(cluster, authority)
    stays = replaces and (answers or resumes)
    node, removed = ({}, {}) if stays else (as_mapping(entry["node"]), as_mapping(entry["removed"]))
    addresses = list(dict.fromkeys([*as_texts(node.get("addresses")), *as_texts(entry["addresses"])]))
    return {
        "name": entry["name"],
        "host": entry["host"],
        "node": name if node else "",
        "members": [] if stays else [each.id for each in members if owns(each, name, addresses)],
        "record": name if removed or (node and answers) else "",
        "uid": str(node.get("uid") or ""),
        "addresses": addresses,
        "machine_id": str(node.get("machine_id") or reading.get("machine_id") or ""),
        "answers": answers,
        "silent": not reading,
        # A kubelet that has stopped would never confirm the end of a pod.
        "drains": bool(node.get("ready")),
        "reset": answers and not stays,
        "stays": stays,
    }


def _answers(entry: Facts, reading: Facts, authority: Sequence[str]) -> bool:
    """Return whether the machine that answers is that of the node, by its certificate, or without one by its ID."""
    cluster, machine = as_mapping(reading.get("cluster")), reading.get("machine_id")
    known = {str(as_mapping(entry[key]).get("machine_id") or "") for key in ("node", "removed")} - {""}
    if not cluster.get("ca_hashes"):
        return machine in known
    name = cluster.get("node_name")
    # Without a certificate and a node, it is a join that was interrupted.
    return _is_ours(cluster, authority) and (name == _name(entry) if name else machine in known or not entry["node"])


def _is_foreign(cluster: Facts, authority: Sequence[str]) -> bool:
    return bool(cluster.get("ca_hashes")) and not _is_ours(cluster, authority)


def _is_ours(cluster: Facts, authority: Sequence[str]) -> bool:
    return bool(set(authority) & set(as_texts(cluster.get("ca_hashes"))))


def _name(entry: Facts) -> str:
    """Return the name of the node, also of one that is gone: then what the record, or else the host says."""
    found = as_mapping(entry["node"]) or as_mapping(entry["removed"])
    return str(found.get("name") or entry["claimed"])


def _problems(found: Facts, readings: Mapping[str, Facts], authority: Sequence[str], policy: str) -> Iterator[str]:
    for entry in found["targets"]:
        node, reading = as_mapping(entry["node"]), readings.get(entry["host"]) or {}
        cluster = as_mapping(reading.get("cluster"))
        if entry["problem"]:
            yield f"{entry['problem']}."
        elif not node and _is_foreign(cluster, authority):
            yield f"{entry['name']} is a node of another cluster. Use the inventory of that cluster."
        elif node.get("ready") and not _answers(entry, reading, authority):
            yield from _unasked(entry, policy)


def _unasked(entry: Facts, policy: str) -> Iterator[str]:
    """Yield why jobs prevent the removal of a node whose kubelet works, while its host can't be asked."""
    what = f"the removal of {entry['name']}"
    refusal = decide(policy, entry["node"]["name"], what, entry["pods"], [], may_defer=False)
    if entry["pods"] and (refusal["refusal"] or refusal["action"] == "wait"):
        names = listing(f"{pod['namespace']}/{pod['name']}" for pod in entry["pods"])
        yield (
            f"{entry['name']} runs pods that use its GPUs: {names}. Its host does not answer, so the run can't wait "
            "for them. Choose with -e cluster_disruption_policy=drain (evict them) or =ignore."
        )


def _replacement_problems(
    entries: Sequence[Facts], targets: Sequence[Facts], readings: Mapping[str, Facts], members: Sequence[Member]
) -> Iterator[str]:
    """Yield why a new machine can't get the name of a node. Two machines must never have one name."""
    for entry, target in zip(entries, targets):
        host, reading = entry["name"], readings.get(entry["host"]) or {}
        runs = [target["node"]] if as_mapping(entry["node"]).get("ready") else []
        runs += [each.name for each in members if each.id in target["members"] and each.health == HEALTHY]
        if target["stays"]:
            continue
        if not entry["host"]:
            yield f"{host} is not a host of the inventory. Use the name of its machine in the inventory."
        elif not reading:
            yield f"the new machine does not answer. Put its address into the inventory (ansible_host of {host})."
        elif as_mapping(reading.get("cluster")).get("begun"):
            yield (
                f"the machine that answers is in a cluster already. Put the address of the new machine, which has no "
                f"cluster, into the inventory (ansible_host of {host})."
            )
        elif runs:
            yield (
                f"the former machine is still running: {listing(dict.fromkeys(runs))} is healthy. Switch it off, and "
                "wait until its node is no longer ready, which takes up to a minute."
            )


def _lines(targets: Sequence[Facts], found: Facts, verdict: Verdict | None) -> Iterator[str]:
    for each in targets:
        yield f"{each['name']}: {'; '.join(_steps(each))}"
    if verdict and verdict.allowed:
        yield f"etcd: {verdict.reason}"
    if verdict and verdict.warning:
        yield verdict.warning
    if found["volumes"]:
        yield f"Lost volumes (their claims stay; delete them): {'; '.join(map(_volume, found['volumes']))}"
    if found["stranded"]:
        yield (
            f"W&B Launch: no other node matches the node selector of {listing(found['stranded'])}. Their pods will be "
            "pending until one does."
        )


def _steps(target: Facts) -> Iterator[str]:
    if target["stays"]:
        yield "the machine that answers is that of the node, so nothing is removed"
        return
    if target["members"]:
        yield "remove its member of etcd"
    if target["node"]:
        yield f"drain and delete the node {target['node']}" if target["drains"] else f"delete the node {target['node']}"
    else:
        yield "not a node of this cluster"
    if target["reset"]:
        yield "reset the host"
    elif target["node"] or target["record"]:
        yield f"{_why_not_reset(target)}, so it is not reset"


def removal_result(target: Facts) -> str:
    """Return what has become of a node, as a sentence."""
    if target["stays"]:
        return f"{target['name']}: the machine that answers is that of the node. Nothing was removed."
    if target["reset"]:
        return f"{target['name']} was removed from the cluster, and its host was reset."
    if target["node"] or target["record"]:
        return (
            f"{target['name']} was deleted in the cluster but not reset: {_why_not_reset(target)}. The cluster "
            "remembers it. When the machine is back, run this again, or reinstall it."
        )
    return f"{target['name']} is not a node of this cluster, and there is nothing to reset."


def _why_not_reset(target: Facts) -> str:
    if not target["host"]:
        return "the inventory has no host for it"
    return "its host does not answer" if target["silent"] else "another machine or installation answers"


def _volume(volume: Facts) -> str:
    claim = f"claim {volume['claim']}" if volume["claim"] else "no claim"
    return f"{volume['name']} ({claim}, {volume['where']})"


def selectors(queues: Any, agent: Any) -> dict[str, Any]:
    """Return the node selectors of W&B Launch's queues and of its agent, by what has them."""
    found = {f"queue {queue.get('name')}": queue.get("node_selector") for queue in as_mappings([*(queues or ())])}
    return {name: dict(each) for name, each in {**found, "the agent": agent}.items() if each}
