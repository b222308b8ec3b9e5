# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Any kernel log is read quickly, and no Xid is lost or invented."""

from __future__ import annotations

import json
import time

from ansible_collections.gpulab.kubernetes.plugins.module_utils._nvidia import xid_catalog as data
from ansible_collections.gpulab.kubernetes.plugins.module_utils._nvidia.xid import (
    findings,
    problems_of,
    read_dmesg,
    read_journal,
    read_message,
)
from hypothesis import given
from hypothesis import strategies as st

PARTS = st.sampled_from(
    [
        "NVRM: ",
        "NVRM: The NVIDIA GPU 0000:3b:00.0",
        "fallen off the bus",
        "Xid (",
        "PCI:0000:3b:00",
        "): ",
        "79",
        ", ",
        "pid='<unknown>'",
        "name=",
        "\n",
        "{",
        '"MESSAGE":[',
    ]
)
NOISE = st.one_of(st.text(max_size=80), st.lists(PARTS, max_size=12).map("".join))
NUMBERS = st.one_of(st.sampled_from(sorted(data.XIDS)), st.integers(0, 9999))
MESSAGES = st.builds(
    "NVRM: Xid (PCI:{:04x}:{:02x}:{:02x}): {}, {}".format,
    st.integers(0, 0xFFFF),
    st.integers(0, 0xFF),
    st.integers(0, 0x1F),
    NUMBERS,
    st.text(st.characters(blacklist_categories=("Cc", "Cs", "Zl", "Zp")), max_size=60),
)


@given(st.lists(st.one_of(NOISE, MESSAGES), max_size=20).map("\n".join))
def test_any_text_is_read_without_an_error(text: str) -> None:
    for found in (read_dmesg(text), read_journal(text)):
        for each in findings(found):
            assert each.severity in data.SEVERITIES and each.advice and each.count >= 1
            assert json.dumps(each.fields())


@given(st.lists(MESSAGES, max_size=20), NOISE.filter(lambda text: "NVRM" not in text))
def test_no_xid_is_lost_or_invented(messages: list[str], noise: str) -> None:
    text = "\n".join(part for message in messages for part in (noise, message))
    assert sum(each.count for each in findings(read_dmesg(text))) == len(messages)
    entries = [json.dumps({"MESSAGE": message, "_TRANSPORT": "kernel"}) for message in messages]
    assert read_journal("\n".join(entries)) == read_dmesg("\n".join(messages))


@given(st.lists(MESSAGES, max_size=20))
def test_only_a_current_critical_finding_is_a_problem(messages: list[str]) -> None:
    found = findings(event for event in map(read_message, messages) if event)
    assert len(list(problems_of(found))) == sum(1 for each in found if each.severity == data.CRITICAL and not each.over)


def test_large_logs_are_read_quickly() -> None:
    message = "NVRM: Xid (PCI:0000:3b:00): 13, pid=1, name=a, Graphics Exception: "
    for filler in (
        "NVRM: Xid (" * 100,
        "x" * 1500,
        "NVRM: GPU at 0000:01:00.0 ",
        "name=" * 200,
        "pid='" * 200,
        "NVRM: The NVIDIA GPU " * 90,
    ):
        text = f"{message}{filler}\n" * 5000
        begun = time.monotonic()
        read_dmesg(text)
        assert time.monotonic() - begun < 20
