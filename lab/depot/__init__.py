"""The depot: packages and images, built from their sources and served as their upstreams do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from lab.depot.cache import DepotError
from lab.depot.versions import DEFAULT_KUBERNETES

# Packages of Debian and Ubuntu on the host for building and serving, in addition to Go (or pip, which installs it).
HOST_PACKAGES = [
    "gcc",
    "libc6-dev",
    "libseccomp-dev",
    "binutils",
    "gpg",
    "gpg-agent",
    "gpgconf",
    "debootstrap",
    "podman",
]

__all__ = ["DEFAULT_KUBERNETES", "HOST_PACKAGES", "Contents", "DepotError", "build", "contents", "listing"]


@dataclass(frozen=True)
class Contents:
    """The depot's keys and images that differ from upstream's, for roles and tests that compare them.

    `fingerprints` are those of the depot's keys by the repository's name in upstream.lock, `digests` those of its
    images by their full names.
    """

    fingerprints: Mapping[str, str] = field(default_factory=dict)
    digests: Mapping[str, str] = field(default_factory=dict)


def build(versions: Sequence[str] = (DEFAULT_KUBERNETES,)) -> None:
    """Build everything that labs with these Kubernetes versions need; existing builds are reused.

    Raises DepotError.
    """
    # Imported late, so that it costs nothing when only names are needed.
    from lab.depot.builder import build as build_all

    build_all(versions)


def listing(versions: Sequence[str] = (DEFAULT_KUBERNETES,)) -> list[str]:
    """Return one line per program, package and image, with whether it is built."""
    from lab.depot.builder import listing as list_all

    return list_all(versions)


def contents() -> Contents:
    """Return the keys and digests of what is built."""
    from lab.depot import registry, signing
    from upstream.lock import load

    repositories = load().repositories.values()
    made = {found.name: signing.fingerprint(found.key) for found in repositories if signing.public(found.key)}
    return Contents(made, registry.digests())
