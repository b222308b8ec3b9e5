# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What ails a GPU by nvidia-smi and by the kernel log, put together, and what to do about each. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

from .._nvidia_smi import states as state
from .._nvidia_smi.values import PENDING
from . import xid_catalog as data
from .xid import Finding, lines_of

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
    strays = [each for each in found if each.address not in own and list(lines_of([each]))]
    lines = [f"GPU {_name(gpu)}: {', '.join(gpu['problems'])}" for gpu in gpus if gpu["problems"]]
    lines += [f"GPU {each.address}: {line}" for each in strays for line in lines_of([each])]
    # What nvidia-smi said is in the message already.
    told = [
        f"GPU {', '.join(str(gpu[key]) for key in ('index', 'pci_bus_id') if gpu[key] is not None)}: {line}"
        for gpu in gpus
        for line in lines_of(each for each in found if each.address == gpu["pci_bus_id"])
    ]
    told += [f"GPU {each.address}: {line}" for each in strays for line in lines_of([each])]
    worse = state.DEGRADED if facts["state"] == state.OK and told else facts["state"]
    advice = state.ADVICE[worse]
    if worse == state.DEGRADED:
        # What is known of each GPU says more than what may be wrong with any.
        best = _once([*(cure for gpu in gpus for cure in gpu["advice"]), *(each.advice for each in strays)])
        advice = " ".join(best) if best and best != [_OTHERWISE] else advice
    message = "\n".join(filter(None, [facts["message"], *told]))[:2000] or None
    return {**facts, "gpus": gpus, "state": worse, "message": message, "advice": advice, "problems": lines}


def _name(gpu: dict[str, Any]) -> str:
    known = (gpu["index"], gpu["pci_bus_id"], gpu["uuid"])
    return str(next((each for each in known if each is not None), "of unknown index"))


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
