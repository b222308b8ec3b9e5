# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Names as nvidia-smi prints them, and PCI device IDs in every notation."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
from ansible_collections.gpulab.kubernetes.plugins.plugin_utils._cuda import data
from ansible_collections.gpulab.kubernetes.plugins.plugin_utils._cuda.families import by_device_id, by_name, identify
from hypothesis import given
from hypothesis import strategies as st

REPOSITORY = Path(__file__).resolve().parents[5]
CAPTURES = Path(os.environ.get("GPULAB_CAPTURES", REPOSITORY.parent / "shared/captures"))


@pytest.mark.parametrize(
    ("name", "family", "data_center"),
    [
        ("Tesla K80", data.KEPLER, True),
        ("Tesla K40m", data.KEPLER, True),
        ("Tesla K20Xm", data.KEPLER, True),
        ("Tesla K10.G2.8GB", data.KEPLER_GK10X, True),
        ("GRID K1", data.KEPLER_GK10X, True),
        ("GRID K520", data.KEPLER_GK10X, True),
        ("GeForce GTX TITAN Black", data.KEPLER, False),
        ("GeForce GTX 780 Ti", data.KEPLER, False),
        ("GeForce GTX 680", data.KEPLER_GK10X, False),
        ("Quadro K6000", data.KEPLER, None),
        ("Quadro K4000", data.KEPLER_GK10X, None),
        ("Quadro K2200", data.MAXWELL, None),
        ("Tesla M60", data.MAXWELL, True),
        ("GRID M60-2Q", data.MAXWELL, True),
        ("Tesla M4", data.MAXWELL, True),
        ("GeForce GTX TITAN X", data.MAXWELL, False),
        ("GeForce GTX 980 Ti", data.MAXWELL, False),
        ("Quadro M4000", data.MAXWELL, None),
        ("Tesla P100-PCIE-16GB", data.PASCAL, True),
        ("GRID P4-1Q", data.PASCAL, True),
        ("Tesla P40", data.PASCAL, True),
        ("NVIDIA TITAN X (Pascal)", data.PASCAL, False),
        ("NVIDIA TITAN Xp", data.PASCAL, False),
        ("GeForce GTX 1080 Ti", data.PASCAL, False),
        ("Quadro P4000", data.PASCAL, None),
        ("Quadro P400", data.PASCAL, None),
        ("Quadro GP100", data.PASCAL, None),
        ("Tesla V100-SXM2-32GB", data.VOLTA, True),
        ("GRID V100D-16Q", data.VOLTA, True),
        ("Tesla V100S-PCIE-32GB", data.VOLTA, True),
        ("NVIDIA TITAN V", data.VOLTA, False),
        ("Quadro GV100", data.VOLTA, None),
        ("Tesla T4", data.TURING, True),
        ("GRID T4-8Q", data.TURING, True),
        ("NVIDIA T400 4GB", data.TURING, None),
        ("NVIDIA T1000 8GB", data.TURING, None),
        ("NVIDIA TITAN RTX", data.TURING, False),
        ("NVIDIA GeForce RTX 2080 Ti", data.TURING, False),
        ("NVIDIA GeForce RTX 2080 with Max-Q Design", data.TURING, False),
        ("NVIDIA GeForce GTX 1660 SUPER", data.TURING, False),
        ("Quadro RTX 6000", data.TURING, None),
        ("GRID RTX6000-8Q", data.TURING, None),
        ("NVIDIA A100-SXM4-40GB", data.AMPERE, True),
        ("NVIDIA A100 80GB PCIe", data.AMPERE, True),
        ("NVIDIA A100-SXM4-40GB MIG 1g.5gb", data.AMPERE, True),
        ("GRID A100-10C", data.AMPERE, True),
        ("NVIDIA A30", data.AMPERE, True),
        ("NVIDIA A800-SXM4-80GB", data.AMPERE, None),
        ("NVIDIA A10", data.AMPERE_GA10X, True),
        ("NVIDIA A10G", data.AMPERE_GA10X, True),
        ("NVIDIA A40-48Q", data.AMPERE_GA10X, True),
        ("NVIDIA A2", data.AMPERE_GA10X, True),
        ("NVIDIA RTX A6000", data.AMPERE_GA10X, None),
        ("NVIDIA RTX A2000 12GB", data.AMPERE_GA10X, None),
        ("NVIDIA GeForce RTX 2050", data.AMPERE_GA10X, False),
        ("NVIDIA GeForce RTX 3090", data.AMPERE_GA10X, False),
        ("NVIDIA GeForce RTX 3050 A Laptop GPU", data.ADA, False),
        ("NVIDIA GeForce RTX 4090", data.ADA, False),
        ("NVIDIA RTX 6000 Ada Generation", data.ADA, None),
        ("NVIDIA RTX 4000 SFF Ada Generation", data.ADA, None),
        ("NVIDIA RTX6000-Ada-48Q", data.ADA, None),
        ("NVIDIA L40S", data.ADA, True),
        ("NVIDIA L4", data.ADA, True),
        ("NVIDIA H100 80GB HBM3", data.HOPPER, True),
        ("NVIDIA H100 PCIe", data.HOPPER, True),
        ("NVIDIA H200 NVL", data.HOPPER, True),
        ("NVIDIA H20-3e", data.HOPPER, True),
        ("NVIDIA GH200 480GB", data.GRACE_HOPPER, True),
        ("NVIDIA GH200 144G HBM3e", data.GRACE_HOPPER, True),
        ("NVIDIA B200", data.BLACKWELL, True),
        ("NVIDIA GB200", data.BLACKWELL, True),
        ("HGX GB200", data.BLACKWELL, True),
        ("NVIDIA B300 SXM6 AC", data.BLACKWELL_ULTRA, True),
        ("NVIDIA GB300", data.BLACKWELL_ULTRA, True),
        ("NVIDIA GB10", data.BLACKWELL_GB10, False),
        ("NVIDIA GeForce RTX 5090", data.BLACKWELL, False),
        ("NVIDIA RTX PRO 6000 Blackwell Workstation Edition", data.BLACKWELL, None),
        ("NVIDIA RTX PRO 6000 Blackwell Server Edition", data.BLACKWELL, True),
        ("nvidia  tesla t4", data.TURING, True),
        ("Turing", data.TURING, None),
        ("Ada Lovelace", data.ADA, None),
        ("ada", data.ADA, None),
        ("Hopper", data.HOPPER, True),
        ("Grace Hopper", data.GRACE_HOPPER, True),
        ("Kepler", data.KEPLER, None),
        ("Blackwell", data.BLACKWELL, None),
    ],
)
def test_a_name_determines_the_family(name: str, family: data.Family, data_center: bool | None) -> None:
    found = by_name(name)
    assert found is not None and found.family is family, found
    assert found.data_center is data_center


@pytest.mark.parametrize(
    "name",
    [
        "",
        "NVIDIA",
        "Graphics Device",
        "GeForce GTX 750 Ti",  # Kepler or Maxwell
        "GeForce GTX 860M",  # Kepler or Maxwell
        "NVIDIA TITAN X",  # Maxwell or Pascal
        "NVIDIA RTX 6000",  # Turing or Ada
        "NVIDIA R100",
        "A1000000",
        "T40",
        "2080",
        "Radeon RX 7900",
        "Tesla C2050",
    ],
)
def test_an_ambiguous_name_has_no_family(name: str) -> None:
    assert by_name(name) is None and identify(name) is None


@pytest.mark.parametrize("text", ["0x1eb8", "1EB8", "10de:1eb8", "10DE:0x1EB8", "0x1EB810DE", "1eb810de", " 0x1eb8\n"])
def test_a_device_id_can_be_written_in_several_ways(text: str) -> None:
    assert by_device_id(text) is data.TURING


@pytest.mark.parametrize(
    "text", ["", "0x", "1eb", "0x1eb8f", "8086:1eb8", "0x1eb88086", "T4", "A100", "B200", "2080", "1650"]
)
def test_an_invalid_device_id_is_not_recognized(text: str) -> None:
    assert by_device_id(text) is None


@pytest.mark.parametrize(("text", "family"), [("2704", data.ADA), ("2330", data.HOPPER), ("2484", data.AMPERE_GA10X)])
def test_a_device_id_without_letters_is_recognized(text: str, family: data.Family) -> None:
    found = identify(text)
    assert found and found.family is family


def test_names_that_look_hexadecimal_are_still_names() -> None:
    for name, family in (("A100", data.AMPERE), ("B200", data.BLACKWELL), ("A800", data.AMPERE)):
        found = identify(name)
        assert found and found.family is family


@pytest.mark.parametrize("block", data.BLOCKS, ids=lambda block: f"{block.first:04x}")
def test_a_block_contains_its_first_and_last_id(block: data.Block) -> None:
    for number in (block.first, block.last):
        assert by_device_id(f"0x{number:04x}") is block.family
    for number in (block.first - 1, block.last + 1):
        neighbours = [other.family for other in data.BLOCKS if other.first <= number <= other.last]
        assert by_device_id(f"0x{number:04x}") is (neighbours[0] if neighbours else None)


@given(st.one_of(st.text(), st.from_regex(r"(?i)(nvidia|tesla|grid|quadro|geforce) ?[a-z0-9 ]{0,12}")))
def test_any_text_has_a_result(text: str) -> None:
    identify(text)


@given(st.integers(0, 0xFFFF))
def test_every_device_id_is_found_in_its_block(number: int) -> None:
    blocks = [block for block in data.BLOCKS if block.first <= number <= block.last]
    assert by_device_id(f"0x{number:04x}") is (blocks[0].family if blocks else None)


@pytest.mark.skipif(not CAPTURES.is_dir(), reason="recorded files are not here")
def test_recorded_names_match_the_architecture_in_the_same_output() -> None:
    said = {"Grace Hopper": "Hopper", "Blackwell Ultra": "Blackwell"}
    seen = 0
    for path in sorted((CAPTURES / "nvidia_smi_xml").iterdir()):
        for gpu in path.read_text(errors="replace").split("<gpu id=")[1:]:
            name, architecture = (re.search(rf"<product_{tag}>([^<]+)<", gpu) for tag in ("name", "architecture"))
            found = by_name(name[1]) if name else None
            if found and architecture:
                assert said.get(found.family.name, found.family.name) == architecture[1], path.name
                seen += 1
    assert seen > 5
