"""Write signed apt repositories in the two layouts that upstreams use: flat, and suites with a pool."""

from __future__ import annotations

import bz2
import gzip
import hashlib
import io
import lzma
import os
import tarfile
from collections.abc import Callable, Iterable, Mapping
from email.utils import formatdate
from functools import cache
from pathlib import Path

from lab.depot.signing import Signer

_SUMS = {"MD5sum": "md5", "SHA1": "sha1", "SHA256": "sha256"}
_RELEASE_SUMS = {"MD5Sum": "md5", "SHA256": "sha256"}


def control(deb: Path) -> str:
    """Return the control file of a .deb.

    Raises ValueError if the file is not a Debian package.
    """
    unpack: dict[str, Callable[[bytes], bytes]] = {
        ".gz": gzip.decompress,
        ".xz": lzma.decompress,
        ".bz2": bz2.decompress,
        "": bytes,
    }
    for name, data in _members(deb):
        suffix = name.removeprefix("control.tar")
        if suffix == name or suffix not in unpack:
            continue
        with tarfile.open(fileobj=io.BytesIO(unpack[suffix](data))) as tar:
            for member in tar:
                content = tar.extractfile(member) if member.name.removeprefix("./") == "control" else None
                if content:
                    return content.read().decode()
    raise ValueError(f"Error while reading {deb}: it holds no readable control file.")


def _members(deb: Path) -> Iterable[tuple[str, bytes]]:
    with deb.open("rb") as archive:
        if archive.read(8) != b"!<arch>\n":
            raise ValueError(f"Error while reading {deb}: this is no Debian package.")
        while header := archive.read(60):
            name, size = header[:16].decode().strip().rstrip("/"), int(header[48:58])
            if name.startswith("data.tar"):
                return
            yield name, archive.read(size)
            archive.seek(size % 2, os.SEEK_CUR)


def write_flat(root: Path, debs: Iterable[Path], signer: Signer, *, about: Mapping[str, str], below: str = "") -> None:
    """Write a flat repository into `root`, its packages into the subdirectory `below`; `about` is for its Release."""
    entries = [_entry(deb, _place(deb, root, below)) for deb in sorted(debs, key=_name)]
    files = _write_index(root, "\n".join(entries))
    _write_release(root, {**about, "Architectures": "amd64"}, files, signer)


def write_suite(
    root: Path, suite: str, component: str, debs: Iterable[Path], signer: Signer, *, about: Mapping[str, str]
) -> None:
    """Write one suite with one component of a repository into `root`."""
    directory = root / "dists" / suite
    below = f"dists/{suite}/pool/{component}/amd64"
    entries = [_entry(deb, _place(deb, root, below)) for deb in sorted(debs, key=_name)]
    binary = directory / component / "binary-amd64"
    index = _write_index(binary, "\n".join(entries))
    files = {f"{component}/binary-amd64/{name}": path for name, path in index.items()}
    about = {"Suite": suite, "Codename": suite, **about}
    _write_release(directory, {**about, "Architectures": "amd64", "Components": component}, files, signer)


def _name(deb: Path) -> str:
    return deb.name


def _place(deb: Path, root: Path, below: str) -> str:
    target = root / below / deb.name
    target.parent.mkdir(parents=True, exist_ok=True)
    target.unlink(missing_ok=True)
    # One file on disk, even if several repositories contain it.
    target.hardlink_to(deb)
    return f"./{deb.name}" if not below else f"{below}/{deb.name}"


def _entry(deb: Path, filename: str) -> str:
    text, sums = _described(deb)
    about = {"Filename": filename, "Size": str(deb.stat().st_size), **sums}
    fields = "".join(f"{field}: {value}\n" for field, value in about.items())
    # Description is last, because its text may be long.
    head, mark, description = text.partition("\nDescription:")
    return f"{head}\n{fields}{mark.strip()}{description}\n"


@cache
def _described(deb: Path) -> tuple[str, dict[str, str]]:
    """Return the control file and checksums of a package, cached for several repositories."""
    return control(deb).strip(), {field: _sum(deb, algorithm) for field, algorithm in _SUMS.items()}


def _write_index(directory: Path, text: str) -> dict[str, Path]:
    directory.mkdir(parents=True, exist_ok=True)
    plain, packed = directory / "Packages", directory / "Packages.gz"
    plain.write_text(text)
    packed.write_bytes(gzip.compress(text.encode(), mtime=0))
    return {path.name: path for path in (plain, packed)}


def _write_release(directory: Path, about: Mapping[str, str], files: Mapping[str, Path], signer: Signer) -> None:
    lines = [f"{field}: {value}" for field, value in {**about, "Date": formatdate(usegmt=True)}.items()]
    for field, algorithm in _RELEASE_SUMS.items():
        lines.append(f"{field}:")
        lines += [f" {_sum(path, algorithm)} {path.stat().st_size} {name}" for name, path in files.items()]
    release = directory / "Release"
    release.write_text("\n".join(lines) + "\n")
    signer.sign_release(release)


def _sum(path: Path, algorithm: str) -> str:
    with path.open("rb") as source:
        return hashlib.file_digest(source, algorithm).hexdigest()
