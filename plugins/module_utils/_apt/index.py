# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Check repositories for the wanted versions and keys, and find conflicting unmanaged sources."""

from __future__ import annotations

import gzip
import io
import time
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from .._files import read_file
from .credentials import Credentials
from .dpkg import Database, native_architecture
from .fetch import FetchError, fetch
from .key import AptKeyError, fetch_key, read_pins
from .lists import sources_of
from .source import MARK
from .sources_list import address, paragraphs

_NOT_FOUND = (403, 404)
# Uncompressed bytes. Ubuntu's universe has 80 MB, NVIDIA's repository 5 MB.
_LARGEST = 256 * 1024 * 1024
_LARGEST_PARAGRAPH = 1024 * 1024
_MOST_VERSIONS = 10_000


def survey(
    repositories: Sequence[Mapping[str, Any]],
    database: Database,
    etc: Path,
    timeout: float,
    credentials: Credentials = (),
) -> list[dict[str, Any]]:
    """Return the findings for each repository; those whose packages are all installed are not queried."""
    conflicts = _conflicts(repositories, etc)
    with ThreadPoolExecutor(max_workers=8) as pool:
        return [
            {**answer, "conflicts": conflicts.get(repository["name"], [])}
            for repository, answer in zip(
                repositories,
                pool.map(lambda repository: _ask(repository, database, timeout, credentials), repositories),
            )
        ]


def resolve(repository: Mapping[str, Any], system: Mapping[str, str]) -> dict[str, Any] | None:
    """Return a repository with this distribution's names and versions, None if it has nothing for it.

    ``{id}``, ``{codename}`` and ``{repository_name}`` are replaced with values of os_release(). A version may be a
    mapping from the distribution ("Debian 12", else "Debian", else "any"); ``{key}`` in the key's address may be a
    mapping from the repository_name.
    """
    packages = {}
    for name, version in repository["packages"].items():
        if isinstance(version, Mapping):
            keys = (system["key"], system["key"].partition(" ")[0], "any")
            version = next((version[key] for key in keys if key in version), None)
        if version is None:
            return None
        packages[name] = str(version)
    key = repository["key"]
    file = key.get(system["repository_name"], "") if isinstance(key, Mapping) else str(key or "")
    names = {each: _in_place(str(repository[each]), system) for each in ("uri", "suite")}
    names["key_url"] = _in_place(str(repository["key_url"] or ""), system).replace("{key}", file) if file else ""
    return {**repository, **names, "packages": packages}


def _in_place(text: str, system: Mapping[str, str]) -> str:
    for name in ("id", "codename", "repository_name"):
        text = text.replace("{" + name + "}", system[name])
    return text


def index_urls(repository: Mapping[str, Any]) -> list[str]:
    """Return the possible addresses of a repository's package list, most likely first."""
    uri, suite = str(repository["uri"]).rstrip("/"), str(repository["suite"])
    if suite.endswith("/"):
        base = "/".join(part for part in (uri, suite.strip("./")) if part)
    else:
        base = f"{uri}/dists/{suite}/{repository['component']}/binary-{native_architecture()}"
    return [f"{base}/Packages.gz", f"{base}/Packages"]


def read_packages(index: io.BufferedIOBase, names: Iterable[str]) -> dict[str, list[str]]:
    """Return the versions of these packages in a Packages file, in its order. Raise ValueError if it is too large."""
    wanted = set(names)
    found: dict[str, list[str]] = {}
    for part in _paragraphs(index):
        # Most of a large index is skipped without parsing.
        name = part.lstrip("\n").partition("\n")[0].partition(":")[2].strip()
        if name in wanted or not part.lstrip("\n").startswith("Package:"):
            for paragraph in paragraphs(part):
                name, version = paragraph.fields.get("package", ""), paragraph.fields.get("version", "")
                if name in wanted and version and version not in found.setdefault(name, []):
                    if len(found[name]) >= _MOST_VERSIONS:
                        raise ValueError(f"it has more than {_MOST_VERSIONS} versions of {name}")
                    found[name].append(version)
    return found


def _paragraphs(index: io.BufferedIOBase) -> Iterator[str]:
    """Yield the texts between empty lines, read on demand: compressed data can expand to any size."""
    total, lines, size = 0, list[str](), 0
    while True:
        line = index.readline(_LARGEST_PARAGRAPH + 1)
        total, size = total + len(line), size + len(line)
        if size > _LARGEST_PARAGRAPH:
            raise ValueError(f"it has an entry that is larger than {_LARGEST_PARAGRAPH} bytes")
        if total > _LARGEST:
            raise ValueError(f"it is larger than {_LARGEST} bytes")
        if line not in (b"", b"\n"):
            lines.append(line.decode("utf-8", "replace"))
            continue
        yield "".join(lines)
        lines, size = [], 0
        if not line:
            return


def _ask(repository: Mapping[str, Any], database: Database, timeout: float, credentials: Credentials) -> dict[str, Any]:
    wanted: Mapping[str, str] = repository["packages"]
    fulfilled = [_has(database, name, version) for name, version in wanted.items()]
    answer: dict[str, Any] = {
        "name": repository["name"],
        "uri": repository["uri"],
        "asked": False,
        "error": "",
        "missing": {},
        "available": {},
        "key": {},
    }
    if all(fulfilled) or (repository["any"] and any(fulfilled)):
        return answer
    answer["asked"] = True
    answer["key"] = _key(repository, timeout, credentials)
    try:
        available = _available(repository, wanted, timeout, credentials)
    except FetchError as error:
        # "URL: reason"; the preflight rule adds the rest of the sentence.
        return {**answer, "error": str(error).partition(" from ")[2]}
    missing = {name: version for name, version in wanted.items() if not _holds(available.get(name, []), version)}
    return {**answer, "missing": missing, "available": available}


def _key(repository: Mapping[str, Any], timeout: float, credentials: Credentials) -> dict[str, str]:
    """Return what is wrong with a repository's key (``kind`` and ``cause``), empty if it is the expected one."""
    url = str(repository.get("key_url") or "")
    if not url:
        return {}
    found = {"url": url, "kind": "", "cause": ""}
    pins = read_pins(repository["fingerprints"])
    try:
        fetch_key(url, f"the repository {repository['name']}", pins, time.time(), timeout, credentials)
    except AptKeyError as error:
        return {**found, "kind": error.fields["kind"], "cause": error.fields["cause"]}
    except FetchError as error:
        return {**found, "kind": "unreachable", "cause": str(error).partition(f" from {url}: ")[2]}
    return found


def _available(
    repository: Mapping[str, Any], names: Iterable[str], timeout: float, credentials: Credentials
) -> dict[str, list[str]]:
    *others, last = index_urls(repository)
    what = f"the index of the repository {repository['name']}"
    for url in others:
        try:
            with gzip.GzipFile(fileobj=io.BytesIO(fetch(url, what, timeout, credentials))) as index:
                return read_packages(index, names)
        except FetchError as error:
            if error.fields.get("status") not in _NOT_FOUND:
                raise
        except (OSError, EOFError, zlib.error, ValueError) as error:
            raise FetchError(f"Error while reading {what} from {url}: {error}") from error
    try:
        return read_packages(io.BytesIO(fetch(last, what, timeout, credentials)), names)
    except ValueError as error:
        raise FetchError(f"Error while reading {what} from {last}: {error}") from error


def _has(database: Database, name: str, version: str) -> bool:
    package = database.get(name)
    return bool(package and package.installed and version in ("", package.version))


def _holds(available: Sequence[str], version: str) -> bool:
    return version in available if version else bool(available)


def _conflicts(repositories: Sequence[Mapping[str, Any]], etc: Path) -> dict[str, list[dict[str, Any]]]:
    """Return enabled unmanaged sources of the same addresses, by repository."""
    architecture = native_architecture()
    mine = {address(str(one["uri"]), str(one["suite"]), architecture): str(one["name"]) for one in repositories}
    found: dict[str, list[dict[str, Any]]] = {}
    for path, sources in sources_of(etc):
        if MARK.encode() in (read_file(path) or b""):
            continue
        for source in sources:
            for same in source.addresses(architecture) & set(mine) if source.enabled else ():
                shared = bool(source.addresses(architecture) - {same})
                place = {"file": str(path), "line": source.line, "uri": " ".join(source.uris), "shared": shared}
                found.setdefault(mine[same], []).append(place)
    return found
