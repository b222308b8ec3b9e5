# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Xid messages in all formats that drivers have used, and the findings derived from them."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.gpulab.kubernetes.plugins.module_utils._nvidia import xid_catalog as data
from ansible_collections.gpulab.kubernetes.plugins.module_utils._nvidia.xid import (
    Event,
    Finding,
    findings,
    problems_of,
    read_dmesg,
    read_journal,
    read_message,
)
from ansible_collections.gpulab.kubernetes.plugins.module_utils._words import moment, written

ROOT = Path(__file__).resolve().parents[5]
FALLEN = "NVRM: Xid (PCI:0000:3b:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus."
GPU = "00000000:3B:00.0"
TO_NONE = "NVRM: Xid (PCI:0000:3b:00): 154, GPU recovery action changed from 0x2 (Node Reboot Required) to 0x0 (None)"
TO_REBOOT = "NVRM: Xid (PCI:0000:3b:00): 154, GPU recovery action changed from 0x0 (None) to 0x2 (Node Reboot Required)"
TO_RESET = "NVRM: Xid (PCI:0000:3b:00): 154, GPU recovery action changed from 0x0 (None) to 0x4 (Drain and Reset)"
NETIR = "NVRM: Xid (PCI:0018:01:00): 149, NETIR_BER_EVENT {} XC0 i0 Link 03 (0x00086226 0x00000001 0x00000000)"

# Line, Xid, address, process ID, process name, remaining text.
FORMS: list[tuple[str, int, str, int | None, str | None, str]] = [
    (FALLEN, 79, GPU, None, None, "GPU has fallen off the bus."),
    ("NVRM: Xid (PCI:0000:01:00): 79, GPU has fallen off the bus.", 79, "00000000:01:00.0", None, None, "GPU has*"),
    ("NVRM: Xid (0000:03:00): 14, Channel 00000001", 14, "00000000:03:00.0", None, None, "Channel 00000001"),
    ("NVRM: Xid (0003:00): 13, 0001 00000000 00008297", 13, "00000000:03:00.0", None, None, "0001 00000000 00008297"),
    ("NVRM: Xid (PCI:0000:10:1c): 63, pid=1896, Row Remapper: New row", 63, "00000000:10:1C.0", 1896, None, "Row*"),
    (
        "[ 123.4] NVRM: Xid (PCI:0000:cb:00): 13, pid=5, name=python3, Graphics SM Warp Exception on (GPC 7, TPC 0)",
        13,
        "00000000:CB:00.0",
        5,
        "python3",
        "Graphics SM Warp Exception on (GPC 7, TPC 0)",
    ),
    (
        "NVRM: Xid (PCI:0000:C1:00 GPU-I:02): 94, pid=7194, name=my job, Contained: SM (0x1). RST: No, D-RST: No",
        94,
        "00000000:C1:00.0",
        7194,
        "my job",
        "Contained: SM (0x1). RST: No, D-RST: No",
    ),
    ("NVRM: NVRM: Xid (PCI:0001:00:00.0): 79, GPU has*", 79, "00000001:00:00.0", None, None, "GPU has*"),
    ("NVRM: Xid (PCI:0000:3b:00): 79, pid=158, name=nvc:[driver], lost", 79, GPU, 158, "nvc:[driver]", "lost"),
    (
        "NVRM: Xid (PCI:0018:01:00): 145, pid=876767, name=ray::WorkerDict, RLW_RXPIPE Nonfatal XC0 i0 Link 13",
        145,
        "00000018:01:00.0",
        876767,
        "ray::WorkerDict",
        "RLW_RXPIPE Nonfatal XC0 i0 Link 13",
    ),
    ("NVRM: Xid (PCI:0000:3b:00): 45, Ch 00000010", 45, GPU, None, None, "Ch 00000010"),
    ("NVRM: Xid (PCI:0000:3b:00): 61", 61, GPU, None, None, ""),
    ("NVRM: Xid (PCI:00010000:3b:00): 48, An uncorrectable", 48, "00010000:3B:00.0", None, None, "An uncorrectable"),
    ("NVRM: GPU 0000:29:00.0: GPU has fallen off the bus.", 79, "00000000:29:00.0", None, None, "GPU has*"),
    ("NVRM: GPU at 0000:01:00.0 has fallen off the bus.", 79, "00000000:01:00.0", None, None, "has fallen*"),
]

# Messages about a GPU that fell off the bus before the driver initialized it.
GONE = {
    "three lines": (
        "NVRM: The NVIDIA GPU 0000:3b:00.0",
        "NVRM: (PCI ID: 10de:26b5) installed in this system has",
        "NVRM: fallen off the bus and is not responding to commands.",
    ),
    "other breaks": (
        "NVRM: The NVIDIA GPU 0000:3b:00.0 (PCI ID: 10de:1e07)",
        "NVRM: installed in this system has fallen off the bus and is not",
        "NVRM: responding to commands.",
    ),
    "breaks in the middle": (
        "NVRM: The NVIDIA GPU 0000:3b:00.0",
        "NVRM: (PCI ID: 10de:1e07) installed in this",
        "NVRM: system has fallen off the bus and is not responding to commands.",
    ),
    "one line": (
        "NVRM: The NVIDIA GPU 0000:3b:00.0 (PCI ID: 10de:26b5) installed in this system has fallen off the bus and is "
        "not responding to commands.",
    ),
}
OLD = (
    "NVRM: The NVIDIA GPU 0000:3b:00.0 (PCI ID: 10de:1180)",
    "NVRM: installed in this system is not supported by the",
    "NVRM: NVIDIA 580.178.04 driver release.",
)

NONE = [
    "",
    "NVRM: Xid error: xyz, invalid data",
    "NVRM: Xid (invalid): some error",
    "NVRM: Xid (PCI:0000:05:00): 99999, five digits",
    "NVRM: loading NVIDIA UNIX Open Kernel Module for x86_64  580.178.04",
    "NVRM: GPU at PCI:0000:91:00: GPU-b6c3b2be-c55b-d076-fa0e-d464e4c7e08b",
    "nvidia-nvswitch1: SXid (PCI:0000:06:00.0): 22013, Non-fatal, Link 62 Minion Link DLREQ interrupt",
    "Xid (PCI:0000:3b:00): 79, somebody else's word",
    "NVRM: " + "x" * 3000 + FALLEN,
]


@pytest.mark.parametrize(
    ("line", "xid", "address", "pid", "process", "text"), FORMS, ids=[form[0][:60] for form in FORMS]
)
def test_all_formats_of_xid_messages_are_read(
    line: str, xid: int, address: str, pid: int | None, process: str | None, text: str
) -> None:
    found = read_message(line)
    assert found is not None
    assert (found.xid, found.address, found.pid, found.process) == (xid, address, pid, process)
    assert found.text == text or (text.endswith("*") and found.text.startswith(text[:-1]))


@pytest.mark.parametrize("line", NONE, ids=[line[:40] for line in NONE])
def test_other_lines_are_ignored(line: str) -> None:
    assert read_message(line) is None


def entry(message: Any, **fields: Any) -> str:
    known = {"__REALTIME_TIMESTAMP": "1795323985123456", "SYSLOG_IDENTIFIER": "kernel", "_TRANSPORT": "kernel"}
    return json.dumps({**known, "MESSAGE": message, **fields})


@pytest.mark.parametrize(
    ("line", "seen"),
    [
        (entry(FALLEN), True),
        (entry(list(FALLEN.encode())), True),
        (entry([FALLEN, "another"]), True),
        (entry(FALLEN, _TRANSPORT="syslog", _UID="0"), True),
        (entry(FALLEN, _TRANSPORT="syslog", _UID="1000"), False),
        (entry(FALLEN, _TRANSPORT="journal", _UID="0", SYSLOG_IDENTIFIER="backup"), False),
        (entry(FALLEN, _TRANSPORT="syslog"), False),
        (entry(None), False),
        (entry("usb 1-1: new device"), False),
        (FALLEN, False),
        ("[]", False),
        ('{"MESSAGE": "NVRM', False),
        ("[" * 100_000 + "NVRM", False),
    ],
)
def test_only_journal_entries_of_the_kernel_or_root_count(line: str, seen: bool) -> None:
    found = read_journal(f"{entry('first line')}\n{line}\n")
    assert [(event.xid, event.address, event.time) for event in found] == (
        [(79, GPU, 1795323985.123456)] if seen else []
    )


@pytest.mark.parametrize(
    ("stamp", "time"),
    [
        ("2026-11-22T05:06:25,123456+00:00 ", 1795323985.123456),
        ("2026-11-22T06:06:25,123456+01:00 ", 1795323985.123456),
        ("2026-11-22T05:06:25.5Z ", 1795323985.5),
        ("2026-13-22T05:06:25,123456+00:00 ", None),
        ("[12345.678901] ", None),
        ("", None),
    ],
)
def test_dmesg_is_read_with_and_without_times(stamp: str, time: float | None) -> None:
    (found,) = read_dmesg(f"{stamp}usb 1-1: new device\n{stamp}{FALLEN}\n")
    assert (found.xid, found.time) == (79, time)


@pytest.mark.parametrize("lines", GONE.values(), ids=GONE)
@pytest.mark.parametrize("around", [(), OLD, ("usb 1-1: new device",), ("NVRM: loading NVIDIA UNIX Kernel Module",)])
def test_a_gpu_lost_before_its_initialization_is_found(lines: tuple[str, ...], around: tuple[str, ...]) -> None:
    stamp = "2026-11-22T05:06:25,123456+00:00 "
    texts = [*around, *lines, *around]
    as_record = f"{stamp}{lines[0]}\n" + "".join(f"               {line}\n" for line in lines[1:])
    outside = "".join(f"{stamp}{line}\n" for line in around)
    for found in (
        read_dmesg(f"{outside}{as_record}{outside}"),
        read_dmesg("".join(f"{stamp}{line}\n" for line in texts)),
        read_journal("\n".join(entry(line) for line in texts)),
        read_journal("\n".join(entry(line) for line in (*around, "\n".join(lines), *around))),
        read_journal(entry(list("\n".join(lines).encode()))),
    ):
        (one,) = findings(found)
        assert (one.xid, one.address, one.count, one.last) == (79, GPU, 1, 1795323985.123456)
        assert one.severity == "critical"


def test_several_gpus_lost_before_their_initialization_are_found() -> None:
    lines = [*GONE["three lines"], *OLD, *(line.replace("3b", "5e") for line in GONE["three lines"])]
    assert [event.address for event in read_dmesg("\n".join(lines))] == [GPU, "00000000:5E:00.0"]
    assert read_dmesg("\n".join([*OLD, *GONE["three lines"][1:]])) == []
    assert read_dmesg("\n".join([GONE["three lines"][0], *OLD])) == []


def events(*lines: str) -> list[Event]:
    found = [read_message(line, 1000.0 + place) for place, line in enumerate(lines)]
    return [event for event in found if event]


def test_messages_with_the_same_xid_are_one_finding() -> None:
    (one,) = findings(events(FALLEN, FALLEN, FALLEN))
    assert (one.count, one.first, one.last, one.severity, one.over) == (3, 1000.0, 1002.0, "critical", False)
    assert "Reboot the host" in one.advice
    assert one.fields()["first"] == "1970-01-01T00:16:40Z"
    [problem] = problems_of([one])
    assert (problem.kind, problem.do) == ("xid_79", one.advice)
    assert problem.what == "Xid 79: the GPU has fallen off the bus"


COMPANION = "NVRM: GPU 0000:3b:00.0: GPU has fallen off the bus."


@pytest.mark.parametrize(
    ("lines", "count"),
    [
        ([(0, FALLEN), (0, COMPANION)], 1),
        ([(0, COMPANION), (0.1, FALLEN)], 1),
        ([(None, FALLEN), (None, COMPANION)], 1),
        ([(0, COMPANION)], 1),
        ([(0, FALLEN), (0, COMPANION), (100, FALLEN), (100, COMPANION)], 2),
        ([(0, FALLEN), (100, COMPANION)], 2),
        ([(0, FALLEN), (0, COMPANION.replace("3b", "5e"))], 1),
    ],
)
def test_a_lost_gpu_is_one_finding_however_often_it_is_logged(
    lines: list[tuple[float | None, str]], count: int
) -> None:
    found = findings(event for time, line in lines if (event := read_message(line, time)))
    assert found[0].count == count


@pytest.mark.parametrize(
    ("times", "severity"),
    [
        ([5.0 * place for place in range(10)], "warning"),
        ([5.0 * place for place in range(9)], "info"),
        ([60.0 * place for place in range(50)], "info"),
        ([3600.0 * place for place in range(20)] + [100.0 + place for place in range(9)], "info"),
        ([None] * 10, "warning"),
    ],
)
def test_many_nonfatal_nvlink_errors_are_a_warning(times: list[float | None], severity: str) -> None:
    (one,) = findings(event for time in times if (event := read_message(NETIR.format("Nonfatal"), time)))
    assert (one.severity, "nvidia-smi nvlink --status" in one.advice) == (severity, severity == "warning")
    assert list(problems_of([one])) == []


def test_messages_since_a_time_and_those_without_a_time_count() -> None:
    assert findings(events(FALLEN), since=1000.5) == []
    assert [each.count for each in findings(events(FALLEN, FALLEN), since=1000.5)] == [1]
    (kept,) = findings([Event(79, GPU, "")], since=1e12)
    assert kept.last is None


@pytest.mark.parametrize(
    ("lines", "severity", "words"),
    [
        ((TO_NONE,), "info", "no action"),
        ((TO_REBOOT,), "critical", "requests: Node Reboot Required. Reboot the host"),
        ((TO_RESET,), "critical", "requests: Drain and Reset. Stop all programs that use the GPU"),
        ((TO_REBOOT, TO_NONE), "info", "no action"),
        ((TO_NONE, TO_RESET), "critical", "Drain and Reset"),
        (("NVRM: Xid (PCI:0000:3b:00): 154, new words",), "warning", "Look it up"),
        ((NETIR.format("Nonfatal"),), "info", "no action"),
        ((NETIR.format("Fatal"),), "critical", "nvlink"),
        ((NETIR.format("Fatal"), NETIR.format("Nonfatal")), "critical", "nvlink"),
        (("NVRM: Xid (PCI:0000:3b:00): 31, pid=1, name=a, MMU Fault",), "warning", "start the program again"),
        (("NVRM: Xid (PCI:0000:3b:00): 63, Row Remapper",), "warning", "next reset"),
        (("NVRM: Xid (PCI:0000:3b:00): 999, new",), "warning", "Look it up"),
    ],
)
def test_each_xid_has_its_severity(lines: tuple[str, ...], severity: str, words: str) -> None:
    (one,) = findings(events(*lines))
    assert one.severity == severity
    assert words in one.advice


def test_a_recovery_ends_earlier_messages_only() -> None:
    other = "NVRM: Xid (PCI:0000:5e:00): 48, DBE"
    assert picked(findings(events(FALLEN, other, TO_NONE))) == {(79, True), (48, False), (154, True)}
    assert picked(findings(events(TO_NONE, FALLEN))) == {(79, False), (154, True)}
    assert list(problems_of(findings(events(FALLEN, TO_NONE)))) == []


def picked(found: list[Finding]) -> set[tuple[int, bool]]:
    return {(each.xid, each.over) for each in found}


def test_times_are_read() -> None:
    assert moment("2026-11-22T05:06:25Z") == 1795323985
    assert written(1795323985.9) == "2026-11-22T05:06:25Z"
    assert [moment(text) for text in ("", "yesterday", "2026-11-22", "2026-11-22T05:06:25+01:00")] == [None] * 4


def test_every_xid_has_an_action() -> None:
    assert {each.action for each in data.XIDS.values()} <= set(data.ACTIONS)
    assert {severity for severity, _advice in data.ACTIONS.values()} == set(data.SEVERITIES)
    assert {data.RECOVERY, data.LOST, *data.NVLINK5} <= set(data.XIDS)


def test_prometheus_alerts_on_the_critical_xids() -> None:
    rules = yaml.safe_load((ROOT / "examples" / "monitoring" / "rules.yml").read_text())
    (rule,) = [each for group in rules["groups"] for each in group["rules"] if each["alert"] == "GpulabGpuXid"]
    pattern = re.fullmatch(r'DCGM_FI_DEV_XID_ERRORS\{err_code=~"(.*)"}', rule["expr"])
    assert pattern
    critical = {number for number, xid in data.XIDS.items() if data.ACTIONS[xid.action][0] == data.CRITICAL}
    assert {number for number in range(1000) if re.fullmatch(pattern[1], str(number))} == critical


@pytest.mark.parametrize("number", [119, 120])
def test_errors_of_the_gsp_name_their_section_of_the_guide(number: int) -> None:
    (found,) = findings(read_dmesg(f"NVRM: Xid (PCI:0000:3b:00): {number}, Timeout after 6s of waiting for RPC"))
    assert found.severity == "critical" and "--gpu-reset" in found.advice
    section = found.advice.partition('section "')[2].partition('"')[0]
    text = (Path(__file__).parents[5] / "docs/troubleshooting.md").read_text()
    assert f"### {section}\n" in text and "NVreg_EnableGpuFirmware=0" in text.partition(f"### {section}\n")[2]
