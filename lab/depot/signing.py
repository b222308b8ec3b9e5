"""The depot's keys: one for each key of upstream.lock, created in the first build, with the lock's expiry date."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

from lab import paths, progress
from lab.depot import cache, tools
from upstream.lock import Key

# Every apt accepts RSA.
ALGORITHM = "rsa4096"
# apt of Debian 13 refuses self-signatures and Release signatures with SHA-1, which older gpg uses by default.
_DIGESTS = ("--cert-digest-algo", "SHA512", "--digest-algo", "SHA512")
_NEVER = "never"
# A key that upstream lets expire earlier than this is valid for this many days in the depot ...
_EXTENSION = timedelta(days=7)
# ... and is extended when only this much is left.
_RESERVE = timedelta(days=2)


@dataclass(frozen=True)
class Signer:
    """Signs with one of the depot's keys, which is loaded into a separate GnuPG directory."""

    home: Path

    def gpg(self, *arguments: str | Path, doing: str, stdin: bytes | None = None) -> str:
        """Run gpg in batch mode."""
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
        """Write InRelease and Release.gpg next to a Release file."""
        doing = f"signing {release}"
        self.gpg("--clearsign", "--output", release.with_name("InRelease"), release, doing=doing)
        self.gpg("--armor", "--detach-sign", "--output", release.with_name("Release.gpg"), release, doing=doing)


def directory(key: Key) -> Path:
    """Return the directory of the depot's key for an upstream key."""
    return paths.cache_root() / "keys" / key.fingerprint


def armored(key: Key) -> Path:
    """Return the path of the public key as text."""
    return directory(key) / "public.asc"


def binary(key: Key) -> Path:
    """Return the path of the public key as a keyring."""
    return directory(key) / "public.gpg"


def fingerprint(key: Key) -> str:
    """Return the fingerprint of the depot's key for an upstream key, which is different."""
    return (directory(key) / "fingerprint").read_text().strip()


def public(key: Key) -> str:
    """Return the public key as text, empty if it was not created yet."""
    return armored(key).read_text() if armored(key).is_file() else ""


def distinct(keys: Iterable[Key]) -> list[Key]:
    """Return one key per fingerprint with the earliest expiry, because a key has only one."""
    found: dict[str, Key] = {}
    for key in keys:
        known = found.setdefault(key.fingerprint, key)
        if _date(key) and (not _date(known) or _date(key) < _date(known)):
            found[key.fingerprint] = key
    return list(found.values())


def is_made(key: Key, today: date | None = None) -> bool:
    """Return whether the depot's key exists with the expiry that it must have on this day."""
    made = cache.key_of(directory(key))
    expiry = made.removeprefix(f"{ALGORITHM} ")
    if expiry == made:
        return False
    day = today or _today()
    if _is_near(key, day):
        given = expiry not in (_NEVER, _date(key))
        return given and _RESERVE <= date.fromisoformat(expiry) - day <= _EXTENSION
    return expiry == (_date(key) or _NEVER)


def make(key: Key, today: date | None = None) -> None:
    """Create a key, or set the expiry of an existing one, which keeps its fingerprint as upstream's does."""
    day = today or _today()
    if is_made(key, day):
        return
    expiry = _date(key) or _NEVER
    if _is_near(key, day):
        expiry = (day + _EXTENSION).isoformat()
        progress.say(f"Key {key.file} expires on {_date(key)} upstream; the depot's is valid until {expiry}.")
    # gpg's format: a day without a time would end at noon.
    until = f"{expiry.replace('-', '')}T235959" if expiry != _NEVER else _NEVER
    former = directory(key) / "secret.asc"
    doing = f"making the depot's key in the place of {key.fingerprint}"
    with _home() as signer:
        if former.is_file():
            signer.gpg("--import", former, doing=doing)
            signer.gpg("--quick-set-expire", fingerprint(key), until, doing=doing)
        else:
            name = f"gpulab depot (in the place of {key.fingerprint[-16:]})"
            signer.gpg("--quick-generate-key", name, ALGORITHM, "sign", until, doing=doing)
        with cache.fresh(directory(key), f"{ALGORITHM} {expiry}") as work:
            _export(signer, work)


def _export(signer: Signer, work: Path) -> None:
    doing = "exporting a key of the depot"
    work.chmod(0o700)
    secret = work / "secret.asc"
    signer.gpg("--armor", "--output", secret, "--export-secret-keys", doing=doing)
    secret.chmod(0o600)
    signer.gpg("--armor", "--output", work / "public.asc", "--export", doing=doing)
    signer.gpg("--output", work / "public.gpg", "--export", doing=doing)
    listed = signer.gpg("--with-colons", "--list-keys", doing=doing).splitlines()
    (work / "fingerprint").write_text(next(line.split(":")[9] for line in listed if line.startswith("fpr:")) + "\n")


@contextmanager
def loaded(key: Key) -> Iterator[Signer]:
    """Yield a signer with the depot's key for an upstream key."""
    with _home() as signer:
        signer.gpg("--import", directory(key) / "secret.asc", doing="loading a signing key of the depot")
        yield signer


@contextmanager
def _home() -> Iterator[Signer]:
    # A short path, because gpg-agent's socket is in it, and socket paths are limited to 107 characters.
    with tempfile.TemporaryDirectory(prefix="gpulab-gpg-", ignore_cleanup_errors=True) as name:
        try:
            yield Signer(Path(name))
        finally:
            tools.run(["gpgconf", "--homedir", name, "--kill", "all"], doing="stopping gpg-agent")


def _date(key: Key) -> str:
    """Return the day on which upstream's key expires, empty if never or unknown."""
    return "" if key.expires in (None, _NEVER) else str(key.expires)


def _is_near(key: Key, day: date) -> bool:
    return bool(_date(key)) and date.fromisoformat(_date(key)) < day + _EXTENSION


def _today() -> date:
    return datetime.now(tz=UTC).date()
