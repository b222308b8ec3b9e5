# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Remove what an interrupted init or join of a control plane has left.

Containers may survive ``kubeadm reset``, which exits with 0 in that case.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from .._command import CommandError, Runner
from .._errors import DomainError
from .._files import move_aside, under
from .._host.network import listeners
from .damage import COMPONENTS
from .run import Kubeadm

# In the order in which a cleanup moves them: the first one, which every finished cluster needs, shows that it began.
CONFS = ("kubelet", "bootstrap-kubelet", "controller-manager", "scheduler", "super-admin", "admin")
_PORTS = ("2379/tcp", "2380/tcp", "10257/tcp", "10259/tcp")
_INTERVAL = 1.0
_NAMESPACE, _SYSTEM = "io.kubernetes.pod.namespace", "kube-system"


def clean_control_plane(
    kubeadm: Kubeadm, root: str, config: str, data: str, aside: Path, patience: float, what: str
) -> list[str]:
    """Stop a control plane, and move its files and the ``data`` of its etcd to ``aside``; return their new paths.

    ``config`` is kubeadm's configuration, ``what`` the interrupted command for messages.
    """
    etc = under(root, "/etc/kubernetes")
    kubeadm.stop_kubelet()
    moved = move_aside([*(etc / f"{name}.conf" for name in CONFS), etc / "manifests", etc / "pki"], root, aside)
    named = re.search(r"^\s*criSocket:\s*[\"']?([^\s\"'#]+)", config, re.MULTILINE)
    socket = ["--cri-socket", named[1]] if named else []
    # Containers may survive ``kubeadm reset``, and etcd would then still write to the data that is moved below.
    clear(
        lambda: kubeadm.run(["reset", "phase", "cleanup-node", *socket], f"cleaning up {what} that never finished"),
        lambda: still_there(kubeadm.runner, root, api_port(config)),
        patience,
        what,
    )
    return moved + move_aside([under(root, data) / "member"], root, aside)


def api_port(config: str) -> str:
    """Return the API server's port in a configuration of kubeadm."""
    found = re.search(r"^\s*bindPort:\s*[\"']?(\d+)", config, re.MULTILINE)
    return found[1] if found else "6443"


def still_there(runner: Runner, root: str, port: str) -> list[str]:
    """Return descriptions of the static pods' running containers and their ports. ``port`` is the API server's."""
    found = [f"container {name}" for name in _containers(runner)]
    for one in listeners(root, [f"{port}/tcp", *_PORTS]):
        found.append(f"port {one['port']} ({one['process'] or 'unknown program'}, process {one['pid']})")
    return list(dict.fromkeys(found))


def clear(clean: Callable[[], object], look: Callable[[], Sequence[str]], patience: float, what: str) -> None:
    """Clean up and wait until nothing is left; clean up a second time if something remains. Raise DomainError.

    ``patience`` is how long to wait each time, in seconds.
    """
    left: Sequence[str] = []
    for _attempt in range(2):
        clean()
        deadline = time.monotonic() + patience
        left = look()
        while left and time.monotonic() < deadline:
            time.sleep(_INTERVAL)
            left = look()
        if not left:
            return
    raise DomainError(
        f"Error while cleaning up {what} that never finished: containers from the previous attempt did not stop: "
        f"{', '.join(left)}. The data of etcd was not changed. Check crictl ps and journalctl -u containerd, and "
        "remove the containers (crictl rmp --force ID), or reboot this host; then run again."
    )


def is_of_kubernetes(container: Mapping[str, Any]) -> bool:
    """Return whether a container in crictl's list can be one of the control plane: a user's pod may have an etcd."""
    labels = container.get("labels")
    return not isinstance(labels, Mapping) or labels.get(_NAMESPACE, _SYSTEM) == _SYSTEM


def _containers(runner: Runner) -> list[str]:
    if runner.find("crictl") is None:
        return []
    try:
        result = runner.run(["crictl", "ps", "--state", "Running", "--output", "json"], timeout=30)
        entries = json.loads(result.stdout)["containers"] if result.rc == 0 else []
        names = [str(entry["metadata"]["name"]) for entry in entries or [] if is_of_kubernetes(entry)]
    except (CommandError, AttributeError, ValueError, KeyError, TypeError):
        # The ports show running containers even if the runtime does not answer.
        return []
    return sorted({name for name in names if name in COMPONENTS})
