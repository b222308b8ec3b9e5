# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Restart the static pods of a control plane, and wait until their containers run and are healthy.

A container is new if it was created after the files that it reads were written. Therefore, a run that follows an
interrupted one sees the same.
"""

from __future__ import annotations

import http.client
import os
import socket
import ssl
import time
from collections.abc import Iterable, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from .._command import Runner
from .._errors import DomainError
from .._files import read_text, under
from .._json import as_mapping, as_mappings, as_text, read_object
from .._systemd import is_active
from .damage import COMPONENTS
from .kubeconfig import Kubeconfig, KubeconfigError, host_port, read_kubeconfig
from .leftovers import is_of_kubernetes
from .manifests import API_SERVER, ETCD, Probe
from .probe import Api, ApiRefusedError, ApiSilentError
from .text import mask

_RUNNING, _EXITED = "CONTAINER_RUNNING", "CONTAINER_EXITED"
_INTERVAL = 0.5
# How often a component may end while it is awaited, such as while another one that it needs restarts.
_ENDS = 2
_LINES, _LONGEST_LINE = 15, 300
_GRACE = 30
# The API server closes its port at once, but waits up to 60 s for clients that watch, which only prolongs the gap.
_API_SERVER_GRACE = 3
# A container from before a change may be ending: it is healthy if it still is after this time, in seconds.
_STEADY = 2.0
_STOP_LIMIT = _GRACE + 60


class UnhealthyError(DomainError):
    """A component is not healthy within the time limit. The message is the end of a sentence."""


@dataclass(frozen=True)
class Container:
    """A container of a component; ``created`` is in seconds since 1970, ``attempt`` counts its pod's restarts."""

    id: str
    component: str
    running: bool
    exited: bool
    attempt: int
    created: float


def read_containers(text: str) -> list[Container]:
    """Return the containers in ``crictl ps --all --output json``, the newest first. Raise DomainError."""
    found = []
    for each in as_mappings(read_object(text, "crictl's list of containers").get("containers")):
        if not is_of_kubernetes(each):
            continue
        metadata, state = as_mapping(each.get("metadata")), each.get("state")
        created, attempt = str(each.get("createdAt") or "0"), metadata.get("attempt") or 0
        found.append(
            Container(
                as_text(each.get("id")),
                as_text(metadata.get("name")),
                state == _RUNNING,
                state == _EXITED,
                attempt if isinstance(attempt, int) else 0,
                int(created) / 1e9 if created.isdigit() else 0,
            )
        )
    return sorted(found, key=lambda each: each.created, reverse=True)


def started(containers: Iterable[Container], since: float, before: float = 0) -> bool:
    """Return whether a container runs that was created after ``since``, or ``before`` a change that was undone."""
    return any(each.running for each in containers if each.created > since or each.created < before)


class RestartCounter:
    """Counts how often a component has ended since a time; a pod counts the restarts of its whole life.

    The kubelet waits up to five minutes before it restarts what has ended often, but not without the container that has
    ended. If that takes longer than ``patience`` seconds, the wait is cleared once.
    """

    def __init__(self, since: float, patience: float) -> None:
        self._since = since
        self._patience = patience
        self._lowest: int | None = None
        self._ended: float | None = None
        self._cleared = False

    def are_too_many(self, containers: Iterable[Container]) -> bool:
        """Return whether the newest of these containers has ended, and was restarted too often to expect more."""
        new = [each for each in containers if each.created > self._since]
        if not new:
            return False
        lowest = min(each.attempt for each in new)
        self._lowest = lowest if self._lowest is None else min(lowest, self._lowest)
        newest = max(new, key=lambda each: each.created)
        return newest.exited and newest.attempt - self._lowest > _ENDS

    def are_held_back(self, containers: Sequence[Container], now: float) -> bool:
        """Return, once, whether the newest container ended too long ago. ``now`` is a monotonic time in seconds."""
        if not containers or not containers[0].exited:
            self._ended = None
            return False
        self._ended = now if self._ended is None else self._ended
        held = not self._cleared and now - self._ended >= self._patience
        self._cleared = self._cleared or held
        return held


class StaticPods:
    """The static pods of this host. ``limit`` is how long a component may take to become healthy, in seconds."""

    def __init__(self, module: Any, root: str, limit: float) -> None:
        self._module = module
        self._root = root
        self._limit = limit
        self._runner = Runner(module, timeout=60)

    def check_kubelet(self) -> None:
        """Raise DomainError if nothing would start the static pods."""
        if not is_active(self._runner, "kubelet"):
            raise DomainError(
                "Error while changing the control plane: the kubelet, which starts its static pods, is not running. "
                "Check systemctl status kubelet and journalctl -u kubelet. Nothing was changed."
            )

    def restart_kubelet(self) -> None:
        self._runner.check(["systemctl", "restart", "kubelet"], "restarting the kubelet")

    def containers(self, component: str) -> list[Container]:
        argv = ["crictl", "ps", "--all", "--name", f"^{component}$", "--output", "json"]
        text = self._runner.check(argv, f"listing the containers of {component}").stdout
        return [each for each in read_containers(text) if each.component == component]

    def restart(self, component: str, before: float | None = None) -> None:
        """Stop the containers of a component; the kubelet starts a new one, even if this run ends here.

        With ``before``, those that were created later are not stopped. Restarting the kubelet would not help: with an
        API server whose etcd has stopped, it starts no pods.
        """
        found = [each for each in self.containers(component) if before is None or each.created <= before]
        argv = _stop_command(component, found)
        if argv:
            self._runner.check(argv, f"restarting {component}", timeout=_STOP_LIMIT)
            self._remove([each for each in found if each.running])

    def _remove(self, ended: Sequence[Container]) -> None:
        """Remove containers that have ended, as the kubelet does sooner or later; it waits because of them."""
        if ended:
            self._runner.run(["crictl", "rm", *(each.id for each in ended)])

    def stop_all(self) -> None:
        """Stop the containers of all components, those that write to etcd first. What fails can be repeated."""
        if self._runner.find("crictl") is None:
            return
        result = self._runner.run(["crictl", "ps", "--state", "Running", "--output", "json"], timeout=30)
        found = read_containers(result.stdout) if result.rc == 0 else []
        for component in sorted(COMPONENTS, key=lambda name: name == ETCD):
            argv = _stop_command(component, found)
            if argv:
                self._runner.run(argv, timeout=_STOP_LIMIT)

    def pull(self, image: str, limit: float) -> None:
        """Pull an image that a new manifest needs, so that a missing one is noticed before anything changes."""
        if self._runner.run(["crictl", "inspecti", "--quiet", image]).rc != 0:
            self._runner.check(["crictl", "pull", image], f"pulling the image {image}", timeout=limit)

    def is_stale(self, component: str, files: Sequence[Path]) -> bool:
        """Return whether the newest running container is older than one of the files that it reads."""
        return not started(self.containers(component), _newest(files))

    def await_healthy(self, component: str, asked: Probe, files: Sequence[Path], before: float = 0) -> None:
        """Wait for a container that is newer than ``files``, or older than ``before``, and healthy.

        Raise UnhealthyError.
        """
        deadline, since = time.monotonic() + self._limit, _newest(files)
        healthy_since: float | None = None
        hastened = component != API_SERVER
        restarts = RestartCounter(since, self._limit / 10)
        while True:
            found, reason = self._look(component)
            if started(found, since, before):
                reason = self.reason(component, asked)
            elif not hastened and self.reason(component, asked):
                # The kubelet is stopping the container of the former manifest, which has closed its port.
                self.restart(component, since)
                hastened = True
            now = time.monotonic()
            healthy_since = None if reason else healthy_since or now
            if healthy_since is not None and now - healthy_since >= (_STEADY if before else 0):
                return
            # One that does not change may end for another reason, and be back soon.
            if files and restarts.are_too_many(found):
                raise UnhealthyError(f"its container ends as soon as it has started{self._last_lines(component)}")
            if restarts.are_held_back(found, now):
                self._remove([each for each in found if each.exited])
            if now >= deadline:
                raise UnhealthyError(
                    f"it was not healthy within {self._limit:g} s ({reason}){self._last_lines(component)}"
                )
            time.sleep(_INTERVAL)

    def _look(self, component: str) -> tuple[list[Container], str]:
        try:
            return self.containers(component), "no new container has started"
        except DomainError as error:
            # The container runtime may be busy.
            return [], str(error)

    def _last_lines(self, component: str) -> str:
        newest = self.containers(component)[:1]
        if not newest:
            return ". The kubelet has created no container: journalctl -u kubelet"
        result = self._runner.run(["crictl", "logs", "--tail", str(_LINES), newest[0].id])
        lines = [line[:_LONGEST_LINE] for line in mask(result.stdout + result.stderr).splitlines() if line.strip()]
        return ". The last lines of its container:\n" + "\n".join(lines[-_LINES:]) if lines else ". It printed nothing"

    def reason(self, component: str, asked: Probe) -> str:
        """Return why a component is not healthy, empty if it is."""
        try:
            if component == API_SERVER:
                self._ask_api(asked)
                return ""
            return _answer(asked)
        except (ApiSilentError, ApiRefusedError) as error:
            return str(error)

    def _ask_api(self, asked: Probe) -> None:
        """Ask this host's own API server, whose certificate is verified."""
        server = f"https://{host_port(asked.host, asked.port)}"
        config = Kubeconfig(server, asked.host, asked.port, ca_file="/etc/kubernetes/pki/ca.crt")
        text = read_text(under(self._root, "/etc/kubernetes/admin.conf"))
        with suppress(KubeconfigError):
            config = replace(read_kubeconfig(text), server=server) if text else config
        answer = Api(config, self._module.tmpdir, self._root, server).get(asked.path)
        if answer.status != 200:
            raise ApiSilentError(f"{server} answers {answer.status} to {asked.path}")


def _stop_command(component: str, containers: Iterable[Container]) -> list[str]:
    """Return the command that stops the running containers of a component, empty if none runs."""
    running = [each.id for each in containers if each.component == component and each.running]
    grace = _API_SERVER_GRACE if component == API_SERVER else _GRACE
    return ["crictl", "stop", "--timeout", str(grace), *running] if running else []


def _newest(files: Sequence[Path]) -> float:
    """Return when the newest file was written. One from the future counts as written now: the clock was ahead."""
    present = [path for path in files if path.exists()]
    for path in present:
        if path.stat().st_mtime > time.time():
            os.utime(path)
    return max((path.stat().st_mtime for path in present), default=0.0)


def _answer(asked: Probe) -> str:
    """Ask a component that listens on this host, whose certificate it has signed itself."""
    connection = http.client.HTTPConnection(asked.host, asked.port, timeout=5)
    if asked.scheme == "https":
        connection = http.client.HTTPSConnection(asked.host, asked.port, timeout=5, context=_unverified())
    try:
        with closing(connection):
            connection.request("GET", asked.path)
            response = connection.getresponse()
            return "" if response.status == 200 else f"{asked.path} answers {response.status}"
    except (OSError, http.client.HTTPException, socket.timeout) as error:
        return f"port {asked.port} does not answer: {getattr(error, 'strerror', None) or error}"


def _unverified() -> ssl.SSLContext:
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context
