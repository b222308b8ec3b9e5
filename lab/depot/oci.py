"""OCI images: layers as compressed tar files, a configuration and a manifest, made without any container tool."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import tarfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import IO, Any, Protocol, cast

from lab.depot.deb import Link

_MEDIA = "application/vnd.oci.image"
MANIFEST = f"{_MEDIA}.manifest.v1+json"
_CONFIG = f"{_MEDIA}.config.v1+json"
_LAYER = f"{_MEDIA}.layer.v1.tar+gzip"
_PATH = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_TIME = 1767225600
_CREATED = "2026-01-01T00:00:00Z"

Content = Path | str | Link


@dataclass(frozen=True)
class Layer:
    """A finished layer: its file, the digest of the file, and the digest of the tar inside."""

    path: Path
    digest: str
    tar_digest: str


@dataclass(frozen=True)
class Settings:
    """What an image says about running it."""

    entrypoint: Sequence[str] = ()
    command: Sequence[str] = ()
    user: str = ""
    environment: Mapping[str, str] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)


class _Writer(Protocol):
    def write(self, data: bytes, /) -> int: ...

    def flush(self) -> None: ...


class _Hashing:
    """A file object that hashes what is written through it."""

    def __init__(self, raw: _Writer) -> None:
        self._raw = raw
        self._sum = hashlib.sha256()

    def write(self, data: bytes) -> int:
        self._sum.update(data)
        return self._raw.write(data)

    def flush(self) -> None:
        self._raw.flush()

    @property
    def digest(self) -> str:
        return f"sha256:{self._sum.hexdigest()}"


def layer(path: Path, fill: Callable[[tarfile.TarFile], None]) -> Layer:
    """Write a layer file; `fill` adds its members."""
    with path.open("wb") as raw:
        packed = _Hashing(raw)
        with gzip.GzipFile(filename="", mode="wb", compresslevel=1, fileobj=packed, mtime=0) as compressor:
            plain = _Hashing(compressor)
            with tarfile.open(fileobj=cast("IO[bytes]", plain), mode="w|", format=tarfile.PAX_FORMAT) as tar:
                fill(tar)
    return Layer(path, packed.digest, plain.digest)


def files_layer(path: Path, files: Mapping[str, Content], directories: Mapping[str, int] | None = None) -> Layer:
    """Write a layer of files: paths on the disk become programs (0755), texts become 0644."""

    def fill(tar: tarfile.TarFile) -> None:
        wanted = dict(directories or {})
        for name in files:
            for parent in PurePosixPath(name).parents:
                if str(parent) != "/":
                    wanted.setdefault(str(parent), 0o755)
        for name in sorted(wanted):
            tar.addfile(_member(name, tarfile.DIRTYPE, wanted[name]))
        for name, content in sorted(files.items()):
            _add(tar, name, content)

    return layer(path, fill)


def tree_layer(path: Path, root: Path) -> Layer:
    """Write a layer of a whole root filesystem with its owners, without device nodes."""

    def keep(member: tarfile.TarInfo) -> tarfile.TarInfo | None:
        return None if member.isdev() else member

    def fill(tar: tarfile.TarFile) -> None:
        for child in sorted(root.iterdir()):
            if child.name not in (".key", "proc", "sys"):
                tar.add(child, arcname=child.name, filter=keep)

    return layer(path, fill)


def image(layers: Sequence[Layer], settings: Settings) -> tuple[bytes, bytes]:
    """Return the configuration and the manifest of an image for amd64."""
    environment = [_PATH, *(f"{key}={value}" for key, value in settings.environment.items())]
    wanted: dict[str, Any] = {
        "Env": environment,
        "Entrypoint": list(settings.entrypoint) or None,
        "Cmd": list(settings.command) or None,
        "User": settings.user or None,
        "Labels": dict(settings.labels) or None,
        "WorkingDir": "/",
    }
    config = {
        "architecture": "amd64",
        "os": "linux",
        "created": _CREATED,
        "config": {key: value for key, value in wanted.items() if value},
        "rootfs": {"type": "layers", "diff_ids": [part.tar_digest for part in layers]},
        "history": [{"created": _CREATED, "created_by": "gpulab depot"} for _part in layers],
    }
    packed = json.dumps(config, sort_keys=True).encode()
    manifest = {
        "schemaVersion": 2,
        "mediaType": MANIFEST,
        "config": {"mediaType": _CONFIG, "digest": digest(packed), "size": len(packed)},
        "layers": [{"mediaType": _LAYER, "digest": part.digest, "size": part.path.stat().st_size} for part in layers],
    }
    return packed, json.dumps(manifest, sort_keys=True).encode()


def digest(data: bytes) -> str:
    """Return the digest of a blob."""
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


def _member(name: str, kind: bytes, mode: int) -> tarfile.TarInfo:
    member = tarfile.TarInfo(name.lstrip("/"))
    member.type, member.mode, member.mtime = kind, mode, _TIME
    return member


def _add(tar: tarfile.TarFile, name: str, content: Content) -> None:
    if isinstance(content, Link):
        member = _member(name, tarfile.SYMTYPE, 0o777)
        member.linkname = content.target
        tar.addfile(member)
    elif isinstance(content, Path):
        member = _member(name, tarfile.REGTYPE, 0o755)
        member.size = content.stat().st_size
        with content.open("rb") as source:
            tar.addfile(member, source)
    else:
        data = content.encode()
        member = _member(name, tarfile.REGTYPE, 0o644)
        member.size = len(data)
        tar.addfile(member, io.BytesIO(data))


def blobs(layers: Iterable[Layer], config: bytes) -> list[tuple[str, Path | bytes]]:
    """Return every blob of an image with its digest."""
    return [*((part.digest, part.path) for part in layers), (digest(config), config)]
