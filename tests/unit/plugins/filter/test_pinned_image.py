# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from typing import Any

import pytest
from ansible.errors import AnsibleFilterError
from ansible.utils.display import Display
from ansible_collections.gpulab.kubernetes.plugins.filter.images import FilterModule

pinned = FilterModule().filters()["pinned_image"]

ONE, TWO = "sha256:" + "1" * 64, "sha256:" + "2" * 64
IMAGE = "localhost:5000/a/flannel:v1"


@pytest.mark.parametrize(
    ("reference", "digests", "expected"),
    [
        (IMAGE, {IMAGE: ONE}, f"{IMAGE}@{ONE}"),
        (IMAGE, {}, IMAGE),
        (IMAGE, {IMAGE: ""}, IMAGE),
        (IMAGE, {"localhost:5000/a/flannel:v2": ONE}, IMAGE),
        (IMAGE, {"localhost:5000/a/flannel": ONE}, IMAGE),
        (f"{IMAGE}@{TWO}", {IMAGE: ONE}, f"{IMAGE}@{TWO}"),
        ("", {}, ""),
    ],
)
def test_known_images_get_their_digest(reference: str, digests: dict[str, str], expected: str) -> None:
    assert pinned(reference, digests) == expected


@pytest.mark.parametrize(
    ("reference", "digests", "warned"),
    [
        ("mirror:5000/a/flannel:v1", {"ghcr.io/a/flannel:v1": ONE}, True),
        ("mirror.example/k8s/pause:3.10", {"registry.k8s.io/pause:3.10": ONE}, True),
        ("a/flannel:v1", {"ghcr.io/a/flannel:v1": ONE}, True),
        ("ghcr.io/a/flannel:v1", {"ghcr.io/a/flannel:v1": ONE}, False),
        ("mirror/a/flannel:v1", {"ghcr.io/a/flannel:v1": ONE, "mirror/a/flannel:v1": ""}, False),
        ("mirror/a/flannel:v1", {"ghcr.io/a/flannel:v1": ""}, False),
        (f"mirror/a/flannel:v1@{TWO}", {"ghcr.io/a/flannel:v1": ONE}, False),
        ("mirror/a/flannel:v2", {"ghcr.io/a/flannel:v1": ONE}, False),
        ("mirror/not-a/flannel:v1", {"ghcr.io/not/a/flannel:v1": ONE}, False),
        ("mirror/mypause:3.10", {"registry.k8s.io/pause:3.10": ONE}, False),
    ],
)
def test_missing_digest_of_a_mirrored_image_is_a_warning(
    monkeypatch: pytest.MonkeyPatch, reference: str, digests: dict[str, str], warned: bool
) -> None:
    warnings: list[str] = []
    monkeypatch.setattr(Display, "warning", lambda _display, text: warnings.append(text))
    pinned(reference, digests)
    assert bool(warnings) is warned
    assert all(
        f"cluster_image_digests to {{'{reference}': '{ONE}'}} if it is an exact copy" in each for each in warnings
    )


@pytest.mark.parametrize(
    ("reference", "digests", "words"),
    [
        (None, {}, "the image must be text"),
        (IMAGE, [], "must be a dictionary"),
        (IMAGE, {IMAGE: "1" * 64}, "is not a digest of localhost:5000/a/flannel:v1; write sha256:"),
        (IMAGE, {"another:1": "sha256:" + "A" * 64}, "is not a digest of another:1"),
        (IMAGE, {IMAGE: None}, "None is not a digest"),
        (IMAGE, {f"{IMAGE}@{ONE}": ONE}, "is not an image with a tag"),
    ],
)
def test_invalid_image_or_digest_is_an_error(reference: Any, digests: Any, words: str) -> None:
    with pytest.raises(AnsibleFilterError, match=words):
        pinned(reference, digests)
