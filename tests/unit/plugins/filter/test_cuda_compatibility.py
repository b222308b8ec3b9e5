# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import pytest
from ansible.errors import AnsibleFilterError
from ansible_collections.gpulab.kubernetes.plugins.filter.cuda import FilterModule
from hypothesis import given
from hypothesis import strategies as st

compatibility = FilterModule().filters()["cuda_compatibility"]
ANYTHING = st.one_of(st.text(), st.integers(), st.floats(), st.booleans(), st.none(), st.lists(st.text()), st.binary())


@pytest.mark.parametrize(
    ("cuda", "driver", "options", "kind", "package"),
    [
        ("12.4", "550.54.14", {}, "native", None),
        ("12.4", "535.274.02", {}, "minor_version_compatibility", None),
        ("13.0", "535.274.02", {"gpu": "Tesla T4"}, "forward_compatibility", "cuda-compat-13-0"),
        ("13.0", "535.274.02", {"gpu": "0x1eb8", "data_center": False}, "unsupported", None),
        ("13.0", "580.178.04", {"gpu": "NVIDIA TITAN V"}, "unsupported", None),
        ("14.2", "580.178.04", {}, "unknown", None),
        (13, 590, {}, "native", None),
    ],
)
def test_kind_of_compatibility_follows_from_cuda_driver_and_gpu(
    cuda: object, driver: object, options: dict[str, object], kind: str, package: str | None
) -> None:
    found = compatibility(cuda, driver, **options)
    assert set(found) == {"kind", "reason", "advice", "package"}
    assert (found["kind"], found["package"]) == (kind, package)
    assert found["reason"] and found["advice"]


@pytest.mark.parametrize(
    ("cuda", "driver", "options", "message"),
    [
        (12.4, "550.54.14", {}, r"the CUDA version must be text, not 12\.4 \(float\); put it in quotes"),
        ("12.4", 550.54, {}, r"the driver version must be text, not 550\.54 \(float\); put it in quotes"),
        (True, "550", {}, r"the CUDA version must be text, not True \(bool\)$"),
        (None, "550", {}, "the CUDA version must be text, not None"),
        ("12.4", ["550"], {}, r"the driver version must be text, not \['550'\] \(list\)"),
        ("12.4", "550", {"gpu": {}}, "the GPU must be text"),
        ("12.4", "550", {"data_center": "no"}, "data_center must be true or false, not 'no'"),
        ("latest", "550", {}, r"reading a CUDA version: 'latest' is not a valid CUDA version\. Write it as in 12\.4"),
        ("12.4", "N/A", {}, "reading a driver version: 'N/A' is not a valid version of a Linux driver"),
    ],
)
def test_invalid_input_is_one_clear_error(
    cuda: object, driver: object, options: dict[str, object], message: str
) -> None:
    with pytest.raises(AnsibleFilterError, match=f"cuda_compatibility: .*{message}"):
        compatibility(cuda, driver, **options)


@given(ANYTHING, ANYTHING, ANYTHING, ANYTHING)
def test_any_value_gives_a_result_or_a_clear_error(cuda: object, driver: object, gpu: object, center: object) -> None:
    try:
        compatibility(cuda, driver, gpu=gpu, data_center=center)
    except AnsibleFilterError as error:
        assert str(error).startswith("cuda_compatibility: ")
