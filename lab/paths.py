"""Paths of the lab's files: one cache outside of the checkout, shared by all labs of a user."""

from __future__ import annotations

import os
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent


def cache_root() -> Path:
    """Return the cache directory, which need not exist yet."""
    chosen = os.environ.get("GPULAB_CACHE")
    if chosen:
        return Path(chosen).expanduser().absolute()
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base).expanduser() if base else Path.home() / ".cache") / "gpulab"


def _below(*parts: str) -> Path:
    path = cache_root().joinpath(*parts)
    path.mkdir(parents=True, exist_ok=True)
    return path


def components() -> Path:
    """Return the directory of built programs, by name and version."""
    return _below("components")


def component_dir(name: str, version: str) -> Path:
    """Return the directory of a component, which exists once the component is completely built."""
    return components() / name / version


def debs() -> Path:
    """Return the directory of packed .deb files."""
    return _below("debs")


def www() -> Path:
    """Return the directory that the depot serves over HTTP, by upstream host name."""
    return _below("www")


def registry() -> Path:
    """Return the storage of the image registry."""
    return _below("registry")


def images() -> Path:
    """Return the directory of nodes' root filesystems and images."""
    return _below("images")


def labs() -> Path:
    """Return the directory with the state of every lab."""
    return _below("labs")


def lab_dir(name: str) -> Path:
    """Return the directory with a lab's SSH key, known_hosts and state.json."""
    path = labs() / name
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    return path


def locks() -> Path:
    """Return the directory of lock files."""
    return _below("locks")


def logs() -> Path:
    """Return the directory with output of the lab's tools."""
    return _below("logs")
