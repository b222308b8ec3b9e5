# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The image for a training: the first that has kernels for all GPUs, or none with a reason."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.gpulab.kubernetes.plugins.module_utils._training.images import BUILDS, LABELS, choose_image

ROOT = Path(__file__).resolve().parents[5]
NEW, OLD = yaml.safe_load((ROOT / "roles/torch_ddp/defaults/main.yml").read_text())["torch_ddp_default_images"]


def node(name: str, capability: str = "") -> dict[str, Any]:
    return {"metadata": {"name": name, "labels": dict(zip(LABELS, capability.split("."))) if capability else {}}}


@pytest.mark.parametrize(
    ("capability", "image"),
    [
        ("5.2", OLD),  # Maxwell: Tesla M40
        ("6.0", OLD),  # Pascal: Tesla P100
        ("6.1", OLD),  # Pascal: Tesla P40, GeForce GTX 1080 Ti
        ("7.0", NEW),  # Volta: Tesla V100
        ("7.5", NEW),  # Turing: Tesla T4
        ("8.0", NEW),
        ("8.9", NEW),  # Ada: kernels for 8.6
        ("9.0", NEW),
        ("10.3", NEW),  # Blackwell Ultra: kernels for 10.0
        ("12.0", NEW),
        ("", NEW),  # Device plugin without GPU feature discovery
        ("x.y", NEW),
    ],
)
def test_the_default_image_has_kernels_for_the_gpus(capability: str, image: str) -> None:
    assert choose_image([NEW, OLD], [node("gpu1", capability)]) == (image, "")
    assert choose_image([NEW, OLD], [node("gpu1", capability), node("gpu2", "7.5")]) == (image, "")


def test_no_image_supports_kepler() -> None:
    image, complaint = choose_image([NEW, OLD], [node("gpu1", "3.7"), node("gpu2", "7.5")])
    assert image == ""
    assert complaint == (
        f"{NEW} has no kernels for the GPUs of gpu1 (compute capability 3.7); "
        f"{OLD} has no kernels for the GPUs of gpu1 (compute capability 3.7)"
    )


def test_gpus_without_a_common_image_have_no_image() -> None:
    image, complaint = choose_image([NEW, OLD], [node("old", "6.1"), node("new", "12.0")])
    assert image == "" and f"{NEW} has no kernels for the GPUs of old" in complaint
    assert f"{OLD} has no kernels for the GPUs of new (compute capability 12.0)" in complaint


@pytest.mark.parametrize(
    ("image", "capability", "runs"),
    [
        ("pytorch/pytorch:2.11.0-cuda12.8-cudnn9-runtime", "7.0", False),
        ("mirror.example:5000/pytorch/pytorch:2.10.0-cuda12.8-cudnn9-devel", "7.0", True),
        ("docker.io/pytorch/pytorch:2.9.1-cuda13.0-cudnn9-runtime@sha256:00", "7.0", False),
        ("docker.io/pytorch/pytorch:2.12.0-cuda13.2-cudnn9-runtime", "7.5", True),
        ("docker.io/pytorch/pytorch:2.20.0-cuda12.8-cudnn9-runtime", "6.1", True),
        ("docker.io/pytorch/pytorch:latest", "6.1", True),
        ("registry.example.org/team/train:1", "3.7", True),
        ("nvcr.io/nvidia/pytorch:25.04-py3", "6.1", True),
    ],
)
def test_only_images_with_a_known_tag_are_checked(image: str, capability: str, runs: bool) -> None:
    assert choose_image([image], [node("gpu1", capability)])[0] == (image if runs else "")


def test_no_two_builds_have_the_same_image() -> None:
    seen = [(minor, build.cuda) for build in BUILDS for minor in range(build.first[1], build.last[1] + 1)]
    assert len(seen) == len(set(seen))
    assert all(
        build.first[0] == build.last[0] == 2 and build.kernels == tuple(sorted(build.kernels)) for build in BUILDS
    )
