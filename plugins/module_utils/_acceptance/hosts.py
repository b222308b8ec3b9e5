# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Parse the hosts' data in the options of the module gpu_acceptance. Pure functions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from .._cluster import objects
from .._nvidia.sharing import mig_resource
from .target import Gpu, Host


def read_hosts(entries: Iterable[Mapping[str, Any]]) -> list[Host]:
    """Return the hosts in the module's option ``nodes``."""
    return [
        Host(
            node=entry["name"],
            gpus=tuple(part for gpu in entry["gpus"] or [] for part in _parts(gpu, entry.get("sharing") or {})),
            physical=tuple(Gpu(gpu["uuid"], gpu.get("name") or "") for gpu in entry["gpus"] or [] if gpu.get("uuid")),
            sharing=dict(entry.get("sharing") or {}),
            pci=entry["pci"],
            expected=entry["expected"],
            state=entry["state"],
            complaint=entry["complaint"] or "",
            advice=entry.get("advice") or "",
            driver=entry["driver"] or "",
            toolkit=entry["toolkit"] or "",
            # The device plugin numbers the pods that share a GPU: "GPU-...::0".
            held={uuid.partition("::")[0]: pod for uuid, pod in (entry["held"] or {}).items()},
            known=len(entry["gpus"] or []),
            containerd=dict(entry["containerd"] or {}),
            own_plugin=entry.get("own_plugin", True),
        )
        for entry in entries
    ]


def _parts(gpu: Mapping[str, Any], sharing: Mapping[str, Any]) -> list[Gpu]:
    """Return what pods can get of a GPU: the GPU, or its MIG devices."""
    if not gpu.get("uuid"):
        return []
    model, amounts = gpu.get("name") or "", sharing.get("amounts") or {}
    cut = (gpu.get("mig") or {}).get("devices") if sharing.get("mode") == "mig" else None
    if cut:
        single = sharing.get("strategy") == "single"
        return [
            Gpu(
                part["uuid"], f"{model} MIG {part['profile']}", objects.GPU if single else mig_resource(part["profile"])
            )
            for part in cut
            if part.get("uuid") and part.get("profile")
        ]
    shared = f"{objects.GPU}.shared"
    return [Gpu(gpu["uuid"], model, shared if shared in amounts else objects.GPU, int(sharing.get("replicas") or 1))]
