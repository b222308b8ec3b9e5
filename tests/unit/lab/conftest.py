"""Makes the lab importable, and gives each test a cache of its own."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

_REPOSITORY = str(Path(__file__).resolve().parents[3])
if _REPOSITORY not in sys.path:
    sys.path.insert(0, _REPOSITORY)


@pytest.fixture
def lab_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache directory of the test's own."""
    directory = tmp_path / "cache"
    monkeypatch.setenv("GPULAB_CACHE", str(directory))
    return directory
