"""Where the lab keeps what it makes: one cache outside of the checkout, shared by all labs of a user."""

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
    """Built programs, by name and version."""
    return _below("components")


def component_dir(name: str, version: str) -> Path:
    """Directory of one built component; it exists once the component is built completely."""
    return components() / name / version


def debs() -> Path:
    """Packed .deb files."""
    return _below("debs")


def www() -> Path:
    """What the depot serves by HTTP, laid out by upstream host name."""
    return _below("www")


def registry() -> Path:
    """Storage of the image registry."""
    return _below("registry")


def images() -> Path:
    """Root filesystems and images of nodes."""
    return _below("images")


def labs() -> Path:
    """State of every lab."""
    return _below("labs")


def lab_dir(name: str) -> Path:
    """State of one lab: SSH key, known_hosts, state.json."""
    path = labs() / name
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    return path


def locks() -> Path:
    """Lock files."""
    return _below("locks")


def logs() -> Path:
    """Output of the tools that the lab ran."""
    return _below("logs")
