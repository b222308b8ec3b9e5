# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from itertools import pairwise

import pytest
from ansible_collections.gpulab.kubernetes.plugins.filter.gpu_family import FilterModule
from ansible_collections.gpulab.kubernetes.plugins.module_utils._gpu_families import _BLOCKS
from hypothesis import given
from hypothesis import strategies as st

describe = FilterModule().filters()["gpu_family"]


@pytest.mark.parametrize(
    ("device_id", "family", "open_modules", "last"),
    [
        ("0x1023", "Kepler", "unsupported", 470),  # K40m
        ("0x102d", "Kepler", "unsupported", 470),  # K80
        ("0x13f2", "Maxwell", "unsupported", 580),  # M60
        ("0x17fd", "Maxwell", "unsupported", 580),  # M40
        ("0x15f8", "Pascal", "unsupported", 580),  # P100
        ("0x1b38", "Pascal", "unsupported", 580),  # P40
        ("0x1db5", "Volta", "unsupported", 580),  # V100 SXM2 32GB
        ("0x1df6", "Volta", "unsupported", 580),  # V100S
        ("0x1eb8", "Turing", "supported", None),  # T4
        ("1EB8", "Turing", "supported", None),
        ("0x2184", "Turing", "supported", None),  # GTX 1660
        ("0x20b0", "Ampere", "supported", None),  # A100 SXM4 40GB
        ("0x2236", "Ampere", "supported", None),  # A10
        ("0x2204", "Ampere", "supported", None),  # RTX 3090
        ("0x26b9", "Ada Lovelace", "supported", None),  # L40S
        ("0x27b8", "Ada Lovelace", "supported", None),  # L4
        ("0x2330", "Hopper", "supported", None),  # H100 SXM5
        ("0x2335", "Hopper", "supported", None),  # H200
        ("0x2342", "Grace Hopper", "required", None),  # GH200
        ("0x2901", "Blackwell", "required", None),  # B200
        ("0x2bb5", "Blackwell", "required", None),  # RTX PRO 6000 Server
        ("0x3182", "Blackwell Ultra", "required", None),  # B300
    ],
)
def test_known_gpus(device_id: str, family: str, open_modules: str, last: int | None) -> None:
    found = describe(device_id)
    assert (found["family"], found["open_modules"], found["branches"]["last"]) == (family, open_modules, last)


@pytest.mark.parametrize("device_id", ["0xffff", "0x3000", "", "T4", "0x0040"])
def test_unknown_gpu_has_no_family(device_id: str) -> None:
    assert describe(device_id) == {"family": None, "open_modules": None, "branches": {"first": None, "last": None}}


@given(st.text())
def test_any_text_has_a_result(text: str) -> None:
    describe(text)


def test_blocks_are_in_order_and_apart() -> None:
    assert all(first <= last for first, last, _family in _BLOCKS)
    assert all(one[1] < other[0] for one, other in pairwise(_BLOCKS))
