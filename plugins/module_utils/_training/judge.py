# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Determine the state of a training from its Job, its pods and the cluster's nodes. Pure functions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from .._cluster import objects
from .._cluster.dra import NO_CLAIMS, Claims
from .._cluster.nodes import cordoned, labels_of, untolerated_taint
from .._cluster.objects import Object

# Exit statuses of the launcher (roles/torch_ddp/files/launch.py).
FAILED, FAILED_ELSEWHERE = 80, 81
INDEX = "batch.kubernetes.io/job-completion-index"
_OOM = "OOMKilled"
# Labels of GPU feature discovery.
_STRATEGY, _PRODUCT = "nvidia.com/gpu.sharing-strategy", "nvidia.com/gpu.product"


@dataclass(frozen=True)
class Wanted:
    """Requirements of a training: ``gpus`` on each of ``nodes`` nodes with the labels in ``selector``."""

    nodes: int
    gpus: int
    selector: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Seen:
    """Objects of a cluster that were read together. ``events`` are those of the job's pods."""

    job: Object
    pods: Sequence[Object] = ()
    nodes: Sequence[Object] = ()
    cluster_pods: Sequence[Object] = ()
    claims: Claims = NO_CLAIMS
    events: Sequence[Object] = ()


@dataclass(frozen=True)
class Verdict:
    """State of a job: waiting, running, succeeded or failed; ``pod`` is the cause.

    ``troubled`` maps pods with a problem that is likely to persist to its description.
    """

    state: str
    text: str
    pod: str = ""
    troubled: Mapping[str, str] = field(default_factory=dict)
    unschedulable: bool = False

    @property
    def over(self) -> bool:
        return self.state in ("succeeded", "failed")


def room(
    wanted: Wanted, nodes: Iterable[Object], pods: Iterable[Object], claims: Claims = NO_CLAIMS, ever: bool = False
) -> tuple[int, str]:
    """Return how many nodes have enough free GPUs, and a description with each node's GPUs.

    With ``ever``, allocated GPUs count as free.
    """
    holding = objects.holders(pods, claims)
    enough, parts = 0, []
    for node in nodes:
        labels = node["metadata"].get("labels") or {}
        if any(labels.get(key) != value for key, value in wanted.selector.items()):
            continue
        name, offered = objects.name(node), objects.quantity(node, "allocatable")
        held = {} if ever else holding.get(name, {})
        free = _free(node, held)
        words = f"{name} {free} of {offered}"
        if not objects.is_ready(node):
            free, words = -1, f"{words}, {objects.not_ready_reason(node)}"
        elif cordoned(node):
            free, words = -1, f"{words}, cordoned"
        elif held:
            words += f", held by {', '.join(sorted(held))}"
        enough += free >= wanted.gpus
        if offered or not wanted.gpus:
            parts.append(words)
    have = "offer" if ever else "have"
    free_word = "" if ever else " free"
    detail = "; ".join(parts) or "no node offers any"
    count = min(enough, wanted.nodes)
    return enough, f"{count} of {wanted.nodes} nodes {have} {wanted.gpus} GPUs{free_word} ({detail})"


def _free(node: Object, held: Mapping[str, int]) -> int:
    return max(0, objects.quantity(node, "allocatable") - sum(held.values()))


def free_gpus(
    nodes: Iterable[Object], pods: Iterable[Object], claims: Claims, tolerations: Sequence[Object]
) -> dict[str, int]:
    """Return the GPUs that one pod of a training can get now, by node; nodes without any are omitted.

    A pod never gets two shares or two MIG devices: shares could be of the same GPU, and CUDA uses only one MIG device.
    """
    holding = objects.holders(pods, claims)
    found = {}
    for node in nodes:
        if not objects.is_ready(node) or cordoned(node) or untolerated_taint(node, tolerations):
            continue
        free = _free(node, holding.get(objects.name(node), {}))
        labels = labels_of(node)
        divided = labels.get(_STRATEGY, "none") != "none" or "-MIG-" in labels.get(_PRODUCT, "")
        if free:
            found[objects.name(node)] = 1 if divided else free
    return found


def largest_training(free: Mapping[str, int]) -> Wanted | None:
    """Return the training that uses most of the ``free`` GPUs of each node, None if there are none.

    Among several with the same number of GPUs, it is the one with the fewest nodes.
    """
    sizes = sorted({amount for amount in free.values() if amount > 0}, reverse=True)
    every = [Wanted(sum(amount >= size for amount in free.values()), size) for size in sizes]
    return max(every, key=lambda wanted: wanted.nodes * wanted.gpus, default=None)


def possible_nodes(wanted: Wanted, nodes: Iterable[Object]) -> list[Object]:
    """Return the nodes on which a pod of the training can run, even if other pods hold their GPUs now."""
    return [node for node in nodes if room(wanted, [node], (), ever=True)[0]]


def judge(seen: Seen, wanted: Wanted) -> Verdict:
    """Return the current state of the job."""
    conditions = {
        condition["type"]: condition
        for condition in (seen.job.get("status") or {}).get("conditions") or []
        if condition.get("status") == "True"
    }
    if "Complete" in conditions:
        return Verdict("succeeded", "all pods completed successfully")
    if "Failed" in conditions:
        pod = failing(seen.pods)
        words = conditions["Failed"].get("message") or conditions["Failed"].get("reason") or "the job failed"
        return Verdict("failed", ending(pod) if pod else words, objects.name(pod) if pod else "")
    return _unfinished(seen, wanted)


def _unfinished(seen: Seen, wanted: Wanted) -> Verdict:
    living = [pod for pod in seen.pods if objects.phase(pod) not in ("Failed", "Succeeded")]
    running = [
        pod for pod in living if objects.phase(pod) == "Running" and not pod["metadata"].get("deletionTimestamp")
    ]
    troubled: dict[str, str] = {}
    words: list[str] = []
    unschedulable = False
    for pod in living:
        uid = pod["metadata"].get("uid")
        events = [event for event in seen.events if (event.get("involvedObject") or {}).get("uid") == uid]
        trouble = objects.trouble(pod, events)
        if trouble is None:
            continue
        text = f"pod {objects.name(pod)}: {trouble.text}"
        if trouble.text.startswith("Unschedulable"):
            unschedulable = True
            text = _unschedulable(trouble.text, seen, wanted)
        if text not in words:
            words.append(text)
        if trouble.final:
            troubled[objects.name(pod)] = text
    done = sum(1 for pod in seen.pods if objects.phase(pod) == "Succeeded")
    counted = f"{len(running) + done} of {wanted.nodes} pods are running"
    state = "running" if len(running) + done >= wanted.nodes else "waiting"
    return Verdict(
        state, "; ".join([counted, *words]), next(iter(troubled), ""), troubled, unschedulable and bool(troubled)
    )


def _unschedulable(told: str, seen: Seen, wanted: Wanted) -> str:
    """Return the scheduler's message; if GPUs are missing, a description of the free ones."""
    others = [pod for pod in seen.cluster_pods if not _same_job(pod, seen.job)]
    enough, words = room(wanted, seen.nodes, others, seen.claims)
    return f"Unschedulable: {words}" if wanted.gpus and enough < wanted.nodes else told


def _same_job(pod: Object, job: Object) -> bool:
    owners = pod["metadata"].get("ownerReferences") or []
    return any(owner.get("uid") == job["metadata"].get("uid") for owner in owners)


def failing(pods: Iterable[Object]) -> Object | None:
    """Return the failed pod that is the cause: preferably one out of memory, then one whose script failed."""
    failed = [pod for pod in pods if objects.phase(pod) == "Failed"]

    def rank(pod: Object) -> tuple[int, str]:
        ended = _ended(pod)
        status = ended.get("exitCode")
        order = 0 if ended.get("reason") == _OOM else {FAILED: 1, FAILED_ELSEWHERE: 3}.get(status or 0, 2)
        # Among equal pods, prefer the one that finished last.
        return order, "".join(chr(0x10FFFF - ord(letter)) for letter in ended.get("finishedAt") or "")

    return min(failed, key=rank, default=None)


def ending(pod: Object) -> str:
    """Return a description of why a pod failed."""
    where = f"pod {objects.name(pod)}" + (f" on node {objects.node_of(pod)}" if objects.node_of(pod) else "")
    ended = _ended(pod)
    if ended.get("reason") == _OOM:
        limit = _memory(pod)
        return f"{where}: out of memory (OOMKilled)" + (
            f", its limit is {limit} (torch_ddp_resources)" if limit else ""
        )
    if ended.get("exitCode") in (FAILED, FAILED_ELSEWHERE):
        return f"{where}: the training failed"
    trouble = objects.trouble(pod)
    return f"{where}: {trouble.text if trouble else 'the pod failed'}"


def index(pod: Object) -> int:
    """Return the pod's index in its job, -1 if unknown."""
    told = (pod["metadata"].get("annotations") or {}).get(INDEX, "")
    return int(told) if told.isascii() and told.isdigit() else -1


def first(pods: Iterable[Object]) -> Object | None:
    """Return the newest pod with index 0, in which rank 0 runs."""
    mine = [pod for pod in pods if index(pod) == 0]
    return max(mine, key=lambda pod: pod["metadata"].get("creationTimestamp") or "", default=None)


def _ended(pod: Object) -> Object:
    statuses = (pod.get("status") or {}).get("containerStatuses") or []
    found: Object = ((statuses[0].get("state") or {}).get("terminated") or {}) if statuses else {}
    return found


def _memory(pod: Object) -> str:
    containers = pod["spec"].get("containers") or [{}]
    return str(((containers[0].get("resources") or {}).get("limits") or {}).get("memory") or "")
