"""Names of GPUs and MIG devices in a CDI specification: 0 is a GPU, 0:1 one of its MIG devices."""

from __future__ import annotations

import re
from collections.abc import Iterable

from gpu_check.nvml import Facts
from gpu_check.result import in_mig_mode


def devices(names: Iterable[str]) -> list[str]:
    """Return the names of GPUs and MIG devices among the names of CDI devices."""
    return sorted(name for name in names if re.fullmatch(r"\d+(:\d+)?", name))


def expected_devices(facts: Facts) -> list[str]:
    """Return the names that a specification must contain: GPUs, or the MIG devices of a GPU in MIG mode."""
    names = []
    for index, gpu in enumerate(facts.gpus):
        own = [f"{index}:{device['index']}" for device in gpu["mig.devices"]]
        names += own if in_mig_mode(gpu) else [str(index)]
    return sorted(names)
