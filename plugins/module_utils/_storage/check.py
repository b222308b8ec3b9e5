# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Run the pods that verify a claim; remove them and their data."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from .._cluster import objects
from .._cluster.api import Api, ApiError
from .._cluster.objects import Object
from .._cluster.pods import retry_pod
from .._cluster.waiting import StuckFor, until, until_gone
from .._cluster.watching import Watch
from .._errors import DomainError
from . import pods, volumes
from .pods import Measured, Settings, Trip

_REMOVAL = 60.0
_SHARED = (
    "Check that each node has the client of the file system, that the server exports the directory to the node's "
    "address and lets pods write there, and that no firewall is between them"
)
_OF_CLASS = "See kubectl --namespace {namespace} get events, and the log of the program that creates the volumes"


class Check:
    """One verification in one namespace."""

    def __init__(self, api: Api, settings: Settings) -> None:
        self._api, self._settings = api, settings
        self._lists: Api | Watch = api
        self._core = f"/api/v1/namespaces/{settings.namespace}"
        self._deadline = time.monotonic() + settings.timeout
        self._advice = _SHARED

    def verify(self, trips: Sequence[Trip], storage_class: str) -> list[dict[str, Any]]:
        """Return the result of each trip. Raise DomainError with the reason if a pod can't write or read."""
        if storage_class:
            self._advice = _OF_CLASS.format(namespace=self._settings.namespace)
        self._remove()
        try:
            for trip in trips:
                if trip.made:
                    made = pods.claim(self._settings, trip.claim, storage_class)
                    self._api.create(f"{self._core}/persistentvolumeclaims", made)
            written = self._measure({trip.claim: pods.writer(self._settings, trip) for trip in trips})
            wanted = {(t.claim, node): pods.reader(self._settings, t, node) for t in trips for node in t.readers}
            read = self._measure({f"{claim} {node}": body for (claim, node), body in wanted.items()})
            return [self._result(trip, written, read) for trip in trips]
        finally:
            self._remove()

    def _result(self, trip: Trip, written: Mapping[str, Measured], read: Mapping[str, Measured]) -> dict[str, Any]:
        found = {node: read[f"{trip.claim} {node}"] for node in trip.readers}
        for node, each in found.items():
            if each.checksum != written[trip.claim].checksum:
                raise DomainError(
                    f"Error while verifying the claim {self._settings.namespace}/{trip.claim}: a pod on {node} reads "
                    f"other data than a pod on {trip.writer} wrote. Do not use this volume until the cause is known."
                )
        size = self._settings.size_mib
        return {
            "claim": trip.claim,
            "writer": trip.writer,
            "write_mib_per_s": written[trip.claim].mib_per_s(size),
            # The node that wrote reads the data from its memory.
            "readers": {n: None if n == trip.writer else each.mib_per_s(size) for n, each in found.items()},
        }

    def _measure(self, bodies: Mapping[str, dict[str, Any]]) -> dict[str, Measured]:
        """Start pods and wait until all have printed their results."""
        for body in bodies.values():
            self._api.create(f"{self._core}/pods", body)
        names = {key: objects.name(body) for key, body in bodies.items()}
        done: dict[str, Measured] = {}
        troubles: dict[str, str] = {}
        stuck = StuckFor()

        def look() -> list[str]:
            found = {objects.name(pod): pod for pod in self._listed()}
            final = []
            for key in [key for key in bodies if key not in done]:
                pod = found.get(names[key])
                if pod and objects.could_not_freeze(pod) and names[key] == objects.name(bodies[key]):
                    names[key] = self._start_again(bodies[key])
                    watch.outdated()
                    continue
                result = pods.measured(self._log(names[key])) if pod else None
                if result:
                    done[key] = result
                    continue
                troubles[key], lasting = self._trouble(names[key], pod)
                if lasting:
                    final.append(key)
            return final

        def over(final: list[str]) -> bool:
            failed = any(objects.phase(pod) == "Failed" for pod in self._listed())
            return len(done) == len(bodies) or failed or stuck.exceeded(final, time.monotonic())

        with Watch(self._api) as watch:
            self._lists = watch
            until(look, over, max(0.0, self._deadline - time.monotonic()), watch=watch)
            look()
        self._lists = self._api
        missing = [key for key in bodies if key not in done]
        if missing:
            raise DomainError(
                f"Error while verifying storage in namespace {self._settings.namespace}: "
                f"{'; '.join(troubles[key] for key in missing)}. {self._advice}."
            )
        return done

    def _trouble(self, name: str, pod: Object | None) -> tuple[str, bool]:
        """Return (reason why a pod has no result, whether the reason is likely to persist)."""
        if pod is None:
            return f"pod {name} was deleted", True
        where = f"pod {name}" + (f" on {objects.node_of(pod)}" if objects.node_of(pod) else "")
        trouble = objects.trouble(pod, self._events(pod) if objects.phase(pod) == "Pending" else ())
        said = [line for line in self._log(name).splitlines() if line.strip() and "records" not in line]
        words = f": {said[-1].strip()}" if objects.phase(pod) == "Failed" and said else ""
        text = trouble.text if trouble else f"it has not reported ({objects.phase(pod)})"
        return f"{where}: {text}{words}", bool(trouble and trouble.final)

    def _start_again(self, body: dict[str, Any]) -> str:
        """Start the pod again under another name, and return that name."""
        self._api.delete(f"{self._core}/pods/{objects.name(body)}", gracePeriodSeconds="0")
        return objects.name(self._api.create(f"{self._core}/pods", retry_pod(body)))

    def _listed(self) -> list[dict[str, Any]]:
        return self._lists.items(f"{self._core}/pods", labelSelector=pods.SELECTOR)

    def _events(self, pod: Object) -> list[dict[str, Any]]:
        """Return the events of a pod and of its claim, which show why it has no volume."""
        claims, uid = volumes.claim_names(pod["spec"]), pod["metadata"]["uid"]
        kinds = ("Pod", "PersistentVolumeClaim") if claims else ("Pod",)
        found = []
        for kind in kinds:
            for event in self._lists.items(f"{self._core}/events", fieldSelector=f"involvedObject.kind={kind}"):
                about = event.get("involvedObject") or {}
                if about.get("uid") == uid if kind == "Pod" else about.get("name") in claims:
                    found.append(event)
        return found

    def _log(self, pod: str) -> str:
        # A container that has not started has no log.
        with contextlib.suppress(ApiError):
            return self._api.text(f"{self._core}/pods/{pod}/log", tailLines="50")
        return ""

    def _remove(self) -> None:
        """Delete the pods, then the check's claims with their data; a writer removes its data when it ends."""
        for pod in self._listed():
            self._api.delete(f"{self._core}/pods/{objects.name(pod)}")
        for pod in until_gone(self._listed, _REMOVAL):
            self._api.delete(f"{self._core}/pods/{objects.name(pod)}", gracePeriodSeconds="0")
        claims = f"{self._core}/persistentvolumeclaims"
        for found in self._api.items(claims, labelSelector=pods.SELECTOR):
            volume = found["spec"].get("volumeName")
            if volume:
                path = f"/api/v1/persistentvolumes/{volume}"
                self._api.merge(path, {"spec": {"persistentVolumeReclaimPolicy": "Delete"}})
            self._api.delete(f"{claims}/{objects.name(found)}")
            if volume and until_gone(partial(self._api.find, path), _REMOVAL):
                raise DomainError(
                    f"Error while removing the volume {volume} of the verification: it is still there after "
                    f"{_REMOVAL:.0f} s. See kubectl describe pv {volume}"
                )
