# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Shorten the time without an API while kubeadm replaces the static pods of this host.

An API server whose etcd has stopped keeps its port open, and lets requests wait for up to 34 s. The kubelet sends one,
and starts the new etcd only after it was answered. Without an API server, the request fails at once. When the manifest
of the API server itself is replaced, the former server waits up to 30 s for clients that watch.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from .._errors import DomainError
from .._files import read_text, under
from .differences import manifest_of
from .manifests import API_SERVER, ETCD, probe
from .static_pods import StaticPods

_INTERVAL = 0.5
# If the new etcd does not start in this time, in seconds, something else is wrong.
_LIMIT = 60.0


class Hastener:
    """Ends the API server of this host when its manifest was replaced, and while a new etcd has not started."""

    def __init__(self, root: str, pods: StaticPods) -> None:
        self._root, self._pods = root, pods
        self._texts = {name: self._text(name) for name in (ETCD, API_SERVER)}
        # When the manifests were last seen as they are in _texts, in seconds since 1970.
        self._seen = time.time()
        # Since when a component has a new container if its manifest was replaced, and until when that is awaited.
        self._awaited: dict[str, tuple[float, float]] = {}

    @contextmanager
    def running(self) -> Iterator[None]:
        """Watch the manifests during the block, in a thread."""
        ended = threading.Event()
        thread = threading.Thread(target=self._watch, args=[ended], daemon=True)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()

    def _watch(self, ended: threading.Event) -> None:
        while not ended.wait(_INTERVAL):
            # The container runtime may be busy.
            with suppress(DomainError, OSError):
                self.look()

    def look(self) -> None:
        """Compare the manifests with those of the last time, and end the API server if it would only delay others."""
        now = time.time()
        for name, before in self._texts.items():
            text = self._text(name)
            if text and text != before:
                self._awaited[name] = (self._seen, time.monotonic() + _LIMIT)
                self._texts[name] = text
        self._seen = now
        for name in [*self._awaited]:
            if self._is_replaced(name):
                del self._awaited[name]
            else:
                # A new API server may have started meanwhile.
                self._pods.restart(API_SERVER, self._awaited[name][0] if name == API_SERVER else None)

    def _is_replaced(self, name: str) -> bool:
        since, until = self._awaited[name]
        if time.monotonic() > until:
            return True
        runs = any(each.running and each.created > since for each in self._pods.containers(name))
        return runs and (name == API_SERVER or not self._pods.reason(name, probe(self._texts[name], name)))

    def _text(self, name: str) -> str:
        return read_text(under(self._root, manifest_of(name))) or ""
