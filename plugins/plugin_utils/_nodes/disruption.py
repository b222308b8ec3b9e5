# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What happens to the users of a node's GPUs before a change that would interrupt them. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

IGNORE, DRAIN = "ignore", "drain"
Entry = Mapping[str, Any]


def decide(
    policy: str, node: str, change: str, pods: Sequence[Entry], processes: Sequence[Entry], held: bool = False
) -> dict[str, Any]:
    """Return the ``refusal``, whether to ``drain``, and a ``warning`` about the data that the drain deletes.

    ``pods`` were given a GPU by the kubelet (gpu_pods_info), ``processes`` are the others that have one open
    (nvidia_driver_users_info), ``held``: the node is cordoned, and drained if the policy says so. A policy that is not
    known here refuses.
    """
    # What still runs on a node that is held has started meanwhile, and has not been asked about.
    refuses = policy != IGNORE if held else policy not in (IGNORE, DRAIN)
    users = [*map(_pod, pods), *([] if held else map(_process, processes))]
    volumes = "; ".join(f"{_pod(pod)}: {', '.join(pod['empty_dirs'])}" for pod in pods if pod.get("empty_dirs"))
    lost = f"Draining {node} deletes what pods have in emptyDir volumes: {volumes}" if volumes else ""
    return {
        "refusal": _refusal(node, change, users, lost, held) if users and refuses else "",
        "drain": policy == DRAIN and bool(pods) and not refuses,
        "warning": lost if policy == DRAIN and not refuses else "",
    }


def _refusal(node: str, change: str, users: Sequence[str], lost: str, held: bool) -> str:
    what = "pods that have been started meanwhile use" if held else "it would interrupt what uses"
    return (
        f"Error while preparing {change}: {what} the GPUs of {node}: {', '.join(users)}. Wait "
        "until they finish and run again, or choose with -e cluster_disruption_policy=drain (evict pods first) or "
        "=ignore (continue at their risk)." + (f" {lost}." if lost else "")
    )


def _pod(pod: Entry) -> str:
    """A pod whose logs no longer exist has only its UID."""
    return f"{pod['namespace']}/{pod['name']}" if pod.get("name") else f"pod {pod.get('uid', '')}"


def _process(process: Entry) -> str:
    return " ".join(str(word) for word in (process["name"], process["pid"], process.get("unit")) if word)
