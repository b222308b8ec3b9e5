# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A control plane and two workers with GPUs, for the tests of gpu_acceptance."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from fake_cluster import FakeCluster, FakeNode

T4 = ["GPU-t0", "GPU-t1", "GPU-t2"]
A100 = ["GPU-a0", "GPU-a1"]
MODEL = "NVIDIA A100-SXM4-40GB"


class Lab:
    """A control plane and two workers with GPUs, and the module to prove them."""

    def __init__(self, run: Callable[..., dict[str, Any]], kubeconfig: Path, cluster: FakeCluster) -> None:
        self._run = run
        self._kubeconfig = kubeconfig
        self.cluster = cluster
        self.hosts: list[dict[str, Any]] = [
            {"name": "cp1"},
            {"name": "gpu1", "pci": 3, "driver": "580.1", "gpus": [{"uuid": uuid, "name": "Tesla T4"} for uuid in T4]},
            {"name": "gpu2", "pci": 2, "driver": "580.1", "gpus": [{"uuid": uuid, "name": MODEL} for uuid in A100]},
        ]

    def prove(self, *, check: bool = False, **more: Any) -> dict[str, Any]:
        args = {
            "kubeconfig": str(self._kubeconfig),
            "nodes": self.hosts,
            "image": "check:1",
            "network_image": "agnhost:1",
            "timeout": 2,
            **more,
        }
        return self._run("gpu_acceptance", args, check=check)

    def node(self, name: str) -> FakeNode:
        return self.cluster.nodes[name]


def causes(result: dict[str, Any], host: str) -> list[str]:
    return [problem["cause"] for problem in result["report"]["problems"] if problem["host"] == host]


def states(result: dict[str, Any], host: str) -> dict[str, str]:
    return {device["uuid"]: device["state"] for device in result["report"]["hosts"][host]["devices"]}
