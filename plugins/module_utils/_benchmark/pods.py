# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The pods of the benchmark. Pure functions."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from .._cluster.objects import GPU, OWNER, OWNER_LABEL
from .._cluster.pods import pod_on
from .._errors import DomainError

PART = "gpu-benchmark"
CONTAINER = "measure"
# A pod pulls its image, imports PyTorch, and measures for up to 60 seconds.
SHORTEST_TIMEOUT, LONGEST_TIMEOUT = 90, 86400
_DNS_LABEL = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?", re.ASCII)
_LABELS = {OWNER_LABEL: OWNER, "app.kubernetes.io/part-of": PART}
_SCRIPT, _FOLDER = "measure.py", "/etc/gpu-benchmark"


@dataclass(frozen=True)
class Settings:
    """Settings; ``timeout`` is in seconds from a pod's creation to its report, ``holder`` is who runs the benchmark."""

    namespace: str
    python: str
    script: str
    timeout: int
    holder: str = ""


def check_settings(settings: Settings) -> None:
    """Raise DomainError for settings with which nothing could be measured."""
    wrong = ""
    if not _DNS_LABEL.fullmatch(settings.namespace):
        wrong = (
            f"namespace {settings.namespace!r:.120} must consist of at most 63 lower-case letters, digits and '-', and "
            "must not start or end with '-'"
        )
    elif not SHORTEST_TIMEOUT <= settings.timeout <= LONGEST_TIMEOUT:
        wrong = f"timeout must be {SHORTEST_TIMEOUT} to {LONGEST_TIMEOUT} seconds, not {settings.timeout}"
    if wrong:
        raise DomainError(f"Error while checking the settings of the benchmark: {wrong}. Nothing was changed.")


def config_map(settings: Settings) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": PART, "namespace": settings.namespace, "labels": _LABELS},
        "data": {_SCRIPT: settings.script},
    }


def pod(settings: Settings, node: str, image: str, number: int, count: int) -> dict[str, Any]:
    """Return the pod ``number`` of ``count`` on a node. It keeps its GPU until the last one has reported."""
    container = {
        "name": CONTAINER,
        "image": image,
        "command": [settings.python, "-u", f"{_FOLDER}/{_SCRIPT}"],
        "resources": {"limits": {GPU: 1}},
        "volumeMounts": [{"name": "script", "mountPath": _FOLDER, "readOnly": True}],
    }
    spec = {"containers": [container], "volumes": [{"name": "script", "configMap": {"name": PART}}]}
    deadline = settings.timeout * (count - number) + 300
    return pod_on(node, f"gpu-{number}-{node}"[:253], settings.namespace, _LABELS, deadline, spec)
