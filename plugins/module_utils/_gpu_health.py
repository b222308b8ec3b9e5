# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What ails a GPU by nvidia-smi and by the kernel log, put together, and what to do about each. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

from ansible_collections.gpulab.kubernetes.plugins.module_utils import _nvidia_smi_state as state
from ansible_collections.gpulab.kubernetes.plugins.module_utils import _xid_data as data
from ansible_collections.gpulab.kubernetes.plugins.module_utils._nvidia_smi_values import PENDING
from ansible_collections.gpulab.kubernetes.plugins.module_utils._xid import Finding, lines_of

_OTHERWISE = (
    "Look at nvidia-smi -q and at the kernel log; a reset of the GPU (nvidia-smi --gpu-reset) or a reboot helps often."
)
# What a problem of a GPU says -> what to do about it; the first that fits.
_CURES = (
    (re.compile(r"recovery action: .*reboot", re.IGNORECASE), data.ACTIONS[data.REBOOT][1]),
    (re.compile(r"recovery action: .*drain", re.IGNORECASE), data.ACTIONS[data.RESET][1]),
    (re.compile(r"GPU is lost|fallen off the bus", re.IGNORECASE), data.ACTIONS[data.REBOOT][1]),
    (re.compile(r"reset", re.IGNORECASE), data.ACTIONS[data.RESET][1]),
    (re.compile(r"row remapping failed"), data.ACTIONS[data.SUPPORT][1]),
    (re.compile(r"^fabric "), data.ACTIONS[data.NVLINK][1]),
)


def complete(facts: dict[str, Any], found: Sequence[Finding]) -> dict[str, Any]:
    """The facts of nvidia_smi_info with the Xids that count as problems of their GPUs, and advice for each GPU."""
    own = {gpu["pci_bus_id"] for gpu in facts["gpus"]}
    gpus = [_gpu(gpu, [each for each in found if each.address == gpu["pci_bus_id"]]) for gpu in facts["gpus"]]
    strays = [f"GPU {each.address}: {line}" for each in found if each.address not in own for line in lines_of([each])]
    said = [
        f"GPU {', '.join(str(gpu[key]) for key in ('index', 'pci_bus_id') if gpu[key] is not None)}: {line}"
        for gpu in gpus
        for line in lines_of(each for each in found if each.address == gpu["pci_bus_id"])
    ]
    if not said and not strays:
        return {**facts, "gpus": gpus}
    worse = state.DEGRADED if facts["state"] == state.OK else facts["state"]
    message = "\n".join(filter(None, [facts["message"], *said, *strays]))[:2000]
    return {**facts, "gpus": gpus, "state": worse, "message": message, "advice": state.ADVICE[worse]}


def _gpu(gpu: dict[str, Any], found: Sequence[Finding]) -> dict[str, Any]:
    problems = list(dict.fromkeys([*gpu["problems"], *lines_of(found)]))
    advice = [*(each.advice for each in found if list(lines_of([each]))), *(_cure(each) for each in gpu["problems"])]
    return {**gpu, "problems": problems, "advice": _once(advice), "healthy": not problems}


def _cure(problem: str) -> str:
    if problem == PENDING:
        return data.ACTIONS[data.REMAP][1]
    return next((cure for sign, cure in _CURES if sign.search(problem)), _OTHERWISE)


def _once(advice: Iterable[str]) -> list[str]:
    """Without repetition, and without the general advice where there is a better one."""
    found = list(dict.fromkeys(advice))
    return [each for each in found if each != _OTHERWISE or len(found) == 1]
