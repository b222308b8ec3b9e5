# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Callable

from .containerd_state import containerd_state
from .gpu_sharing import gpu_sharing

DOCUMENTATION = r"""
name: acceptance_seen
short_description: Determine what the verification and the report need to know of a host
version_added: 0.2.0
author:
  - The gpulab.kubernetes maintainers (@gpulab)
description:
  - Combines what was read of a host with what is expected of it.
positional: _input, settings
options:
  _input:
    description: Result of M(gpulab.kubernetes.gpu_host_info).
    type: dict
    required: true
  settings:
    description: What is expected of the host.
    type: dict
    required: true
    suboptions:
      node:
        description: Name of the node.
        type: str
        required: true
      roles:
        description: Roles of the host in the cluster.
        type: list
        elements: str
        required: true
      pins:
        description: Versions that the host is to have, for P(gpulab.kubernetes.drift#filter).
        type: dict
        required: true
      expected:
        description: Number of GPUs that are expected, null for those that were found.
        type: int
      sharing:
        description: Declaration, as in C(nvidia_device_plugin_sharing).
        type: dict
        required: true
      mig:
        description: >-
          Result of M(gpulab.kubernetes.nvidia_mig) in check mode, empty if the MIG devices were not compared.
        type: dict
        default: {}
      own_plugin:
        description: Whether this collection deploys the device plugin.
        type: bool
        required: true
      containerd_own:
        description: Files of containerd's configuration that this collection writes.
        type: list
        elements: str
        required: true
"""

EXAMPLES = r"""
- name: Show what is to be verified on a host
  ansible.builtin.debug:
    msg: "{{ (found | gpulab.kubernetes.acceptance_seen(settings)).host }}"
"""

RETURN = r"""
_value:
  description: What the report shows of the host.
  type: dict
  contains:
    host:
      description: Entry of O(gpulab.kubernetes.gpu_acceptance#module:nodes) for the host.
      type: dict
"""

_DIFFERS = "the MIG devices differ from nvidia_device_plugin_sharing; site.yml partitions the GPUs"


def _sharing(settings: Mapping[str, Any], gpus: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    declaration, expected = settings["sharing"], settings.get("expected")
    count = len(gpus) if expected is None else int(expected or 0)
    # A whole GPU for each pod needs no words.
    if count <= 0 or declaration.get("mode", "exclusive") == "exclusive":
        return {}
    mig = settings.get("mig") or {}
    parts = [gpu["profiles"] for gpu in mig.get("gpus") or ()]
    complaint = mig.get("msg", _DIFFERS if mig.get("differs") else "")
    return {**gpu_sharing(declaration, count, parts), "complaint": complaint}


def _version(found: Mapping[str, Any], package: str) -> str:
    return str((found["packages"].get(package) or {}).get("version") or "")


def acceptance_seen(found: Mapping[str, Any], settings: Mapping[str, Any]) -> dict[str, Any]:
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
        return {"acceptance_seen": acceptance_seen}
