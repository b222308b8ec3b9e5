# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Wait for a rollout and explain what is missing."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Sequence

from .._errors import DomainError
from . import objects, operator, rollout
from .api import Api, ApiError
from .rollout import Missing, Seen, Wanted
from .waiting import StuckFor, until
from .watching import Watch

# A plugin that has just started reports its GPUs as unhealthy for a moment.
UNHEALTHY_FOR = 15.0
_LOG_LINES = "8"


class End:
    """Decides when to stop waiting: the state was as wanted for ``settle`` seconds, or something is stuck."""

    def __init__(self, wanted: Wanted, settle: float = 0) -> None:
        self._wanted = wanted
        self._stuck, self._unhealthy, self._stable = StuckFor(), StuckFor(UNHEALTHY_FOR), StuckFor(settle)

    def reached(self, found: Sequence[Missing], now: float) -> bool:
        """Return whether to stop; call this after each look. ``found`` is missing at ``now``, a time in seconds."""
        acceptable = rollout.acceptable(self._wanted, found)
        # Identified by pod, because the text changes (ErrImagePull, ImagePullBackOff).
        final = {f"{entry.node} {entry.pod or entry.text}": entry.backoff for entry in found if entry.final}
        stuck = self._stuck.exceeded(final, now, final)
        # GPUs seem unhealthy until their plugin runs, so only the time after that counts.
        unhealthy = self._unhealthy.exceeded((entry.node for entry in found if acceptable), now)
        stable = self._stable.exceeded(["acceptable"] if acceptable else [], now)
        return stuck or (stable and (unhealthy or not found))


class Waiter:
    """Observes a namespace until the wanted state is reached."""

    def __init__(self, api: Api, namespace: str, wanted: Wanted) -> None:
        self._api = api
        self._namespace = namespace
        self._wanted = wanted
        self._seen = Seen()
        self._lists: Api | Watch = api

    def look(self) -> list[Missing]:
        """Return what is missing now."""
        self._seen = self._look()
        policy = self._wanted.cluster_policy
        gpu_nodes = {name for name, amounts in self._wanted.allocatable.items() if any(amounts.values())}
        operands = operator.missing(policy, self._seen, gpu_nodes, set(self._wanted.nodes)) if policy else []
        return [*operands, *rollout.missing(self._wanted, self._seen)]

    def wait(self, timeout: float, settle: float = 0) -> list[Missing]:
        """Wait, and return the tolerated differences. Raise DomainError with everything that is missing."""
        started, end = time.monotonic(), End(self._wanted, settle)
        # Outages of the API do not count, because changes during them are unknown.
        clock = self._api.clock
        with Watch(self._api) as watch:
            self._lists = watch
            found = until(self.look, lambda found: end.reached(found, clock()), timeout, clock, watch=watch)
        if rollout.acceptable(self._wanted, found):
            return found
        waited = f"{time.monotonic() - started:.0f} s"
        message = f"Error while waiting for {self._namespace} ({waited})"
        if self._wanted.cluster_policy:
            message = (
                f"Error while waiting for the GPU Operator ({waited}), ClusterPolicy {self._wanted.cluster_policy}"
            )
        text, missing = f"{message}:\n{self.explain(found)}", [entry.fields() for entry in found]
        raise DomainError(text, missing=missing, inconclusive=self._lacks_images(found))

    def _lacks_images(self, found: Sequence[Missing]) -> bool:
        """Return whether all differences are pods whose images can't be pulled."""
        troubles = {objects.name(pod): objects.trouble(pod) for pod in self._seen.pods}
        found_troubles = [troubles.get(entry.pod) for entry in found]
        return all(trouble and trouble.text.startswith(objects.PULL_REASONS) for trouble in found_troubles)

    def explain(self, found: Sequence[Missing]) -> str:
        """Return the differences as text, each with the last lines of its pod's log."""
        lines: list[str] = []
        for entry in found:
            lines.append(f"- {entry}")
            lines += [f"    {line}" for line in self._log(entry.pod)]
        return "\n".join(lines)

    def _look(self) -> Seen:
        core, apps = f"/api/v1/namespaces/{self._namespace}", f"/apis/apps/v1/namespaces/{self._namespace}"
        leases = f"/apis/coordination.k8s.io/v1/namespaces/{self._namespace}/leases"
        wanted, policy, items = self._wanted, bool(self._wanted.cluster_policy), self._lists.items
        return Seen(
            nodes=items("/api/v1/nodes") if wanted.nodes or wanted.allocatable else (),
            policies=self._policies() if policy else (),
            daemonsets=items(f"{apps}/daemonsets") if policy or wanted.daemonsets else (),
            deployments=items(f"{apps}/deployments") if policy or wanted.deployments else (),
            pods=items(f"{core}/pods"),
            events=items(f"{core}/events", fieldSelector="involvedObject.kind=Pod"),
            leases=items(leases, fieldSelector=f"metadata.name={operator.LEASE}") if policy else (),
        )

    def _policies(self) -> Sequence[objects.Object]:
        """Return the policies, empty if the cluster does not have this kind."""
        try:
            return self._lists.items(operator.POLICIES)
        except ApiError as error:
            if error.status != 404:
                raise
            return ()

    def _log(self, pod: str) -> list[str]:
        """Return the last lines of a container that is not ready, from its previous run if this one has no output."""
        path = f"/api/v1/namespaces/{self._namespace}/pods/{pod}/log"
        for container in self._containers(pod) or [{}] if pod else ():
            for previous in ("false", "true"):
                with contextlib.suppress(ApiError):
                    text = self._api.text(path, tailLines=_LOG_LINES, previous=previous, **container)
                    if text.strip():
                        where = "".join(f", container {name}" for name in container.values())
                        return [f"log of pod {pod}{where}:", *text.splitlines()]
        return []

    def _containers(self, name: str) -> list[dict[str, str]]:
        """Return the containers that are not ready, as queries; without one the API uses a pod's only container."""
        return [
            {"container": each["name"]}
            for pod in self._seen.pods
            if objects.name(pod) == name
            for each in objects.container_statuses(pod)
            if not each.get("ready") and ((each.get("state") or {}).get("terminated") or {}).get("exitCode") != 0
        ]
