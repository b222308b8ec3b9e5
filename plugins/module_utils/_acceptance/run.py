# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Create the pods of a verification, wait for their reports, and remove them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from typing import TypeVar

from .._cluster import objects
from .._cluster.api import Api
from .._cluster.dra import read_claims
from .._cluster.objects import Object
from .._cluster.own_namespace import OwnNamespace
from .._cluster.pods import node_of, retry_pod
from .._cluster.waiting import StuckFor, until
from .._cluster.watching import Watch
from .._errors import DomainError
from . import pods as manifests
from .pods import Settings
from .target import Gpu, Target

# Maximum number of simultaneous requests.
_CONNECTIONS = 16
# The last lines of a container may reach its log after it has ended.
_LOG_GRACE = 10


Thing = TypeVar("Thing")
Found = TypeVar("Found")


@dataclass
class PodProof:
    """The result of one pod. ``trouble`` is empty if there is no problem."""

    name: str
    node: str
    kind: str
    done: bool = False
    trouble: str = ""
    gpus: list[Gpu] = field(default_factory=list)
    leaked: list[str] = field(default_factory=list)
    output: str = ""
    log: str = ""
    address: str = ""
    resource: str = objects.GPU
    ended: float | None = None
    body: Object = field(default_factory=dict)
    retried: bool = False


class Run:
    """One verification, from creating its namespace to removing it."""

    def __init__(self, api: Api, settings: Settings) -> None:
        self._api = api
        self._settings = settings
        self._own = OwnNamespace(api, settings.namespace, manifests.PART, "acceptance_namespace", settings.holder)
        # Outages of the API do not count, because pods may have reported during them.
        self._clock = api.clock
        self._began, self._deadline = self._clock(), 0.0
        self.proofs: list[PodProof] = []

    @property
    def remaining(self) -> float:
        return max(0.0, self._deadline - self._clock())

    def namespace(self) -> AbstractContextManager[None]:
        """Return a context manager for the verification's namespace; remains of an earlier run are removed first."""
        return self._own.created()

    def verify(self, targets: Sequence[Target], nodes: Sequence[Target]) -> None:
        """Create all pods, GPUs and isolation on ``targets``, network on ``nodes``; wait for their reports."""
        limit, limit_words = manifests.time_limit(
            self._settings.timeout, sum(target.unheld_total for target in targets)
        )
        self._settings = replace(self._settings, timeout=limit)
        self._deadline = self._began + limit
        bodies = [
            manifests.gpu_pod(self._settings, target.name, number, resource)
            for target in targets
            for number, resource in enumerate(name for name, amount in target.unheld.items() for _each in range(amount))
        ]
        bodies += [manifests.isolation_pod(self._settings, target.name) for target in targets if target.host.wanted]
        bodies += [manifests.network_pod(self._settings, target.name) for target in nodes]
        if nodes:
            self._own.create(manifests.service(self._settings))
        in_parallel(self._create, objects.grouped(bodies, node_of).values())
        self.proofs = [
            PodProof(
                objects.name(body),
                node_of(body),
                body["metadata"]["labels"]["acceptance"],
                resource=_resource(body),
                body=body,
            )
            for body in bodies
        ]
        self._watch()
        for proof in self.proofs:
            if not proof.done and not self.remaining:
                proof.trouble += f" after {limit} s ({limit_words})"
        if self._own.taken_over:
            raise DomainError(
                f"Error while verifying the GPUs: another run has taken over namespace {self._settings.namespace}."
                " Only one run can verify the GPUs of a cluster at a time."
            )

    def proofs_of_kind(self, kind: str) -> list[PodProof]:
        return [proof for proof in self.proofs if proof.kind == kind]

    def until(self, good: Callable[[], bool], limit: float, watch: Watch | None = None) -> bool:
        """Check repeatedly until ``good`` returns true or the time is over; return its result."""
        return until(good, bool, min(limit, self.remaining), self._clock, watch=watch)

    def _create(self, bodies: Iterable[Object]) -> None:
        """Create the pods of one node, in order."""
        for body in bodies:
            self._own.create(body)

    def _watch(self) -> None:
        stuck = StuckFor()
        with self._own.watched() as watch:
            until(
                lambda: self._look_at_all(watch),
                lambda final: stuck.exceeded(final, self._clock()) or all(proof.done for proof in self.proofs),
                self.remaining,
                self._clock,
                watch=watch,
            )

    def _look_at_all(self, watch: Watch) -> list[str]:
        """Read new results; return the pods with a problem that is likely to persist."""
        pods = self._own.pods()
        waiting = [proof for proof in self.proofs if not proof.done]
        started = [proof for proof in waiting if objects.phase(pods.get(proof.name, {})) in ("Running", "Succeeded")]
        in_parallel(self._read, started)
        final = []
        for proof in waiting:
            trouble = self._look(proof, pods.get(proof.name))
            if trouble and trouble.final and not proof.done:
                final.append(proof.name)
        self._leave_taken(waiting, pods, watch)
        return final

    def _look(self, proof: PodProof, pod: Object | None) -> objects.Trouble | None:
        """Process a pod's report, or return its problem."""
        if pod is None:
            proof.done, proof.trouble = True, f"pod {proof.name} was deleted"
            return None
        if objects.could_not_freeze(pod) and not proof.retried:
            self._start_again(proof)
            return None
        phase = objects.phase(pod)
        if proof.kind == "network":
            if objects.is_ready(pod):
                proof.done, proof.trouble, proof.address = True, "", pod["status"]["podIP"]
                return None
        elif proof.log:
            self._report(proof)
            return None
        trouble = self._own.trouble(pod)
        proof.trouble = trouble.text if trouble else f"pod {proof.name} has not reported ({phase})"
        if phase == "Succeeded" and proof.ended is None:
            proof.ended = self._clock()
        silent = proof.ended is not None and self._clock() - proof.ended >= _LOG_GRACE
        if silent and not proof.retried:
            # The log of a container that ends within a moment is sometimes lost.
            self._start_again(proof)
            return None
        if phase == "Failed" or silent:
            proof.done = True
            # The first container that failed is the last one with output.
            said = self._own.log(proof.name, manifests.HOLD) if proof.kind == "gpu" else ""
            words = manifests.last_words(said or self._own.log(proof.name, manifests.CHECK))
            proof.trouble += f": {' / '.join(words.splitlines())}" if words else ""
        return trouble

    def _start_again(self, proof: PodProof) -> None:
        """Start the pod again, under another name."""
        self._own.delete_pod(proof.name, gracePeriodSeconds="0")
        proof.body, proof.retried, proof.ended = retry_pod(proof.body), True, None
        proof.log = ""
        proof.name = objects.name(proof.body)
        self._own.create(proof.body)

    def _read(self, proof: PodProof) -> None:
        """Keep the log of a pod whose report is complete."""
        if proof.kind == "network":
            return
        log = self._own.log(proof.name, manifests.HOLD if proof.kind == "gpu" else manifests.CHECK)
        if manifests.ended(log):
            proof.log = log
            if proof.kind == "gpu":
                proof.output = manifests.last_words(self._own.log(proof.name, manifests.CHECK))

    def _report(self, proof: PodProof) -> None:
        proof.done, proof.trouble = True, ""
        if proof.kind == "gpu":
            proof.gpus = manifests.reported(proof.log)
        else:
            proof.leaked = manifests.leaked(proof.log)

    def _leave_taken(self, waiting: Sequence[PodProof], pods: Mapping[str, Object], watch: Watch) -> None:
        """Remove pods that wait for a GPU which other pods have got in the meantime; that GPU is in use."""
        stuck = [
            proof
            for proof in waiting
            if proof.kind == "gpu" and not proof.done and not objects.node_of(pods.get(proof.name, {"spec": {}}))
        ]
        if not any("Unschedulable" in proof.trouble for proof in stuck):
            return
        everywhere = watch.items("/api/v1/pods")
        others = [pod for pod in everywhere if pod["metadata"]["namespace"] != self._settings.namespace]
        claims = read_claims(watch, others)
        for place in {(proof.node, proof.resource) for proof in stuck}:
            node, resource = place
            taken = sum(objects.holders(others, claims, resource).get(node, {}).values())
            ours = sum(1 for proof in self.proofs_of_kind("gpu") if (proof.node, proof.resource) == place)
            surplus = ours + taken - objects.quantity(self._api.get(f"/api/v1/nodes/{node}"), "allocatable", resource)
            waiting = [proof for proof in stuck if (proof.node, proof.resource) == place]
            for proof in waiting[: max(0, min(surplus, taken))]:
                self._own.delete_pod(proof.name)
                self.proofs.remove(proof)


def in_parallel(ask: Callable[[Thing], Found], things: Iterable[Thing]) -> list[Found]:
    """Make API requests for several things in parallel; after an error, stop and raise it."""
    with ThreadPoolExecutor(_CONNECTIONS) as pool:
        return list(pool.map(ask, things))


def _resource(body: Object) -> str:
    limits = (body["spec"]["containers"][0].get("resources") or {}).get("limits") or {}
    return next(iter(limits), objects.GPU)
