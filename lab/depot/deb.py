"""Write .deb files (an ar archive of debian-binary, control.tar.gz, data.tar.gz) reproducibly."""

from __future__ import annotations

import gzip
import hashlib
import io
import os
import tarfile
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO

# A fixed build time, so that equal input gives equal files.
_TIME = 1767225600
_SCRIPTS = ("preinst", "postinst", "prerm", "postrm", "triggers")


@dataclass(frozen=True)
class Link:
    """A symbolic link in a package."""

    target: str


@dataclass(frozen=True)
class File:
    """A file with an explicit mode; a plain path, text or bytes get 0755 if executable, else 0644."""

    content: Path | str | bytes
    mode: int


Content = Path | str | bytes | File | Link


def make(
    name: str,
    version: str,
    *,
    out: Path,
    files: Mapping[str, Content] | None = None,
    directories: Sequence[str] = (),
    depends: Sequence[str] = (),
    scripts: Mapping[str, str] | None = None,
    conffiles: Sequence[str] = (),
    architecture: str = "amd64",
    description: str = "",
    maintainer: str = "gpulab depot <depot@gpulab.invalid>",
    section: str = "misc",
    fields: Mapping[str, str] | None = None,
) -> Path:
    """Write `<name>_<version>_<architecture>.deb` into the directory `out` and return its path.

    `files` maps absolute paths to their content: a Path is read from disk, str and bytes are the content itself; `Link`
    and `File` give symbolic links and explicit modes. `scripts` may contain preinst, postinst, prerm, postrm and
    triggers. `fields` are further control fields such as Provides or Conflicts.
    Raises ValueError for relative paths, unknown scripts, and conffiles that are not in the package.
    """
    contents = dict(files or {})
    _check(contents, directories, scripts or {}, conffiles)
    out.mkdir(parents=True, exist_ok=True)
    # The epoch is not part of a file name.
    target = out / f"{name}_{version.split(':', 1)[-1]}_{architecture}.deb"
    with tempfile.TemporaryDirectory(dir=out, prefix=".deb-") as work:
        data = Path(work, "data.tar.gz")
        sums, size = _write_data(data, contents, directories)
        control = _control(name, version, architecture, maintainer, section, size, depends, description, fields or {})
        members = {"control": control, "md5sums": sums, **(scripts or {})}
        if conffiles:
            members["conffiles"] = "".join(f"{path}\n" for path in conffiles)
        package = Path(work, target.name)
        _write_ar(package, {"debian-binary": b"2.0\n", "control.tar.gz": _control_tar(members), "data.tar.gz": data})
        package.chmod(0o644)
        package.replace(target)
    return target


def _check(
    files: Mapping[str, Content], directories: Sequence[str], scripts: Mapping[str, str], conffiles: Sequence[str]
) -> None:
    for path in [*files, *directories, *conffiles]:
        if not path.startswith("/") or ".." in PurePosixPath(path).parts:
            raise ValueError(f"Error while packing {path}: a package holds absolute paths only.")
    unknown = sorted(set(scripts) - set(_SCRIPTS))
    if unknown:
        raise ValueError(f"Error while packing scripts {unknown}: known are {list(_SCRIPTS)}.")
    absent = sorted(set(conffiles) - set(files))
    if absent:
        raise ValueError(f"Error while packing conffiles {absent}: the package does not hold these files.")


def _control(
    name: str,
    version: str,
    architecture: str,
    maintainer: str,
    section: str,
    size: int,
    depends: Sequence[str],
    description: str,
    fields: Mapping[str, str],
) -> str:
    lines = {
        "Package": name,
        "Version": version,
        "Architecture": architecture,
        "Maintainer": maintainer,
        "Installed-Size": str((size + 1023) // 1024),
        "Section": section,
        "Priority": "optional",
        **({"Depends": ", ".join(depends)} if depends else {}),
        **fields,
    }
    first, *rest = (description or name).strip().splitlines()
    folded = "".join(f"\n {line.strip() or '.'}" for line in rest)
    return "".join(f"{key}: {value}\n" for key, value in lines.items()) + f"Description: {first}{folded}\n"


def _write_data(path: Path, files: Mapping[str, Content], directories: Sequence[str]) -> tuple[str, int]:
    sums: list[str] = []
    size = 0
    parents = {parent for name in [*files, *directories] for parent in PurePosixPath(name).parents}
    parents |= {PurePosixPath(name) for name in directories}
    with path.open("wb") as raw, _tar(raw) as tar:
        for directory in sorted(parents):
            tar.addfile(_entry(f".{directory}" if directory != PurePosixPath("/") else "./", tarfile.DIRTYPE, 0o755))
        for name in sorted(files):
            content = files[name]
            if isinstance(content, Link):
                link = _entry(f".{name}", tarfile.SYMTYPE, 0o777)
                link.linkname = content.target
                tar.addfile(link)
                continue
            digest, length = _add_file(tar, f".{name}", content)
            sums.append(f"{digest}  {name[1:]}\n")
            size += length
    return "".join(sums), size


def _add_file(tar: tarfile.TarFile, name: str, content: Path | str | bytes | File) -> tuple[str, int]:
    inner = content.content if isinstance(content, File) else content
    if isinstance(inner, Path):
        mode = 0o755 if os.access(inner, os.X_OK) else 0o644
        with inner.open("rb") as source:
            digest = hashlib.file_digest(source, "md5").hexdigest()
            length = source.seek(0, os.SEEK_END)
            source.seek(0)
            entry = _entry(name, tarfile.REGTYPE, content.mode if isinstance(content, File) else mode)
            entry.size = length
            tar.addfile(entry, source)
        return digest, length
    data = inner.encode() if isinstance(inner, str) else inner
    script = data.startswith(b"#!")
    entry = _entry(name, tarfile.REGTYPE, content.mode if isinstance(content, File) else 0o755 if script else 0o644)
    entry.size = len(data)
    tar.addfile(entry, io.BytesIO(data))
    return hashlib.md5(data, usedforsecurity=False).hexdigest(), len(data)


def _control_tar(members: Mapping[str, str]) -> bytes:
    buffer = io.BytesIO()
    with _tar(buffer) as tar:
        tar.addfile(_entry("./", tarfile.DIRTYPE, 0o755))
        for name in sorted(members):
            data = members[name].encode()
            script = name in _SCRIPTS and name != "triggers"
            entry = _entry(f"./{name}", tarfile.REGTYPE, 0o755 if script else 0o644)
            entry.size = len(data)
            tar.addfile(entry, io.BytesIO(data))
    return buffer.getvalue()


class _GzipTar(tarfile.TarFile):
    """A tar archive that also closes its compressor, which tarfile leaves open if it is passed as a file object."""

    compressor: gzip.GzipFile

    def close(self) -> None:
        super().close()
        self.compressor.close()


def _tar(raw: IO[bytes]) -> _GzipTar:
    # Level 1: the packages are only copied between containers on one machine, so time matters more than size.
    compressor = gzip.GzipFile(filename="", mode="wb", compresslevel=1, fileobj=raw, mtime=_TIME)
    tar = _GzipTar(fileobj=compressor, mode="w", format=tarfile.GNU_FORMAT)
    tar.compressor = compressor
    return tar


def _entry(name: str, kind: bytes, mode: int) -> tarfile.TarInfo:
    entry = tarfile.TarInfo(name)
    entry.type = kind
    entry.mode = mode
    entry.mtime = _TIME
    entry.uname = entry.gname = "root"
    return entry


def _write_ar(path: Path, members: Mapping[str, bytes | Path]) -> None:
    with path.open("wb") as archive:
        archive.write(b"!<arch>\n")
        for name, content in members.items():
            size = content.stat().st_size if isinstance(content, Path) else len(content)
            archive.write(f"{name:<16}{_TIME:<12}{0:<6}{0:<6}{0o100644:<8o}{size:<10}`\n".encode())
            if isinstance(content, Path):
                with content.open("rb") as source:
                    while chunk := source.read(1 << 20):
                        archive.write(chunk)
            else:
                archive.write(content)
            if size % 2:
                archive.write(b"\n")
