# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Recognize problems of a GPU in nvidia-smi's output, each with its kind and advice. Pure functions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from .._problem import Problem
from .states import LOST, RESET, gpu_state_in
from .values import FAULTS, NUMBER, WHOLE_GPU, bare, word

DO_RESET = (
    "Stop all programs that use the GPU and reset it (nvidia-smi --gpu-reset), or reboot the host. If it happens "
    "again, have the GPU checked by its vendor."
)
DO_REBOOT = (
    "Reboot the host. If it happens again, check the GPU's power, seating and cooling, and have it checked by its "
    "vendor."
)
DO_SUPPORT = "Have the GPU checked by its vendor; nvidia-bug-report.sh collects the information that vendors need."
DO_LINKS = (
    "Check the links (nvidia-smi nvlink --status) and nvidia-fabricmanager's log; reset all GPUs that are linked, or "
    "reboot the host. If it happens again, have the connections checked."
)
DO_REMAP = (
    "Defective memory was marked and will be disabled by the next reset of the GPU (nvidia-smi --gpu-reset) or the "
    "next reboot."
)
DO_LOOK = "Check nvidia-smi -q and the kernel log; a reset of the GPU (nvidia-smi --gpu-reset) or a reboot often helps."

DO_CUDA = (
    "Install the driver's CUDA library (libcuda.so.1) in the version of the driver, and check that ldconfig -p lists "
    "it; no program can use CUDA without it. In WSL, it is in /usr/lib/wsl/lib."
)
DO_LICENSE = (
    "Check nvidia-gridd on this machine (systemctl status nvidia-gridd; journalctl -u nvidia-gridd), its client "
    "configuration token in /etc/nvidia/ClientConfigToken, the clock, and that the license server can be reached and "
    "has a free license. Without a license a vGPU is slowed down, and CUDA programs may fail after a while."
)

# Commands in the advice about GPUs and their driver.
COMMANDS = (
    *("nvidia-smi --gpu-reset", "nvidia-smi nvlink --status", "nvidia-smi -q"),
    *("systemctl status nvidia-gridd", "journalctl -u nvidia-gridd", "dkms status"),
)

# Kind -> advice.
REMEDIES = {
    LOST: DO_REBOOT,
    RESET: DO_RESET,
    "gpu_silent": DO_LOOK,
    "gpu_fault": DO_LOOK,
    "reset_advised": DO_RESET,
    "reboot_advised": DO_REBOOT,
    "recovery_advised": DO_LOOK,
    "row_remapping_failed": DO_SUPPORT,
    "row_remapping_pending": DO_REMAP,
    "fabric_not_healthy": DO_LINKS,
    "vgpu_unlicensed": DO_LICENSE,
}


def fault(kind: str, what: str) -> Problem:
    return Problem(kind, what, "", "", REMEDIES[kind])


def fields(problem: Problem) -> dict[str, str]:
    """Return the problem as the module returns it."""
    return {"kind": problem.kind, "what": problem.what, "do": problem.do}


def problem_from_message(words: str) -> Problem:
    """Return the problem for a message of nvidia-smi about a GPU; only the message shows its kind."""
    return fault(gpu_state_in(words) or ("reset_advised" if "reset" in words.lower() else "gpu_fault"), words)


def faults(values: Iterable[tuple[str, str | None]], numbers: Iterable[str] = ()) -> list[Problem]:
    """Return problems for error messages in place of values; each value has the name of its field.

    In the fields ``numbers``, a text that starts like a number but is not one is damaged and also a problem.
    """
    found = []
    for label, raw in values:
        text = bare(raw)
        if text.lower() in FAULTS:
            found.append(problem_from_message(text if text.lower().startswith("gpu ") else f"{label}: {text}"))
        elif label in numbers and text[:1].isdigit() and not NUMBER.fullmatch(text):
            found.append(fault("gpu_fault", f"{label}: {text[:40]}"))
    return list(dict.fromkeys(found))


def whole_gpu_problems(raws: Iterable[str | None]) -> list[Problem]:
    """Return problems for messages that the whole GPU can't be read, in any field."""
    found = [bare(raw) for raw in raws]
    return [problem_from_message(text) for text in dict.fromkeys(found) if text.lower() in WHOLE_GPU]


def health(
    recovery: str | None, reset: bool | None, fabric: Mapping[str, str | None], memory: Mapping[str, bool | None]
) -> list[Problem]:
    """Return the problems that a GPU reports itself.

    ``fabric`` contains state, status, summary and further health values. ``memory``: whether pages or rows are waiting
    to be retired or remapped (pending), and whether that failed (failure).
    """
    found, wanted = [], word(recovery)
    if wanted:
        known = {"reboot": "reboot_advised", "drain": "reset_advised", "reset": "reset_advised"}
        kind = next((kind for sign, kind in known.items() if sign in wanted.lower()), "recovery_advised")
        found.append(fault(kind, f"recovery action: {wanted}"))
    if reset:
        found.append(fault("reset_advised", "a reset is required"))
    if memory["failure"]:
        found.append(fault("row_remapping_failed", "row remapping failed"))
    if memory["pending"]:
        found.append(fault("row_remapping_pending", "defective memory will be disabled by the next reset"))
    state, status = word(fabric.get("state")), word(fabric.get("status"))
    ill = [f"state: {state}"] if state and state != "Completed" else []
    ill += [f"status: {status}"] if status and status != "Success" else []
    summary = word(fabric.get("summary"))
    ill += [f"health: {summary}"] if summary and summary != "Healthy" else []
    for key in ("route_unhealthy", "incorrect_configuration", "bandwidth"):
        value = word(fabric.get(key))
        if value and value.lower() not in ("false", "full", "no"):
            ill.append(f"{key.replace('_', ' ')}: {value}")
    return [*found, *(fault("fabric_not_healthy", f"fabric {each}") for each in ill)]


def license_problems(virtualization: str | None, status: str | None) -> list[Problem]:
    """Return a problem if a vGPU has no license. The status of other GPUs is irrelevant for CUDA."""
    mode, known = bare(virtualization).upper(), word(status)
    if known is None or mode not in ("", "VGPU") or not known.lower().startswith(("unlicensed", "expired")):
        return []
    return [fault("vgpu_unlicensed", f"the vGPU has no license: {known}")]
