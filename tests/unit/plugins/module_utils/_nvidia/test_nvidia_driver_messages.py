# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The driver's messages about unusable GPUs and NVSwitches, and the conditions under which they count."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from ansible_collections.gpulab.kubernetes.plugins.module_utils._nvidia.driver_messages import (
    Message,
    read_message,
    read_messages,
)
from ansible_collections.gpulab.kubernetes.plugins.module_utils._nvidia.health import complete
from ansible_collections.gpulab.kubernetes.plugins.module_utils._nvidia.kernel_records import (
    dmesg_records,
    journal_records,
)
from ansible_collections.gpulab.kubernetes.plugins.module_utils._nvidia.xid import findings, read_dmesg
from ansible_collections.gpulab.kubernetes.plugins.module_utils._nvidia_smi import states
from ansible_collections.gpulab.kubernetes.plugins.module_utils._nvidia_smi.values import empty_gpu
from hypothesis import given
from hypothesis import strategies as st

GPU, OTHER = "00000000:3B:00.0", "00000000:5E:00.0"
# Messages as in the journal: all lines of a record together.
OPEN = """NVRM: The NVIDIA GPU 0000:3b:00.0 (PCI ID: 10de:2bb1)
NVRM: installed in this system requires use of the NVIDIA open kernel modules."""
GSP = """NVRM: The NVIDIA GPU 0000:3b:00.0 (PCI ID: 10de:1b06)
NVRM: installed in this system is not supported by open
NVRM: nvidia.ko because it does not include the required GPU
NVRM: System Processor (GSP)."""
OLD = """NVRM: The NVIDIA GPU 0000:3b:00.0 (PCI ID: 10de:1180)
NVRM: installed in this system is not supported by the
NVRM: NVIDIA 580.178.04 driver release."""
LEGACY = """NVRM: The NVIDIA GeForce GTX 680 GPU installed in this system is
NVRM:  supported through the NVIDIA 470.xx Legacy drivers. Please
NVRM:  visit http://www.nvidia.com/object/unix.html for more
NVRM:  information.  The 580.178.04 NVIDIA driver will ignore
NVRM:  this GPU.  Continuing probe..."""
BAR = "NVRM: This PCI I/O region assigned to your NVIDIA device is invalid:\nNVRM: BAR1 is 0M @ 0x0 (PCI:0000:3b:00.0)"
INIT = "NVRM: GPU 0000:3b:00.0: RmInitAdapter failed! (0x26:0x56:1474)"
AGAIN = "NVRM: GPU 0000:3b:00.0: rm_init_adapter failed, device minor number 0"
OLD_INIT = "NVRM: RmInitAdapter failed! (0x26:0xffff:1290)"
PROBE, NEW_PROBE = (
    "nvidia: probe of 0000:3b:00.0 failed with error -1",
    ("nvidia 0000:3b:00.0: probe with driver nvidia failed with error -1"),
)
FAILED = "NVRM: The NVIDIA probe routine failed for 1 device(s)."
UNCALLED = "NVRM: The NVIDIA probe routine was not called for 2 device(s)."
BOUND = "NVRM: GPU 0000:3b:00.0 is already bound to vfio-pci."
FIRMWARE = "nvidia 0000:3b:00.0: Direct firmware load for nvidia/580.178.04/gsp_ga10x.bin failed with error -2"
LOADED = "nvidia-nvlink: Nvlink Core is being initialized, major device number 235"
FATAL = "nvidia-nvswitch1: SXid (PCI:0000:c1:00.0): 24007, Fatal, Link 30 sourcetrack timeout error (First)"
NONFATAL = "nvidia-nvswitch1: SXid (PCI:0000:c1:00.0): 24007, Non-fatal, Link 30 sourcetrack timeout error"
DETAILS = (
    "nvidia-nvswitch1: SXid (PCI:0000:c1:00.0): 24007, Severity 1 Engine instance 30 Sub-engine instance 00",
    "nvidia-nvswitch1: SXid (PCI:0000:c1:00.0): 24007, Data {0x10000000, 0x10000000, 0x00000000}",
)
STAMP = "2026-11-22T05:06:25,123456+00:00 "


def in_journal(*texts: str) -> list[Message]:
    fields = {"_TRANSPORT": "kernel", "__REALTIME_TIMESTAMP": "1795323985123456"}
    return read_messages(journal_records("\n".join(json.dumps({"MESSAGE": text, **fields}) for text in texts)))


def in_dmesg(*texts: str) -> list[Message]:
    """Read messages as dmesg prints them, with the time only on a record's first line."""
    shown = "\n".join(STAMP + text.replace("\n", "\n               ") for text in texts)
    return read_messages(dmesg_records(f"{STAMP}usb 1-1: new device\n{shown}\n{STAMP}usb 1-1: gone\n"))


def line_by_line(*texts: str) -> list[Message]:
    """Read messages as syslog writes them, with the time on every line."""
    return read_messages(dmesg_records("\n".join(STAMP + line for text in texts for line in text.split("\n"))))


@pytest.mark.parametrize("read", [in_journal, in_dmesg, line_by_line])
@pytest.mark.parametrize(
    ("texts", "kinds"),
    [
        ([OPEN], {(GPU, "open_modules_required")}),
        ([OPEN, INIT, AGAIN, OPEN, INIT, AGAIN], {(GPU, "open_modules_required")}),
        ([OPEN, OPEN.replace("3b", "5e")], {(GPU, "open_modules_required"), (OTHER, "open_modules_required")}),
        ([GSP], {(GPU, "proprietary_modules_required")}),
        ([OLD], {(GPU, "gpu_not_supported")}),
        ([LEGACY], {("", "gpu_not_supported")}),
        ([BAR, PROBE, FAILED], {(GPU, "bar_not_assigned")}),
        ([BAR.replace("BAR1", "BAR0"), NEW_PROBE, FAILED], {(GPU, "bar_not_assigned")}),
        ([BAR, BAR.replace("3b", "5e"), FAILED], {(GPU, "bar_not_assigned"), (OTHER, "bar_not_assigned")}),
        ([INIT, AGAIN], {(GPU, "gpu_init_failed")}),
        ([FIRMWARE, INIT], {(GPU, "gsp_firmware_missing")}),
        ([INIT, BAR.replace("3b", "5e")], {(GPU, "gpu_init_failed"), (OTHER, "bar_not_assigned")}),
        ([OLD_INIT], {("", "gpu_init_failed")}),
        ([PROBE, FAILED], {(GPU, "gpu_probe_failed")}),
        ([FAILED], {("", "gpu_probe_failed")}),
        ([UNCALLED], {("", "gpu_taken")}),
        ([BOUND, UNCALLED], {(GPU, "gpu_taken")}),
        ([INIT, UNCALLED], {(GPU, "gpu_init_failed"), ("", "gpu_taken")}),
        ([OPEN, LOADED, INIT], {(GPU, "gpu_init_failed")}),
        ([OPEN, FATAL, LOADED], {("00000000:C1:00.0", "sxid_24007")}),
        (DETAILS, set()),
        (["NVRM: loading NVIDIA UNIX x86_64 Kernel Module  580.178.04", "nvidia-uvm: Loaded the UVM driver"], set()),
    ],
)
def test_known_messages_are_recognized(read: Any, texts: list[str], kinds: set[tuple[str, str]]) -> None:
    assert {(each.address, each.kind) for each in read(*texts)} == kinds


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        (OPEN, f"GPU {GPU}: requires NVIDIA's open kernel modules, but the proprietary ones are loaded", "=open"),
        (GSP, f"GPU {GPU}: requires NVIDIA's proprietary kernel modules, but the open ones are loaded", "=proprietary"),
        (OLD, f"GPU {GPU}: is not supported by driver 580.178.04", "nvidia_driver_version"),
        (LEGACY, "GeForce GTX 680 needs a driver of the discontinued branch 470.xx", "nvidia_driver_version"),
        (BAR, f"GPU {GPU}: has no usable address space for BAR1", "Above 4G Decoding"),
        (INIT, f"GPU {GPU}: the driver could not initialize the GPU (RmInitAdapter failed)", "off and on again"),
        (UNCALLED, "the driver could not take over 2 GPU(s), another driver owns them", "nouveau"),
        (BOUND, f"GPU {GPU}: is owned by vfio-pci", "vfio-pci"),
        (FATAL, "NVSwitch 00000000:C1:00.0: SXid 24007, a fatal error of an NVSwitch", "nvidia-smi nvlink"),
    ],
)
def test_each_message_has_its_remedy(text: str, line: str, words: str) -> None:
    (one,) = in_journal(text)
    assert one.line == line and words in one.do
    assert (one.fields()["first"], one.fields()["count"]) == ("2026-11-22T05:06:25Z", 1)


def test_messages_of_one_kind_are_combined_with_the_worst_severity() -> None:
    (one,) = in_journal(NONFATAL, FATAL, NONFATAL, *DETAILS)
    assert (one.count, one.severity) == (3, "critical")
    (one,) = in_journal(NONFATAL, NONFATAL)
    assert (one.count, one.severity) == (2, "info")


def test_a_message_that_the_driver_repeats_counts_once() -> None:
    (one,) = in_journal(INIT, AGAIN, INIT, AGAIN)
    assert one.count == 2


def test_a_critical_xid_takes_precedence() -> None:
    gone = "NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus."
    known = complete(facts("no_devices"), findings(read_dmesg(gone)), in_journal(PROBE, FAILED))
    assert known["problems"] == [f"GPU {GPU}: Xid 79: the GPU has fallen off the bus"]
    assert known["advice"].startswith("Reboot the host")


def test_messages_since_a_time_and_those_without_a_time_count() -> None:
    assert [each.last for each in read_messages([(INIT, 10.0), (INIT, 20.0)], 15.0)] == [20.0]
    assert [each.last for each in read_messages([(INIT, None)], 15.0)] == [None]


def facts(state: str, *healthy: bool) -> dict[str, Any]:
    own = [{"kind": "gpu_fault", "what": "said of it", "do": "look"}]
    gpus = [
        {**empty_gpu(index=index, pci_bus_id=address), "healthy": well, "faults": [] if well else own}
        for index, (address, well) in enumerate(zip((GPU, OTHER), healthy))
    ]
    return {"state": state, "message": None, "advice": states.ADVICE[state], "gpus": gpus}


@pytest.mark.parametrize("state", ["no_devices", "driver_not_loaded", "unreadable"])
@pytest.mark.parametrize("text", [OPEN, OLD, LEGACY, BAR, INIT, PROBE, FAILED, UNCALLED, BOUND])
def test_without_devices_the_kernels_message_gives_the_advice(state: str, text: str) -> None:
    (one,) = messages = in_journal(text)
    known = complete(facts(state), [], messages)
    assert (known["state"], known["advice"], known["problems"]) == (state, one.do, [one.line])
    assert one.line in known["message"]


@pytest.mark.parametrize(
    ("text", "healthy", "told"),
    [
        # The GPU at address 3b is not listed.
        (OPEN.replace("3b", "af"), (True, True), True),
        (BAR.replace("3b", "af"), (True, True), True),
        # The GPU may be a console card, or be assigned to virtual machines.
        (OLD.replace("3b", "af"), (True, True), False),
        (BOUND.replace("3b", "af"), (True, True), False),
        (UNCALLED, (True, True), False),
        # The messages are older than the modules that now serve the GPU.
        (OPEN, (True, True), False),
        (INIT, (True, True), False),
        (INIT, (False, True), True),
        (FATAL, (True, True), True),
        (NONFATAL, (True, True), False),
    ],
)
def test_with_working_gpus_only_relevant_messages_count(text: str, healthy: tuple[bool, ...], told: bool) -> None:
    state = "ok" if all(healthy) else "degraded"
    known = complete(facts(state, *healthy), [], in_journal(text))
    (one,) = in_journal(text)
    assert any(one.what in line for line in known["problems"]) == told
    assert (one.what in (known["message"] or "")) == told and (one.do in (known["advice"] or "")) == told
    assert known["state"] == ("degraded" if told or not all(healthy) else "ok")
    assert known["gpus"][1]["healthy"]


@given(
    st.lists(st.one_of(st.text(max_size=80), st.sampled_from([OPEN, OLD, LEGACY, BAR, INIT, FATAL, LOADED, "NVRM:"])))
)
def test_any_text_is_read_without_an_error(texts: list[str]) -> None:
    for read in (in_journal, in_dmesg, line_by_line):
        for each in read(*texts):
            assert each.do and each.what and json.dumps(each.fields())


def test_large_logs_are_read_quickly() -> None:
    for filler in (
        "NVRM: The NVIDIA GPU ",
        "NVRM: GPU 0000:3b:00.0 ",
        "NVRM: BAR1 is 0M @ 0x0 (",
        "nvidia 0000:3b:00.0: ",
    ):
        text = f"{filler * 70}\n" * 5000
        begun = time.monotonic()
        read_messages(dmesg_records(text))
        assert time.monotonic() - begun < 20


@pytest.mark.parametrize(
    "text",
    [
        "NVRM: GPU 0000:3b:00.0 is already bound to \x1b[31mevil",
        "nvidia 0000:3b:00.0: Direct firmware load for nvidia/\x1b[31m/x.bin failed with error -2",
        "NVRM: The NVIDIA \x1b[3GT GPU installed in this system is supported through the NVIDIA 470.xx Legacy drivers",
    ],
)
def test_messages_contain_no_control_characters(text: str) -> None:
    message = read_message(text)
    assert message is None or message.what.isprintable()
