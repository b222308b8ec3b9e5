# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Find the PyTorch images that have kernels for the GPUs of nodes. Pure functions."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from .._cluster import objects
from .._cluster.nodes import labels_of
from .._cluster.objects import Object

Capability = tuple[int, int]
# GPU feature discovery sets these labels.
LABELS = ("nvidia.com/gpu.compute.major", "nvidia.com/gpu.compute.minor")
_TAG = re.compile(r"(?:.*/)?pytorch:([0-9]+)\.([0-9]+)\.[0-9]+-cuda([0-9]+\.[0-9]+)-.*", re.ASCII)


@dataclass(frozen=True)
class Build:
    """PyTorch builds from ``first`` to ``last`` for one CUDA version, and the compute capabilities of their kernels."""

    first: tuple[int, int]
    last: tuple[int, int]
    cuda: str
    kernels: tuple[Capability, ...]


_TURING_TO_HOPPER = ((7, 5), (8, 0), (8, 6), (9, 0))
_BLACKWELL = ((10, 0), (12, 0))
# Source: "PyTorch CUDA Support Matrix" in PyTorch's RELEASE.md (pytorch/pytorch#164471, #175253, #182849, #190385), for
# 2.8 the architectures of its builds (#160269).
BUILDS = (
    Build((2, 8), (2, 14), "12.6", ((5, 0), (6, 0), (7, 0), *_TURING_TO_HOPPER)),
    Build((2, 8), (2, 10), "12.8", ((7, 0), *_TURING_TO_HOPPER, *_BLACKWELL)),
    Build((2, 11), (2, 11), "12.8", (*_TURING_TO_HOPPER, *_BLACKWELL)),
    Build((2, 9), (2, 14), "13.0", (*_TURING_TO_HOPPER, *_BLACKWELL)),
    Build((2, 12), (2, 14), "13.2", (*_TURING_TO_HOPPER, *_BLACKWELL)),
)


def choose_image(images: Sequence[str], nodes: Iterable[Object]) -> tuple[str, str]:
    """Return the first image that runs on all ``nodes``, or the reason why there is none; the other value is empty.

    Images that are not in ``BUILDS``, and nodes without labels, are assumed to be compatible.
    """
    there = list(nodes)
    complaints: list[str] = []
    for image in images:
        lacking = [f"{objects.name(node)} ({words})" for node in there if (words := _missing_capability(image, node))]
        if not lacking:
            return image, ""
        complaints.append(f"{image} has no kernels for the GPUs of {', '.join(lacking)}")
    return "", "; ".join(complaints)


def _missing_capability(image: str, node: Object) -> str:
    """Return a node's compute capability if the image has no kernels for it, empty if it has or if unknown."""
    labels = labels_of(node)
    numbers = [labels.get(label, "") for label in LABELS]
    build = _build(image)
    if build is None or not all(number.isdecimal() for number in numbers):
        return ""
    major, minor = map(int, numbers)
    # Kernels also run on later minor versions of their major version.
    runs = any(own_major == major and own_minor <= minor for own_major, own_minor in build.kernels)
    return "" if runs else f"compute capability {major}.{minor}"


def _build(image: str) -> Build | None:
    found = _TAG.fullmatch(image)
    if not found:
        return None
    release, cuda = (int(found[1]), int(found[2])), found[3]
    return next((build for build in BUILDS if build.cuda == cuda and build.first <= release <= build.last), None)
