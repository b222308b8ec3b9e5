"""Functions from the collection next to this package: dpkg's version order, and a reader of OpenPGP keys."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Any

_COLLECTIONS = Path(__file__).resolve().parent.parent / "collections"


def _make_importable() -> None:
    sys.path.append(str(_COLLECTIONS))
    packages: Any = importlib.import_module("ansible_collections")
    # The package "ansible" may include a regular package of this name, which hides the other.
    if isinstance(packages.__path__, list):
        packages.__path__.insert(0, str(_COLLECTIONS / "ansible_collections"))


_make_importable()

from ansible_collections.gpulab.kubernetes.plugins.module_utils._apt.keyring import (  # noqa: E402
    KeyFormatError,
    PublicKey,
    public_keys,
)
from ansible_collections.gpulab.kubernetes.plugins.module_utils._versions import compare_versions  # noqa: E402

__all__ = ["KeyFormatError", "PublicKey", "compare_versions", "public_keys"]
