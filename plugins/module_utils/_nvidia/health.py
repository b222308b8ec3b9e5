# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What ails a GPU by nvidia-smi and by the kernel log, put together, and what to do about each. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from .._nvidia_smi import states as state
from .._nvidia_smi.faults import DO_LOOK, fields
from .xid import Finding, problems_of


def complete(facts: dict[str, Any], found: Sequence[Finding]) -> dict[str, Any]:
    """The facts of nvidia_smi_info with the Xids that count as problems of their GPUs, and advice for each GPU."""
    own = {gpu["pci_bus_id"] for gpu in facts["gpus"]}
    gpus = [_gpu(gpu, [each for each in found if each.address == gpu["pci_bus_id"]]) for gpu in facts["gpus"]]
    strays = [(each.address, problem) for each in found if each.address not in own for problem in problems_of([each])]
    lines = [f"GPU {_name(gpu)}: {', '.join(gpu['problems'])}" for gpu in gpus if gpu["problems"]]
    lines += [f"GPU {address}: {problem.what}" for address, problem in strays]
    # What nvidia-smi said is in the message already.
    told = [
        f"GPU {', '.join(str(gpu[key]) for key in ('index', 'pci_bus_id') if gpu[key] is not None)}: {problem.what}"
        for gpu in gpus
        for problem in problems_of(each for each in found if each.address == gpu["pci_bus_id"])
    ]
    told += [f"GPU {address}: {problem.what}" for address, problem in strays]
    worse = state.DEGRADED if facts["state"] == state.OK and told else facts["state"]
    advice = state.ADVICE[worse]
    if worse == state.DEGRADED:
        # What is known of each GPU says more than what may be wrong with any.
        best = _once([*(cure for gpu in gpus for cure in gpu["advice"]), *(problem.do for _address, problem in strays)])
        advice = " ".join(best) if best and best != [DO_LOOK] else advice
    message = "\n".join(filter(None, [facts["message"], *told]))[:2000] or None
    return {**facts, "gpus": gpus, "state": worse, "message": message, "advice": advice, "problems": lines}


def _name(gpu: dict[str, Any]) -> str:
    known = (gpu["index"], gpu["pci_bus_id"], gpu["uuid"])
    return str(next((each for each in known if each is not None), "of unknown index"))


def _gpu(gpu: dict[str, Any], found: Sequence[Finding]) -> dict[str, Any]:
    xids = [fields(each) for each in problems_of(found)]
    faults = [*gpu["faults"], *xids]
    return {
        **gpu,
        "faults": faults,
        "problems": list(dict.fromkeys(each["what"] for each in faults)),
        "advice": _once(each["do"] for each in (*xids, *gpu["faults"])),
        "healthy": not faults,
    }


def _once(advice: Iterable[str]) -> list[str]:
    """Without repetition, and without the general advice where there is a better one."""
    found = list(dict.fromkeys(advice))
    return [each for each in found if each != DO_LOOK or len(found) == 1]
