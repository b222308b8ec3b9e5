# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Shorten the time without an API while kubeadm replaces the static pods of this host.

An API server whose etcd has stopped keeps its port open, and lets each request wait for 34 s; among them is one of the
kubelet, before which it does not start the new etcd. Afterwards, it waits longer and longer before it connects again.
A new one connects at once. When its own manifest is replaced, it waits for clients that watch.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from .._errors import DomainError
from .._files import read_text, under
from .differences import manifest_of
from .manifests import API_SERVER, ETCD, probe
from .static_pods import StaticPods

_INTERVAL = 0.5


class Hastener:
    """Ends the API server of this host when its etcd has stopped because of a new manifest, or itself."""

    def __init__(self, root: str, pods: StaticPods) -> None:
        self._root, self._pods = root, pods
        self._texts = {name: self._text(name) for name in (ETCD, API_SERVER)}
        self._replaced: set[str] = set()

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
        """End the API server if one of the two has closed its port since its manifest was replaced."""
        for name, before in self._texts.items():
            text = self._text(name)
            if text and text != before:
                self._texts[name] = text
                self._replaced.add(name)
            if name in self._replaced and self._pods.reason(name, probe(self._texts[name], name)):
                is_old = name == ETCD or self._pods.is_stale(name, [under(self._root, manifest_of(name))])
                if is_old:
                    self._pods.restart(API_SERVER)
                self._replaced.discard(name)

    def _text(self, name: str) -> str:
        return read_text(under(self._root, manifest_of(name))) or ""
