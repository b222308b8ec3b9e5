# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A namespace that exists only while a module runs, and the pods in it.

The run that uses it renews an annotation. Another run does not touch it while it is renewed, and removes what a killed
run has left. Only changes of the annotation are compared, so clocks need not agree.
"""

from __future__ import annotations

import contextlib
import getpass
import platform
import threading
from collections.abc import Iterator
from datetime import datetime, timezone
from typing import Any

from .._errors import DomainError
from . import objects
from .api import Api, ApiError
from .objects import OWNER, OWNER_LABEL, Object
from .waiting import until, until_gone
from .watching import Watch

_REMOVAL = 120
# A run renews its namespace this often, and is dead if it did not in two of these periods; a restart of the API, which
# prevents renewals, takes up to one period.
_RENEWAL, _SILENCE = 5.0, 30.0
_HOLDER, _RENEWED = "gpulab.io/holder", "gpulab.io/renewed"
_GONE, _CONFLICT = 404, 409
# Pods on an unreachable node stay until they are deleted by force.
_RELEASE = 30


class OwnNamespace:
    """The namespace. ``part`` is the value of a label for its use, ``variable`` the variable with its name.

    ``holder`` is who uses it, by default the user and host of this process.
    """

    def __init__(self, api: Api, name: str, part: str, variable: str, holder: str = "") -> None:
        self._api, self._variable, self._holder = api, variable, holder or _process()
        self.name, self.path = name, f"/api/v1/namespaces/{name}"
        self.labels = {OWNER_LABEL: OWNER, "app.kubernetes.io/part-of": part}
        self._uid = ""
        self._watch: Watch | None = None
        # Events by pod UID.
        self._events: dict[str, list[Object]] | None = None

    @contextlib.contextmanager
    def created(self) -> Iterator[None]:
        """Create the namespace, and remove it afterwards, even after a failure.

        Remains of a dead run are removed first. Raise DomainError if another run uses the namespace.
        """
        self._remove_left_over()
        # The pods need no more rights than an ordinary user's pods.
        labels = {**self.labels, "pod-security.kubernetes.io/enforce": "baseline"}
        metadata = {"name": self.name, "labels": labels, "annotations": self._annotations()}
        try:
            made = self._api.create(
                "/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}
            )
        except ApiError as error:
            if error.status != _CONFLICT:
                raise
            raise self._in_use(self._find() or {}) from None
        self._uid = made["metadata"]["uid"]
        ended = threading.Event()
        threading.Thread(target=self._renew, args=(ended,), daemon=True).start()
        try:
            yield
        finally:
            try:
                self._release()
            finally:
                ended.set()

    @contextlib.contextmanager
    def watched(self) -> Iterator[Watch]:
        """Read pods and their problems from a watch inside the ``with`` statement."""
        with Watch(self._api) as self._watch:
            try:
                yield self._watch
            finally:
                self._watch = None

    @property
    def taken_over(self) -> bool:
        """Return whether another run has replaced the namespace."""
        found = self._api.find(self.path)
        return found is None or found["metadata"]["uid"] != self._uid

    def create(self, body: Object) -> None:
        """Create a Pod, a Service or a ConfigMap."""
        self._outdated()
        self._api.create(f"{self.path}/{body['kind'].lower()}s", dict(body))

    def delete_pod(self, name: str, **query: str) -> None:
        self._outdated()
        self._api.delete(f"{self.path}/pods/{name}", **query)

    def pods(self) -> dict[str, Object]:
        """Return the current pods by name; ``trouble`` refers to them."""
        self._events = None
        return {objects.name(pod): pod for pod in self._items(f"{self.path}/pods")}

    def trouble(self, pod: Object) -> objects.Trouble | None:
        """Return what keeps a pod from running, None if unknown."""
        if objects.phase(pod) == "Pending" and self._events is None:
            listed = self._items(f"{self.path}/events", fieldSelector="involvedObject.kind=Pod")
            self._events = objects.grouped(listed, objects.subject)
        return objects.trouble(pod, (self._events or {}).get(pod["metadata"]["uid"], ()))

    def log(self, pod: str, container: str, patience: float | None = None, **query: str) -> str:
        """Return a container's output. ``patience``: make only one request, with this limit in seconds."""
        query = {"container": container, "tailLines": "200", **query}
        # A container that has not started has no log.
        with contextlib.suppress(ApiError):
            path = f"{self.path}/pods/{pod}/log"
            return self._api.text_within(patience, path, **query) if patience else self._api.text(path, **query)
        return ""

    def _items(self, path: str, **query: str) -> list[dict[str, Any]]:
        return (self._watch or self._api).items(path, **query)

    def _outdated(self) -> None:
        """Mark the watch as outdated. Call this before a request, which may change something even if it fails."""
        if self._watch:
            self._watch.outdated()

    def _renew(self, ended: threading.Event) -> None:
        """Renew the annotation until the run has ended."""
        while not ended.wait(_RENEWAL):
            with contextlib.suppress(ApiError):
                # The API rejects this if the namespace has been replaced.
                metadata = {"uid": self._uid, "annotations": self._annotations()}
                self._api.merge(self.path, {"metadata": metadata})

    def _release(self) -> None:
        """Delete this run's pods, which frees the GPUs, and its namespace; the next run waits until that is gone."""
        there = self._find()
        if there and there["metadata"]["uid"] == self._uid:
            # A pod that its kubelet has ended is gone; one deleted by force could still hold its GPU.
            self._api.delete(f"{self.path}/pods", gracePeriodSeconds="1")
            with self.watched() as watch:
                until_gone(self.pods, _RELEASE, watch)
            self._delete(there)

    def _remove_left_over(self) -> None:
        """Remove the namespace of a dead run. Raise DomainError if another run is alive."""
        there = self._find()
        if there and not _ending(there):
            first = there
            for _period in range(2):
                there = until(self._find, lambda found: not found or _ending(found), _SILENCE)
            if there and not _ending(there):
                if _sign(there) != _sign(first):
                    raise self._in_use(there)
                self._claim(there)
                self._delete(there)
        left = there
        if left and until_gone(lambda: self._is_still_there(left), _REMOVAL):
            raise DomainError(
                f"Error while removing namespace {self.name}: it is still there after {_REMOVAL} s."
                f" See kubectl get all,events --namespace {self.name}"
            )

    def _claim(self, there: Object) -> None:
        """Ensure that only one of several runs removes the namespace."""
        metadata = {"resourceVersion": there["metadata"].get("resourceVersion"), "annotations": self._annotations()}
        try:
            self._api.merge(self.path, {"metadata": metadata})
        except ApiError as error:
            if error.status == _CONFLICT:
                raise self._in_use(self._find() or there) from None
            if error.status != _GONE:
                raise

    def _delete(self, there: Object) -> None:
        """Delete the namespace with its content, unless it has been replaced."""
        if self._is_still_there(there):
            self._api.delete(f"{self.path}/pods", gracePeriodSeconds="0")
            self._api.delete(self.path)

    def _is_still_there(self, there: Object) -> bool:
        found = self._api.find(self.path)
        return found is not None and found["metadata"]["uid"] == there["metadata"]["uid"]

    def _find(self) -> Object | None:
        """Return the namespace, None if there is none. Raise DomainError if it was created for something else."""
        found = self._api.find(self.path)
        if found is None:
            return None
        labels = found["metadata"].get("labels") or {}
        missing = [f"{key}={value}" for key, value in self.labels.items() if labels.get(key) != value]
        if missing:
            # Other namespaces of this collection must not be deleted here.
            raise DomainError(
                f"Error while preparing namespace {self.name}: it exists but was created for something else (no label "
                f"{', '.join(missing)}). Nothing was changed. Choose another with {self._variable}."
            )
        return found

    def _annotations(self) -> dict[str, str]:
        return {_HOLDER: self._holder, _RENEWED: datetime.now(timezone.utc).isoformat()}

    def _in_use(self, there: Object) -> DomainError:
        metadata = there.get("metadata") or {}
        told = str((metadata.get("annotations") or {}).get(_HOLDER) or "another run")[:100]
        holder = "".join(letter if letter.isprintable() else "?" for letter in told)
        return DomainError(
            f"Error while preparing namespace {self.name}: {holder} has been using it since "
            f"{metadata.get('creationTimestamp', 'a moment ago')}. Only one run can use it at a time. Nothing was "
            "changed. Wait until that run has ended, and run this again."
        )


def _process() -> str:
    """Return user and host of this process."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError, ImportError):
        user = "an unknown user"
    return f"{user}@{platform.node()}"


def _ending(namespace: Object) -> bool:
    return bool(namespace["metadata"].get("deletionTimestamp"))


def _sign(namespace: Object) -> tuple[str, str]:
    """Return a value that changes while a run uses the namespace."""
    metadata = namespace["metadata"]
    return metadata["uid"], (metadata.get("annotations") or {}).get(_RENEWED, "")
