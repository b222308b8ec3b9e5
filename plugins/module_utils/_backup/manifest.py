# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Format and parse the manifest of a backup, and the name of its archive. Pure functions.

An archive is a tar file. Its first member is MANIFEST, its second one DATABASE; those below PKI, KUBERNETES and RECORD
follow. It is replaced by its encrypted form if there are recipients.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from .._errors import DomainError
from .._json import as_object, needed_number, needed_text, needed_time, read_object
from .._words import moment

FORMAT = 1
DIRECTORY = "/var/lib/gpulab/backups"
MANIFEST, DATABASE = "manifest.json", "etcd.db"
PKI, KUBERNETES, RECORD = "pki/", "kubernetes/", "record/"
CONFIGURATION, ENCRYPTION = f"{KUBERNETES}kubeadm-config.yaml", f"{KUBERNETES}encryption-config.yaml"
# Without these, no control plane can be restored. The key of an external CA is not on the hosts.
REQUIRED = (
    DATABASE,
    *(f"{PKI}{name}" for name in ("ca.crt", "front-proxy-ca.crt", "etcd/ca.crt", "sa.key", "sa.pub")),
    CONFIGURATION,
)
LARGEST_MANIFEST = 1024 * 1024
ENCRYPTED = ".age"
_LABEL = r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?"
_CLUSTER = re.compile(_LABEL, re.ASCII)
_NODE = re.compile(r"[a-z0-9](?:[a-z0-9.-]{0,251}[a-z0-9])?", re.ASCII)
_HASH, _DIGEST = re.compile(r"sha256:[0-9a-f]{64}"), re.compile(r"[0-9a-f]{64}")
_VERSION = re.compile(r"[0-9]+\.[0-9]+\.[0-9]+(?:-[0-9A-Za-z.-]{1,40})?", re.ASCII)
_STEP = r"[A-Za-z0-9_](?:[A-Za-z0-9._-]{0,99})"
_PART = re.compile(rf"etcd\.db|(?:pki|kubernetes|record)(?:/{_STEP}){{1,4}}", re.ASCII)
_ARCHIVE = re.compile(rf"gpulab-({_LABEL})-([0-9]{{8}}T[0-9]{{6}}Z)\.tar({re.escape(ENCRYPTED)})?", re.ASCII)


@dataclass(frozen=True)
class Part:
    """One file in the archive: SHA-256 in hexadecimal digits, and size in bytes."""

    sha256: str
    size: int


@dataclass(frozen=True)
class Manifest:
    """What a backup contains.

    ``ca`` is kubeadm's hash of the public key of the cluster's CA, ``revision`` and ``keys`` are those of etcd, and
    ``taken`` is the time of the snapshot in UTC. ``parts`` have the names of their members in the archive.
    """

    cluster: str
    ca: str
    node: str
    kubernetes: str
    etcd: str
    collection: str
    revision: int
    keys: int
    taken: str
    parts: Mapping[str, Part] = field(default_factory=dict)


@dataclass(frozen=True)
class ArchiveName:
    """The parts of an archive's name; ``taken`` has the form of the manifest's."""

    cluster: str
    taken: str
    encrypted: bool


def read_manifest(text: str, what: str = "the manifest of the backup") -> Manifest:
    """Parse a manifest. Raise DomainError for one that is damaged, incomplete, or of another format."""
    if len(text) > LARGEST_MANIFEST:
        raise _error(what, "it is too large")
    found = read_object(text, what)
    written = needed_number(found, "format", what)
    if written != FORMAT:
        raise _error(what, f"it has format {written}, but this version of the collection reads format {FORMAT}")
    cluster = as_object(found.get("cluster"), f"cluster in {what}")
    versions = as_object(found.get("versions"), f"versions in {what}")
    return Manifest(
        cluster=_matching(cluster, "name", _CLUSTER, what),
        ca=_matching(cluster, "ca", _HASH, what),
        node=_matching(found, "node", _NODE, what),
        kubernetes=_matching(versions, "kubernetes", _VERSION, what),
        etcd=_matching(versions, "etcd", _VERSION, what),
        collection=_matching(versions, "collection", _VERSION, what),
        revision=needed_number(found, "revision", what),
        keys=needed_number(found, "keys", what),
        taken=needed_time(found, "taken", what),
        parts=_parts(found, what),
    )


def write_manifest(manifest: Manifest) -> str:
    """Return the text that ``read_manifest`` parses. Raise DomainError for values that it would refuse."""
    value = {
        "format": FORMAT,
        "cluster": {"name": manifest.cluster, "ca": manifest.ca},
        "node": manifest.node,
        "versions": {"kubernetes": manifest.kubernetes, "etcd": manifest.etcd, "collection": manifest.collection},
        "revision": manifest.revision,
        "keys": manifest.keys,
        "taken": manifest.taken,
        "parts": {name: {"sha256": part.sha256, "size": part.size} for name, part in manifest.parts.items()},
    }
    text = json.dumps(value, indent=2) + "\n"
    read_manifest(text, "the manifest of the new backup")
    return text


def check_part(manifest: Manifest, name: str, found: Part) -> None:
    """Raise DomainError if a file of the archive is not the one that the manifest describes."""
    expected = manifest.parts.get(name)
    if expected is None:
        raise DomainError(f"Error while reading {name} in the backup: the manifest does not list it")
    if found.size != expected.size:
        raise DomainError(
            f"Error while reading {name} in the backup: it has {found.size} bytes instead of {expected.size}"
        )
    if found.sha256 != expected.sha256:
        raise DomainError(f"Error while reading {name} in the backup: it was changed, its checksum is wrong")


def is_part(name: str) -> bool:
    """Return whether this can be the name of a part."""
    return bool(_PART.fullmatch(name))


def is_cluster_name(name: str) -> bool:
    return bool(_CLUSTER.fullmatch(name))


def archive_name(cluster: str, taken: str, encrypted: bool = False) -> str:
    """Return the name of an archive, for example ``gpulab-lab-20261128T120000Z.tar``."""
    return f"gpulab-{cluster}-{re.sub('[-:]', '', taken)}.tar{ENCRYPTED if encrypted else ''}"


def read_archive_name(name: str) -> ArchiveName | None:
    """Parse a name that ``archive_name`` returns; None for other names."""
    found = _ARCHIVE.fullmatch(name)
    if not found:
        return None
    cluster, stamp, suffix = found.groups()
    taken = f"{stamp[:4]}-{stamp[4:6]}-{stamp[6:11]}:{stamp[11:13]}:{stamp[13:]}"
    return None if moment(taken) is None else ArchiveName(cluster, taken, bool(suffix))


def _parts(found: dict[str, Any], what: str) -> dict[str, Part]:
    parts = {}
    for name, each in as_object(found.get("parts"), f"parts in {what}").items():
        if not is_part(name):
            raise _error(what, f"{name[:200]!r} is not the name of a part")
        part = f"{name} in {what}"
        value = as_object(each, part)
        parts[name] = Part(_matching(value, "sha256", _DIGEST, part), needed_number(value, "size", part, 0))
    missing = [name for name in REQUIRED if name not in parts]
    if missing:
        raise _error(what, f"the backup is incomplete: {', '.join(missing)} is not in it")
    return parts


def _matching(value: dict[str, Any], key: str, pattern: re.Pattern[str], what: str) -> str:
    text = needed_text(value, key, what)
    if not pattern.fullmatch(text):
        raise _error(what, f"{key} is not valid: {text[:200]!r}")
    return text


def _error(what: str, why: str) -> DomainError:
    return DomainError(f"Error while reading {what}: {why}")
