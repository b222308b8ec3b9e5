"""Make the package `upstream` importable."""

from __future__ import annotations

import sys
from pathlib import Path

_REPOSITORY = str(Path(__file__).resolve().parents[3])
if _REPOSITORY not in sys.path:
    sys.path.insert(0, _REPOSITORY)
