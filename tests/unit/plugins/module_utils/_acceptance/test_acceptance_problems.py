# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import pytest
from ansible_collections.gpulab.kubernetes.plugins.module_utils._acceptance.problems import (
    REMEDIES,
    inconclusive,
    problem,
)


@pytest.mark.parametrize(
    ("kinds", "expected"),
    [
        ([], False),
        (["dns_not_reached"], True),
        (["image_not_pulled", "isolation_not_proven", "network_pod_failed"], True),
        (["dns_not_reached", "gpu_not_visible"], False),
        *(([kind], False) for kind in REMEDIES if kind.startswith(("gpu", "pod_", "driver")) and "network" not in kind),
    ],
)
def test_problems_that_concern_no_gpu_prove_nothing_about_its_driver(kinds: list[str], expected: bool) -> None:
    assert inconclusive([problem(kind, "gpu1", "words").entry() for kind in kinds]) is expected


def test_a_problem_of_an_unknown_kind_counts_as_one_of_a_gpu() -> None:
    assert not inconclusive([{"host": "gpu1", "cause": "words"}])
