# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""When a GPU is slower than its peers, and which cause is named."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import pytest
from ansible_collections.gpulab.kubernetes.plugins.module_utils._benchmark.figures import (
    FIGURES,
    Gpu,
    Measurement,
    Reading,
)
from ansible_collections.gpulab.kubernetes.plugins.module_utils._benchmark.peers import (
    cause,
    compare,
    count_peers,
    pcie,
)

KEYS = [each.key for each in FIGURES]
LINK = {"pcie_generation": 4, "pcie_generation_max": 4, "pcie_width": 16, "pcie_width_max": 16}


def measured(
    number: int, value: float, key: str = KEYS[0], facts: Mapping[str, float] = MappingProxyType({}), **more: Any
) -> Measurement:
    gpu = Gpu("gpu1", f"GPU-{number}", number, "NVIDIA H100", more.get("memory", 81559))
    return Measurement(gpu, Reading(gpu.uuid, 1, more.get("device", "cuda"), "2.9", {key: value}, facts))


@pytest.mark.parametrize("key", KEYS)
@pytest.mark.parametrize(
    ("values", "named"),
    [
        ([], []),
        ([100], []),
        ([100, 100], []),
        ([100, 90], []),
        ([100, 89], [(1, 0)]),
        ([89, 100], [(0, 1)]),
        ([100, 100, 90], []),
        ([100, 100, 89], [(2,)]),
        # Compared with the median of the others, which the slow GPU does not lower.
        ([100, 82, 82], []),
        ([100, 80, 80], [(1,), (2,)]),
        ([100, 100, 80, 80], [(2,), (3,)]),
        # A single fast GPU is no reason to warn about the others.
        ([200, 100, 100, 100], []),
        ([1, 100, 100, 100, 100, 100, 100, 100], [(0,)]),
    ],
    ids=str,
)
def test_slower_gpus_than_their_peers_are_found(key: str, values: list[float], named: list[tuple[int, ...]]) -> None:
    found = compare([measured(number, value * 1e9, key) for number, value in enumerate(values)])
    assert [tuple(int(uuid.removeprefix("GPU-")) for uuid in each.uuids) for each in found] == named
    assert all(each.figures == (key,) for each in found)


def test_only_gpus_of_the_same_model_are_peers() -> None:
    assert compare([measured(0, 100), measured(1, 100), measured(2, 50, memory=40960)]) == []


def test_figures_of_a_cpu_are_not_compared() -> None:
    assert compare([measured(number, value, device="cpu") for number, value in enumerate([100, 100, 1])]) == []


def test_a_gpu_without_a_figure_is_not_a_peer_for_it() -> None:
    others = [measured(0, 100e9), measured(1, 100e9)]
    assert compare([*others, measured(2, 1e9, KEYS[1])]) == []


def test_a_warning_has_the_figure_its_peers_and_the_cause() -> None:
    slow = measured(3, 1234e9, facts={"throttle_reasons": 0x40})
    [found] = compare([*(measured(number, 2000e9) for number in range(3)), slow])
    assert found.text == (
        "gpu1 GPU 3 (NVIDIA H100) is slower than the median of its peers: memory bandwidth 1234 GB/s (61 %). It was "
        "slowed down because it was too hot: check its cooling."
    )


def test_figures_with_the_same_cause_are_one_warning() -> None:
    def both(number: int, share: float, **facts: float) -> Measurement:
        gpu = Gpu("gpu1", f"GPU-{number}", number, "NVIDIA H100", 81559)
        return Measurement(gpu, Reading(gpu.uuid, 1, "cuda", "2.9", dict.fromkeys(KEYS, share * 1e12), facts))

    narrow = {**LINK, "pcie_width": 8, "throttle_reasons": 0x4}
    found = compare([*(both(number, 1, **LINK) for number in range(3)), both(3, 0.5, **narrow)])
    assert [(each.uuids, each.figures) for each in found] == [
        (("GPU-3",), tuple(KEYS[:3])),
        (("GPU-3",), (KEYS[3],)),
    ]
    assert "power limit" in found[0].text and "PCIe link is Gen4 x8 under load, those of its peers" in found[1].text


def test_two_differing_gpus_are_named_together() -> None:
    [found] = compare([measured(0, 2000e9), measured(1, 1000e9)])
    assert found.text.startswith(
        "gpu1 GPU 1 and gpu1 GPU 0 (NVIDIA H100) differ: memory bandwidth 1000 GB/s and 2000 GB/s. There are only two "
        "of them, so check both. gpu1 GPU 1: No cause was found"
    )


@pytest.mark.parametrize(
    ("facts", "words"),
    [
        ({**LINK, "throttle_reasons": 0x48, "temperature_c": 91}, "because it was too hot (91 °C)"),
        ({"throttle_reasons": 0x20}, "because it was too hot:"),
        ({"throttle_reasons": 0x88}, "power brake"),
        ({"throttle_reasons": 0x8}, "The hardware slowed it down"),
        ({"throttle_reasons": 0x4, "power_w": 299.7}, "Its power limit slowed it down (300 W)"),
        ({"throttle_reasons": 0x2}, "Its clocks are set to a lower value"),
        ({"remap_pending": 1}, "Its memory has errors"),
        ({"remap_failure": 1}, "Its memory has errors"),
        ({"ecc_uncorrected": 3}, "Its memory has errors"),
        ({"memory_used_before_mib": 4096}, "Another process used 4096 MiB"),
        ({"throttle_reasons": 0x10}, "sync boost"),
        # The GPU was idle between two samples, which does not explain the figures.
        ({**LINK, "throttle_reasons": 0x1, "sm_clock_mhz": 1410}, "No cause was found: compare its clock (1410 MHz)"),
        ({}, "No cause was found: compare its clock, power"),
    ],
    ids=str,
)
def test_the_likely_cause_of_a_slow_gpu_is_named(facts: dict[str, float], words: str) -> None:
    others = [measured(number, 2) for number in (1, 2)]
    assert words in cause(measured(0, 1, facts=facts), FIGURES[0], others)


GEN3, GEN5 = ({**LINK, "pcie_generation": number, "pcie_generation_max": number} for number in (3, 5))
NARROW = {**LINK, "pcie_width": 8}
UNKNOWN = "No cause was found"


@pytest.mark.parametrize(
    ("facts", "others", "words"),
    [
        (NARROW, [LINK, LINK], "Its PCIe link is Gen4 x8 under load, those of its peers Gen4 x16: check"),
        # The slot or the firmware limits the link, so the GPU's own maximum does not matter.
        (GEN3, [GEN5, GEN5], "Its PCIe link is Gen3 x16 under load, those of its peers Gen5 x16"),
        ({**LINK, "pcie_generation": 3, "throttle_reasons": 0x8}, [LINK], "Its PCIe link is Gen3 x16"),
        # Links below their maximum are common in this group.
        (NARROW, [NARROW, NARROW], UNKNOWN),
        (NARROW, [NARROW, LINK], UNKNOWN),
        (NARROW, [{}, {}], UNKNOWN),
        (NARROW, [{}, LINK], "those of its peers Gen4 x16"),
        # Links with the same or a higher bandwidth.
        ({**GEN5, "pcie_width": 8}, [LINK], UNKNOWN),
        (GEN5, [LINK], UNKNOWN),
        ({"pcie_width": 8, "pcie_width_max": 16}, [LINK], UNKNOWN),
        ({"memory_used_before_mib": 4096}, [LINK], "Another process used 4096 MiB"),
        ({"throttle_reasons": 0x8}, [LINK], "The hardware slowed it down"),
        ({"throttle_reasons": 0x88}, [LINK], "power brake"),
        # None of these slows down a copy from the host.
        ({"throttle_reasons": 0x4, "ecc_uncorrected": 1}, [LINK], UNKNOWN),
        ({"throttle_reasons": 0x2 | 0x10 | 0x20}, [LINK], UNKNOWN),
    ],
    ids=str,
)
def test_the_likely_cause_of_a_slow_copy_is_named(facts: Any, others: list[Any], words: str) -> None:
    host_to_device = FIGURES[3]
    peers = [measured(number + 1, 2, host_to_device.key, each) for number, each in enumerate(others)]
    assert words in cause(measured(0, 1, host_to_device.key, facts), host_to_device, peers)


@pytest.mark.parametrize(
    ("reasons", "others", "words"),
    [
        (0x4, [0x4, 0x4], UNKNOWN),
        (0x2, [0x2, 0x2], UNKNOWN),
        (0x10, [0x10, 0x10], UNKNOWN),
        (0x24, [0x4, 0x4], "too hot"),
        (0x20, [0x20, 0x20], "too hot"),
        # Half of the known values.
        (0x4, [0x4, 0x1], UNKNOWN),
        (0x4, [0x4, None, None], UNKNOWN),
        (0x4, [0x4, 0x1, 0x1], "power limit"),
        (0x4, [None, None], "power limit"),
        (0x4, [], "power limit"),
    ],
    ids=str,
)
def test_condition_that_peers_share_is_not_the_cause(reasons: int, others: list[int | None], words: str) -> None:
    peers = [
        measured(number + 1, 2, KEYS[1], {} if each is None else {"throttle_reasons": each})
        for number, each in enumerate(others)
    ]
    assert words in cause(measured(0, 1, KEYS[1], {"throttle_reasons": reasons}), FIGURES[1], peers)


@pytest.mark.parametrize(
    ("index", "uuid", "text"),
    [(0, "GPU-1", "gpu1 GPU 0"), (None, "GPU-1", "gpu1 GPU-1"), (None, "", "gpu1 GPU without a UUID")],
)
def test_a_gpu_has_a_label(index: int | None, uuid: str, text: str) -> None:
    assert Gpu("gpu1", uuid, index).label == text


def test_the_peers_of_a_gpu_are_counted() -> None:
    group = [measured(number, 1) for number in range(3)]
    alone, cpu = measured(3, 1, memory=40960), measured(4, 1, device="cpu")
    both = Measurement(group[0].gpu, Reading("GPU-0", 1, "cuda", "2.9", {KEYS[0]: 1, KEYS[1]: 1}))
    assert count_peers([*group, alone, cpu]) == {"GPU-0": 2, "GPU-1": 2, "GPU-2": 2, "GPU-3": 0}
    # A figure that no other GPU has is not compared.
    assert count_peers([both, *group[1:]])["GPU-0"] == 0


def test_a_narrow_link_does_not_explain_a_slow_multiplication() -> None:
    assert "No cause was found" in cause(measured(0, 1, KEYS[1], {**LINK, "pcie_width": 1}), FIGURES[1], [])


@pytest.mark.parametrize(
    ("value", "words"),
    [(3.35e12, "3350 GB/s"), (98.76e9, "98.8 GB/s"), (6.0612e9, "6.06 GB/s"), (1e7, "0.01 GB/s")],
)
def test_figures_have_a_unit(value: float, words: str) -> None:
    assert FIGURES[0].format(value) == words


def test_an_unknown_link_is_not_described() -> None:
    assert pcie({"pcie_generation": 4}) == ""
    assert pcie(LINK) == "Gen4 x16"
