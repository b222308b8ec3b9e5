"""The apt repositories below www/, each at its upstream path, with its own key under upstream's key name."""

from __future__ import annotations

import os.path
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from lab import paths
from lab.depot import apt, cache, signing
from lab.depot.cache import DepotError
from lab.depot.catalog import Deb
from upstream.lock import Repository

# Directory of a flat repository's packages, if they are not next to its index.
_POOLS = {"pkgs.k8s.io": "amd64"}


@dataclass(frozen=True)
class Site:
    """A directory below www/, replaced as a whole: a repository with its key, or several with one address."""

    below: str
    members: tuple[tuple[Repository, tuple[Deb, ...]], ...]

    @property
    def key(self) -> str:
        """Return the cache key of the directory's sources."""
        here = Path(__file__).resolve().parent
        about = [
            (
                *(repository.url, repository.suite, repository.components, sorted(repository.release.items())),
                *(repository.key.url, signing.public(repository.key)),
                *sorted((deb.filename, deb.key) for deb in debs),
            )
            for repository, debs in self.members
        ]
        return cache.digest(cache.tree_digest(here / "repositories.py", here / "apt.py"), *about)

    @property
    def is_written(self) -> bool:
        """Return whether the directory exists, built from the same sources."""
        return cache.key_of(paths.www() / self.below) == self.key

    def build(self) -> None:
        """Write the directory atomically."""
        with cache.fresh(paths.www() / self.below, self.key) as work:
            for repository, debs in self.members:
                self._write(work, repository, [deb.path for deb in debs])

    def _write(self, work: Path, repository: Repository, debs: Sequence[Path]) -> None:
        root = work / os.path.relpath(_place(repository.url), self.below)
        root.mkdir(parents=True, exist_ok=True)
        with signing.loaded(repository.key) as signer:
            if repository.suite == "/":
                below = _POOLS.get(_place(repository.url).partition("/")[0], "")
                apt.write_flat(root, debs, signer, about=repository.release, below=below)
            else:
                component = repository.components[0]
                apt.write_suite(root, repository.suite, component, debs, signer, about=repository.release)
        key = work / os.path.relpath(_place(repository.key.url), self.below)
        key.parent.mkdir(parents=True, exist_ok=True)
        key.write_bytes(signing.armored(repository.key).read_bytes())


def sites(repositories: Iterable[Repository], debs: Mapping[str, Sequence[Deb]]) -> list[Site]:
    """Return the directories for the repositories that have an entry in `debs`."""
    found: dict[str, list[Repository]] = {}
    for repository in sorted(repositories, key=_root):
        if repository.name in debs:
            root = _root(repository)
            above = next((known for known in found if f"{root}/".startswith(f"{known}/")), root)
            found.setdefault(above, []).append(repository)
    return [
        Site(root, tuple((repository, tuple(debs[repository.name])) for repository in members))
        for root, members in found.items()
    ]


def _root(repository: Repository) -> str:
    """Return the directory of a repository and its key."""
    key = _place(repository.key.url).rpartition("/")[0]
    root = os.path.commonpath([_place(repository.url), key])
    if not root:
        raise DepotError(
            f"Error while placing the repository {repository.name}: its key is on another host, {repository.key.url}."
        )
    return root


def _place(url: str) -> str:
    """Return the path of an address below www/: the host's name, then the path."""
    return url.partition("://")[2].rstrip("/")
