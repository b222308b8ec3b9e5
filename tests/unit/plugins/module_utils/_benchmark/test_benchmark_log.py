# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reports of measuring pods: only known fields with sensible values are returned, whatever a pod prints."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from ansible_collections.gpulab.kubernetes.plugins.module_utils._benchmark.figures import FIGURES, Reading
from ansible_collections.gpulab.kubernetes.plugins.module_utils._benchmark.log import (
    FACTS,
    MARK,
    MAX_REPORT_LENGTH,
    last_lines,
    read_log,
)
from hypothesis import given
from hypothesis import strategies as st

UUID = "GPU-6f2b1c0e-0d0f-4d2c-9f39-0c2f0a8e7a11"
REPORT: dict[str, Any] = {
    "uuid": UUID,
    "gpus": 1,
    "device": "cuda",
    "torch": "2.9.1+cu128",
    "figures": {"memory_bytes_per_s": 2.9e12, "bf16_flop_per_s": 7e14},
    "facts": {"pcie_generation": 5.0, "throttle_reasons": 4, "remap_pending": None},
    "notes": ["fp32_flop_per_s: CUDA out of memory"],
}
ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
NAMES = st.sampled_from([*(each.key for each in FIGURES), *FACTS])


def written(**changes: Any) -> str:
    return MARK + json.dumps({**REPORT, **changes})


def test_a_report_is_read() -> None:
    found = read_log(f"a warning of PyTorch\n{written()}\n")
    assert found == Reading(
        uuid=UUID,
        gpus=1,
        device="cuda",
        torch="2.9.1+cu128",
        figures={"memory_bytes_per_s": 2.9e12, "bf16_flop_per_s": 7e14},
        facts={"pcie_generation": 5.0, "throttle_reasons": 4},
        notes=("fp32_flop_per_s: CUDA out of memory",),
    )


@pytest.mark.parametrize("log", ["", "Traceback (most recent call last):\n", f" {written()}"])
def test_a_log_without_a_report_counts_as_not_reported_yet(log: str) -> None:
    assert read_log(log) is None


@pytest.mark.parametrize(
    ("line", "why"),
    [
        (MARK + "{", "its report is not valid JSON"),
        (MARK + "[" * 10_000, "its report is not valid JSON"),
        (MARK + "[1]", "its report is not a JSON object"),
        (written(torch="1" * MAX_REPORT_LENGTH), "its report is too long"),
    ],
    ids=["half", "deep", "a list", "long"],
)
def test_an_invalid_report_has_no_figures(line: str, why: str) -> None:
    assert read_log(line) == Reading(complaint=why)


@pytest.mark.parametrize("value", [math.nan, math.inf, -1, 0, 10**400, True, "1", None, [1]], ids=str)
def test_a_figure_beyond_any_gpu_is_dropped(value: Any) -> None:
    found = read_log(written(figures={"memory_bytes_per_s": value}))
    assert found and (found.figures, found.device) == ({}, "")


@pytest.mark.parametrize("uuid", ["GPU-$(reboot)", "MIG-1", "", "GPU-" + "a" * 100, None, 7, f"{UUID}\n"])
def test_an_invalid_uuid_is_dropped(uuid: Any) -> None:
    found = read_log(written(uuid=uuid))
    assert found and found.uuid == ""


def test_texts_are_shortened_and_contain_no_control_characters() -> None:
    found = read_log(written(notes=["\x1b[31m" + "a" * 400] * 20, torch="2\x07" + "0" * 100))
    assert found and (len(found.notes), len(found.notes[0]), found.torch) == (8, 300, "2" + "0" * 39)
    assert found.notes[0].startswith("[31maaa")
    assert last_lines("\x1b[2Jone\n\n" + "two" * 200 + "\n").startswith("[2Jone / twotwo")


@given(st.dictionaries(st.sampled_from(list(REPORT)), ANYTHING | st.dictionaries(NAMES, ANYTHING)))
def test_reported_figures_are_always_within_bounds(changes: dict[str, Any]) -> None:
    found = read_log(written(**changes))
    assert found
    assert set(found.figures) <= {each.key for each in FIGURES}
    assert all(0 < value <= 1e18 and math.isfinite(value) for value in found.figures.values())
    assert all(FACTS[name][0] <= value <= FACTS[name][1] for name, value in found.facts.items())
    assert found.device in ("cuda", "cpu") if found.figures and found.device else found.device == ""
    assert all(note.isprintable() and len(note) <= 300 for note in found.notes)
    json.dumps([found.figures, found.facts], allow_nan=False)


@given(st.text(max_size=200) | st.text(max_size=100).map(lambda text: MARK + text))
def test_any_log_is_parsed_without_an_error(log: str) -> None:
    read_log(log)
    assert last_lines(log).isprintable()
