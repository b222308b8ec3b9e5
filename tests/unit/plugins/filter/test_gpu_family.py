# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import pytest
from ansible.errors import AnsibleFilterError
from ansible_collections.gpulab.kubernetes.plugins.filter.cuda import FilterModule
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
def test_family_follows_from_the_device_id(device_id: str, family: str, open_modules: str, last: int | None) -> None:
    found = describe(device_id)
    assert (found["family"], found["open_modules"], found["branches"]["last"]) == (family, open_modules, last)


def test_gpu_is_described_by_its_name() -> None:
    assert describe("Tesla V100-SXM2-32GB") == {
        "family": "Volta",
        "open_modules": "unsupported",
        "branches": {"first": None, "last": 580},
        "toolkits": {"first": None, "last": "12.9"},
        "data_center": True,
    }
    assert describe("NVIDIA GeForce RTX 5090") == {
        "family": "Blackwell",
        "open_modules": "required",
        "branches": {"first": 570, "last": None},
        "toolkits": {"first": "12.8", "last": None},
        "data_center": False,
    }


@pytest.mark.parametrize(
    ("name", "device_id", "family", "last"),
    [
        ("NVIDIA GeForce GTX 745", "0x1382", "Maxwell", 580),
        ("GeForce GTX 850M", "0x1391", "Maxwell", 580),
        ("GeForce 830M", "0x1340", "Maxwell", 580),
        ("GeForce 840M", "0x1341", "Maxwell", 580),
        ("GeForce 930M", "0x1346", "Maxwell", 580),
        ("NVIDIA GeForce 940MX", "0x134d", "Maxwell", 580),
        ("GeForce 920MX", "0x134f", "Maxwell", 580),
        ("GeForce 920M", "0x1299", "Kepler", 470),
        ("GeForce GTX 880M", "0x1198", "Kepler", 470),
        ("GeForce GT 640", "0x0fc1", "Kepler", 470),
        ("GeForce GT 610", "0x104a", "Fermi", 390),
        ("GeForce GTX 560 Ti", "0x1200", "Fermi", 390),
        ("GeForce GTX 480", "0x06c0", "Fermi", 390),
        ("Tesla PG503-216", "0x1db6", "Volta", 580),
        ("NVIDIA CMP 100-210", "0x1df4", "Volta", 580),
        ("GeForce GT 1030", "0x1d01", "Pascal", 580),
        ("GeForce GT 1010", "0x1d02", "Pascal", 580),
        ("P106-100", "0x1bc7", "Pascal", 580),
        ("P104-100", "0x1b87", "Pascal", 580),
        ("NVIDIA CMP 170HX", "0x20c2", "Ampere", None),
        ("NVIDIA CMP 90HX", "0x220d", "Ampere", None),
        ("CMP 40HX", "0x1f0b", "Turing", None),
        ("NVIDIA GeForce GT 710", "0x128b", "Kepler", 470),
        ("NVIDIA GeForce GT 730", "0x1287", "Kepler", 470),
        ("NVS 510", "0x0ffd", "Kepler", 470),
        ("NVS 310", "0x107d", "Fermi", 390),
    ],
)
def test_names_and_device_ids_give_the_same_family(name: str, device_id: str, family: str, last: int | None) -> None:
    for found in (describe(name), describe(device_id)):
        assert (found["family"], found["branches"]["last"]) == (family, last)


def test_device_id_distinguishes_chips_with_the_same_name() -> None:
    """Most GT 730 are Kepler; the device ID identifies the Fermi model that has the same name."""
    assert describe("0x0f02")["family"] == "Fermi" and describe("GeForce GT 730")["family"] == "Kepler"


@pytest.mark.parametrize("gpu", ["GeForce GT 640M LE", "GeForce GTX 860M", "GeForce 405", "GeForce GT 630"])
def test_ambiguous_name_has_no_family(gpu: str) -> None:
    assert describe(gpu)["family"] is None


@pytest.mark.parametrize("gpu", ["0xffff", "0x3000", "", "NVIDIA R100", "0x0040", "2080"])
def test_unknown_gpu_has_no_family(gpu: str) -> None:
    assert describe(gpu) == {
        "family": None,
        "open_modules": None,
        "branches": {"first": None, "last": None},
        "toolkits": {"first": None, "last": None},
        "data_center": None,
    }


@pytest.mark.parametrize("gpu", [None, True, ["Tesla T4"], {}, 1.5])
def test_value_that_is_not_a_string_is_an_error(gpu: object) -> None:
    with pytest.raises(AnsibleFilterError, match="gpu_family: the GPU must be text"):
        describe(gpu)


@given(st.text())
def test_any_text_has_a_result(text: str) -> None:
    describe(text)
