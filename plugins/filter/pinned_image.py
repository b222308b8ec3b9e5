# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Callable

from ansible.errors import AnsibleFilterError
from ansible.utils.display import Display

from ..plugin_utils import _images

DOCUMENTATION = r"""
name: pinned_image
short_description: Add a digest to the reference of a container image
version_added: 0.1.0
author:
  - The gpulab.kubernetes maintainers (@gpulab)
description:
  - Adds the digest to an image's reference, so that moving the tag does not change the image. The tag stays readable.
  - A reference that already has a digest, or whose digest is unknown, is not changed. If the same image in another
    registry has a known digest, a warning is shown.
positional: _input, digests
options:
  _input:
    description: Reference of the image, with its tag.
    type: str
    required: true
  digests:
    description: Digests by reference. An empty digest means that the image is pulled by its tag.
    type: dict
    required: true
"""

EXAMPLES = r"""
- name: Show an image with its digest
  ansible.builtin.debug:
    msg: "{{ 'ghcr.io/flannel-io/flannel:v0.28.9' | gpulab.kubernetes.pinned_image(digests) }}"
  vars:
    digests:
      ghcr.io/flannel-io/flannel:v0.28.9: sha256:708a2c9c1cfbfe529d1dbb249cb7113af117f3ed26b5e3e4c8ee015e10555204
"""

RETURN = r"""
_value:
  description: Reference, with the digest if there is one.
  type: str
  sample: >-
    ghcr.io/flannel-io/flannel:v0.28.9@sha256:708a2c9c1cfbfe529d1dbb249cb7113af117f3ed26b5e3e4c8ee015e10555204
"""


def pinned_image(reference: Any, digests: Any) -> str:
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
