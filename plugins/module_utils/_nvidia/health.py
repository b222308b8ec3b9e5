# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Combine nvidia-smi and the kernel log into problems of GPUs with remedies. Pure functions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from .._nvidia_smi import states as state
from .._nvidia_smi.faults import DO_LOOK, fields
from .driver_messages import Message
from .xid import Finding, problems_of
from .xid_catalog import CRITICAL

# States in which the kernel log may show why there is no GPU.
UNEXPLAINED = (state.NO_DEVICES, state.NOT_LOADED, state.UNREADABLE)


def complete(facts: dict[str, Any], found: Sequence[Finding], messages: Sequence[Message] = ()) -> dict[str, Any]:
    """Return the facts of nvidia_smi_info with problems from the kernel log and advice for each GPU.

    Critical Xids are problems of their GPUs. Messages about a GPU that the driver can't use only count if nvidia-smi
    does not list that GPU as healthy, because the kernel log may be older than the loaded modules.
    """
    # A critical Xid is more specific than a message that the GPU can't be used.
    told_of = {each.address for each in found if any(problems_of([each]))}
    messages = [each for each in messages if each.switch or each.address not in told_of]
    own = {gpu["pci_bus_id"] for gpu in facts["gpus"]}
    gpus = [_gpu(gpu, [each for each in found if each.address == gpu["pci_bus_id"]], messages) for gpu in facts["gpus"]]
    strays = [
        (f"GPU {each.address}: {problem.what}", problem)
        for each in found
        if each.address not in own
        for problem in problems_of([each])
    ]
    strays += [(each.line, each.problem) for each in messages if _is_stray(each, own, facts["state"])]
    lines = [f"GPU {_name(gpu)}: {', '.join(gpu['problems'])}" for gpu in gpus if gpu["problems"]]
    lines += [line for line, _problem in strays]
    # The message already contains nvidia-smi's output.
    told = [
        f"GPU {', '.join(str(gpu[key]) for key in ('index', 'pci_bus_id') if gpu[key] is not None)}: {problem['what']}"
        for gpu, before in zip(gpus, facts["gpus"])
        for problem in gpu["faults"][len(before["faults"]) :]
    ]
    told += [line for line, _problem in strays]
    worse = state.DEGRADED if facts["state"] == state.OK and told else facts["state"]
    return {
        **facts,
        "gpus": gpus,
        "state": worse,
        "message": "\n".join(filter(None, [facts["message"], *told]))[:2000] or None,
        "advice": _advice(worse, facts, gpus, [problem.do for _line, problem in strays]),
        "problems": [*facts.get("problems", []), *lines],
    }


def _is_stray(message: Message, own: set[Any], found: str) -> bool:
    """Return whether the message explains why nvidia-smi does not list a GPU, or is about an NVSwitch."""
    if message.switch:
        return message.severity == CRITICAL
    if found in UNEXPLAINED:
        return True
    return message.severity == CRITICAL and bool(message.address) and message.address not in own


def _advice(found: str, facts: dict[str, Any], gpus: Sequence[dict[str, Any]], reasons: Sequence[str]) -> str | None:
    """Return the advice for a host; advice for particular GPUs replaces the general advice."""
    known = facts.get("advice")
    of_host = [known] if known and facts.get("problems") else []
    best = _once([*of_host, *(cure for gpu in gpus for cure in gpu["advice"]), *reasons])
    if (found == state.DEGRADED and best and best != [DO_LOOK]) or (found in UNEXPLAINED and reasons):
        return " ".join(best)
    return known if found != state.DEGRADED else state.ADVICE[found]


def _name(gpu: dict[str, Any]) -> str:
    known = (gpu["index"], gpu["pci_bus_id"], gpu["uuid"])
    return str(next((each for each in known if each is not None), "of unknown index"))


def _gpu(gpu: dict[str, Any], found: Sequence[Finding], messages: Sequence[Message]) -> dict[str, Any]:
    own = [each for each in messages if each.address == gpu["pci_bus_id"] and not each.switch]
    reasons = [fields(each.problem) for each in own] if gpu["faults"] else []
    added = [*(fields(each) for each in problems_of(found)), *reasons]
    faults = [*gpu["faults"], *added]
    return {
        **gpu,
        "faults": faults,
        "problems": list(dict.fromkeys(each["what"] for each in faults)),
        "advice": _once(each["do"] for each in (*added, *gpu["faults"])),
        "healthy": not faults,
    }


def _once(advice: Iterable[str]) -> list[str]:
    """Return the advice without duplicates; the general advice only if there is no other."""
    found = list(dict.fromkeys(advice))
    return [each for each in found if each != DO_LOOK or len(found) == 1]
