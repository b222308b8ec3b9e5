# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Callable

from ansible.errors import AnsibleFilterError
from ansible.utils.display import Display

from ..plugin_utils import _images


def pinned_image(reference: Any, digests: Any) -> str:
    """Add a digest to the reference of a container image."""
    if not isinstance(reference, str):
        raise AnsibleFilterError(f"pinned_image: the image must be text, not {reference!r:.60}")
    if not isinstance(digests, Mapping):
        raise AnsibleFilterError(f"pinned_image: digests must be a dictionary, not {digests!r:.60}")
    wrong = next(_images.problems(digests), "")
    if wrong:
        raise AnsibleFilterError(f"pinned_image: {wrong}")
    original = _images.original(reference, digests)
    if original:
        Display().warning(
            f"{reference} is pulled by its tag alone, because it may not be the same as {original}, whose digest is "
            f"known. Set cluster_image_digests to {{'{reference}': '{digests[original]}'}} if it is an exact copy, or "
            f"to {{'{reference}': ''}} if it is not."
        )
    return _images.pinned(reference, digests)


class FilterModule:
    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"pinned_image": pinned_image}
