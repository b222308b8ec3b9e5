# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Ensure one apt source: a deb822 file, its key, its index."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from .._command import CommandError
from .._errors import DomainError
from .._files import file_mode, put_file, read_file
from .._first_run import FirstRun
from .cli import Apt
from .credentials import Credentials, auth_conf
from .dpkg import native_architecture
from .key import RENEW_S, WARN_S, AptKey, date, fetch_key, stored_key
from .lists import release_file, sources_of
from .sources_list import Source, address, comment_out

MARK = "# Managed by gpulab.kubernetes.apt_source"
_MODE = 0o644
_PRIVATE = 0o600
_USER = re.compile(r"(?<=://)[^/@\s]+(?=@)")
# Messages of apt about a missing or expired key, with gpgv and with sqv (Debian 13, Ubuntu 26.04).
_OTHER_KEY = re.compile(r"EXPKEYSIG|KEYEXPIRED|NO_PUBKEY|[Mm]issing key|expired")


class SourceError(DomainError):
    """The source can't be set up as requested."""


@dataclass(frozen=True)
class Wanted:
    name: str
    uris: str = ""
    suites: tuple[str, ...] = ()
    components: tuple[str, ...] = ()
    architectures: tuple[str, ...] = ()
    key_url: str = ""
    pins: tuple[str, ...] = ()
    credentials: Credentials | None = None
    etc: Path = Path("/etc/apt")
    lists: Path = Path("/var/lib/apt/lists")

    @property
    def path(self) -> Path:
        return self.etc / "sources.list.d" / f"{self.name}.sources"

    @property
    def key_path(self) -> Path:
        return self.etc / "keyrings" / f"{self.name}.asc"

    @property
    def auth_path(self) -> Path:
        """The file with the passwords of all sources of this collection."""
        return self.etc / "auth.conf.d/90gpulab.conf"

    @property
    def modes(self) -> dict[Path, int]:
        """The modes of this collection's files."""
        return {self.path: _MODE, self.key_path: _MODE, self.auth_path: _PRIVATE}

    @property
    def label(self) -> str:
        return f"the apt source {self.name}"

    def text(self) -> str:
        fields = {
            "Types": "deb",
            "URIs": self.uris,
            "Suites": " ".join(self.suites),
            "Components": " ".join(self.components),
            "Architectures": " ".join(self.architectures),
            "Signed-By": str(self.key_path),
        }
        body = "".join(f"{name}: {value}\n" for name, value in fields.items() if value)
        return f"{MARK}, changes are overwritten.\n# Key: {self.key_url}\n{body}"


@dataclass
class Plan:
    """Files to write (None: remove), and whether to refresh the index.

    ``key`` is the stored key, later the fetched one; ``key_ends`` means that it expires soon.
    """

    files: dict[Path, bytes | None] = field(default_factory=dict)
    before: dict[Path, bytes | None] = field(default_factory=dict)
    key: AptKey | None = None
    key_needed: bool = False
    key_ends: bool = False
    refresh: bool = False
    warnings: list[str] = field(default_factory=list)

    @property
    def changed(self) -> bool:
        return bool(self.files) or self.key_needed or self.refresh

    def diffs(self, wanted: Wanted) -> list[dict[str, str]]:
        texts = {path: (_shown(self.before[path]), _shown(data)) for path, data in self.files.items()}
        if wanted.auth_path in texts:
            texts[wanted.auth_path] = ("(passwords)\n", "(other passwords)\n")
        if self.key_needed:
            texts[wanted.key_path] = ("", f"(the key from {wanted.key_url})\n")
        if self.refresh and not texts:
            texts[Path("package index")] = ("absent\n", "fetched\n")
        return [
            {"before_header": str(path), "after_header": str(path), "before": before, "after": after}
            for path, (before, after) in texts.items()
        ]


def plan(wanted: Wanted, replace_conflicting: bool, now: float) -> Plan:
    """Compare the host with the wanted source without changes. Raise SourceError on a conflict."""
    result = Plan()
    for path, lines in _conflicts(wanted).items():
        found = path.read_bytes()
        if not replace_conflicting:
            raise SourceError(_conflict_text(wanted, path, lines))
        _refuse_shared(wanted, path, lines)
        if path != wanted.path:
            result.before[path] = found
            note = f"Disabled by gpulab.kubernetes.apt_source in favor of {wanted.path.name}"
            # Bytes that are not UTF-8 are kept.
            text = comment_out(found.decode("utf-8", "surrogateescape"), lines, note)
            result.files[path] = text.encode("utf-8", "surrogateescape")
    existing, own = read_file(wanted.path), wanted.text().encode()
    if existing != own or file_mode(wanted.path) != _MODE:
        result.before[wanted.path], result.files[wanted.path] = existing, own
    _plan_credentials(wanted, result)
    result.key = stored_key(wanted.key_path)
    result.key_needed = (
        result.key is None
        or file_mode(wanted.key_path) != _MODE
        or _key_url(_text(existing)) != wanted.key_url
        or bool(wanted.pins and set(result.key.fingerprints) - set(wanted.pins))
    )
    result.key_ends = result.key is not None and not result.key_needed and result.key.ends_by(now + RENEW_S)
    result.refresh = result.changed or not all(
        release_file(wanted.lists, wanted.uris, suite) for suite in wanted.suites
    )
    return result


def _plan_credentials(wanted: Wanted, result: Plan) -> None:
    path, existing = wanted.auth_path, read_file(wanted.auth_path)
    text = auth_conf(wanted.credentials or ()).encode() or None
    if wanted.credentials is not None and (existing != text or (text and file_mode(path) != _PRIVATE)):
        result.before[path], result.files[path] = existing, text


def renew(wanted: Wanted, todo: Plan, now: float) -> None:
    """Fetch a key again that expires soon. Raise an error only if the stored key has expired."""
    stored = todo.key
    if stored is None:
        return
    try:
        key = _fetch_key(wanted, now)
    except DomainError as error:
        if stored.ends_by(now):
            raise
        _warn(todo, wanted, f"and could not be renewed: {error}", now)
        return
    if key.outlives(stored):
        todo.key, todo.refresh = key, True
        todo.before[wanted.key_path], todo.files[wanted.key_path] = stored.text.encode(), key.text.encode()
    else:
        words = f"and {wanted.key_url} has no renewed key yet. After that day, apt refuses this repository"
        _warn(todo, wanted, f"{words}; each run checks again", now)


def _warn(todo: Plan, wanted: Wanted, words: str, now: float) -> None:
    """Warn about a key that expires soon. The text is the same on all hosts, because Ansible prints it once per run."""
    if todo.key and todo.key.ends_by(now + WARN_S):
        todo.warnings.append(f"The key of {wanted.label} expires on {date(todo.key.expires)}, {words}")


def apply(wanted: Wanted, todo: Plan, apt: Apt, now: float, first_run: FirstRun) -> None:
    """Apply the plan. If the index can't be fetched, all files are restored."""
    files = dict(todo.files)
    if todo.key_needed:
        todo.key = _fetch_key(wanted, now)
        files[wanted.key_path] = todo.key.text.encode()
    first_run.keep_files({f"/etc/apt/{path.relative_to(wanted.etc)}": path for path in files})
    with _put_back_on_error([*files, wanted.key_path]):
        # Write the key first, so that the source is never without it.
        for path in sorted(files, key=lambda path: path != wanted.key_path):
            put_file(path, files[path], wanted.modes.get(path) or file_mode(path) or _MODE)
        if todo.refresh:
            _refresh(wanted, todo, apt, now, fetched=wanted.key_path in files)


def remove(wanted: Wanted) -> Plan:
    """Return the plan that removes the source and its key."""
    found = {path: read_file(path) for path in (wanted.path, wanted.key_path)}
    before = {path: data for path, data in found.items() if data is not None}
    return Plan(files=dict.fromkeys(before), before=dict(before))


def _conflicts(wanted: Wanted) -> dict[Path, list[Source]]:
    architecture = native_architecture()
    mine = {address(wanted.uris, suite, architecture) for suite in wanted.suites}
    found: dict[Path, list[Source]] = {}
    for path, sources in sources_of(wanted.etc):
        if path == wanted.path and MARK in _text(read_file(path)):
            continue
        for source in sources:
            same = bool(source.addresses(architecture) & mine)
            # An unmanaged file of the same name conflicts, whatever it contains.
            clash = not same or source.signed_by != str(wanted.key_path) if path == wanted.path else same
            if source.enabled and clash:
                found.setdefault(path, []).append(source)
    return found


def _conflict_text(wanted: Wanted, path: Path, lines: list[Source]) -> str:
    source = lines[0]
    signed = "a key given in place" if "\n" in (source.signed_by or "") else source.signed_by or "no Signed-By"
    return (
        f"Error while adding the apt source {wanted.name}: {path} line {source.line} already contains "
        f"{' '.join(source.uris)} {' '.join(source.suites)} ({signed}), and apt refuses to work if one address has "
        "two keys. Remove that entry, let it be disabled (replace_conflicting: true), or keep it and use another "
        "address in this collection"
    )


def _refuse_shared(wanted: Wanted, path: Path, lines: list[Source]) -> None:
    architecture = native_architecture()
    mine = {address(wanted.uris, suite, architecture) for suite in wanted.suites}
    for source in lines:
        if path != wanted.path and source.addresses(architecture) - mine:
            raise SourceError(
                f"Error while replacing the apt source at {path} line {source.line}: the entry contains other "
                f"addresses ({' '.join(source.uris)} {' '.join(source.suites)}), so it can't be disabled as a whole. "
                "Split it and run again"
            )


def _refresh(wanted: Wanted, todo: Plan, apt: Apt, now: float, fetched: bool) -> None:
    """Fetch the index; if the stored key does not fit, fetch the key again and retry."""
    options = {"Dir::Etc::sourcelist": wanted.path, "Dir::Etc::sourceparts": "-", "APT::Get::List-Cleanup": "0"}
    if wanted.etc != Path("/etc/apt"):
        options["Dir::State::lists"] = wanted.lists
    argv = [word for name, value in options.items() for word in ("-o", f"{name}={value}")]
    doing = f"fetching the index of {wanted.label} ({wanted.uris})"
    try:
        apt.update(argv, doing)
    except CommandError as error:
        if fetched or not _OTHER_KEY.search(str(error)):
            raise
        key = _fetch_key(wanted, now)
        if todo.key and key.text == todo.key.text:
            raise CommandError(
                f"{error}\n{wanted.key_url} still has the key that is stored ({', '.join(key.fingerprints)}). Check "
                "key_url, or ask the repository's owner which key signs it",
                **error.fields,
            ) from error
        put_file(wanted.key_path, key.text.encode(), _MODE)
        todo.key = key
        apt.update(argv, doing)


@contextlib.contextmanager
def _put_back_on_error(paths: Iterable[Path]) -> Iterator[None]:
    kept = {path: (read_file(path), file_mode(path) or _MODE) for path in paths}
    try:
        yield
    except BaseException:
        for path, (data, mode) in reversed(kept.items()):
            # On a full disk, rewriting even an unchanged file would fail.
            if (read_file(path), file_mode(path) or _MODE) != (data, mode):
                put_file(path, data, mode)
        raise


def _fetch_key(wanted: Wanted, now: float) -> AptKey:
    return fetch_key(wanted.key_url, wanted.label, wanted.pins, now, credentials=wanted.credentials or ())


def _key_url(text: str) -> str:
    match = re.search(r"^# Key: (\S+)$", text, re.MULTILINE)
    return match.group(1) if match else ""


def _text(data: bytes | None) -> str:
    return (data or b"").decode("utf-8", "replace")


def _shown(data: bytes | None) -> str:
    """Return the text without users and passwords, which unmanaged sources may contain."""
    return _USER.sub("***", _text(data))
