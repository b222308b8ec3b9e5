# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Check digests of container images, and add them to references. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

_DIGEST = re.compile(r"sha256:[0-9a-f]{64}", re.ASCII)


def problems(digests: Mapping[Any, Any]) -> Iterator[str]:
    """Yield what is wrong with digests by reference, as the end of a sentence."""
    for reference, digest in digests.items():
        # A password may precede an @, unless a digest follows.
        shown = re.sub(r".*@(?!sha256:)", "***@", str(reference))
        if not isinstance(reference, str) or not reference or "@" in reference:
            yield f"{shown!r:.120} is not an image with a tag; write it exactly as in the setting of that image"
        if not isinstance(digest, str) or (digest and not _DIGEST.fullmatch(digest)):
            yield (
                f"{digest!r:.80} is not a digest of {shown}; write sha256: and 64 hexadecimal digits, or an empty "
                "string for an image that is pulled by its tag"
            )


def pinned(reference: str, digests: Mapping[str, str]) -> str:
    """Return the reference with its known digest; one with a digest, or without a known one, is unchanged."""
    digest = "" if "@" in reference else digests.get(reference, "")
    return f"{reference}@{digest}" if digest else reference


def original(reference: str, digests: Mapping[str, str]) -> str:
    """Return the image with a known digest that ``reference`` names in another registry, empty if there is none.

    A digest for the reference itself, even an empty one, takes precedence.
    """
    if "@" in reference or reference in digests:
        return ""
    known = (each for each, digest in digests.items() if digest and f"/{reference}".endswith(f"/{_path(each)}"))
    return next(known, "")


def _path(reference: str) -> str:
    """Return the image without its registry, which contains a dot or a port."""
    registry, _slash, path = reference.partition("/")
    return path if path and ("." in registry or ":" in registry) else reference
