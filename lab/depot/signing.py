"""One key signs everything that the depot serves; it is made at the first build and stays in the cache."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from lab import paths
from lab.depot import cache, tools

_NAME = "gpulab depot (packages of the lab)"
# apt of Debian 13 refuses self-signatures and Release signatures over SHA-1; older gpg needs to be told.
_DIGESTS = ("--cert-digest-algo", "SHA512", "--digest-algo", "SHA512")


@dataclass(frozen=True)
class Signer:
    """Signs with the depot's key, which is loaded into a GnuPG directory of its own."""

    home: Path

    def gpg(self, *arguments: str | Path, doing: str, stdin: bytes | None = None) -> str:
        """Run gpg without questions."""
        base: list[str | Path] = [
            "gpg",
            "--homedir",
            self.home,
            "--batch",
            "--yes",
            "--pinentry-mode",
            "loopback",
            "--passphrase",
            "",
        ]
        return tools.run([*base, *_DIGESTS, *arguments], doing=doing, stdin=stdin)

    def sign_release(self, release: Path) -> None:
        """Write InRelease and Release.gpg beside a Release file."""
        doing = f"signing {release}"
        self.gpg("--clearsign", "--output", release.with_name("InRelease"), release, doing=doing)
        self.gpg("--armor", "--detach-sign", "--output", release.with_name("Release.gpg"), release, doing=doing)


def directory() -> Path:
    """Where the key lies."""
    return paths.cache_root() / "key"


def armored() -> Path:
    """The public key as text."""
    return directory() / "public.asc"


def binary() -> Path:
    """The public key as a keyring file."""
    return directory() / "public.gpg"


def is_made() -> bool:
    """Say whether the key exists."""
    return bool(cache.key_of(directory()))


def make() -> None:
    """Make the key once: RSA 4096, which every apt accepts."""
    if is_made():
        return
    with cache.fresh(directory(), "rsa4096") as work, _home() as signer:
        signer.gpg("--quick-generate-key", _NAME, "rsa4096", "sign", "never", doing="making the depot's signing key")
        doing = "exporting the depot's signing key"
        work.chmod(0o700)
        secret = work / "secret.asc"
        signer.gpg("--armor", "--output", secret, "--export-secret-keys", doing=doing)
        secret.chmod(0o600)
        signer.gpg("--armor", "--output", work / armored().name, "--export", doing=doing)
        signer.gpg("--output", work / binary().name, "--export", doing=doing)


@contextmanager
def loaded() -> Iterator[Signer]:
    """Give a signer with the depot's key."""
    with _home() as signer:
        signer.gpg("--import", directory() / "secret.asc", doing="loading the depot's signing key")
        yield signer


@contextmanager
def _home() -> Iterator[Signer]:
    # A short path: gpg-agent's socket lies in it, and socket paths end at 107 characters.
    with tempfile.TemporaryDirectory(prefix="gpulab-gpg-", ignore_cleanup_errors=True) as name:
        try:
            yield Signer(Path(name))
        finally:
            tools.run(["gpgconf", "--homedir", name, "--kill", "all"], doing="stopping gpg-agent")
