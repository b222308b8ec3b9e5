# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Callable

from .containerd import containerd_state
from .sharing import gpu_sharing

DOCUMENTATION = r"""
name: acceptance
short_description: Internal filters for the verification of GPUs
extends_documentation_fragment: gpulab.kubernetes.internal
"""

_DIFFERS = "the MIG devices differ from cluster_gpu_sharing; site.yml partitions the GPUs"


def acceptance_nodes(
    answers: Sequence[Mapping[str, Any]], hosts: Iterable[str], all_hosts: Iterable[str]
) -> list[Mapping[str, Any]]:
    """Combine the hosts that answered with those that did not."""
    answered = {host for host, answer in zip(hosts, answers) if answer}
    complaint = "the host failed or did not answer in this run"
    silent = [{"name": host, "state": "silent", "complaint": complaint} for host in all_hosts if host not in answered]
    return [*filter(None, answers), *silent]


def _sharing(settings: Mapping[str, Any], gpus: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    declaration, expected = settings["sharing"], settings.get("expected")
    count = len(gpus) if expected is None else int(expected or 0)
    # Exclusive GPUs need no description.
    if count <= 0 or declaration.get("mode", "exclusive") == "exclusive":
        return {}
    mig = settings.get("mig") or {}
    parts = [gpu["profiles"] for gpu in mig.get("gpus") or ()]
    complaint = mig.get("msg", _DIFFERS if mig.get("differs") else "")
    return {**gpu_sharing(declaration, count, parts), "complaint": complaint}


def _version(found: Mapping[str, Any], package: str) -> str:
    return str((found["packages"].get(package) or {}).get("version") or "")


def acceptance_seen(found: Mapping[str, Any], settings: Mapping[str, Any]) -> dict[str, Any]:
    """Determine what the verification and the report need to know of a host."""
    # What nvidia-smi shows; empty without GPUs.
    driver = found.get("nvidia_smi") or {}
    gpus = driver.get("gpus") or []
    host = {
        "name": settings["node"],
        "gpus": gpus,
        "pci": len(found["pci"]),
        "expected": settings.get("expected"),
        "state": driver.get("state") or "ok",
        "complaint": (driver.get("message") or "").rstrip(". "),
        "advice": driver.get("advice") or "",
        "driver": driver.get("driver_version") or "",
        "sharing": _sharing(settings, gpus),
        "own_plugin": settings["own_plugin"],
        "toolkit": _version(found, "nvidia-container-toolkit"),
        "held": found["held"],
        "containerd": containerd_state(
            found["containerd_files"], _version(found, "containerd.io"), settings["containerd_own"]
        ),
    }
    return {
        "host": host,
        "node": settings["node"],
        "roles": settings["roles"],
        "pins": settings["pins"],
        "reading": found,
    }


class FilterModule:
    def filters(self) -> dict[str, Callable[..., Any]]:
        return {
            "acceptance_nodes": acceptance_nodes,
            "acceptance_seen": acceptance_seen,
        }
