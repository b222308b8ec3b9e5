# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which of PyTorch's images have kernels for the GPUs of nodes. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from .._cluster import objects
from .._cluster.nodes import labels_of
from .._cluster.objects import Object

Capability = tuple[int, int]
# GPU feature discovery sets them on each node.
LABELS = ("nvidia.com/gpu.compute.major", "nvidia.com/gpu.compute.minor")
_TAG = re.compile(r"(?:.*/)?pytorch:([0-9]+)\.([0-9]+)\.[0-9]+-cuda([0-9]+\.[0-9]+)-.*", re.ASCII)


@dataclass(frozen=True)
class Build:
    """The builds of PyTorch ``first`` to ``last`` with one version of CUDA, and what they have kernels for."""

    first: tuple[int, int]
    last: tuple[int, int]
    cuda: str
    kernels: tuple[Capability, ...]


_TURING_TO_HOPPER = ((7, 5), (8, 0), (8, 6), (9, 0))
_BLACKWELL = ((10, 0), (12, 0))
# Source: "PyTorch CUDA Support Matrix" of PyTorch's RELEASE.md (pytorch/pytorch#164471, #175253, #182849, #190385), for
# 2.8 the architectures of its builds (#160269).
BUILDS = (
    Build((2, 8), (2, 14), "12.6", ((5, 0), (6, 0), (7, 0), *_TURING_TO_HOPPER)),
    Build((2, 8), (2, 10), "12.8", ((7, 0), *_TURING_TO_HOPPER, *_BLACKWELL)),
    Build((2, 11), (2, 11), "12.8", (*_TURING_TO_HOPPER, *_BLACKWELL)),
    Build((2, 9), (2, 14), "13.0", (*_TURING_TO_HOPPER, *_BLACKWELL)),
    Build((2, 12), (2, 14), "13.2", (*_TURING_TO_HOPPER, *_BLACKWELL)),
)


def choose_image(images: Sequence[str], nodes: Iterable[Object]) -> tuple[str, str]:
    """Return the first image that runs on all ``nodes``, and why there is none; one of both is empty.

    An image that is not one of ``BUILDS`` runs everywhere as far as is known, and so do all on a node without labels.
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
    """Return the compute capability of a node that an image has no kernels for, empty if it has or if unknown."""
    labels = labels_of(node)
    numbers = [labels.get(label, "") for label in LABELS]
    build = _build(image)
    if build is None or not all(number.isdecimal() for number in numbers):
        return ""
    major, minor = map(int, numbers)
    # A kernel runs on the later minor versions of its major version, too.
    runs = any(own_major == major and own_minor <= minor for own_major, own_minor in build.kernels)
    return "" if runs else f"compute capability {major}.{minor}"


def _build(image: str) -> Build | None:
    found = _TAG.fullmatch(image)
    if not found:
        return None
    release, cuda = (int(found[1]), int(found[2])), found[3]
    return next((build for build in BUILDS if build.cuda == cuda and build.first <= release <= build.last), None)
