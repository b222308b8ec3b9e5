# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Waits for the GPU Operator: the loop around the judgement in _gpu_operator_state."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Sequence

from . import objects
from .api import Api, ApiError
from .operator import Seen, missing
from .rollout import Missing
from .rollout_wait import PATIENCE, Patience, pauses

POLICIES = "/apis/nvidia.com/v1/clusterpolicies"
_LOG_LINES = "8"


class Waiter:
    """Looks at one ClusterPolicy, and at the namespace where its operands are, until it is ready."""

    def __init__(self, api: Api, namespace: str, policy: str, patience: float = PATIENCE) -> None:
        self._api = api
        self._namespace = namespace
        self._policy = policy
        self._patience = patience
        self._seen = Seen()

    def wait(self, timeout: float, settle: float = 0) -> list[Missing]:
        """What is missing when it has been ready for ``settle`` seconds (nothing), or the time or the hope is over."""
        deadline = time.monotonic() + timeout
        patience, calm = Patience(self._patience), Patience(settle)
        for pause in pauses():
            self._seen = self._look()
            found = missing(self._policy, self._seen)
            now = time.monotonic()
            hopeless = patience.lost((f"{entry.node} {entry.text}" for entry in found if entry.final), now)
            if calm.lost([] if found else ["ready"], now) or now >= deadline or hopeless:
                break
            time.sleep(pause)
        return found

    def explain(self, found: Sequence[Missing]) -> str:
        """The missing things as text, each with the last lines of its pod's log."""
        lines: list[str] = []
        for entry in found:
            lines.append(f"- {entry}")
            lines += [f"    {line}" for line in self._log(entry.pod)]
        return "\n".join(lines)

    def _look(self) -> Seen:
        core, apps = f"/api/v1/namespaces/{self._namespace}", f"/apis/apps/v1/namespaces/{self._namespace}"
        return Seen(
            policies=(self._api.find(POLICIES) or {}).get("items") or [],
            daemonsets=self._api.items(f"{apps}/daemonsets"),
            deployments=self._api.items(f"{apps}/deployments"),
            pods=self._api.items(f"{core}/pods"),
            events=self._api.items(f"{core}/events", fieldSelector="involvedObject.kind=Pod"),
        )

    def _log(self, pod: str) -> list[str]:
        """The last lines of the container that holds a pod up, of its last life when the present one is silent."""
        path = f"/api/v1/namespaces/{self._namespace}/pods/{pod}/log"
        for container in self._containers(pod):
            for previous in ("false", "true"):
                with contextlib.suppress(ApiError):
                    text = self._api.text(path, tailLines=_LOG_LINES, previous=previous, container=container)
                    if text.strip():
                        return [f"log of pod {pod}, container {container}:", *text.splitlines()]
        return []

    def _containers(self, wanted: str) -> Iterator[str]:
        for pod in self._seen.pods:
            status = pod.get("status") or {}
            for each in [*(status.get("initContainerStatuses") or []), *(status.get("containerStatuses") or [])]:
                done = (each.get("state") or {}).get("terminated") or {}
                if objects.name(pod) == wanted and not each.get("ready") and done.get("exitCode") != 0:
                    yield each["name"]
