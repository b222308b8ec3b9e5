# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The figures of a GPU, and values read during the measurement. Pure functions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

ON_CPU = "measured on the CPU (no CUDA): these figures say nothing about the GPU"


@dataclass(frozen=True)
class Figure:
    """A figure; ``divisor`` is the number of bytes or operations per second in one ``unit``."""

    key: str
    name: str
    short: str
    unit: str
    divisor: float

    def format(self, value: float) -> str:
        """Return a value with its unit."""
        scaled = value / self.divisor
        return f"{scaled:.0f} {self.unit}" if scaled >= 100 else f"{scaled:.3g} {self.unit}"


FIGURES = (
    Figure("memory_bytes_per_s", "memory bandwidth", "memory", "GB/s", 1e9),
    Figure("bf16_flop_per_s", "bf16 matrix rate", "bf16", "TFLOP/s", 1e12),
    Figure("fp32_flop_per_s", "fp32 matrix rate", "fp32", "TFLOP/s", 1e12),
    Figure("host_to_device_bytes_per_s", "host-to-device bandwidth", "host to device", "GB/s", 1e9),
)


def label(node: str, index: int | str | None, uuid: str) -> str:
    """Return the name of a GPU in messages."""
    return f"{node} GPU {index}" if index not in (None, "") else f"{node} {uuid or 'GPU without a UUID'}"


@dataclass(frozen=True)
class Gpu:
    """A GPU as its host describes it."""

    node: str
    uuid: str
    index: int | None = None
    name: str = ""
    memory_mib: int | None = None

    @property
    def label(self) -> str:
        return label(self.node, self.index, self.uuid)

    def fields(self) -> dict[str, Any]:
        own = {"node": self.node, "index": self.index, "uuid": self.uuid}
        return {**own, "name": self.name, "memory_total_mib": self.memory_mib}


@dataclass(frozen=True)
class Reading:
    """A pod's report; ``device`` is cuda or cpu, empty without figures; ``gpus`` is the number of GPUs it sees.

    ``complaint``: why the report could not be parsed, empty if it could.
    """

    uuid: str = ""
    gpus: int = 0
    device: str = ""
    torch: str = ""
    figures: Mapping[str, float] = field(default_factory=dict)
    facts: Mapping[str, float] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    complaint: str = ""


@dataclass(frozen=True)
class Measurement:
    gpu: Gpu
    reading: Reading
