# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A node taken out of use for work on its GPUs, and given back as it was.

All that a later run has to know stands in an annotation of the node, written together with the cordon: so whatever
interrupts the work, the next run knows how the node was before, and goes on.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from . import nodes
from .api import Api
from .drain import DrainError, drain, pods_on, refuse_unmanaged, to_evict
from .objects import Object, full_name
from .waiting import until_gone

PREFIX = "gpulab.io"
PAUSED = "paused-for-driver-upgrade"


@dataclass
class Record:
    """``cordoned`` is how the node was before; ``labels`` holds former values, None for a label that was not there."""

    cordoned: bool = False
    labels: dict[str, str | None] = field(default_factory=dict)
    data: dict[str, Any] = field(default_factory=dict)
    failure: str = ""


@dataclass(frozen=True)
class Plan:
    """``labels`` are set; those that begin with ``pause_prefix`` and are "true" say paused; ``leaving`` are DaemonSets
    (NAMESPACE/NAME) whose pods leave the node for that."""

    drain: bool = False
    labels: Mapping[str, str] = field(default_factory=dict)
    pause_prefix: str = ""
    leaving: Sequence[str] = ()
    timeout: float = 600


def read_record(text: str | None) -> Record | None:
    """The record in an annotation; one that somebody has edited beyond recognition says that the node was in use."""
    if not text:
        return None
    try:
        found = json.loads(text)
        return Record(**{key: found[key] for key in ("cordoned", "labels", "data", "failure") if key in found})
    except (ValueError, TypeError):
        return Record()


class Maintenance:
    """The work called ``purpose`` on one node."""

    def __init__(self, api: Api, node: str, purpose: str, check: bool) -> None:
        self._api = api
        self._name = node
        self._path = nodes.path(node)
        self._key = f"{PREFIX}/{purpose}"
        self._check = check
        self._node: Object = api.get(self._path)
        self.record = read_record(nodes.annotations_of(self._node).get(self._key))
        self.changed = False
        self.evicted: list[str] = []

    @property
    def _cordoned(self) -> bool:
        return nodes.cordoned(self._node)

    @property
    def _labels(self) -> Mapping[str, str]:
        return nodes.labels_of(self._node)

    def begin(self, data: Mapping[str, Any], plan: Plan) -> None:
        """Cordon, drain, let the DaemonSets' pods leave. Raises DrainError, after which a new beginning is undone."""
        fresh = self.record is None
        record = self.record or Record(self._cordoned)
        record.data = {**data, **record.data}
        record.failure = ""
        self._write(record, cordon=True)
        try:
            if plan.drain:
                self._drain(plan.timeout)
        except DrainError:
            if fresh:
                self.end()
            raise
        self._relabel(record, self._wanted_labels(plan))
        if plan.leaving and not self._check:
            self._wait_until_gone(plan)

    def prove(self) -> None:
        """Let the DaemonSets' pods return; the node stays cordoned."""
        if self.record:
            self._relabel(self.record, dict(self.record.labels))

    def fail(self, failure: str) -> None:
        """Leave the node cordoned, with the reason."""
        record = self.record or Record(self._cordoned)
        record.failure = failure
        self._write(record, cordon=True)
        self._relabel(record, dict(record.labels))

    def end(self) -> None:
        """Give the node back as it was."""
        if self.record:
            self.prove()
            self._write(None, cordon=self.record.cordoned)

    def _drain(self, timeout: float) -> None:
        if self._check:
            waiting = to_evict(pods_on(self._api, self._name))
            refuse_unmanaged(self._name, waiting)
            self.evicted = [full_name(pod) for pod in waiting]
        else:
            self.evicted = drain(self._api, self._name, timeout)
        self.changed |= bool(self.evicted)

    def _write(self, record: Record | None, cordon: bool) -> None:
        text = None if record is None else json.dumps(asdict(record), sort_keys=True)
        annotations = nodes.annotations_of(self._node)
        self.record = record
        if annotations.get(self._key) != text or self._cordoned != cordon:
            self._merge({"metadata": {"annotations": {self._key: text}}, "spec": {"unschedulable": cordon or None}})

    def _wanted_labels(self, plan: Plan) -> dict[str, str | None]:
        paused = (
            {name for name, value in self._labels.items() if name.startswith(plan.pause_prefix) and value == "true"}
            if plan.pause_prefix
            else set()
        )
        return {**plan.labels, **dict.fromkeys(paused, PAUSED)}

    def _relabel(self, record: Record, wanted: Mapping[str, str | None]) -> None:
        """Set labels and note what they were, in one step."""
        differing = {name: value for name, value in wanted.items() if self._labels.get(name) != value}
        if not differing:
            return
        record.labels = {**{name: self._labels.get(name) for name in differing}, **record.labels}
        text = json.dumps(asdict(record), sort_keys=True)
        self._merge({"metadata": {"labels": differing, "annotations": {self._key: text}}})

    def _merge(self, body: dict[str, Any]) -> None:
        self.changed = True
        if not self._check:
            self._node = self._api.merge(self._path, body)

    def _wait_until_gone(self, plan: Plan) -> None:
        left = until_gone(
            lambda: [full_name(pod) for pod in pods_on(self._api, self._name) if _daemonset(pod) in plan.leaving],
            plan.timeout,
        )
        if left:
            raise DrainError(
                f"Error while emptying node {self._name}: after {plan.timeout:g} s these pods still hold its GPUs: "
                f"{', '.join(left)}. See kubectl describe pod"
            )


def _daemonset(pod: Object) -> str:
    """NAMESPACE/NAME of the DaemonSet that a pod is of, empty for others."""
    owners = pod["metadata"].get("ownerReferences") or []
    names = [owner["name"] for owner in owners if owner.get("controller") and owner["kind"] == "DaemonSet"]
    return f"{pod['metadata'].get('namespace', 'default')}/{names[0]}" if names else ""
