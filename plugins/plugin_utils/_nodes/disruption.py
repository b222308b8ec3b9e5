# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Decide what happens to the users of a node's GPUs before a change that would interrupt them. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

IGNORE, DRAIN, WAIT, SIGNAL, DEFER = "ignore", "drain", "wait", "signal", "defer"
# Policies that evict pods, and policies that give them time.
_EVICTS, _WAITS = (DRAIN, SIGNAL), (WAIT, SIGNAL)
Entry = Mapping[str, Any]


def decide(
    policy: str,
    node: str,
    change: str,
    pods: Sequence[Entry],
    processes: Sequence[Entry],
    held: bool = False,
    wait: float | str = 0,
    may_defer: bool = True,
    owners: Mapping[str, str] | None = None,
    deadline: float = 0,
    now: float = 0,
) -> dict[str, Any]:
    """Return the ``refusal``, or the ``action`` on which the policy decides (drain, signal, wait or defer, empty to
    continue), the ``users``, and a ``warning`` about the data that a drain deletes. A policy that is not known here
    refuses.

    ``pods`` were given a GPU by the kubelet (gpu_pods_info), ``processes`` are the others that have one open
    (nvidia_driver_users_info), ``held``: the node is cordoned, and drained if the policy says so. ``wait`` is how long
    pods may continue, in seconds; ``owners`` names them with their controllers, by UID. A node waits once in a run,
    until the ``deadline`` that its first wait returned, 0 before that; ``now`` is the time.
    """
    evicts = policy in _EVICTS
    uids = [str(pod.get("uid") or "") for pod in pods]
    names = [(owners or {}).get(uid) or _pod(pod) for uid, pod in zip(uids, pods)]
    # On a held node, processes only count again if the policy is to wait for them.
    users = [*names, *([] if held and policy != WAIT else map(_process, processes))]
    volumes = "; ".join(f"{_pod(pod)}: {', '.join(pod['empty_dirs'])}" for pod in pods if pod.get("empty_dirs"))
    lost = f"Draining {node} deletes what pods have in emptyDir volumes: {volumes}" if volumes else ""
    action = _choose_action(policy, bool(pods), held, may_defer) if users else ""
    grace = float(wait) if policy in _WAITS else 0
    if policy == WAIT and deadline:
        grace = max(0, deadline - now)
    return {
        "refusal": _refusal(node, change, users, lost, held and policy != WAIT, may_defer)
        if action == "refuse"
        else "",
        "action": "" if action == "refuse" else action,
        "evict": evicts,
        "grace": grace,
        "deadline": deadline or (now + grace if action == WAIT else 0),
        "jobs": [uid for uid in uids if uid],
        "users": users,
        "warning": lost if evicts and action != "refuse" else "",
    }


def _choose_action(policy: str, pods: bool, held: bool, may_defer: bool) -> str:
    """Return the action. Pods on a held node have started in the meantime, or have outlasted the wait."""
    if policy == IGNORE:
        return ""
    if policy == DEFER or (policy == WAIT and held):
        return DEFER if may_defer else "refuse"
    if policy == WAIT:
        return WAIT
    if policy in _EVICTS and not held:
        return policy if pods else ""
    return "refuse"


def _refusal(node: str, change: str, users: Sequence[str], lost: str, started: bool, may_defer: bool) -> str:
    defer = "=defer (leave this node for a later run) or " if may_defer else ""
    what = "pods that have been started meanwhile use" if started else "it would interrupt what uses"
    return (
        f"Error while preparing {change}: {what} the GPUs of {node}: {', '.join(users)}. Wait "
        "until they finish and run again, or choose with -e cluster_disruption_policy=drain (evict pods first), "
        f"=signal (evict them, with time to save), =wait (until they end), {defer}=ignore (continue at their risk)."
        + (f" {lost}." if lost else "")
    )


def _pod(pod: Entry) -> str:
    """Return the pod's name, or its UID if the name is unknown because its logs no longer exist."""
    return f"{pod['namespace']}/{pod['name']}" if pod.get("name") else f"pod {pod.get('uid', '')}"


def _process(process: Entry) -> str:
    return " ".join(str(word) for word in (process["name"], process["pid"], process.get("unit")) if word)
