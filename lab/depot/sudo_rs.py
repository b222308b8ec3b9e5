"""sudo-rs, which is the sudo of Ubuntu 25.10 and later: its release on crates.io, built by Debian's compiler."""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
import tempfile
import urllib.error
import urllib.request
from pathlib import Path

import tomllib

from lab import paths, progress
from lab.depot import cache, debian, tools
from lab.depot.cache import DepotError

# The version of Ubuntu 26.04. Its lock file in the archive has the checksums of the crates that it depends on.
VERSION = "0.2.13"
_SHA256 = "3537fb3bdef870cacb354892e3fc76af7775e691570d49b402295c8fbef3656b"
_ADDRESS = "https://static.crates.io/crates/{name}/{name}-{version}.crate"
_SUITE = "trixie"
_PACKAGES = ("cargo", "gcc", "libc6-dev", "libpam0g-dev")
_VENDORED = '[source.crates-io]\nreplace-with = "vendored"\n[source.vendored]\ndirectory = "/build/vendor"\n'


def provide() -> Path:
    """Return the path of the program, which is built if it is missing. Needs root. Raises DepotError."""
    directory = paths.components() / "sudo-rs"
    key = cache.digest(cache.file_digest(Path(__file__).resolve()))
    with cache.lock("sudo-rs"):
        if cache.key_of(directory) != key:
            with progress.step(f"sudo-rs {VERSION} from crates.io"), cache.fresh(directory, key) as target:
                _build(target)
    return directory / "sudo"


def _build(target: Path) -> None:
    with tempfile.TemporaryDirectory(prefix="gpulab-sudo-rs-") as work:
        root = Path(work, "root")
        debian.root_filesystem(root, _SUITE, _PACKAGES)
        source = _unpack("sudo-rs", VERSION, _SHA256, root / "build")
        for crate in tomllib.loads((source / "Cargo.lock").read_text())["package"]:
            if "checksum" in crate:
                below = _unpack(crate["name"], crate["version"], crate["checksum"], root / "build" / "vendor")
                known = {"files": {}, "package": crate["checksum"]}
                (below / ".cargo-checksum.json").write_text(json.dumps(known))
        (root / ".cargo").mkdir()
        (root / ".cargo" / "config.toml").write_text(_VENDORED)
        argv = ["unshare", "--fork", "--pid", f"--mount-proc={root / 'proc'}", "chroot", root]
        argv += ["cargo", "build", "--release", "--locked", "--offline", "--bin=sudo"]
        argv += [f"--manifest-path=/build/{source.name}/Cargo.toml"]
        clean = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root"}
        tools.run(argv, doing=f"building sudo-rs {VERSION}", log="sudo-rs", env=clean, nice=5)
        (source / "target" / "release" / "sudo").rename(target / "sudo")


def _unpack(name: str, version: str, sha256: str, target: Path) -> Path:
    """Unpack a crate into a directory of its own below ``target``, and return it."""
    address = _ADDRESS.format(name=name, version=version)
    doing = f"Error while fetching {address}"
    try:
        with urllib.request.urlopen(address, timeout=60) as answer:
            archive = answer.read()
    except (urllib.error.URLError, OSError) as error:
        raise DepotError(f"{doing}: {error}. Is crates.io reachable from here?") from error
    if hashlib.sha256(archive).hexdigest() != sha256:
        raise DepotError(f"{doing}: its SHA-256 is not {sha256}. Does a proxy answer in place of crates.io?")
    with tarfile.open(fileobj=io.BytesIO(archive)) as members:
        members.extractall(target, filter="data")
    return target / f"{name}-{version}"
