"""Make the lab importable, and give each test its own cache."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest

_REPOSITORY = str(Path(__file__).resolve().parents[3])
if _REPOSITORY not in sys.path:
    sys.path.insert(0, _REPOSITORY)


@pytest.fixture(scope="module")
def built() -> Path:
    """The compiled library of the simulated GPUs; its header is downloaded once from the Python package index."""
    from gpusim_probe import DRIVER

    from lab.depot.cache import DepotError
    from lab.gpusim import library

    if shutil.which("gcc") is None:
        pytest.skip("no gcc here")
    try:
        return library.library(DRIVER)
    except DepotError as error:
        pytest.skip(str(error))


@pytest.fixture
def lab_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Cache directory that only this test uses."""
    directory = tmp_path / "cache"
    monkeypatch.setenv("GPULAB_CACHE", str(directory))
    return directory
