# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Recognize the state of a host's GPUs in nvidia-smi's messages, with advice for each state.

nvidia-smi prints its errors to stdout. Messages and exit statuses: observed with 535 and 550, and nvidia-smi(1).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

OK, DEGRADED, NO_DEVICES = "ok", "degraded", "no_devices"
NOT_INSTALLED, NOT_LOADED, MISMATCH = "driver_not_installed", "driver_not_loaded", "version_mismatch"
DENIED, LOST, RESET = "access_denied", "gpu_lost", "reset_required"
TIMEOUT, CRASHED, UNREADABLE = "timeout", "crashed", "unreadable"

STATES = (
    OK,
    DEGRADED,
    NO_DEVICES,
    NOT_INSTALLED,
    NOT_LOADED,
    MISMATCH,
    DENIED,
    LOST,
    RESET,
    TIMEOUT,
    CRASHED,
    UNREADABLE,
)

# States of the whole driver; other formats would give the same answer.
FINAL = (NO_DEVICES, NOT_INSTALLED, NOT_LOADED, MISMATCH, DENIED, TIMEOUT)

ADVICE = {
    OK: None,
    DEGRADED: "Check the problems of each GPU and the kernel log (dmesg | grep -e NVRM -e Xid). A GPU that is lost or "
    "needs a reset usually works again after a reset (nvidia-smi --gpu-reset) or a reboot; if not, it may "
    "be broken.",
    NO_DEVICES: "The driver runs but finds no GPU. Check whether the GPU is on the PCI bus (lspci -d 10de:), whether "
    "another driver such as vfio-pci or nouveau uses it, and whether the GPU is too old or too new for "
    "this driver.",
    NOT_INSTALLED: "Install the NVIDIA driver with its user-space components (nvidia-smi, libnvidia-ml.so).",
    NOT_LOADED: "Load the kernel module (modprobe nvidia) and check its messages (dmesg | grep -e NVRM -e nvidia). "
    "For a new kernel, the module must be built or installed; with Secure Boot, it must be signed.",
    MISMATCH: "The loaded kernel module and the user space have different versions: the driver was upgraded after "
    "the module was loaded. Reboot, or unload and load the module when no GPU is in use.",
    DENIED: (
        "Run as root, or check the permissions of /dev/nvidia*. In a container, access to the device may have been "
        "removed."
    ),
    LOST: "The GPU fell off the bus. Check the kernel log (dmesg | grep Xid) and reboot; if it happens again, check "
    "the GPU's power, seating and cooling.",
    RESET: "Stop all programs that use the GPU and reset it (nvidia-smi --gpu-reset), or reboot.",
    TIMEOUT: "nvidia-smi hangs, usually in the driver. Check the kernel log (dmesg | grep -e NVRM -e Xid), and look "
    "for processes in state D; a reboot is usually needed. With many GPUs and persistence mode off, a longer "
    "timeout helps.",
    CRASHED: "nvidia-smi crashed. Check whether nvidia-smi and libnvidia-ml.so have the same version as the driver, "
    "and check the kernel log.",
    UNREADABLE: "The output of nvidia-smi is not a list of GPUs. Run it manually and check its output.",
}

_UNOPENED = (
    "nvidia-smi can't open {}. Check the kernel log (dmesg | grep -e NVRM -e Xid) and reboot the host; if it happens "
    "again, check the GPU's power, seating and cooling, or try another version of the driver."
)

# Messages after "Failed to initialize NVML: " that are not states of their own -> advice.
_NVML = (
    (
        re.compile(r"Insufficient External Power", re.IGNORECASE),
        "A GPU has no power: check that its power cables are connected, and the power supply; then reboot the host.",
    ),
    (
        re.compile(r"Memory|Resources", re.IGNORECASE),
        "The host has no memory left for the driver: check free -m and the kernel log, and stop what uses the memory.",
    ),
)
_NVML_FAILED = re.compile(r"Failed to initialize NVML:[ \t]{0,9}(?P<words>[^\n]{0,200})", re.IGNORECASE)
_NVML_ADVICE = (
    "The driver's library (NVML) can't start. On a host, check that root can open the device files (ls -l "
    "/dev/nvidia*; nvidia-modprobe creates them) and the kernel log (dmesg | grep -e NVRM -e Xid), then reboot. In a "
    "container, access to the GPUs was lost, as after systemctl daemon-reload: restart the container or pod."
)

# Messages of nvidia-smi, then those of a shell or wrapper, which may be about something else.
_WORDS = (
    (
        NOT_INSTALLED,
        r"couldn.t find (?:the )?libnvidia-ml|libnvidia-ml\.so\S*: cannot open|NVML: .{0,20}Library Not Found",
    ),
    (NOT_LOADED, r"couldn.t communicate with the NVIDIA driver|Driver Not Loaded"),
    (
        MISMATCH,
        r"Driver/library version mismatch|API mismatch|NVML/RM version mismatch"
        r"|Failed to initialize NVML: Function Not Found",
    ),
    (LOST, r"GPU is lost|fallen off the bus"),
    (RESET, r"GPU requires reset|A GPU reset must occur|GPU Reset Required"),
    (DENIED, r"Insufficient Permissions|access blocked by the operating system"),
    (NO_DEVICES, r"No devices (?:were )?found"),
    (TIMEOUT, r"Failed to initialize NVML: Timeout"),
)
_AROUND = (
    (
        NOT_INSTALLED,
        r"command not found|' not found|executable file not found|nvidia-smi\S{0,9}: (?:not found|No such file)",
    ),
    (DENIED, r"Permission denied"),
    (CRASHED, r"Segmentation fault|Bus error|Illegal instruction|core dumped"),
)
_PATTERNS, _LAST_PATTERNS = (
    tuple((state, re.compile(pattern, re.IGNORECASE)) for state, pattern in words) for words in (_WORDS, _AROUND)
)
# 124 is the exit status of timeout(1).
_STATUS = {4: DENIED, 6: NO_DEVICES, 9: NOT_LOADED, 12: NOT_INSTALLED, 15: LOST, 17: DENIED, 18: MISMATCH, 124: TIMEOUT}

# Error messages are at the beginning or the end of long output.
_ENDS = 20_000

_NO_HANDLE = "Unable to determine the device handle"
_ADDRESS = r"(?P<address>(?:[0-9A-F]{4,8}:)?[0-9A-F]{2}:[0-9A-F]{2}\.[0-7])"
_AT_GPU = re.compile(
    rf"\bGPU\s{{0,9}}(?:(?P<index>\d{{1,4}}):\s{{1,9}})?{_ADDRESS}(?:\s{{0,9}}:\s{{0,9}}(?P<text>.*))?", re.IGNORECASE
)
_AT_INDEX = re.compile(rf"{_NO_HANDLE} for GPU\s{{0,9}}(?P<index>\d{{1,4}}):\s{{1,9}}(?P<text>.*)", re.IGNORECASE)
_WARNING = re.compile(r"warning|inforom", re.IGNORECASE)
_TROUBLE = re.compile(r"unable|warning|error|corrupt|fail|lost|reset|fallen", re.IGNORECASE)


def failure(said: str, rc: int | None) -> str:
    """Return the state that a message without sufficient data means."""
    if len(said) > 2 * _ENDS:
        said = f"{said[:_ENDS]}\n{said[-_ENDS:]}"
    # In a CSV row without a header, the message concerns one GPU, which cannot be identified.
    said = "\n".join(line for line in said.split("\n") if not (", " in line and "[" in line))
    for state, pattern in _PATTERNS:
        # A GPU that can't be opened does exist.
        if pattern.search(said) and not (state == NO_DEVICES and _NO_HANDLE in said):
            return state
    if rc is not None and (rc < 0 or 128 < rc < 193):
        return CRASHED
    for state, pattern in _LAST_PATTERNS:
        if pattern.search(said):
            return state
    # The exit status is only used if there is no message.
    return _STATUS.get(rc or 0, UNREADABLE) if not said.strip() else UNREADABLE


@dataclass(frozen=True)
class Complaint:
    """A message about one GPU. ``unreadable``: nvidia-smi does not list this GPU afterwards."""

    index: int | None
    address: str | None
    words: str
    unreadable: bool


def complaint(line: str) -> Complaint | None:
    """Return the message about one GPU, with index and PCI address if given; None for other lines."""
    match = _AT_GPU.search(line) or _AT_INDEX.search(line)
    if not match or not _TROUBLE.search(line):
        return None
    found = match.groupdict()
    index = int(found["index"]) if found["index"] else None
    return Complaint(index, found.get("address"), (found["text"] or line).strip(), not _WARNING.search(line))


def advice(state: str, gpus: Sequence[Mapping[str, Any]], said: str = "") -> str | None:
    """Return the advice for a host in that state.

    For ``unreadable``, ``gpus`` only appear in error messages, and ``said`` may contain why the library can't start.
    """
    unstarted = _NVML_FAILED.search(said[:_ENDS])
    if state == UNREADABLE and unstarted and not gpus:
        return next((do for pattern, do in _NVML if pattern.search(unstarted["words"])), _NVML_ADVICE)
    if state != UNREADABLE or not gpus:
        return ADVICE[state]
    names = [f"GPU {gpu['pci_bus_id'] or gpu['index']}" for gpu in gpus[:8]]
    return _UNOPENED.format(", ".join(names))


def gpu_state_in(words: str) -> str | None:
    """Return ``gpu_lost`` or ``reset_required`` if the message gives that as the reason, else None."""
    return next((state for state, pattern in _PATTERNS if state in (LOST, RESET) and pattern.search(words)), None)
