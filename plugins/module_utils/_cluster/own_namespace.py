# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A namespace that exists only while a module runs, and the pods in it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from .._errors import DomainError
from . import objects
from .api import Api, ApiError
from .objects import OWNER, OWNER_LABEL, Object
from .waiting import until_gone

_REMOVAL = 120
# Pods on a node that does not answer stay until they are deleted by force.
_RELEASE = 30


class OwnNamespace:
    """``part`` names what the namespace is for (a label), ``variable`` the variable that sets its name."""

    def __init__(self, api: Api, name: str, part: str, variable: str) -> None:
        self._api, self._variable = api, variable
        self.name, self.path = name, f"/api/v1/namespaces/{name}"
        self.labels = {OWNER_LABEL: OWNER, "app.kubernetes.io/part-of": part}
        self._uid = ""

    @contextlib.contextmanager
    def created(self) -> Iterator[None]:
        """Remove what an earlier run left, create the namespace, and remove it afterwards, even after a failure."""
        self._remove()
        # Its pods need no rights that an ordinary user's pods don't have.
        labels = {**self.labels, "pod-security.kubernetes.io/enforce": "baseline"}
        body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": self.name, "labels": labels}}
        self._uid = self._api.create("/api/v1/namespaces", body)["metadata"]["uid"]
        try:
            yield
        finally:
            self._release()

    @property
    def taken_over(self) -> bool:
        """Whether another run has replaced the namespace since."""
        found = self._api.find(self.path)
        return found is None or found["metadata"]["uid"] != self._uid

    def create(self, body: Object) -> None:
        """Create a Pod, a Service or a ConfigMap."""
        self._api.create(f"{self.path}/{body['kind'].lower()}s", dict(body))

    def delete_pod(self, name: str, **query: str) -> None:
        self._api.delete(f"{self.path}/pods/{name}", **query)

    def pods(self) -> dict[str, Object]:
        """The pods by name."""
        return {objects.name(pod): pod for pod in self._api.items(f"{self.path}/pods")}

    def trouble(self, pod: Object) -> objects.Trouble | None:
        """What keeps a pod from running, None if nothing is known."""
        return objects.trouble(pod, self._events(pod) if objects.phase(pod) == "Pending" else ())

    def log(self, pod: str, container: str, patience: float | None = None, **query: str) -> str:
        """What a container printed. ``patience``: ask only once, for so many seconds."""
        query = {"container": container, "tailLines": "200", **query}
        # A container that has not started has no log yet.
        with contextlib.suppress(ApiError):
            path = f"{self.path}/pods/{pod}/log"
            return self._api.text_within(patience, path, **query) if patience else self._api.text(path, **query)
        return ""

    def _events(self, pod: Object) -> list[dict[str, Any]]:
        return self._api.items(f"{self.path}/events", fieldSelector=f"involvedObject.uid={pod['metadata']['uid']}")

    def _release(self) -> None:
        """Delete what this run has made. The GPUs are free then; the next run waits for the end of the namespace."""
        if self._exists():
            # A pod that a kubelet has ended is gone; one that was deleted by force could still hold its GPU.
            self._api.delete(f"{self.path}/pods", gracePeriodSeconds="1")
            until_gone(lambda: self._api.items(f"{self.path}/pods"), _RELEASE)
            self._remove(wait=False)

    def _remove(self, wait: bool = True) -> None:
        """Delete the namespace with all that is in it, and wait until it is gone."""
        if not self._exists():
            return
        self._api.delete(f"{self.path}/pods", gracePeriodSeconds="0")
        self._api.delete(self.path)
        if wait and until_gone(self._exists, _REMOVAL):
            raise DomainError(
                f"Error while removing namespace {self.name}: it is still there after {_REMOVAL} s."
                f" See kubectl get all,events --namespace {self.name}"
            )

    def _exists(self) -> bool:
        """Whether the namespace of this run is there, or before a run one that an earlier run left."""
        found = self._api.find(self.path)
        if found is None or self._uid not in ("", found["metadata"]["uid"]):
            return False
        labels = found["metadata"].get("labels") or {}
        missing = [f"{key}={value}" for key, value in self.labels.items() if labels.get(key) != value]
        if missing:
            # Other parts of this collection have namespaces, too, which must not be deleted here.
            raise DomainError(
                f"Error while preparing namespace {self.name}: it exists but was created for something else (no label "
                f"{', '.join(missing)}). Nothing was changed. Choose another with {self._variable}."
            )
        return True
