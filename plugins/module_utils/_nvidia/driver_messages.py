# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Parse kernel messages about GPUs, other than Xids, and about NVSwitches. Pure functions.

Source: nv.c, nv-pci.c and osapi.c of github.com/NVIDIA/open-gpu-kernel-modules, and bug reports since branch 340.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from .._nvidia_smi.faults import DO_LINKS, DO_REBOOT
from .._nvidia_smi.values import bus_id
from .._problem import Problem
from .._words import written
from .kernel_records import BROKEN, LONGEST, Record
from .xid_catalog import CRITICAL, INFO, WARNING

_MOST_LINES = 8
_ADDRESS = r"(?P<address>(?:[0-9A-Fa-f]{4,8}:)?(?:00)?[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}(?:\.[0-7])?)"
# Some messages span several lines, each with its own NVRM, in one record or in several.
_BEGIN = re.compile(rf"NVRM:\s{{0,9}}The NVIDIA (?:GPU {_ADDRESS}|\S[^\n]{{0,60}} GPU installed in this system is)")
# Printed when the module starts to load; messages of a module that was loaded before no longer apply.
_LOADED = re.compile(r"nvidia-nvlink: Nvlink Core is being initialized")
_SXID = re.compile(
    rf"nvidia-nvswitch\d{{1,4}}: SXid \((?:PCI:)?{_ADDRESS}\): (?P<sxid>\d{{1,5}}), (?P<fatal>Fatal|Non-fatal)\b"
    r",?\s{0,9}(?P<text>.{0,300})"
)

_MODULES = (
    "Set nvidia_driver_modules={} and run site.yml, or install this kind of modules yourself; then reboot, or unload "
    "the modules that are loaded."
)
_TAKEN = (
    "Another driver owns the GPU: see lspci -k -d 10de:. If that is nouveau, unload it (modprobe -r nouveau) or "
    "reboot; if it is vfio-pci, the GPU is reserved for virtual machines: release it, or leave it to them."
)
_SPACE = (
    "Neither the firmware nor the hypervisor gave the GPU this address space. Turn on Above 4G Decoding (and Resizable "
    "BAR) in the firmware's setup, and update the firmware; if that doesn't help, boot with pci=realloc, or with "
    "pci=realloc=off. In a virtual machine, use UEFI and enlarge the 64-bit MMIO window (VMware: "
    "pciPassthru.use64bitMMIO=TRUE and pciPassthru.64bitMMIOSizeGB; QEMU: opt/ovmf/X-PciMmio64Mb)."
)
_OTHER_VERSION = (
    "Choose a version of the driver for this GPU (nvidia_driver_version): gpulab.kubernetes.preflight shows which "
    "versions serve the GPUs of each host."
)
_INIT = (
    "Turn the host off and on again (a reboot doesn't reset everything). If it happens again, try another version or "
    "the other kind of modules (nvidia_driver_version, nvidia_driver_modules); in a virtual machine, check how the GPU "
    "is passed through; otherwise have the GPU checked by its vendor."
)


@dataclass(frozen=True)
class MessagePattern:
    """A message of the driver. CRITICAL: a missing GPU is a problem; WARNING: it may be intended."""

    kind: str
    pattern: re.Pattern[str]
    what: str
    do: str
    severity: str = CRITICAL


def _pattern(kind: str, pattern: str, what: str, do: str, severity: str = CRITICAL) -> MessagePattern:
    return MessagePattern(kind, re.compile(pattern.replace("ADDRESS", _ADDRESS)), what, do, severity)


# More specific patterns come first. ``ADDRESS`` stands for the PCI address of the GPU.
PATTERNS = (
    _pattern(
        "open_modules_required",
        r"NVRM: The NVIDIA GPU ADDRESS .{0,60}requires use of the NVIDIA open kernel modules",
        "requires NVIDIA's open kernel modules, but the proprietary ones are loaded",
        _MODULES.format("open"),
    ),
    _pattern(
        "proprietary_modules_required",
        r"NVRM: The NVIDIA GPU ADDRESS .{0,60}not supported by (?:the )?open (?:NVRM: )?nvidia\.ko",
        "requires NVIDIA's proprietary kernel modules, but the open ones are loaded",
        _MODULES.format("proprietary"),
    ),
    _pattern(
        "gpu_not_supported",
        r"NVRM: The NVIDIA GPU ADDRESS .{0,60}is not supported by the .{0,20}NVIDIA (?P<n>\d[\d.]{0,12}) driver",
        "is not supported by driver {n}",
        _OTHER_VERSION,
        WARNING,
    ),
    _pattern(
        "gpu_not_supported",
        r"NVRM: The NVIDIA (?P<name>\w[\w ()./+-]{0,60}) GPU installed in this system is supported through the NVIDIA "
        r"(?P<n>\d[\d.x]{0,12}) Legacy drivers",
        "{name} needs a driver of the discontinued branch {n}",
        _OTHER_VERSION,
        WARNING,
    ),
    _pattern(
        "bar_not_assigned",
        r"NVRM: (?:.{0,80} )?BAR(?P<n>\d) is \d{1,9}M @ 0x[0-9A-Fa-f]{1,16} \((?:PCI:)?ADDRESS\)",
        "has no usable address space for BAR{n}",
        _SPACE,
    ),
    _pattern(
        "gsp_firmware_missing",
        r"nvidia ADDRESS: Direct firmware load for (?P<n>nvidia/[\w./-]{1,60}) failed",
        "lacks its firmware, {n}",
        "Install the firmware package of the driver in the same version (site.yml does); then reboot, or load the "
        "modules again.",
    ),
    _pattern(
        "gpu_taken",
        r"NVRM: GPU ADDRESS is already bound to (?P<n>[\w.-]{1,40}?)\.?(?:\s|$)",
        "is owned by {n}",
        _TAKEN,
        WARNING,
    ),
    _pattern(
        "gpu_taken",
        r"NVRM: request_mem_region failed for \d{1,9}M @ ",
        "another driver owns the registers of a GPU",
        _TAKEN,
        WARNING,
    ),
    _pattern(
        "gpu_taken",
        r"NVRM: The NVIDIA probe routine was not called for (?P<n>\d{1,4}) device",
        "the driver could not take over {n} GPU(s), another driver owns them",
        _TAKEN,
        WARNING,
    ),
    _pattern(
        "interrupt_missing",
        r"NVRM: Can't find an IRQ for your NVIDIA card",
        "a GPU has no interrupt",
        "Check the firmware's setup and update the firmware; in a virtual machine, check that the GPU is passed "
        "through with MSI.",
    ),
    _pattern(
        "gpu_init_failed",
        r"NVRM: (?:GPU ADDRESS: )?RmInitAdapter failed! ?(?P<n>\([0-9A-Fa-fx:]{1,40}\))?",
        "the driver could not initialize the GPU (RmInitAdapter failed)",
        _INIT,
    ),
    _pattern(
        "gpu_probe_failed",
        r"nvidia: probe of ADDRESS failed with error",
        "the driver could not take over the GPU (probe failed)",
        DO_REBOOT,
    ),
    _pattern(
        "gpu_probe_failed",
        r"nvidia ADDRESS: probe with driver nvidia failed with error",
        "the driver could not take over the GPU (probe failed)",
        DO_REBOOT,
    ),
    _pattern(
        "gpu_probe_failed",
        r"NVRM: The NVIDIA probe routine failed for (?P<n>\d{1,4}) device",
        "the driver could not take over {n} GPU(s) (probe failed)",
        DO_REBOOT,
        WARNING,
    ),
)
# The driver also writes a total for this kind, which is redundant if the GPUs are named.
_COUNTED = "gpu_probe_failed"
_RANKS = {known.kind: rank for rank, known in reversed(list(enumerate(PATTERNS)))}


@dataclass(frozen=True)
class Message:
    """A message, or several of one kind about one device.

    ``address`` is empty if the driver gives none, and has the form of a GPU's address. ``switch``: the device is an
    NVSwitch. Times are in seconds.
    """

    kind: str
    address: str
    severity: str
    what: str
    do: str
    text: str
    count: int = 1
    first: float | None = None
    last: float | None = None
    switch: bool = False

    def fields(self) -> dict[str, Any]:
        return {
            "kind": self.kind,
            "pci_bus_id": self.address,
            "severity": self.severity,
            "what": self.what,
            "advice": self.do,
            "message": self.text,
            "count": self.count,
            "first": written(self.first),
            "last": written(self.last),
        }

    @property
    def line(self) -> str:
        """Device and problem in one line that is identical in every run."""
        device = "NVSwitch" if self.switch else "GPU"
        return f"{device} {self.address}: {self.what}" if self.address else self.what

    @property
    def problem(self) -> Problem:
        return Problem(self.kind, self.what, "", "", self.do)


def read_messages(records: Iterable[Record], since: float | None = None) -> list[Message]:
    """Return the driver's messages by device and kind. Records before ``since`` are skipped."""
    found: dict[tuple[str, str], Message] = {}
    kept = (record for record in records if since is None or record[1] is None or record[1] >= since)
    for text, time in _joined(kept):
        if _LOADED.search(text):
            found = {key: message for key, message in found.items() if message.switch}
        message = read_message(text, time)
        if message:
            known = found.get((message.address, message.kind))
            found[message.address, message.kind] = _together(known, message) if known else message
    return _best(list(found.values()))


def read_message(text: str, time: float | None = None) -> Message | None:
    """Return the message in a record of the kernel log, None for other records."""
    if len(text) > LONGEST or not ("NVRM:" in text or "nvidia" in text):
        return None
    # Drop the time and host name before the message, and join its lines.
    line = f"NVRM: {BROKEN.sub(' ', text.partition('NVRM:')[2]).strip()}" if "NVRM:" in text else text
    for known in PATTERNS:
        match = known.pattern.search(line)
        if match:
            return _message(known, match, line, time)
    switch = _SXID.search(line)
    return _sxid(switch, time) if switch else None


def _message(known: MessagePattern, match: re.Match[str], line: str, time: float | None) -> Message:
    values = match.groupdict()
    words = {name: value or "" for name, value in values.items()}
    return Message(
        known.kind,
        _address(values.get("address")),
        known.severity,
        known.what.format(**words),
        known.do,
        line[match.start() :][:300],
        first=time,
        last=time,
    )


def _sxid(match: re.Match[str], time: float | None) -> Message:
    fatal = match["fatal"] == "Fatal"
    number = int(match["sxid"])
    return Message(
        f"sxid_{number}",
        _address(match["address"]),
        CRITICAL if fatal else INFO,
        f"SXid {number}, {'a fatal error of an NVSwitch' if fatal else 'an error of an NVSwitch that is not fatal'}",
        f"The GPUs that it connects can't reach each other. {DO_LINKS}" if fatal else "It requires no action.",
        match["text"].strip(),
        first=time,
        last=time,
        switch=True,
    )


def _address(raw: str | None) -> str:
    return bus_id(raw if not raw or "." in raw else f"{raw}.0") or ""


def _joined(records: Iterable[Record]) -> Iterator[Record]:
    """Yield the records; separate lines of one message are joined."""
    lines: list[str] = []
    since: float | None = None
    for text, time in records:
        # Continuation lines have their own time or are indented.
        if lines and "NVRM:" in text and not _BEGIN.search(text) and len(lines) < _MOST_LINES:
            lines.append(text[text.index("NVRM:") :])
            joined = "\n".join(lines)
            if read_message(joined):
                yield joined, since
                lines = []
            elif read_message(text):
                yield text, time
                lines = []
            continue
        lines = []
        if _BEGIN.search(text) and not read_message(text):
            lines, since = [text], time
            continue
        yield text, time


def _together(known: Message, message: Message) -> Message:
    """Merge two messages: the higher severity and the later text."""
    worse = max((known, message), key=lambda each: (each.severity == CRITICAL, each.severity == WARNING))
    times = [time for time in (known.first, known.last, message.last) if time is not None]
    return replace(
        worse,
        text=message.text,
        count=known.count + 1,
        first=min(times, default=None),
        last=max(times, default=None),
    )


def _best(messages: Sequence[Message]) -> list[Message]:
    """Drop messages if another one describes the same GPU, or all GPUs, more precisely."""
    addressed = {each.kind for each in messages if each.address and not each.switch}
    return sorted(
        (
            each
            for each in messages
            if each.switch
            or (
                not _is_outdone(each, messages)
                if each.address
                else each.kind not in addressed and not (addressed and each.kind == _COUNTED)
            )
        ),
        key=lambda each: (each.address, each.kind),
    )


def _is_outdone(message: Message, messages: Sequence[Message]) -> bool:
    same = (other for other in messages if other.address == message.address and not other.switch)
    return any(_RANKS[other.kind] < _RANKS[message.kind] for other in same)
