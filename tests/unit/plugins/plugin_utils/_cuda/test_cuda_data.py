# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The table's own rules: every row has a source, everything is in order, and no row contradicts another."""

from __future__ import annotations

import re
from itertools import pairwise
from typing import Any

import pytest
from ansible_collections.gpulab.kubernetes.plugins.plugin_utils._cuda import data

ROWS: list[Any] = [
    *data.TOOLKITS,
    *data.REPOSITORIES,
    *data.MINOR_VERSIONS,
    *data.FORWARD,
    data.BRANCHES,
    *data.FAMILIES,
    *data.BLOCKS,
    *data.NAMES,
]


def key(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split("."))


def test_each_row_has_its_source() -> None:
    for row in ROWS:
        assert row.sources and set(row.sources) <= set(data.SOURCES), row


def test_each_source_is_used_and_is_a_url() -> None:
    assert {source for row in ROWS for source in row.sources} == set(data.SOURCES)
    for name, address in data.SOURCES.items():
        assert address.startswith("https://") or name == "names"


def test_toolkits_and_their_drivers_are_in_order() -> None:
    assert all(key(one.version) < key(other.version) for one, other in pairwise(data.TOOLKITS))
    drivers = [key(driver) for row in data.TOOLKITS for driver in row.drivers]
    assert drivers == sorted(drivers)


def test_drivers_are_versions_of_known_branches() -> None:
    for row in data.TOOLKITS:
        for driver in row.drivers:
            assert re.fullmatch(r"\d{3}(\.\d{2,3}(\.\d{2})?)?", driver)
            assert key(driver)[0] in data.BRANCHES.numbers


def test_minor_versions_start_with_the_driver_of_a_major_version() -> None:
    assert [row.major for row in data.MINOR_VERSIONS] == [11, 12, 13]
    for row in data.MINOR_VERSIONS:
        first, second = [toolkit for toolkit in data.TOOLKITS if key(toolkit.version)[0] == row.major][:2]
        assert key(first.drivers[0]) <= key(row.driver) < key(second.drivers[0])


def test_forward_compatibility_is_for_older_branches_and_known_toolkits() -> None:
    toolkits = {row.version: row for row in data.TOOLKITS}
    assert all(key(one.toolkit) < key(other.toolkit) for one, other in pairwise(data.FORWARD))
    for row in data.FORWARD:
        own = key(toolkits[row.toolkit].drivers[0])[0]
        branches = [*row.branches, *row.ended]
        assert branches and set(branches) <= set(data.BRANCHES.numbers)
        assert len(branches) == len(set(branches)) and max(branches) < own
        assert list(row.branches) == sorted(row.branches) and list(row.ended) == sorted(row.ended)


def test_branches_are_in_order() -> None:
    assert all(one < other for one, other in pairwise(data.BRANCHES.numbers))


@pytest.mark.parametrize("family", data.FAMILIES, ids=lambda family: f"{family.name} {family.chips}")
def test_a_family_has_existing_toolkits_and_branches(family: data.Family) -> None:
    versions = {row.version for row in data.TOOLKITS} | {"8.0"}
    assert {family.first_toolkit, family.last_toolkit} - {None} <= versions
    assert {family.first_branch, family.last_branch} - {None} <= set(data.BRANCHES.numbers)
    assert family.first_branch or family.last_branch
    assert family.open_modules in (data.OPEN_REQUIRED, data.OPEN_SUPPORTED, data.OPEN_UNSUPPORTED)
    # Open modules support Turing and later; discontinued families never had them.
    assert (family.last_branch is not None) == (family.open_modules == data.OPEN_UNSUPPORTED)
    assert any(block.family is family for block in data.BLOCKS)
    assert family is data.FERMI or any(row.family is family for row in data.NAMES)


def test_blocks_are_in_order_and_do_not_overlap() -> None:
    assert all(block.first <= block.last for block in data.BLOCKS)
    assert all(one.last < other.first for one, other in pairwise(data.BLOCKS))
    # IDs from 2F90 on are CPUs of Vera Rubin.
    assert data.BLOCKS[-1].last < 0x3300 and not any(block.first <= 0x2F95 <= block.last for block in data.BLOCKS)


def test_name_patterns_are_lower_case_regular_expressions() -> None:
    for row in data.NAMES:
        assert row.pattern == row.pattern.lower() and re.compile(row.pattern)
