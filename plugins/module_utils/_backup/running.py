# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read the pods that run on a node from its container runtime and its kubelet's files."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from .._command import Runner
from .._json import as_mapping, as_mappings, as_text, read_object
from .._nvidia.kubelet_devices import gpu_devices
from .pods import OWNER_LABELS

# Where a kubelet has a pod from: api, file or http.
_SOURCE = "kubernetes.io/config.source"


def running_pods(module: Any, kubelet_root: Path, timeout: float) -> list[dict[str, Any]]:
    """Return the running pods as in the result of node_pods_info. Raise DomainError."""
    runner = Runner(module, timeout=timeout)
    if not kubelet_root.is_dir() or runner.find("crictl") is None:
        return []
    argv = ["crictl", "pods", "--state", "Ready", "--output", "json"]
    text = runner.check(argv, "reading the pods of this node").stdout
    return read_pods(text, gpu_devices(kubelet_root))


def read_pods(text: str, devices: Mapping[str, int]) -> list[dict[str, Any]]:
    """Parse ``crictl pods --output json``; ``devices`` are numbers of GPUs by the UIDs of pods. Raise DomainError."""
    found = []
    for each in as_mappings(read_object(text, "crictl's list of pods").get("items")):
        metadata, labels = as_mapping(each.get("metadata")), as_mapping(each.get("labels"))
        uid = as_text(metadata.get("uid"))
        found.append(
            {
                "uid": uid,
                "namespace": as_text(metadata.get("namespace")),
                "name": as_text(metadata.get("name")),
                "labels": {label: as_text(labels[label]) for label in OWNER_LABELS if label in labels},
                "static": as_mapping(each.get("annotations")).get(_SOURCE, "api") != "api",
                "gpus": devices.get(uid, 0),
            }
        )
    return found
