"""Read `upstream.lock`: repositories with their keys and packages, images and downloads, each with its source."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import yaml

PATH = Path(__file__).resolve().parent.parent / "upstream.lock"

# Fields of a Debian package with relations to others, in the lock's spelling.
RELATIONS = ("pre_depends", "depends", "recommends", "provides", "conflicts", "breaks", "replaces")


# How a fact is known: confirmed by upstream, from a dated public record, or inferred from a similar fact.
KNOWN = (LIVE, SEEN, INFERRED) = ("live", "seen", "inferred")


class LockError(Exception):
    """The lock can't be read; the message names the invalid entry."""


@dataclass(frozen=True)
class Source:
    """The source of facts: `known` is one of KNOWN, `dated` its day or month."""

    known: str
    dated: str


@dataclass(frozen=True)
class Fact:
    """How an entry of the lock is known: `known` is one of KNOWN, `dated` the day."""

    entry: str
    known: str
    dated: str


@dataclass(frozen=True)
class Package:
    """One version of a package in one repository (and suite).

    `relations` are the known fields of RELATIONS in apt's syntax; an empty text means no relation, a missing field that
    it is unknown. `verified` is the date on which upstream itself was checked. `empty` packages contain no files: a
    placeholder that upstream published above a version that works.
    """

    name: str
    version: str
    relations: Mapping[str, str]
    architecture: str
    source: str
    verified: str | None
    empty: bool = False

    @property
    def depends(self) -> tuple[str, ...]:
        """Return the package's dependencies, one relation each, including alternatives (`a | b`)."""
        return _split(self.relations.get("depends", ""))


@dataclass(frozen=True)
class Key:
    """The signing key of a repository: `expires` is a date, "never", or None if unknown."""

    url: str
    fingerprint: str
    expires: str | None
    source: str
    verified: str | None

    @property
    def file(self) -> str:
        """Return the name of the key's file."""
        return self.url.rsplit("/", 1)[1]


@dataclass(frozen=True)
class Repository:
    """An apt repository: `suite` "/" means a flat one. `distributions` are names such as "Debian 12"."""

    name: str
    url: str
    suite: str
    components: tuple[str, ...]
    distributions: tuple[str, ...]
    release: Mapping[str, str]
    key: Key
    packages: tuple[Package, ...]
    source: str
    verified: str | None

    def versions(self, package: str) -> tuple[str, ...]:
        """Return the repository's versions of a package, in the order of the lock."""
        return tuple(entry.version for entry in self.packages if entry.name == package)


@dataclass(frozen=True)
class Artifact:
    """An image (`value` is its digest, sha256:...) or a download (`value` is its SHA-256); None if unknown."""

    name: str
    value: str | None
    source: str
    verified: str | None
    url: str = ""


@dataclass(frozen=True)
class Lock:
    """The whole lock. `dated` is the day on which it was last compared with upstream, or compiled."""

    dated: str
    sources: Mapping[str, Source]
    repositories: Mapping[str, Repository]
    images: Mapping[str, Artifact]
    downloads: Mapping[str, Artifact]

    def repository(self, family: str, distribution: str) -> Repository:
        """Return the repository of a family (kubernetes-v1.36, docker, container-toolkit, cuda) for a system.

        Raises LockError if there is none.
        """
        for repository in self.repositories.values():
            named = repository.name == family or repository.name.startswith(f"{family}-")
            if named and distribution in repository.distributions:
                return repository
        raise LockError(f"Error while reading {PATH.name}: no repository {family} for {distribution}.")

    def facts(self) -> Iterator[Fact]:
        """Yield how each entry is known: keys, package versions, images and downloads."""
        for name, entry in self._entries():
            if entry.verified:
                yield Fact(name, LIVE, entry.verified)
            else:
                source = self.sources.get(entry.source, Source(INFERRED, self.dated))
                yield Fact(name, source.known, source.dated)

    def unverified(self) -> Iterator[str]:
        """Yield every entry that was never checked with upstream itself."""
        for name, entry in self._entries():
            if not entry.verified or (isinstance(entry, Artifact) and entry.value is None):
                yield name

    def _entries(self) -> Iterator[tuple[str, Key | Package | Artifact]]:
        for repository in self.repositories.values():
            yield f"{repository.name}: key {repository.key.file}", repository.key
            for package in repository.packages:
                yield f"{repository.name}: {package.name} {package.version}", package
        for artifact in (*self.images.values(), *self.downloads.values()):
            yield artifact.name, artifact


@lru_cache
def load(path: Path = PATH) -> Lock:
    """Return the lock in a file. Raises LockError with the name of an invalid entry."""
    try:
        return _lock(yaml.safe_load(path.read_text()))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise LockError(f"Error while reading {path}: {error}") from error
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise LockError(f"Error while reading {path}: {type(error).__name__}: {error}") from error


def _lock(content: Mapping[str, Any]) -> Lock:
    if content["schema"] != 1:
        raise ValueError(f"schema is {content['schema']!r}, not 1")
    return Lock(
        str(content["dated"]),
        {name: Source(entry["known"], str(entry["dated"])) for name, entry in content["sources"].items()},
        {name: _repository(name, entry) for name, entry in content["repositories"].items()},
        {name: _artifact(name, entry, "digest") for name, entry in content["images"].items()},
        {name: _artifact(name, entry, "sha256") for name, entry in content["downloads"].items()},
    )


def _repository(name: str, entry: Mapping[str, Any]) -> Repository:
    key = entry["key"]
    packages = [
        _package(package, version, about)
        for package, versions in entry["packages"].items()
        for version, about in versions.items()
    ]
    return Repository(
        name,
        entry["url"],
        entry["suite"],
        tuple(entry.get("components", ())),
        tuple(entry["distributions"]),
        entry.get("release", {}),
        Key(key["url"], key["fingerprint"], _date(key["expires"]), key["source"], _date(key["verified"])),
        tuple(packages),
        entry["source"],
        _date(entry["verified"]),
    )


def _package(name: str, version: str, entry: Mapping[str, Any]) -> Package:
    relations = {field: str(entry[field]) for field in RELATIONS if entry.get(field) is not None}
    architecture = entry.get("architecture", "amd64")
    verified, empty = _date(entry["verified"]), bool(entry.get("empty", False))
    return Package(name, str(version), relations, architecture, entry["source"], verified, empty)


def _artifact(name: str, entry: Mapping[str, Any], field: str) -> Artifact:
    return Artifact(name, entry[field], entry["source"], _date(entry["verified"]), entry.get("url", ""))


def _date(value: object) -> str | None:
    return None if value is None else str(value)


def _split(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",") if part.strip())
