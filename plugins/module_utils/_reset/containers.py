# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Stop the containers of pods, also if containerd does not answer. Others, such as Docker's, are not touched."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

from .._command import CommandError, Runner
from .._errors import DomainError
from .._files import under

_SOCKET = "unix:///run/containerd/containerd.sock"
_PAUSE = 0.5
_PATIENCE = 30.0
_CONTAINERD = ["system.slice", "containerd.service"]


def are_running(root: str) -> bool:
    """Return whether containers of pods, or the programs that supervise them, are running."""
    return next(_processes(root), None) is not None


def stop(runner: Runner, root: str) -> None:
    """Stop and remove all pods through containerd; without it, end their processes. Raise DomainError."""
    if runner.find("crictl") is not None:
        with contextlib.suppress(CommandError):
            runner.run(["crictl", "--runtime-endpoint", _SOCKET, "rmp", "--all", "--force"], timeout=300)
    # An empty slice stays active until a reboot.
    if runner.find("systemctl") is not None:
        with contextlib.suppress(CommandError):
            runner.run(["systemctl", "stop", "kubepods.slice"], timeout=120)
    deadline = time.monotonic() + _PATIENCE
    while left := list(_processes(root)):
        if time.monotonic() > deadline:
            raise DomainError(
                f"Error while stopping the containers of pods: these processes did not end: "
                f"{', '.join(map(str, left[:10]))}. End them, or reboot this host, and run again."
            )
        for pid in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(_PAUSE)


def _processes(root: str) -> Iterator[int]:
    """Yield the processes in the cgroups of pods, and the shims of this host's containerd in Kubernetes' namespace.

    Containers of Docker may contain nodes themselves (kind, minikube), whose pods are below the container's cgroup.
    """
    proc = under(root, "/proc")
    # This host may itself be a container.
    top = [part for part in _cgroup(proc / "1") if part != "init.scope"]
    for entry in proc.glob("[0-9]*"):
        if entry.name.isdigit() and int(entry.name) not in (1, os.getpid()):
            with contextlib.suppress(OSError):
                path = _cgroup(entry)
                own = path[len(top) :] if path[: len(top)] == top else []
                if _is_pod(own) or (_is_shim(entry) and own[:2] == _CONTAINERD):
                    yield int(entry.name)


def _is_pod(path: list[str]) -> bool:
    return bool(path) and path[0].startswith("kubepods")


def _is_shim(entry: Path) -> bool:
    words = (entry / "cmdline").read_bytes().split(b"\0")
    return words[0].rpartition(b"/")[2].startswith(b"containerd-shim") and b"k8s.io" in words


def _cgroup(entry: Path) -> list[str]:
    """Return the parts of a process' path in systemd's hierarchy of cgroups (cgroups(7)), empty if it has none."""
    try:
        lines = (entry / "cgroup").read_text(errors="replace").splitlines()
    except FileNotFoundError:
        return []
    found = dict(line.split(":", 2)[1:] for line in lines if line.count(":") > 1)
    path = found.get("") or found.get("name=systemd") or ""
    return [part for part in path.split("/") if part]
