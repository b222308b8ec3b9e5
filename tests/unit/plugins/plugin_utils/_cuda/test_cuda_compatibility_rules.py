# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
from ansible_collections.gpulab.kubernetes.plugins.plugin_utils._cuda import data
from ansible_collections.gpulab.kubernetes.plugins.plugin_utils._cuda.compatibility import (
    FORWARD,
    MINOR,
    NATIVE,
    RUNS,
    UNKNOWN,
    UNSUPPORTED,
    CudaError,
    Verdict,
    cuda_of_image,
    judge,
    read_cuda,
)

REPOSITORY = Path(__file__).resolve().parents[5]
CAPTURES = Path(os.environ.get("GPULAB_CAPTURES", REPOSITORY.parent / "shared/captures"))

# NVIDIA's release notes, transcribed independently: toolkit, minimum driver, result for a slightly older driver.
LEAST = """
10.0 410.48 unsupported
10.1 418.39 unsupported
10.2 440.33 unsupported
11.0 450.51.05 unsupported
11.0.3 450.51.06 unsupported
11.1 455.23 minor
11.1.1 455.32 minor
11.2 460.27.03 minor
11.2.1 460.32.03 minor
11.2.2 460.32.03 minor
11.3 465.19.01 minor
11.4 470.42.01 minor
11.4.1 470.57.02 minor
11.4.2 470.57.02 minor
11.4.3 470.82.01 minor
11.4.4 470.82.01 minor
11.5 495.29.05 minor
11.6 510.39.01 minor
11.6.1 510.47.03 minor
11.6.2 510.47.03 minor
11.7 515.43.04 minor
11.7.1 515.48.07 minor
11.8 520.61.05 minor
12.0 525.60.13 unsupported
12.0.1 525.85.12 minor
12.1 530.30.02 minor
12.2 535.54.03 minor
12.2.1 535.86.09 minor
12.2.2 535.104.05 minor
12.3 545.23.06 minor
12.3.1 545.23.08 minor
12.4 550.54.14 minor
12.4.0 550.54.14 minor
12.4.1 550.54.15 minor
12.5 555.42.02 minor
12.5.1 555.42.06 minor
12.6 560.28.03 minor
12.6.1 560.35.03 minor
12.6.2 560.35.03 minor
12.6.3 560.35.05 minor
12.8 570.26 minor
12.8.1 570.124.06 minor
12.9 575.51.03 minor
12.9.1 575.57.08 minor
13.0 580.65.06 unsupported
13.0.1 580.82.07 minor
13.0.2 580.95.05 minor
13.1 590.44.01 minor
13.1.1 590.48.01 minor
13.2 595.45.04 minor
13.2.1 595.58.03 minor
13.2.2 595.71.05 minor
13.3 610.43.02 minor
13.3.1 610.43.02 minor
13.4 615.00 minor
"""
KINDS = {"minor": MINOR, "unsupported": UNSUPPORTED}
BELOW_615 = "610.57.04"


def just_below(driver: str) -> str:
    head, last = driver.rsplit(".", 1)
    return f"{head}.{int(last) - 1:02d}" if int(last) else BELOW_615


def words(verdict: Verdict) -> str:
    return f"{verdict.reason} {verdict.advice}"


@pytest.mark.parametrize(("cuda", "driver", "below"), [line.split() for line in LEAST.split("\n") if line])
def test_the_minimum_driver_of_each_toolkit_is_known(cuda: str, driver: str, below: str) -> None:
    assert judge(cuda, driver) == Verdict(
        NATIVE,
        f"Driver {driver} meets the requirement of CUDA {cuda} ({driver.removesuffix('.00')} or newer)",
        "Nothing has to be changed",
    )
    verdict = judge(cuda, just_below(driver))
    assert verdict.kind == KINDS[below] and verdict.package is None
    assert driver.removesuffix(".00") in words(verdict)


def test_the_table_above_has_every_toolkit() -> None:
    written = {".".join(line.split()[0].split(".")[:2]) for line in LEAST.split("\n") if line}
    assert written == {row.version for row in data.TOOLKITS}


@pytest.mark.parametrize(
    ("cuda", "floor"), [("11.8", "450.80.02"), ("12.9", "525.60.13"), ("13.4", "580.65.06"), ("13.0.3", "580.65.06")]
)
def test_minor_version_compatibility_starts_at_the_first_driver_of_a_major_version(cuda: str, floor: str) -> None:
    verdict = judge(cuda, floor)
    assert verdict.kind == MINOR and verdict.package is None
    assert "PTX" in verdict.reason and "can't compile" in verdict.reason
    below = judge(cuda, just_below(floor))
    assert below.kind not in RUNS and f"CUDA {cuda[:2]}" in below.reason and f"({floor})" in below.reason


@pytest.mark.parametrize(
    ("cuda", "driver", "gpu", "package"),
    [
        ("13.0", "535.274.02", "Tesla T4", "cuda-compat-13-0"),
        ("13.0", "570.86.15", "NVIDIA H100 80GB HBM3", "cuda-compat-13-0"),
        ("13.4", "535.54.03", "NVIDIA A100-SXM4-40GB", "cuda-compat-13-4"),
        ("13.4.2", "570.211.01", "NVIDIA B200", "cuda-compat-13-4"),
        ("13.2", "535.274.02", None, "cuda-compat-13-2"),
        ("13.0", "550.54.14", "NVIDIA A100-SXM4-40GB", "cuda-compat-13-0"),
        ("12.4", "470.256.02", "Tesla V100-SXM2-32GB", "cuda-compat-12-4"),
        ("12.0", "510.108.03", "Tesla T4", "cuda-compat-12-0"),
    ],
)
def test_forward_compatibility_names_the_package(cuda: str, driver: str, gpu: str | None, package: str) -> None:
    verdict = judge(cuda, driver, gpu)
    assert (verdict.kind, verdict.package) == (FORWARD, package)
    assert package in verdict.advice and "or use driver" in verdict.advice
    # Without a known GPU, the condition is part of the reason.
    assert ("on data-center GPUs" in verdict.reason) == (gpu is None)


def test_forward_compatibility_reports_a_discontinued_branch() -> None:
    assert "550 has reached its end of life" in judge("13.0", "550.54.14").reason
    assert "has ended" not in judge("13.0", "570.26").reason


@pytest.mark.parametrize(
    ("cuda", "driver", "gpu", "data_center", "said"),
    [
        ("13.0", "535.274.02", "NVIDIA GeForce RTX 4090", None, ["data-center GPUs only", "580.65.06"]),
        ("13.0", "535.274.02", "0x1eb8", False, ["data-center GPUs only"]),
        ("13.0", "535.274.02", None, False, ["data-center GPUs only", "use CUDA 12"]),
        ("13.0", "470.256.02", "Tesla T4", None, ["no cuda-compat-13-0", "branch 470", "use CUDA 11"]),
        ("13.2", "550.54.14", "Tesla T4", None, ["no cuda-compat-13-2", "branch 550"]),
        ("13.0", "565.77", "Tesla T4", None, ["no cuda-compat-13-0", "branch 565"]),
        ("11.8", "418.226.00", "Tesla T4", None, ["450.80.02", "use CUDA 10.1"]),
        ("10.2", "384.81", None, None, ["440.33"]),
    ],
)
def test_a_driver_that_is_too_old_is_reported(
    cuda: str, driver: str, gpu: str | None, data_center: bool | None, said: list[str]
) -> None:
    verdict = judge(cuda, driver, gpu, data_center)
    assert (verdict.kind, verdict.package) == (UNSUPPORTED, None)
    assert all(word in words(verdict) for word in said), verdict


def test_a_setting_for_the_gpu_takes_precedence_over_its_name() -> None:
    assert judge("13.0", "535.274.02", "NVIDIA RTX A6000").kind == FORWARD
    assert judge("13.0", "535.274.02", "NVIDIA RTX A6000", False).kind == UNSUPPORTED
    assert judge("13.0", "535.274.02", "NVIDIA GeForce RTX 4090", True).kind == FORWARD


@pytest.mark.parametrize(
    ("gpu", "last_branch", "last_toolkit", "first_after"),
    [
        ("Tesla K80", "470.256.02", "11.8", "12.0"),
        ("GRID K1", "470.256.02", "10.2", "11.0"),
        ("Tesla M60", "580.178.04", "12.9", "13.0"),
        ("Tesla P100-PCIE-16GB", "580.178.04", "12.9", "13.0"),
        ("Tesla V100-SXM2-32GB", "580.178.04", "12.9", "13.0"),
        ("0x1db5", "580.178.04", "12.9", "13.0"),
    ],
)
def test_gpus_without_further_support_have_a_last_toolkit_and_branch(
    gpu: str, last_branch: str, last_toolkit: str, first_after: str
) -> None:
    assert judge(last_toolkit, last_branch, gpu).kind in RUNS
    gone = judge(first_after, last_branch, gpu)
    assert gone.kind == UNSUPPORTED and f"CUDA {last_toolkit} is the last" in gone.reason
    later = "495.29.05" if last_branch.startswith("470") else "590.44.01"
    undriven = judge("10.2", later, gpu)
    assert undriven.kind == UNSUPPORTED and f"{last_branch[:3]} is the last driver branch" in undriven.reason
    assert f"branch {last_branch[:3]} or older" in undriven.advice
    # This result is certain even for an unknown toolkit, because support never returns.
    assert judge("15.1", last_branch, gpu).kind == UNSUPPORTED


def test_no_newer_driver_is_suggested_for_gpus_that_it_does_not_support() -> None:
    verdict = judge("11.8", "470.256.02", "Tesla K80")
    assert verdict.kind == MINOR and "no driver since 520.61.05 supports Kepler" in verdict.advice


@pytest.mark.parametrize(
    ("gpu", "driver", "too_old", "first_toolkit", "before"),
    [
        ("Tesla T4", "410.48", "396.26", "10.0", None),
        ("NVIDIA A100-SXM4-40GB", "450.80.02", "440.33", "11.0", "10.2"),
        ("NVIDIA A10", "455.32", "450.80.02", "11.1", "11.0"),
        ("NVIDIA L40S", "520.61.05", "515.48.07", "11.8", "11.7"),
        ("NVIDIA H100 PCIe", "520.61.05", "515.48.07", "11.8", "11.7"),
        ("NVIDIA GH200 480GB", "535.54.03", "530.30.02", "11.8", "11.7"),
        ("NVIDIA B200", "570.26", "565.77", "12.8", "12.6"),
        ("NVIDIA GB300", "580.65.06", "575.57.08", "12.9", "12.8"),
        ("NVIDIA GB10", "580.65.06", "575.57.08", "12.9", "12.8"),
    ],
)
def test_gpus_are_supported_from_their_first_driver_and_toolkit_on(
    gpu: str, driver: str, too_old: str, first_toolkit: str, before: str | None
) -> None:
    assert judge(first_toolkit, driver, gpu).kind == NATIVE
    undriven = judge(first_toolkit, too_old, gpu)
    assert undriven.kind == UNSUPPORTED and f"{driver[:3]} is the first driver branch" in undriven.reason
    if before:
        # Programs with PTX run, others don't; the version alone does not tell which.
        older = judge(before, driver, gpu)
        assert older.kind == UNKNOWN and "PTX" in older.reason and f"CUDA {first_toolkit} or newer" in older.advice


@pytest.mark.parametrize(
    ("cuda", "driver", "gpu", "said"),
    [
        ("14.0", "616.56", None, "CUDA 14.0 is not in the table"),
        ("9.2", "580.178.04", None, "CUDA 9.2 is not in the table"),
        ("12.7", "580.178.04", None, "CUDA 12.7 is not in the table"),
        ("12.4.2", "550.54.15", None, "CUDA 12.4.2 is newer than the last 12.4 release in the table (12.4.1"),
        ("13.4.3", "616.56", None, "newer than the last 13.4"),
        ("13.4.0", "616.56", None, "CUDA 13.4.0 was a preview of 13.4.1"),
        ("11.0.1", "450.51.05", None, "was a preview of 11.0.2"),
        ("12.4", "551.61", None, "Windows drivers have different version numbers"),
        ("12.4", "580.178.04", "NVIDIA R100", "'NVIDIA R100' is not in the table"),
        ("12.4", "580.178.04", "0x3000", "'0x3000' is not in the table"),
        ("13.0", "535.274.02", "NVIDIA R100", "not in the table"),
        ("12.4", "700.10", "Tesla T4", "newer than the table"),
    ],
)
def test_versions_outside_of_the_table_are_unknown(cuda: str, driver: str, gpu: str | None, said: str) -> None:
    verdict = judge(cuda, driver, gpu)
    assert (verdict.kind, verdict.package) == (UNKNOWN, None)
    assert said in verdict.reason and verdict.advice


def test_an_update_outside_of_the_table_is_known_if_its_neighbors_agree() -> None:
    assert judge("12.4.2", "555.42.02").kind == NATIVE
    assert judge("12.4.131", "580.178.04").kind == NATIVE
    assert judge("12.4.2", "550.54.14").kind == MINOR
    assert judge("12.4.2", "470.57.02", "GeForce GTX 1080").kind == UNSUPPORTED
    assert judge("10.1.243", "418.39").kind == NATIVE


def test_a_driver_newer_than_the_table_supports_all_toolkits_in_it() -> None:
    assert judge("12.4", "700.10").kind == NATIVE


def test_a_driver_that_is_too_old_for_the_toolkit_is_unsupported_with_any_gpu() -> None:
    assert judge("13.0", "470.256.02", "NVIDIA R100").kind == UNSUPPORTED


@pytest.mark.parametrize(
    ("cuda", "branch", "kind"),
    [
        ("12.4", "550", MINOR),
        ("12.4", "555", NATIVE),
        ("12.0", "525", MINOR),
        ("13.0", "580", MINOR),
        ("13.0", "590", NATIVE),
        ("11.0", "450", MINOR),
        ("13.4", "615", NATIVE),
        ("13.0", "570", FORWARD),
        ("10.2", "440", UNSUPPORTED),
    ],
)
def test_a_branch_gets_the_result_that_holds_for_all_its_releases(cuda: str, branch: str, kind: str) -> None:
    verdict = judge(cuda, branch)
    assert verdict.kind == kind
    if verdict.kind == MINOR:
        assert f"Driver {branch} has releases that are older" in verdict.reason


@pytest.mark.parametrize("text", ["12.4", " 12.4\n", "cuda-12.4", "CUDA 12.4", "cuda12.4", "v12.4", "cuda_12.4"])
def test_a_cuda_version_can_be_written_in_several_ways(text: str) -> None:
    assert (read_cuda(text).version, read_cuda(text).release) == ("12.4", None)


def test_a_major_version_means_its_first_toolkit() -> None:
    assert (str(read_cuda("13")), str(read_cuda("13.0.1"))) == ("13.0", "13.0.1")
    assert judge("13", "580.65.06").kind == NATIVE


@pytest.mark.parametrize(
    "text",
    ["", "latest", "12,4", "12.", ".4", "12.4.1.2", "-12.4", "12.4-base", "1" * 5000, "\uff11\uff12.\uff14", "0.1"],
)
def test_an_invalid_cuda_version_is_an_error(text: str) -> None:
    with pytest.raises(
        CudaError, match=r"reading a CUDA version: .* is not a valid CUDA version\. Write it as in 12\.4"
    ) as error:
        judge(text, "550.54.14")
    assert len(str(error.value)) < 300


@pytest.mark.parametrize(
    "text", ["", "N/A", "55", "5505", "550.", "31.0.15.5161", "550.54.14-1ubuntu1", "R550", "050.1"]
)
def test_an_invalid_driver_version_is_an_error(text: str) -> None:
    with pytest.raises(
        CudaError,
        match=r"reading a driver version: .* is not a valid version of a Linux driver\. Write it as nvidia-smi",
    ):
        judge("12.4", text)


@pytest.mark.parametrize(
    ("image", "version"),
    [
        ("nvcr.io/nvidia/k8s/cuda-sample:vectoradd-cuda12.5.0", "12.5.0"),
        ("nvcr.io/nvidia/k8s/cuda-sample:vectoradd-cuda11.7.1-ubi8", "11.7.1"),
        ("nvidia/cuda:12.4.1-base-ubuntu22.04", "12.4.1"),
        ("registry:5000/nvidia/cuda:13.0-runtime@sha256:cuda1.1", "13.0"),
        ("pytorch/pytorch:2.4.0-cuda12.4-cudnn9-runtime", "12.4"),
        ("nvcr.io/nvidia/k8s/cuda-sample:vectoradd", None),
        ("registry/cuda:latest", None),
        ("registry/vectoradd:12.5.0", None),
        ("barracuda12.5/x", None),
        ("x@sha256:cuda12.5", None),
        ("", None),
    ],
)
def test_the_cuda_version_of_an_image_is_found(image: str, version: str | None) -> None:
    assert cuda_of_image(image) == version


@pytest.mark.skipif(not CAPTURES.is_dir(), reason="recorded files are not here")
def test_recorded_drivers_support_the_cuda_version_that_they_print_but_not_a_newer_one() -> None:
    newer = {one.version: other.version for one, other in zip(data.TOOLKITS, data.TOOLKITS[1:])}
    seen = set()
    for path in sorted(CAPTURES.glob("nvidia_smi_*/*")):
        text = path.read_text(errors="replace")
        driver = re.search(r"<driver_version>([0-9.]+)<|(?:Driver|KMD) Version: +([0-9.]+)", text)
        cuda = re.search(r"<cuda_version>([0-9.]+)<|CUDA(?: UMD)? Version: +([0-9.]+)", text)
        if not driver or not cuda or "windows" in path.name:
            continue
        version, toolkit = driver[1] or driver[2], cuda[1] or cuda[2]
        kind = judge(toolkit, version).kind
        if kind != UNKNOWN:
            assert kind == NATIVE, (path.name, toolkit, version)
            seen.add(version)
            if toolkit in newer:
                assert judge(newer[toolkit], version).kind != NATIVE, (path.name, toolkit, version)
    assert len(seen) > 5
