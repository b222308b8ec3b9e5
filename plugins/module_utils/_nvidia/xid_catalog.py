# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Meaning of NVIDIA's Xid numbers and the action for each. Data only.

Source of the actions: NVIDIA's Xid catalog (the column "Resolution Bucket (Immediate Action)" of
https://docs.nvidia.com/deploy/xid-errors/analyzing-xid-catalog.html, 2026-09). The catalog omits 56 to 58, 61, 65 and
81, which only older GPUs have; for these the action is this project's own cautious choice. All descriptions are this
project's own.
"""

from __future__ import annotations

from dataclasses import dataclass

from .._nvidia_smi.faults import DO_LINKS, DO_REBOOT, DO_REMAP, DO_RESET, DO_SUPPORT

CRITICAL, WARNING, INFO = "critical", "warning", "info"
SEVERITIES = (INFO, WARNING, CRITICAL)

CATALOG = "https://docs.nvidia.com/deploy/xid-errors/"

RESET, REBOOT, RESTART, SUPPORT, FIRMWARE = "reset", "reboot", "restart", "support", "firmware"
CABLES, NVLINK, REMAP, UPDATE, NOTHING, LOOK_UP = "cables", "nvlink", "remap", "update", "nothing", "look_up"

# Action -> (severity of an Xid with this action, advice).
ACTIONS = {
    RESET: (CRITICAL, DO_RESET),
    REBOOT: (CRITICAL, DO_REBOOT),
    FIRMWARE: (
        CRITICAL,
        "Stop all programs that use the GPU and reset it (nvidia-smi --gpu-reset), or reboot the host. If it happens "
        'again, see docs/troubleshooting.md, section "Xid 119 or 120 (GSP)".',
    ),
    SUPPORT: (CRITICAL, DO_SUPPORT),
    NVLINK: (CRITICAL, DO_LINKS),
    RESTART: (
        WARNING,
        "The error has ended the program that used the GPU: start the program again. If the error also occurs with "
        "other programs, suspect the GPU, and check the kernel log for its other messages.",
    ),
    CABLES: (WARNING, "Check that the GPU's power cables are connected, and the power supply; then reboot the host."),
    REMAP: (WARNING, DO_REMAP),
    UPDATE: (WARNING, "Use compatible versions of the driver, the firmware and the vGPU manager."),
    NOTHING: (INFO, "This error alone requires no action."),
    LOOK_UP: (WARNING, f"Look it up in NVIDIA's catalog: {CATALOG}"),
}

# A single nonfatal NVLink error requires no action. The catalog judges these errors by their status bits; NCCL runs
# were observed to fail with many of them.
STORM = (
    WARNING,
    "Each of these errors alone requires no action, but so many of them can end programs that use NVLink. Check the "
    "links (nvidia-smi nvlink --status) and nvidia-fabricmanager's log; if they go on, reset all GPUs that are linked, "
    "or reboot the host, and have the connections checked.",
)


@dataclass(frozen=True)
class Xid:
    """``what`` is a short description, ``action`` a key of ACTIONS."""

    what: str
    action: str


def _several(numbers: range, what: str, action: str) -> dict[int, Xid]:
    return {number: Xid(what, action) for number in numbers}


XIDS = {
    8: Xid("a program's work on the GPU did not end in time", RESTART),
    11: Xid("invalid or corrupted commands", RESTART),
    13: Xid("exception in a program's code on the GPU", RESTART),
    14: Xid("an intentional error, for tests", NOTHING),
    25: Xid("an illegal notification", RESTART),
    31: Xid("a program accessed memory that it does not own", RESTART),
    32: Xid("invalid or corrupted commands", RESTART),
    37: Xid("a method that is unknown to the firmware", NOTHING),
    38: Xid("the firmware's watchdog", NOTHING),
    **_several(range(39, 42), "error of a copy engine", RESTART),
    43: Xid("a program's channel was stopped", NOTHING),
    44: Xid("fault during a context switch", NOTHING),
    45: Xid("a program's work was removed, after another error or at its end", NOTHING),
    46: Xid("the GPU no longer responds", RESET),
    48: Xid("uncorrectable memory error (double bit ECC)", RESET),
    54: Xid("insufficient power, the GPU runs slower", CABLES),
    56: Xid("error of the display engine", RESET),
    57: Xid("the memory could not be trained", RESET),
    58: Xid("the memory responded unreliably", RESET),
    60: Xid("error of the security engine", RESTART),
    61: Xid("the GPU's microcontroller stopped at a breakpoint", RESET),
    62: Xid("the GPU's microcontroller halted", RESET),
    63: Xid("a bad page or row of memory was marked", REMAP),
    64: Xid("a bad page or row of memory could not be marked", RESET),
    65: Xid("error of the video processor", RESTART),
    66: Xid("illegal access by a driver", NOTHING),
    67: Xid("illegal access by a driver", NOTHING),
    68: Xid("error of the video decoder", RESTART),
    69: Xid("error of the graphics engine's class", RESTART),
    **_several(range(70, 73), "error of a copy engine", RESTART),
    74: Xid("error of an NVLink connection", NVLINK),
    **_several(range(75, 78), "error of a copy engine", RESTART),
    78: Xid("vGPU could not be started", UPDATE),
    79: Xid("the GPU has fallen off the bus", REBOOT),
    80: Xid("corrupted commands", RESTART),
    81: Xid("error of the display", RESTART),
    82: Xid("error of the JPEG engine", RESTART),
    **_several(range(83, 85), "error of the video decoder", RESTART),
    85: Xid("error of a copy engine", RESTART),
    86: Xid("error of the optical flow engine", RESTART),
    **_several(range(88, 90), "error of the video decoder", RESTART),
    92: Xid("many corrected memory errors", NOTHING),
    93: Xid("the GPU's own record can no longer be erased", NOTHING),
    94: Xid("uncorrectable memory error, contained to one program", RESTART),
    95: Xid("uncorrectable memory error, not contained", RESET),
    **_several(range(96, 99), "error of the video decoder", RESTART),
    **_several(range(99, 106), "error of the JPEG engine", RESTART),
    **_several(range(106, 108), "a test message", NOTHING),
    108: Xid("an address of another GPU could not be translated", NOTHING),
    109: Xid("a context switch did not end in time", RESET),
    110: Xid("security fault", RESET),
    119: Xid("the GPU's system processor (GSP) does not respond", FIRMWARE),
    120: Xid("error of the GPU's system processor (GSP)", FIRMWARE),
    121: Xid("corrected error between CPU and GPU (C2C)", NOTHING),
    **_several(range(126, 136), "error of a copy engine", RESTART),
    136: Xid("an NVLink connection could not be trained", RESET),
    137: Xid("another GPU accessed memory that it does not own", NOTHING),
    139: Xid("error of the optical flow engine", RESTART),
    140: Xid("uncorrectable memory error", RESET),
    141: Xid("error of the fast path", NOTHING),
    142: Xid("error of the video encoder", SUPPORT),
    143: Xid("the GPU could not be initialized", RESET),
    **_several(range(144, 151), "error of NVLink", NVLINK),
    151: Xid("the keys of confidential computing could not be changed", REBOOT),
    154: Xid("the driver requests a different recovery action", LOOK_UP),
    155: Xid("error of NVLink that its software found", RESET),
    156: Xid("a defective part of the GPU was disabled", RESET),
    157: Xid("a defective part of the GPU could not be disabled", NOTHING),
    158: Xid("fatal: the GPU does not respond in time", RESET),
    160: Xid("a defective memory channel was disabled", NOTHING),
    161: Xid("a defective memory channel could not be disabled", NOTHING),
    167: Xid("PCIe does not respond in time", REBOOT),
    168: Xid("the GPU has less memory than it should have", LOOK_UP),
    171: Xid("location of an uncorrectable memory error (DRAM)", LOOK_UP),
    172: Xid("location of an uncorrectable memory error (SRAM)", LOOK_UP),
}
# Since NVLink 5, errors of one number may be fatal or not; the message shows which.
NVLINK5 = range(144, 151)
RECOVERY = 154
LOST = 79
