# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Find everything in a queue's resource arguments that the launch agent rejects.

Source: validate_kubernetes_resource_args and validate_local_container_resource_args in wandb/sdk/launch/utils.py of
wandb 0.31.0. They stop at the first problem; this finds all, with their places.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

_PRESENT = {
    "securityContext": "the agent sets the security context itself",
    "hostPath": "volumes of the host are not permitted; mount a claim",
    "serviceAccountToken": "tokens of service accounts are not permitted",
}
_TRUE = {
    **dict.fromkeys(
        ("hostPID", "hostIPC", "hostNetwork", "shareProcessNamespace", "hostUsers"),
        "sharing a namespace of the host is not permitted",
    ),
    "automountServiceAccountToken": "tokens of service accounts are not permitted",
    "hostPort": "ports of the host are not permitted",
}
_SERVICE_ACCOUNTS = ("serviceAccountName", "serviceAccount")
_DOCKER = frozenset(
    (
        "command",
        "cpu",
        "cpu-period",
        "cpu-quota",
        "cpu-shares",
        "cpus",
        "cpuset-cpus",
        "cpuset-mems",
        "e",
        "env",
        "gpus",
        "m",
        "memory",
        "memory-reservation",
        "memory-swap",
        "name",
        "pids-limit",
        "platform",
        "shm-size",
        "ulimit",
        "w",
        "workdir",
    )
)
_REPEATABLE = frozenset(("e", "env", "ulimit"))


def refusals(resource: str, arguments: Mapping[str, Any]) -> list[str]:
    """Return what the agent would reject for a queue of this type, each with its place and reason."""
    if resource == "kubernetes":
        return list(_manifest(arguments, ""))
    return list(_docker(arguments)) if resource == "local-container" else []


def _manifest(node: Any, where: str) -> Iterator[str]:
    if isinstance(node, list):
        for number, item in enumerate(node):
            yield from _manifest(item, f"{where}[{number}]")
    if not isinstance(node, dict):
        return
    for key, value in node.items():
        place = f"{where}.{key}".lstrip(".")
        if reason := _refused(key, value):
            yield f"{place}: {reason}"
        if key == "annotations" and isinstance(value, dict):
            yield from _annotations(value, place)
        yield from _manifest(value, place)


def _refused(key: str, value: Any) -> str:
    if key in _PRESENT:
        return _PRESENT[key]
    if key in _TRUE and _is_true(value):
        return _TRUE[key]
    if key in _SERVICE_ACCOUNTS and _is_there(value):
        return "another service account is not permitted"
    if key == "mountPropagation" and str(value).strip() == "Bidirectional":
        return "Bidirectional is not permitted"
    return ""


def _annotations(annotations: Mapping[str, Any], place: str) -> Iterator[str]:
    for key, value in annotations.items():
        name = str(key).lower()
        if ("apparmor" in name or "seccomp" in name) and "unconfined" in str(value).lower():
            yield f"{place}.{key}: unconfined profiles are not permitted"


def _is_true(value: Any) -> bool:
    if isinstance(value, str):
        return value.strip().lower() in ("1", "true", "yes")
    return isinstance(value, (bool, int, float)) and value != 0


def _is_there(value: Any) -> bool:
    if isinstance(value, (list, tuple, set)):
        return any(_is_there(item) for item in value)
    return bool(value.strip()) if isinstance(value, str) else value is not None


def _docker(arguments: Mapping[str, Any]) -> Iterator[str]:
    for given, value in arguments.items():
        name = str(given).strip().lstrip("-").replace("_", "-").lower()
        if name not in _DOCKER:
            yield f"{given}: only {', '.join(sorted(_DOCKER))} are permitted"
        elif name in _REPEATABLE and isinstance(value, (list, tuple)):
            if not value or not all(_is_plain(item) for item in value):
                yield f"{given}: each value must be text or a number"
        elif not _is_plain(value):
            yield f"{given}: it must be a single text or number"


def _is_plain(value: Any) -> bool:
    return isinstance(value, (str, int, float)) and not isinstance(value, bool)
