# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Waits for a rollout: the loop around the judgement in _rollout."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterable, Iterator, Sequence

from .api import Api, ApiError
from .rollout import Missing, Seen, Wanted, missing

# How long a trouble that seldom ends by itself is watched before it is taken for good, in seconds.
PATIENCE = 60.0
# A plugin that has just started calls its GPUs unhealthy for a moment.
UNHEALTHY_FOR = 15.0
_LOG_LINES = "8"


class Patience:
    """Remembers since when each troubled thing has been so; what it says about it may change meanwhile."""

    def __init__(self, limit: float = PATIENCE) -> None:
        self._limit = limit
        self._since: dict[str, float] = {}

    def lost(self, troubled: Iterable[str], now: float) -> bool:
        """Whether one of them has been in trouble for too long."""
        self._since = {name: self._since.get(name, now) for name in troubled}
        return any(now - since >= self._limit for since in self._since.values())


def pauses() -> Iterator[float]:
    """Seconds between looks: short at first, for what is there in a moment, then a second each."""
    pause = 0.1
    while True:
        yield pause
        pause = min(1.0, pause * 2)


class Waiter:
    """Looks at one namespace until what is wanted is there."""

    def __init__(self, api: Api, namespace: str, wanted: Wanted, tolerate_unhealthy: bool = False) -> None:
        self._tolerate = tolerate_unhealthy
        self._api = api
        self._namespace = namespace
        self._wanted = wanted

    def wait(self, timeout: float) -> list[Missing]:
        """What is missing when everything is there (nothing), or the time or the hope is over."""
        deadline = time.monotonic() + timeout
        patience, sick = Patience(), Patience(UNHEALTHY_FOR)
        for pause in pauses():
            found = missing(self._wanted, self._look())
            now = time.monotonic()
            hopeless = patience.lost((f"{entry.node} {entry.pod}" for entry in found if entry.final), now)
            settled = sick.lost((entry.node for entry in found if entry.unhealthy), now) and self.tolerable(found)
            if not found or now >= deadline or hopeless or settled:
                break
            time.sleep(pause)
        return found

    def tolerable(self, found: Sequence[Missing]) -> bool:
        """Whether it's nothing but unhealthy GPUs, and these are for others to judge."""
        return self._tolerate and all(entry.unhealthy for entry in found)

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
            nodes=self._api.items("/api/v1/nodes"),
            daemonsets=self._api.items(f"{apps}/daemonsets") if self._wanted.daemonsets else (),
            deployments=self._api.items(f"{apps}/deployments") if self._wanted.deployments else (),
            pods=self._api.items(f"{core}/pods"),
            events=self._api.items(f"{core}/events", fieldSelector="involvedObject.kind=Pod"),
        )

    def _log(self, pod: str) -> list[str]:
        """The last lines of a pod's log, of its last life when the present one has said nothing."""
        path = f"/api/v1/namespaces/{self._namespace}/pods/{pod}/log"
        for previous in ("false", "true") if pod else ():
            with contextlib.suppress(ApiError):
                text = self._api.text(path, tailLines=_LOG_LINES, previous=previous)
                if text.strip():
                    return [f"log of pod {pod}:", *text.splitlines()]
        return []
