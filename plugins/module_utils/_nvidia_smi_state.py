# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The states that a host's GPUs can be in, recognised by the words of nvidia-smi, and what to do about each.

nvidia-smi prints its errors to stdout. Words and exit statuses: observed with 535 and 550, and nvidia-smi(1).
"""

from __future__ import annotations

import re

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

# States of the driver as a whole: asking in another form would give the same answer.
FINAL = (NO_DEVICES, NOT_INSTALLED, NOT_LOADED, MISMATCH, DENIED, TIMEOUT)

ADVICE = {
    OK: None,
    DEGRADED: "Look at problems of each GPU and at the kernel log (dmesg | grep -e NVRM -e Xid). A GPU that is lost or "
    "needs a reset comes back with a reset (nvidia-smi --gpu-reset) or a reboot; if not, it may be broken.",
    NO_DEVICES: "The driver runs and finds no GPU. Look whether the GPU is on the PCI bus (lspci -d 10de:), whether "
    "another driver such as vfio-pci or nouveau holds it, and whether the GPU is too old or too new for this driver.",
    NOT_INSTALLED: "Install the NVIDIA driver with its user space (nvidia-smi, libnvidia-ml.so).",
    NOT_LOADED: "Load the kernel module (modprobe nvidia) and see what it says (dmesg | grep -e NVRM -e nvidia). After "
    "a new kernel the module must be built or installed for it, with Secure Boot it must be signed.",
    MISMATCH: "The kernel module that is loaded is of another version than the user space: the driver was upgraded "
    "since. Reboot, or unload and load the module when no GPU is in use.",
    DENIED: "Run as root, or see to the rights of /dev/nvidia*. In a container the device may have been taken away.",
    LOST: "The GPU fell off the bus. Look at the kernel log (dmesg | grep Xid), reboot; if it comes again, check its "
    "power, seat and cooling.",
    RESET: "Stop what uses the GPU and reset it (nvidia-smi --gpu-reset), or reboot.",
    TIMEOUT: "nvidia-smi hangs, usually in the driver. Look at the kernel log (dmesg | grep -e NVRM -e Xid) and for "
    "processes in state D; a reboot is usually needed. With many GPUs and persistence mode off a longer timeout helps.",
    CRASHED: "nvidia-smi crashed. Look whether its version and that of libnvidia-ml.so are those of the driver, and at "
    "the kernel log.",
    UNREADABLE: "nvidia-smi gave nothing that could be read as GPUs. Run it by hand and look at what it prints.",
}

_WORDS = (
    (NOT_INSTALLED, r"couldn't find (?:the )?libnvidia-ml|libnvidia-ml\.so\S*: cannot open|command not found"),
    (NOT_LOADED, r"couldn't communicate with the NVIDIA driver|Driver Not Loaded"),
    (MISMATCH, r"Driver/library version mismatch|Failed to initialize NVML: Function Not Found"),
    (DENIED, r"Insufficient Permissions|access blocked by the operating system|Permission denied"),
    (RESET, r"GPU requires reset|A GPU reset must occur|GPU Reset Required"),
    (LOST, r"GPU is lost|fallen off the bus"),
    (NO_DEVICES, r"No devices (?:were )?found"),
    (TIMEOUT, r"Failed to initialize NVML: Timeout"),
)
_COMPILED = tuple((state, re.compile(pattern, re.IGNORECASE)) for state, pattern in _WORDS)
_STATUS = {12: NOT_INSTALLED, 9: NOT_LOADED, 18: MISMATCH, 4: DENIED, 17: DENIED, 15: LOST}

# Words that matter stand at the beginning or at the end, whatever fills the middle.
_ENDS = 20_000

_HANDLE = re.compile(
    r"Unable to determine the device handle for gpu\s*(?P<index>\d{1,4}(?=:\s))?(?::\s)?\s*"
    r"(?P<address>[0-9A-Fa-f:]+\.[0-7])\s*:\s*(?P<text>.*)",
    re.IGNORECASE,
)
_AT_GPU = re.compile(r"\bgpu\s{0,9}(?P<address>(?:[0-9A-F]{4,8}:)?[0-9A-F]{2}:[0-9A-F]{2}\.[0-7])", re.IGNORECASE)


def failure(said: str, rc: int | None) -> str:
    """The state that words without any data, or with too little of it, stand for."""
    if len(said) > 2 * _ENDS:
        said = f"{said[:_ENDS]}\n{said[-_ENDS:]}"
    for state, pattern in _COMPILED:
        if pattern.search(said):
            return state
    if rc is not None and (rc < 0 or 128 < rc < 193):
        return CRASHED
    # Without words known here the exit status must do; 127 is that of a wrapper.
    return _STATUS.get(rc or 0, UNREADABLE) if not said.strip() else UNREADABLE


def complaint(line: str) -> tuple[int | None, str, str] | None:
    """Index (if given), PCI address and words of a line that complains about one GPU, None for other lines."""
    match = _HANDLE.search(line)
    if match:
        return int(match["index"]) if match["index"] else None, match["address"], match["text"].strip()
    match = _AT_GPU.search(line)
    return (None, match["address"], line.strip()) if match else None
