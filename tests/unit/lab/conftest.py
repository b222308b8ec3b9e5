"""Make the lab importable, and give each test its own cache."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

_REPOSITORY = str(Path(__file__).resolve().parents[3])
if _REPOSITORY not in sys.path:
    sys.path.insert(0, _REPOSITORY)

from fake_podman import SPEC, Podman

from lab.depot import serve
from lab.nodes import image, mirror, park, state, system
from lab.nodes import podman as podman_module


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


@pytest.fixture
def podman(tmp_path: Path, lab_cache: Path, monkeypatch: pytest.MonkeyPatch) -> Podman:
    programs = tmp_path / "bin"
    programs.mkdir()
    for name, text in {"ssh": "exit 0", "ip": "echo '[]'"}.items():
        (programs / name).write_text(f"#!/bin/sh\n{text}\n")
        (programs / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    fake = Podman(tmp_path / "storage")
    monkeypatch.setattr(podman_module, "run", fake.run)
    monkeypatch.setattr(podman_module, "answers", lambda *_: (0, "running"))
    # Functions that need root or the network are tested on a real lab.
    monkeypatch.setattr(system, "require", lambda: None)
    monkeypatch.setattr(system, "require_podman", lambda: None)
    monkeypatch.setattr(serve, "detach", lambda _network: None)
    monkeypatch.setattr(image, "ensure", lambda name, _mirror: f"localhost/image:{name}")
    monkeypatch.setattr(park, "find", lambda _mirror: mirror.Mirror("http://mirror"))
    monkeypatch.setattr(park, "AT_ONCE", 1)
    return fake


@pytest.fixture
def up(podman: Podman, tmp_path: Path) -> Callable[..., state.State]:
    def bring(name: str = "t", spec: str | None = SPEC) -> state.State:
        file = tmp_path / "spec.yml"
        if spec:
            file.write_text(spec)
        return park.up(name, file if spec else None, tmp_path / f"{name}.ini", "", with_depot=False)

    return bring
