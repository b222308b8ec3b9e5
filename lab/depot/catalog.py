"""The depot's packages: those of upstream.lock, with the lock's relations and the lab's content."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from lab import paths
from lab.depot import cache, deb, packages, versions
from lab.depot.content import Content
from upstream.lock import Package, Repository

_FIELDS = {
    "pre_depends": "Pre-Depends",
    "depends": "Depends",
    "recommends": "Recommends",
    "provides": "Provides",
    "conflicts": "Conflicts",
    "breaks": "Breaks",
    "replaces": "Replaces",
}
_FOR_VIRTUAL = ("Provides", "Conflicts", "Replaces")


@dataclass(frozen=True)
class Deb:
    """A package of the lock with its content; equal packages are packed once for all repositories."""

    entry: Package
    content: Content

    @property
    def filename(self) -> str:
        """Return the file's name, which does not contain the epoch."""
        return f"{self.entry.name}_{self.entry.version.split(':', 1)[-1]}_{self.entry.architecture}.deb"

    @property
    def fields(self) -> dict[str, str]:
        """Return the control fields: the lock's relations, and the content's virtual names."""
        found = {title: self.entry.relations.get(name, "") for name, title in _FIELDS.items()}
        for title in _FOR_VIRTUAL:
            found[title] = ", ".join(part for part in (found[title], *self.content.virtual) if part)
        return {title: text for title, text in found.items() if text}

    @property
    def key(self) -> str:
        """Return the cache key of the file; from the lock, it only depends on this package's own entry."""
        entry = self.entry
        about = (entry.name, entry.version, entry.architecture, *sorted(self.fields.items()))
        return cache.digest(_code(), *about, self.content.description, self.content.section, self.content.key)

    @property
    def path(self) -> Path:
        """Return the path of the packed file."""
        return paths.debs() / self.key / self.filename

    @property
    def is_packed(self) -> bool:
        """Return whether the file exists."""
        return self.path.is_file()

    def pack(self) -> None:
        """Pack the file unless it exists."""
        if self.is_packed:
            return
        filling = self.content.fill()
        deb.make(
            self.entry.name,
            self.entry.version,
            out=self.path.parent,
            files=filling.files,
            directories=filling.directories,
            scripts=filling.scripts,
            conffiles=filling.conffiles,
            architecture=self.entry.architecture,
            description=self.content.description,
            section=self.content.section,
            fields=self.fields,
        )


def debs(repositories: Iterable[Repository], kubernetes: Collection[str]) -> dict[str, list[Deb]]:
    """Return the packages of each repository that the depot has.

    Only repositories of the wanted Kubernetes versions count. A package that the lab supports, but not in this version
    (a kubelet that is not built, a driver that is not simulated), is left out; an unsupported package is an empty
    placeholder.
    """
    minors = {f"kubernetes-{versions.minor(version)}" for version in kubernetes}
    found: dict[str, list[Deb]] = {}
    for repository in repositories:
        if repository.name.startswith("kubernetes-") and repository.name not in minors:
            continue
        contents = [(entry, packages.content(entry, repository, kubernetes)) for entry in repository.packages]
        found[repository.name] = [Deb(entry, content) for entry, content in contents if content]
    return found


def prune(wanted: Iterable[Deb]) -> None:
    """Remove packages that are in no repository any longer."""
    kept = {deb.key for deb in wanted}
    for directory in paths.debs().iterdir():
        if directory.is_dir() and directory.name not in kept:
            cache.remove(directory)


@lru_cache
def _code() -> str:
    here = Path(__file__).resolve().parent
    return cache.tree_digest(here / "catalog.py", here / "deb.py")
