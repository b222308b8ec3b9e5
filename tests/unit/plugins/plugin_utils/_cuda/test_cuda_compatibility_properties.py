# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules that hold for any text, driver, toolkit and GPU."""

from __future__ import annotations

from ansible_collections.gpulab.kubernetes.plugins.plugin_utils._cuda import data
from ansible_collections.gpulab.kubernetes.plugins.plugin_utils._cuda.compatibility import (
    FORWARD,
    MINOR,
    NATIVE,
    RUNS,
    UNKNOWN,
    UNSUPPORTED,
    CudaError,
    cuda_of_image,
    judge,
)
from hypothesis import assume, given
from hypothesis import strategies as st

CUDAS = st.sampled_from([f"{t.version}.{t.first + n}" for t in data.TOOLKITS for n in range(len(t.drivers))])
DRIVERS = st.builds(
    lambda branch, minor, patch: f"{branch}.{minor:02d}.{patch:02d}",
    st.sampled_from([number for number in data.BRANCHES.numbers if number >= 384]),
    st.integers(0, 260),
    st.integers(0, 30),
)
GPUS = st.one_of(
    st.none(),
    st.sampled_from(
        ["Tesla K80", "GRID K1", "Tesla M60", "Tesla V100", "Tesla T4", "NVIDIA A100", "NVIDIA A10", "Ada"]
    ),
    st.sampled_from(
        ["NVIDIA H100", "NVIDIA GH200 480GB", "NVIDIA B200", "NVIDIA GB300", "NVIDIA R100", "GeForce RTX 4090"]
    ),
    st.integers(0, 0x3FFF).map(lambda number: f"0x{number:04x}"),
)
MAYBE = st.sampled_from([None, True, False])


def release(driver: str) -> list[int]:
    return [int(part) for part in driver.split(".")]


@given(
    st.one_of(CUDAS, st.text(), st.from_regex(r"(?i)(cuda)?[-_ ]?[0-9.]{0,12}")),
    st.one_of(DRIVERS, st.text(), st.from_regex(r"[0-9.]{0,12}")),
    st.one_of(GPUS, st.text()),
    MAYBE,
)
def test_any_text_gets_a_result_or_the_documented_error(
    cuda: str, driver: str, gpu: str | None, data_center: bool | None
) -> None:
    try:
        verdict = judge(cuda, driver, gpu, data_center)
    except CudaError as error:
        assert str(error).startswith("Error while reading a ") and len(str(error)) < 500
    else:
        assert verdict.kind in (NATIVE, MINOR, FORWARD, UNSUPPORTED, UNKNOWN)
        assert verdict.reason and verdict.advice
        assert (verdict.package is not None) == (verdict.kind == FORWARD)


@given(CUDAS, DRIVERS, DRIVERS, GPUS)
def test_a_newer_driver_supports_every_toolkit_of_an_older_one(
    cuda: str, one: str, other: str, gpu: str | None
) -> None:
    older, newer = sorted((one, other), key=release)
    before, after = judge(cuda, older, gpu), judge(cuda, newer, gpu)
    assume("last driver branch" not in after.reason)
    if before.kind in RUNS:
        assert after.kind in (NATIVE, before.kind)


@given(CUDAS, CUDAS, DRIVERS)
def test_a_driver_with_native_support_for_a_toolkit_supports_all_older_toolkits(
    one: str, other: str, driver: str
) -> None:
    older, newer = sorted((one, other), key=release)
    if judge(newer, driver).kind == NATIVE:
        assert judge(older, driver).kind == NATIVE


@given(CUDAS, DRIVERS, GPUS)
def test_knowing_the_gpu_never_improves_the_result(cuda: str, driver: str, gpu: str | None) -> None:
    if judge(cuda, driver, gpu).kind in RUNS:
        assert judge(cuda, driver).kind == judge(cuda, driver, gpu).kind


@given(CUDAS, DRIVERS)
def test_the_result_for_a_branch_holds_for_each_of_its_releases(cuda: str, driver: str) -> None:
    branch = driver[:3]
    if judge(cuda, branch).kind == NATIVE:
        assert judge(cuda, driver).kind == NATIVE


@given(st.one_of(st.text(), st.from_regex(r"[a-z/]{0,9}:?(cuda[-_:]?v?[0-9.]{0,9})?-?[a-z0-9@:]{0,9}")))
def test_the_cuda_version_of_any_image_is_valid_or_unknown(image: str) -> None:
    version = cuda_of_image(image)
    assert version is None or judge(version, "580.178.04")
