# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""CUDA toolkits installed side by side: their packages, their support by the driver, and their removal."""

from __future__ import annotations

from typing import Any

import pytest
from ansible.errors import AnsibleFilterError
from ansible_collections.gpulab.kubernetes.plugins.filter.cuda_toolkit import (
    cuda_packages,
    cuda_toolkit_problem,
    cuda_toolkits,
)
from ansible_collections.gpulab.kubernetes.plugins.plugin_utils._cuda.plan import packages_of, plan
from hypothesis import given
from hypothesis import strategies as st

KINDS = ["native", "minor_version_compatibility", "forward_compatibility", "unsupported", "unknown"]


def test_toolkits_are_sorted_and_have_their_own_directories() -> None:
    first, second = cuda_toolkits(["13.0.2", "12.9.1"], driver="580.178.04")
    assert (first["version"], first["minor"], first["home"], first["priority"]) == (
        "12.9.1",
        "12.9",
        "/usr/local/cuda-12.9",
        129,
    )
    assert first["packages"] == [{"name": "cuda-toolkit-12-9", "version": "12.9.1-1"}]
    assert second["priority"] == 130
    assert [each["kind"] for each in (first, second)] == ["native", "native"]
    assert first["words"].startswith("CUDA 12.9.1: native: Driver 580.178.04 meets the requirement of")


@pytest.mark.parametrize(
    ("system", "absent", "oldest"),
    [
        ("", 0, ""),
        ("Ubuntu 22.04", 2, "11.7"),
        ("Debian 12", 4, "12.3"),
        ("Ubuntu 24.04", 5, "12.5"),
        ("Debian 13", 8, "13.1"),
        ("Ubuntu 26.04", 9, "13.3"),
    ],
)
def test_toolkits_missing_for_a_distribution_are_reported_with_the_oldest(
    system: str, absent: int, oldest: str
) -> None:
    versions = ["11.2.2", "11.3.1", "11.7.1", "11.8.0", "12.4.1", "12.5.1", "12.8.1", "13.0.2", "13.1.1", "13.3.1"]
    found = cuda_toolkits([*versions, "14.0.0"], system=system)
    assert [each["version"] for each in found if each["absent"]] == versions[:absent]
    assert all(each["absent"].endswith(f"for {system} is {oldest}") for each in found if each["absent"])


def test_forward_compatibility_of_12_8_avoids_the_empty_newest_package() -> None:
    (found,) = cuda_toolkits(["12.8.1"], "470.256.02", ["0x1eb8"], KINDS[:3])
    assert found["packages"][1] == {"name": "cuda-compat-12-8", "version": "570.211.01-*"}
    (found,) = cuda_toolkits(["13.0.2"], "535.274.02", ["0x1eb8"], KINDS[:3])
    assert found["packages"][1] == {"name": "cuda-compat-13-0", "version": ""}


@pytest.mark.parametrize(
    ("version", "driver", "gpus", "accept", "kind", "accepted", "words"),
    [
        ("13.1.1", "580.178.04", [], KINDS[:2], KINDS[1], True, "It can't compile this toolkit's PTX"),
        ("13.1.1", "580.178.04", [], KINDS[:1], KINDS[1], False, "590.48.01"),
        ("13.0.2", "535.274.02", ["0x1eb8"], KINDS[:2], KINDS[2], False, "cuda-compat-13-0"),
        ("13.0.2", "535.274.02", ["0x1eb8"], KINDS[:3], KINDS[2], True, "cuda-compat-13-0"),
        ("13.0.2", "580.178.04", ["Tesla V100-SXM2-32GB"], KINDS[:3], KINDS[3], False, "no code for Volta"),
        ("13.0.2", "580.178.04", ["Tesla T4", "Tesla V100-SXM2-32GB"], KINDS[:3], KINDS[3], False, "Volta"),
        ("14.0.0", "580.178.04", [], KINDS[:3], KINDS[4], False, "not in the table"),
        ("14.0.0", "580.178.04", [], KINDS, KINDS[4], True, "not in the table"),
        ("13.0.2", "", ["Tesla T4"], KINDS[:1], None, True, "there is no driver"),
    ],
)
def test_compatibility_with_the_driver_decides_what_is_installed(
    version: str, driver: str, gpus: list[str], accept: list[str], kind: str | None, accepted: bool, words: str
) -> None:
    (found,) = cuda_toolkits([version], driver, gpus, accept)
    assert (found["kind"], found["accepted"]) == (kind, accepted)
    assert words in found["words"]
    compat = [package["name"] for package in found["packages"] if package["name"].startswith("cuda-compat-")]
    assert compat == (["cuda-compat-13-0"] if kind == KINDS[2] and accepted else [])
    assert found["compat"] == ("/usr/local/cuda-13.0/compat" if compat else "")


@pytest.mark.parametrize(
    ("versions", "words"),
    [
        (["12.9"], "Write all three numbers"),
        (["twelve"], "not a release"),
        (["12.9.0", "12.9.1"], "can't be installed side by side"),
        ([12.9], "put it in quotes"),
        ("12.9.1", "must be a list"),
        (None, "must be a list"),
    ],
)
def test_invalid_list_of_releases_is_an_error(versions: Any, words: str) -> None:
    with pytest.raises(AnsibleFilterError, match=words):
        cuda_toolkits(versions)


def test_invalid_driver_version_is_an_error() -> None:
    with pytest.raises(AnsibleFilterError, match="not a valid version of a Linux driver"):
        cuda_toolkits(["12.9.1"], driver="new")


@pytest.mark.parametrize(
    ("system", "driver", "default", "remove", "words"),
    [
        ("", "580.178.04", "", [], []),
        ("", "", "12.8.1", ["12.9"], []),
        ("", "", "", ["13.1", "12.8"], ["both wanted and removed is 12.8, 13.1. Correct the variables."]),
        ("", "", "13.0.2", [], ["is 13.0.2, which is not among cuda_toolkit_versions (12.8.1, 13.1.1). Correct the"]),
        (
            "Debian 13",
            "",
            "",
            [],
            [
                "the repository lacks some of them:\n- CUDA 12.8.1: the oldest",
                "\nNothing was changed",
                "docker.io/nvidia/cuda",
            ],
        ),
        (
            "",
            "535.274.02",
            "",
            [],
            ["among native, minor_version_compatibility:\n- CUDA 13.1.1: f", "(cuda_toolkit_accept)."],
        ),
    ],
)
def test_problems_of_a_plan_are_reported_in_one_error(
    system: str, driver: str, default: str, remove: list[str], words: list[str]
) -> None:
    found = cuda_toolkit_problem(
        cuda_toolkits(["13.1.1", "12.8.1"], driver, ["0x1eb8"], system=system), default, remove, KINDS[:2]
    )
    assert found.startswith("Error while planning CUDA toolkits: ") == bool(words)
    assert bool(found) == bool(words) and all(each in found for each in words)


INSTALLED = [
    "cuda-12-8", "cuda-compat-12-8", "cuda-nvcc-12-8", "cuda-toolkit-12-8", "cuda-toolkit-12-8-config-common",
    "gds-tools-12-8", "libcublas-12-8", "libcublas-dev-12-8", "libnpp-12-8", "libnvjitlink-12-8",
]  # fmt: skip
OTHERS = [
    "cuda", "cuda-12", "cuda-drivers-580", "cuda-keyring", "cuda-nvcc-12-80", "cuda-nvcc-12-9", "cuda-nvcc-2-8",
    "cuda-toolkit-12-config-common", "cuda-toolkit-config-common", "libc6", "libllvm-12-8", "nsight-compute-2025.1.1",
]  # fmt: skip


def test_removal_of_a_toolkit_keeps_packages_of_others() -> None:
    assert cuda_packages([*OTHERS, *INSTALLED], ["12.8"]) == sorted(INSTALLED)
    assert cuda_packages([*OTHERS, *INSTALLED], ["12.8", "12.9"]) == sorted([*INSTALLED, "cuda-nvcc-12-9"])
    with pytest.raises(AnsibleFilterError, match="Write it as in"):
        cuda_packages(OTHERS, ["12.8.1"])


MINORS = st.builds("{}.{}".format, st.integers(10, 14), st.integers(0, 12))


@given(st.lists(MINORS, unique=True, min_size=1, max_size=5))
def test_removal_of_a_toolkit_keeps_all_other_toolkits(minors: list[str]) -> None:
    toolkits = plan([f"{minor}.1" for minor in minors], None, [], [], "-1")
    assert sorted(toolkit.minor for toolkit in toolkits) == sorted(minors)
    names = [package["name"] for toolkit in toolkits for package in toolkit.packages]
    for toolkit in toolkits:
        assert packages_of(toolkit.minor, names) == [toolkit.packages[0]["name"]]


@given(st.text(), st.text())
def test_any_text_gives_a_plan_or_an_error(version: str, driver: str) -> None:
    try:
        (found,) = cuda_toolkits([version], driver)
    except AnsibleFilterError:
        return
    assert found["home"].startswith("/usr/local/cuda-")
