# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Any output of nvidia-smi or another program gives a state, and damaged output never looks healthy."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import pytest
import smi_tables
import smi_texts as smi
from ansible_collections.gpulab.kubernetes.plugins.module_utils._command import Result
from ansible_collections.gpulab.kubernetes.plugins.module_utils._nvidia_smi.facts import NvidiaSmi, read
from ansible_collections.gpulab.kubernetes.plugins.module_utils._nvidia_smi.states import STATES
from hard_stop import HangError, hard_stop
from hypothesis import assume, given, settings
from hypothesis import strategies as st

REPOSITORY = Path(__file__).resolve().parents[5]
CAPTURES = Path(os.environ.get("GPULAB_CAPTURES", REPOSITORY.parent / "shared/captures"))
ALL = ["gpus", "mig", "processes", "topology"]


def facts(text: str, rc: int = 0) -> dict[str, Any]:
    """Return the facts from a program that prints the same for any arguments."""
    with hard_stop(60):
        return NvidiaSmi(lambda arguments: Result(tuple(arguments), rc, text, "")).facts(ALL)


# Forms with a GPU count, forms with an end marker, and -L, which has neither.
COUNTING = [
    smi.xml(),
    smi.xml((smi.Gpu(0, mig="Enabled", extra=smi.MIG_DEVICES), smi.Gpu(1))),
    smi.csv("count,index,uuid,name,pci.bus_id,driver_version,memory.total"),
    smi.logged(),
]
ENDING = [
    *COUNTING,
    smi_tables.many(4),
    smi_tables.OLD,
    smi_tables.MIG_ONE_CELL,
]
RECORDED = [
    path.read_bytes().decode("utf-8", "replace")
    for path in sorted(CAPTURES.glob("nvidia_smi_*/*"))
    if path.stat().st_size < 40_000
]
TEXTS = [
    *ENDING,
    smi.listed() + smi.MIG_LIST,
    smi.TABLE,
    smi.QUERY_TEXT,
    smi.TOPOLOGY,
    smi_tables.WSL,
    smi_tables.ILL,
    *(words for words, _rc, _state in smi.MESSAGES),
    *RECORDED,
]
IDENTITY = ("index", "uuid", "pci_bus_id", "name", "memory_total_mib")


def identities(found: dict[str, Any]) -> list[tuple[Any, ...]]:
    return [tuple(gpu[key] for key in IDENTITY) for gpu in found["gpus"]]


def assert_sane(found: dict[str, Any]) -> None:
    assert found["state"] in STATES
    assert (found["message"] is None) == (found["advice"] is None) == (found["state"] == "ok")
    assert found["count"] >= len(found["gpus"])
    assert all(gpu["healthy"] == (not gpu["problems"]) for gpu in found["gpus"])
    if found["state"] == "ok":
        assert found["rc"] == 0
        assert found["source"]
        assert found["count"] == len(found["gpus"]) > 0
        assert [gpu["index"] for gpu in found["gpus"]] == list(range(found["count"]))
        for gpu in found["gpus"]:
            assert gpu["name"]
            assert gpu["uuid"] or gpu["pci_bus_id"]
            assert gpu["healthy"]


@given(st.text() | st.binary().map(lambda data: data.decode("utf-8", "replace")), st.integers(-15, 255))
def test_any_text_gives_a_state(text: str, rc: int) -> None:
    assert_sane(facts(text, rc))


@given(st.sampled_from(TEXTS), st.data())
def test_damaged_output_never_looks_healthy(text: str, data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, min(len(text), start + data.draw(st.sampled_from([0, 1, 5, 80, 3000])))))
    assert_sane(facts(text[:start] + data.draw(st.text(max_size=8)) + text[end:], data.draw(st.sampled_from([0, 15]))))


@given(st.sampled_from(TEXTS), st.data())
def test_reordered_output_never_looks_healthy(text: str, data: st.DataObject) -> None:
    lines = text.splitlines(keepends=True)
    first, last = data.draw(st.tuples(st.integers(0, len(lines)), st.integers(0, len(lines))))
    assert_sane(facts("".join(lines[first:] + lines[:last])))


@given(st.sampled_from(ENDING), st.data())
def test_truncated_output_is_only_ok_with_every_gpu(text: str, data: st.DataObject) -> None:
    found = facts(text[: data.draw(st.integers(0, len(text)))])
    assert_sane(found)
    if found["state"] == "ok":
        assert identities(found) == identities(facts(text))


@given(st.sampled_from(COUNTING), st.data())
def test_output_with_a_gap_is_only_ok_with_every_gpu(text: str, data: st.DataObject) -> None:
    lines = text.splitlines(keepends=True)
    start = data.draw(st.integers(0, len(lines)))
    end = data.draw(st.integers(start, min(len(lines), start + data.draw(st.sampled_from([1, 3, 40])))))
    assume(not any(word in line.lower() for line in lines[start:end] for word in ("attached", "count")))
    found = facts("".join(lines[:start] + lines[end:]))
    assert_sane(found)
    if found["state"] == "ok":
        assert found["count"] == facts(text)["count"]


@given(st.integers(0, len(smi.xml()) - 20))
def test_truncated_xml_is_never_ok(end: int) -> None:
    found = facts(smi.xml()[:end])
    assert_sane(found)
    assert found["state"] != "ok"


@settings(deadline=None, max_examples=20)
@given(
    st.sampled_from(
        [
            " ",
            "\\",
            "|",
            "<gpu>",
            "<nvidia_smi_log>",
            "GPU 0: ",
            "GPU 0: x (UUID: y)\n",
            "  MIG 1g Device 0: (UUID: ",
            "| 0 a On | 00:00:00.0 x |\n",
            "|    0   N/A  N/A 1 C ",
            ", ",
            "uuid,\n",
            "gpu 00:00.0",
            "\tGPU0",
            "&amp;",
            " [Deprecated",
            "\x1b]",
            "0",
        ]
    ),
    st.sampled_from(["", "<nvidia_smi_log>", "==NVSMI LOG==\n", "| NVIDIA-SMI 1\n", "index, uuid\n", "\tGPU0\tGPU1\n"]),
)
def test_garbage_is_read_in_linear_time(unit: str, start: str) -> None:
    begun = time.process_time()
    read(start + unit * (300_000 // len(unit)))
    assert time.process_time() - begun < 10


def test_a_program_that_hangs_is_stopped() -> None:
    with pytest.raises(HangError), hard_stop(0.05):
        while True:
            pass


def test_xml_entities_are_not_expanded() -> None:
    bomb = '<?xml version="1.0"?><!DOCTYPE nvidia_smi_log [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;">]>'
    text = bomb + smi.xml((smi.Gpu(name="&b;"),), doctype=None).partition("?>")[2]
    assert facts(text)["state"] != "ok"
    outside = '<?xml version="1.0"?><!DOCTYPE nvidia_smi_log [<!ENTITY x SYSTEM "file:///etc/passwd">]>'
    text = outside + smi.xml((smi.Gpu(name="&x;"),), doctype=None).partition("?>")[2]
    assert "root:" not in str(facts(text))


def test_an_external_document_type_is_not_loaded(tmp_path: Path) -> None:
    declared = tmp_path / "nvsmi.dtd"
    os.mkfifo(declared)
    # Opening the pipe would wait forever for a writer.
    assert facts(smi.xml(doctype=f"file://{declared}"))["state"] == "ok"
