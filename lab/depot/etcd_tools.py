"""etcd, etcdctl and etcdutl as in etcd's release archives, which only the role etcd needs: `build --with etcd`."""

from __future__ import annotations

import gzip
import io
import tarfile
from pathlib import Path

from lab import paths
from lab.depot import cache, golang, recipes, versions

_BELOW = "github.com/etcd-io/etcd/releases/download"


def build() -> None:
    """Build and store missing archives; existing ones are reused. Raises DepotError."""
    for version in versions.table()["etcd_tools"]:
        programs = (recipes.etcd(f"v{version}"), *recipes.etcd_tools(f"v{version}"))
        for recipe in programs:
            golang.provide(recipe)
        directory = paths.www() / _BELOW / f"v{version}"
        key = cache.digest(*(recipe.key for recipe in programs), cache.tree_digest(Path(__file__)))
        with cache.lock("depot"):
            if cache.key_of(directory) != key:
                with cache.fresh(directory, key) as work:
                    _pack(work, f"etcd-v{version}-linux-amd64", [recipe.program(recipe.name) for recipe in programs])


def _pack(directory: Path, name: str, programs: list[Path]) -> None:
    archive = directory / f"{name}.tar.gz"
    # Without times, so that equal programs give equal archives.
    with (
        archive.open("wb") as file,
        gzip.GzipFile("", "wb", compresslevel=1, fileobj=file, mtime=0) as packed,
        tarfile.open(fileobj=packed, mode="w") as tar,
    ):
        for program in programs:
            data = program.read_bytes()
            entry = tarfile.TarInfo(f"{name}/{program.name}")
            entry.size, entry.mode = len(data), 0o755
            tar.addfile(entry, io.BytesIO(data))
    (directory / f"{archive.name}.sha256").write_text(f"{cache.file_digest(archive)}\n")
