# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Measure the GPUs of all nodes simultaneously, and those of one node one after another."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from .._cluster import objects
from .._cluster.api import Api, ApiError
from .._cluster.dra import read_claims
from .._cluster.objects import Object
from .._cluster.own_namespace import OwnNamespace
from .._cluster.pods import retry_pod
from .._cluster.waiting import StuckFor, until
from .._errors import DomainError
from . import pods as manifests
from .figures import Gpu, Measurement, Reading
from .log import MAX_REPORT_LENGTH, last_lines, read_log
from .pods import Settings
from .targets import LeftOut, Place

# The last lines of a container may reach its log after it has ended.
_LOG_GRACE = 10
# Limit of a single request for a log, in seconds.
_LOG_PATIENCE = 10
_CONFLICT = 409
_NO_GPU = f"Insufficient {objects.GPU}"


@dataclass(frozen=True)
class Failure:
    """A pod without figures, and its GPU; the UUID is empty if unknown."""

    gpu: Gpu
    pod: str
    reason: str

    def fields(self) -> dict[str, Any]:
        return {**self.gpu.fields(), "pod": self.pod, "reason": self.reason}


@dataclass
class Queue:
    """The pods of one node. ``body`` is the current one; earlier pods keep their GPUs.

    ``created`` counts them. ``pending``: the last one is not created yet. ``rest``: why the remaining pods were not
    created.
    """

    place: Place
    created: int = 0
    body: Mapping[str, Any] = field(default_factory=dict)
    pending: bool = False
    since: float = 0
    ended: float | None = None
    retried: bool = False
    stuck: StuckFor = field(default_factory=StuckFor)
    done: bool = False
    rest: str = ""

    @property
    def pod(self) -> str:
        return objects.name(self.body)


class Benchmark:
    """One benchmark, from creating its namespace to removing it."""

    def __init__(self, api: Api, settings: Settings) -> None:
        self._api, self._settings = api, settings
        self._own = OwnNamespace(api, settings.namespace, manifests.PART, "gpu_benchmark_namespace", settings.holder)
        self.measurements: list[Measurement] = []
        self.failures: list[Failure] = []
        self.warnings: list[str] = []
        # UUID -> pod that measured it.
        self._given: dict[str, str] = {}

    def measure(self, places: Sequence[Place]) -> list[LeftOut]:
        """Fill ``measurements``, ``failures`` and ``warnings``; return the GPUs for which there was no pod.

        After pods have started, API errors lose no figures: the nodes concerned become failures.
        """
        queues = [Queue(place, rest=place.rest) for place in places]
        measured = False
        try:
            with self._own.created():
                self._own.create(manifests.config_map(self._settings))
                self._watch(queues)
                measured = True
        except DomainError as error:
            if not measured:
                raise
            self.warnings.append(
                f"Namespace {self._own.name} could not be removed. Its pods may still hold GPUs until the next run, "
                f"which removes it. {error}"
            )
        return [LeftOut(gpu, self._why(gpu, queue)) for queue in queues for gpu in queue.place.gpus if self._open(gpu)]

    def _watch(self, queues: Sequence[Queue]) -> None:
        for queue in queues:
            self._next(queue)
        longest = max(self._settings.timeout * queue.place.count for queue in queues) + _LOG_GRACE
        with self._own.watched() as watch:
            until(lambda: self._look(queues), lambda done: done, longest, self._api.clock, watch=watch)
        for queue in queues:
            if not queue.done:
                waited = f"after {self._api.clock() - queue.since:.0f} s"
                self._give_up(queue, "it was not created" if queue.pending else f"it has not reported {waited}")
        self._check_owner()

    def _check_owner(self) -> None:
        try:
            taken_over = self._own.taken_over
        except ApiError:
            # The owner is unknown then; only this run's namespace is removed.
            return
        if taken_over:
            raise DomainError(
                f"Error while measuring the GPUs: another run has taken over namespace {self._own.name}. Only one "
                "run can measure the GPUs of a cluster at a time."
            )

    def _open(self, gpu: Gpu) -> bool:
        return gpu.uuid not in self._given

    def _why(self, gpu: Gpu, queue: Queue) -> str:
        """Return why no pod was given a GPU; a pod that failed without a known GPU may have had it."""
        failed = any(each.gpu.node == gpu.node and not each.gpu.uuid for each in self.failures)
        see = f"no pod was given it; see the failures on {gpu.node}" if failed or not queue.rest else ""
        return " or ".join(filter(None, (queue.rest, see)))

    def _next(self, queue: Queue) -> None:
        """Prepare the next pod of a node, or mark the node as done."""
        if queue.created == queue.place.count or queue.done:
            queue.done = True
            return
        place = queue.place
        queue.body = manifests.pod(self._settings, place.node, place.image, queue.created, place.count)
        queue.created, queue.ended, queue.retried, queue.pending = queue.created + 1, None, False, True
        queue.stuck = StuckFor()

    def _create(self, queue: Queue) -> None:
        try:
            self._own.create(queue.body)
        except ApiError as error:
            # The response to an earlier request was lost.
            if error.status != _CONFLICT:
                raise
        queue.pending, queue.since = False, self._api.clock()

    def _look(self, queues: Sequence[Queue]) -> bool:
        """Read new results; return whether all nodes are done."""
        waiting = [queue for queue in queues if not queue.done]
        try:
            pods = self._own.pods()
        except ApiError as error:
            for queue in waiting:
                self._give_up(queue, str(error))
            waiting = []
        for queue in waiting:
            try:
                self._look_at(queue, pods.get(queue.pod))
            except ApiError as error:
                self._give_up(queue, str(error))
        return all(queue.done for queue in queues)

    def _look_at(self, queue: Queue, pod: Object | None) -> None:
        if not queue.pending:
            self._read(queue, pod)
        if queue.pending:
            self._create(queue)

    def _read(self, queue: Queue, pod: Object | None) -> None:
        if pod is None:
            self._fail(queue, "it was deleted")
            return
        if objects.could_not_freeze(pod) and not queue.retried:
            self._own.delete_pod(queue.pod, gracePeriodSeconds="0")
            queue.body, queue.retried, queue.pending = retry_pod(queue.body), True, True
            return
        now, phase = self._api.clock(), objects.phase(pod)
        ended = phase in ("Failed", "Succeeded")
        # An unreachable kubelet can't return a log; the pods of its node are not ready.
        log = self._log(queue) if ended or objects.is_ready(pod) else ""
        reading = read_log(log)
        if reading:
            self._report(queue, reading)
            return
        trouble = self._own.trouble(pod)
        text = trouble.text if trouble else f"it has not reported ({phase})"
        if ended:
            queue.ended = queue.ended or now
            if now - queue.ended >= _LOG_GRACE or log:
                why = text if trouble else "it ended without a report"
                self._fail(queue, f"{why}: {last_lines(log)}".rstrip(": "))
        elif queue.stuck.exceeded([text] if trouble and trouble.final else [], now):
            self._stop(queue, text)
        elif now - queue.since >= self._settings.timeout:
            self._stop(queue, f"{text} after {self._settings.timeout} s (gpu_benchmark_timeout)")

    def _log(self, queue: Queue) -> str:
        most = 2 * MAX_REPORT_LENGTH
        query = {"tailLines": "20", "limitBytes": str(most)}
        return self._own.log(queue.pod, manifests.CONTAINER, _LOG_PATIENCE, **query)[:most]

    def _report(self, queue: Queue, reading: Reading) -> None:
        """Record a report. A report about another pod's GPU, or one that is not free, is a failure."""
        gpu = next((gpu for gpu in queue.place.gpus if gpu.uuid == reading.uuid), None)
        notes = "; ".join(reading.notes)
        if reading.complaint:
            self._fail(queue, reading.complaint)
        elif reading.gpus != 1:
            listed = f"nvidia-smi lists {reading.gpus} GPUs in it instead of one"
            self._fail(queue, f"{listed}; {notes}" if notes else listed)
        elif gpu is None:
            given = reading.uuid or "a GPU without a UUID"
            self._fail(queue, f"it was given {given}, which is not one of the node's free GPUs")
        elif gpu.uuid in self._given:
            first = self._given[gpu.uuid]
            self._fail(queue, f"it was given {gpu.uuid}, which pod {first} had measured already and still holds")
        elif not reading.device:
            self._given[gpu.uuid] = queue.pod
            self._fail(queue, notes or "it reported no figures", gpu)
        else:
            self._given[gpu.uuid] = queue.pod
            self.measurements.append(Measurement(gpu, reading))
            self._next(queue)

    def _fail(self, queue: Queue, reason: str, gpu: Gpu | None = None) -> None:
        self.failures.append(Failure(gpu or Gpu(queue.place.node, ""), queue.pod, reason))
        self._next(queue)

    def _give_up(self, queue: Queue, reason: str) -> None:
        """Record a failure and skip the other pods of the node."""
        queue.done = True
        self._fail(queue, reason)

    def _stop(self, queue: Queue, reason: str) -> None:
        """Stop a node's pods; the obstacle would also affect the next ones."""
        took = self._newcomers(queue) if reason.startswith("Unschedulable") and _NO_GPU in reason else []
        if took:
            self._own.delete_pod(queue.pod)
            queue.rest, queue.done = f"taken in the meantime by {', '.join(took)}", True
        else:
            self._give_up(queue, reason)

    def _newcomers(self, queue: Queue) -> list[str]:
        """Return the pods that were given GPUs of the node since the plan was made."""
        pods = self._api.items("/api/v1/pods")
        of_others = [pod for pod in pods if pod["metadata"].get("namespace") != self._own.name]
        others = objects.holders(of_others, read_claims(self._api, of_others))
        return sorted(set(others.get(queue.place.node, {})) - queue.place.holders)
