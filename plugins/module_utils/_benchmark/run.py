# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Measures the GPUs of all nodes at the same time, and those of one node one after another."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from .._cluster import objects
from .._cluster.api import Api
from .._cluster.objects import Object
from .._cluster.own_namespace import OwnNamespace
from .._cluster.pods import again
from .._cluster.waiting import StuckFor, until
from .._errors import DomainError
from . import pods as manifests
from .figures import Gpu, Measurement, Reading
from .log import MOST_LETTERS, last_words, read_log
from .pods import Settings
from .targets import LeftOut, Place

# The last lines of a container can reach its log after its end is known.
_LOG_GRACE = 10


@dataclass(frozen=True)
class Failure:
    """A pod that has no figures, with the GPU that it was given as far as it is known."""

    node: str
    pod: str
    reason: str
    uuid: str = ""

    def fields(self) -> dict[str, str]:
        return {"node": self.node, "pod": self.pod, "uuid": self.uuid, "reason": self.reason}


@dataclass
class Queue:
    """The pods of one node. ``body`` is the one that is waited for; those before it keep their GPUs."""

    place: Place
    made: int = 0
    body: Mapping[str, Any] = field(default_factory=dict)
    since: float = 0
    ended: float | None = None
    again: bool = False
    stuck: StuckFor = field(default_factory=StuckFor)
    over: bool = False
    # Why the last pods were not made.
    rest: str = ""

    @property
    def pod(self) -> str:
        return objects.name(self.body)


class Benchmark:
    """One benchmark, from an empty namespace to none."""

    def __init__(self, api: Api, settings: Settings) -> None:
        self._settings = settings
        self._own = OwnNamespace(api, settings.namespace, manifests.PART, "gpu_benchmark_namespace")
        self.measurements: list[Measurement] = []
        self.failures: list[Failure] = []
        # UUID -> the pod that measured it.
        self._given: dict[str, str] = {}

    def measure(self, places: Sequence[Place]) -> list[LeftOut]:
        """Fill ``measurements`` and ``failures``; returns the GPUs for which there was no pod."""
        queues = [Queue(place, rest=place.rest) for place in places]
        with self._own.created():
            self._own.create(manifests.config_map(self._settings))
            for queue in queues:
                self._next(queue)
            longest = max(self._settings.timeout * place.count for place in places) + _LOG_GRACE
            until(lambda: self._look(queues), lambda over: over, longest)
            if self._own.taken_over:
                raise DomainError(
                    f"Error while measuring the GPUs: another run has taken over namespace {self._own.name}. Only one "
                    "run can measure the GPUs of a cluster at a time."
                )
        return [LeftOut(gpu, self._why(gpu, queue)) for queue in queues for gpu in queue.place.gpus if self._open(gpu)]

    def _open(self, gpu: Gpu) -> bool:
        return gpu.uuid not in self._given

    def _why(self, gpu: Gpu, queue: Queue) -> str:
        return queue.rest or f"no pod was given it; see the failures on {gpu.node}"

    def _next(self, queue: Queue) -> None:
        """Create the next pod of a node, if there is one more."""
        if queue.made == queue.place.count or queue.over:
            queue.over = True
            return
        queue.body = manifests.pod(self._settings, queue.place.node, queue.made, queue.place.count)
        queue.made, queue.since, queue.ended, queue.again = queue.made + 1, time.monotonic(), None, False
        queue.stuck = StuckFor()
        self._own.create(queue.body)

    def _look(self, queues: Sequence[Queue]) -> bool:
        """Read what is new; returns whether all nodes are done."""
        pods = self._own.pods()
        for queue in queues:
            if not queue.over:
                self._look_at(queue, pods.get(queue.pod))
        return all(queue.over for queue in queues)

    def _look_at(self, queue: Queue, pod: Object | None) -> None:
        if pod is None:
            self._fail(queue, "it was deleted")
            return
        if objects.could_not_freeze(pod) and not queue.again:
            self._own.delete_pod(queue.pod, gracePeriodSeconds="0")
            queue.body, queue.again = again(queue.body), True
            self._own.create(queue.body)
            return
        now, phase = time.monotonic(), objects.phase(pod)
        log = "" if phase == "Pending" else self._log(queue)
        reading = read_log(log)
        if reading:
            self._report(queue, reading)
            return
        trouble = self._own.trouble(pod)
        text = trouble.text if trouble else f"it has not reported ({phase})"
        if phase in ("Failed", "Succeeded"):
            queue.ended = queue.ended or now
            if now - queue.ended >= _LOG_GRACE or log:
                why = text if trouble else "it ended without a report"
                self._fail(queue, f"{why}: {last_words(log)}".rstrip(": "))
        elif queue.stuck.exceeded([text] if trouble and trouble.final else [], now):
            self._stop(queue, text)
        elif now - queue.since >= self._settings.timeout:
            self._stop(queue, f"{text} after {self._settings.timeout} s (gpu_benchmark_timeout)")

    def _log(self, queue: Queue) -> str:
        limit = str(2 * MOST_LETTERS)
        return self._own.log(queue.pod, manifests.CONTAINER, tailLines="20", limitBytes=limit)[: 2 * MOST_LETTERS]

    def _report(self, queue: Queue, reading: Reading) -> None:
        """A pod that was given a GPU of another pod, or one that it should not have, has measured nothing."""
        gpu = next((gpu for gpu in queue.place.gpus if gpu.uuid == reading.uuid), None)
        notes = "; ".join(reading.notes)
        if reading.gpus != 1:
            self._fail(queue, f"nvidia-smi lists {reading.gpus} GPUs in it instead of one. {notes}".rstrip(". "))
        elif gpu is None:
            given = reading.uuid or "a GPU without a UUID"
            self._fail(queue, f"it was given {given}, which is not one of the node's free GPUs")
        elif gpu.uuid in self._given:
            first = self._given[gpu.uuid]
            self._fail(queue, f"it was given {gpu.uuid}, which pod {first} had measured already and still holds")
        elif not reading.device:
            self._given[gpu.uuid] = queue.pod
            self._fail(queue, notes or "it reported no figures", gpu.uuid)
        else:
            self._given[gpu.uuid] = queue.pod
            self.measurements.append(Measurement(gpu, reading))
            self._next(queue)

    def _fail(self, queue: Queue, reason: str, uuid: str = "") -> None:
        self.failures.append(Failure(queue.place.node, queue.pod, reason, uuid))
        self._next(queue)

    def _stop(self, queue: Queue, reason: str) -> None:
        """What keeps this pod from running would keep the others from it, too."""
        if reason.startswith("Unschedulable"):
            # It was free a moment ago.
            queue.rest = "other pods took it in the meantime"
            queue.over = True
            self._own.delete_pod(queue.pod)
            return
        queue.over = True
        self._fail(queue, reason)
