# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One apt source as declared state: a deb822 file, its key, its index."""

from __future__ import annotations

import contextlib
import platform
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from ansible_collections.gpulab.kubernetes.plugins.module_utils._apt import Apt
from ansible_collections.gpulab.kubernetes.plugins.module_utils._apt_sources import (
    FILE_NAME,
    Source,
    address,
    comment_out,
    read_sources,
)
from ansible_collections.gpulab.kubernetes.plugins.module_utils._errors import DomainError
from ansible_collections.gpulab.kubernetes.plugins.module_utils._fetch import fetch
from ansible_collections.gpulab.kubernetes.plugins.module_utils._files import (
    file_mode,
    put_file,
    read_file,
)
from ansible_collections.gpulab.kubernetes.plugins.module_utils._openpgp import KeyFormatError, armored

MARK = "# Managed by gpulab.kubernetes.apt_source"
_MODE = 0o644
_QUOTED = re.compile(r"[\\|{}\[\]<>\"^~_=!@#$%&*]")
_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64", "ppc64le": "ppc64el", "armv7l": "armhf"}


class SourceError(DomainError):
    """The source can't be brought about as asked."""


@dataclass(frozen=True)
class Wanted:
    name: str
    uris: str = ""
    suites: tuple[str, ...] = ()
    components: tuple[str, ...] = ()
    architectures: tuple[str, ...] = ()
    key_url: str = ""
    etc: Path = Path("/etc/apt")
    lists: Path = Path("/var/lib/apt/lists")

    @property
    def path(self) -> Path:
        return self.etc / "sources.list.d" / f"{self.name}.sources"

    @property
    def key_path(self) -> Path:
        return self.etc / "keyrings" / f"{self.name}.asc"

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
    """What has to be written (None: removed), and why the index has to be refreshed."""

    files: dict[Path, bytes | None] = field(default_factory=dict)
    before: dict[Path, bytes | None] = field(default_factory=dict)
    key_needed: bool = False
    refresh: bool = False

    @property
    def changed(self) -> bool:
        return bool(self.files) or self.key_needed or self.refresh

    def diffs(self, key_path: Path, key_url: str) -> list[dict[str, str]]:
        texts = {path: (_text(self.before[path]), _text(data)) for path, data in self.files.items()}
        if self.key_needed:
            texts[key_path] = ("", f"(the key from {key_url})\n")
        if self.refresh and not texts:
            texts[Path("package index")] = ("absent\n", "fetched\n")
        return [
            {"before_header": str(path), "after_header": str(path), "before": before, "after": after}
            for path, (before, after) in texts.items()
        ]


def plan(wanted: Wanted, replace_conflicting: bool) -> Plan:
    """Compare the host with what is wanted, without touching anything. Raises SourceError on a conflict."""
    result = Plan()
    for path, lines in _conflicts(wanted).items():
        found = path.read_bytes().decode("utf-8", "replace")
        if not replace_conflicting:
            raise SourceError(_conflict_text(wanted, path, lines))
        _refuse_shared(wanted, path, lines)
        if path != wanted.path:
            result.before[path] = found.encode()
            note = f"Disabled by gpulab.kubernetes.apt_source in favour of {wanted.path.name}"
            result.files[path] = comment_out(found, lines, note).encode()
    existing, text = read_file(wanted.path), wanted.text().encode()
    if existing != text or file_mode(wanted.path) != _MODE:
        result.before[wanted.path], result.files[wanted.path] = existing, text
    result.key_needed = file_mode(wanted.key_path) != _MODE or _key_url(_text(existing)) != wanted.key_url
    result.refresh = result.changed or not all(index_fetched(wanted, suite) for suite in wanted.suites)
    return result


def apply(wanted: Wanted, todo: Plan, apt: Apt) -> None:
    """Bring the plan about. When the index can't be had every file is put back as it was."""
    files = dict(todo.files)
    if todo.key_needed:
        try:
            key = armored(fetch(wanted.key_url, f"the key of the apt source {wanted.name}"))
        except KeyFormatError as error:
            text = f"Error while reading the key of the apt source {wanted.name} from {wanted.key_url}: {error}"
            raise SourceError(f"{text}. Check key_url; a proxy may have answered in its place") from error
        # First, so that the source never stands without its key.
        files = {wanted.key_path: key.encode(), **files}
    with _put_back_on_error(files):
        for path, data in files.items():
            put_file(path, data, _MODE if path in (wanted.path, wanted.key_path) else file_mode(path) or _MODE)
        if todo.refresh:
            _refresh(wanted, apt)


def remove(wanted: Wanted) -> Plan:
    """The plan that takes the source and its key away."""
    found = {path: read_file(path) for path in (wanted.path, wanted.key_path)}
    before = {path: data for path, data in found.items() if data is not None}
    return Plan(files=dict.fromkeys(before), before=dict(before))


def index_fetched(wanted: Wanted, suite: str) -> bool:
    """Whether apt holds the signed index of a suite (apt's URItoFileName gives the file's name)."""
    architecture = native_architecture()
    uri, suite = wanted.uris.replace("$(ARCH)", architecture).rstrip("/"), suite.replace("$(ARCH)", architecture)
    path = suite.lstrip("/") if suite.endswith("/") else f"dists/{suite}/"
    full = f"{uri}/{path}".partition("://")[2].rpartition("@")[2]
    name = _QUOTED.sub(lambda match: f"%{ord(match.group()):02x}", full).replace("/", "_")
    return any((wanted.lists / f"{name}{kind}").is_file() for kind in ("InRelease", "Release"))


def native_architecture() -> str:
    """Debian's name of this machine's architecture."""
    machine = platform.machine()
    return _ARCHITECTURES.get(machine, machine)


def sources_of(etc: Path) -> Iterator[tuple[Path, list[Source]]]:
    """Every file that apt reads its sources from, with its entries."""
    parts = sorted((etc / "sources.list.d").glob("*"))
    for path in [etc / "sources.list", *(part for part in parts if FILE_NAME.match(part.name))]:
        data = read_file(path) if path.is_file() else None
        if data is not None:
            yield path, read_sources(data.decode("utf-8", "replace"), str(path))


def _conflicts(wanted: Wanted) -> dict[Path, list[Source]]:
    architecture = native_architecture()
    mine = {address(wanted.uris, suite, architecture) for suite in wanted.suites}
    found: dict[Path, list[Source]] = {}
    for path, sources in sources_of(wanted.etc):
        if path == wanted.path and MARK in _text(read_file(path)):
            continue
        for source in sources:
            same = bool(source.addresses(architecture) & mine)
            # A file of our name and another hand is in the way whatever it holds.
            clash = not same or source.signed_by != str(wanted.key_path) if path == wanted.path else same
            if source.enabled and clash:
                found.setdefault(path, []).append(source)
    return found


def _conflict_text(wanted: Wanted, path: Path, lines: list[Source]) -> str:
    source = lines[0]
    signed = "a key given in place" if "\n" in (source.signed_by or "") else source.signed_by or "no Signed-By"
    return (
        f"Error while adding the apt source {wanted.name}: {path} line {source.line} already names "
        f"{' '.join(source.uris)} {' '.join(source.suites)} ({signed}), and apt refuses to work with one address under "
        f"two keys. Either remove that entry, or let it be disabled (replace_conflicting: true), or keep it and give "
        "this collection another address"
    )


def _refuse_shared(wanted: Wanted, path: Path, lines: list[Source]) -> None:
    architecture = native_architecture()
    mine = {address(wanted.uris, suite, architecture) for suite in wanted.suites}
    for source in lines:
        if path != wanted.path and source.addresses(architecture) - mine:
            raise SourceError(
                f"Error while replacing the apt source at {path} line {source.line}: the entry names further addresses "
                f"({' '.join(source.uris)} {' '.join(source.suites)}), so it can't be disabled as a whole. Split it "
                "and run again"
            )


def _refresh(wanted: Wanted, apt: Apt) -> None:
    options = {"Dir::Etc::sourcelist": wanted.path, "Dir::Etc::sourceparts": "-", "APT::Get::List-Cleanup": "0"}
    if wanted.etc != Path("/etc/apt"):
        options["Dir::State::lists"] = wanted.lists
    argv = [word for name, value in options.items() for word in ("-o", f"{name}={value}")]
    apt.update(argv, f"fetching the index of the apt source {wanted.name} ({wanted.uris})")


@contextlib.contextmanager
def _put_back_on_error(files: dict[Path, bytes | None]) -> Iterator[None]:
    kept = {path: (read_file(path), file_mode(path) or _MODE) for path in files}
    try:
        yield
    except BaseException:
        for path, (data, mode) in reversed(kept.items()):
            put_file(path, data, mode)
        raise


def _key_url(text: str) -> str:
    match = re.search(r"^# Key: (\S+)$", text, re.MULTILINE)
    return match.group(1) if match else ""


def _text(data: bytes | None) -> str:
    return (data or b"").decode("utf-8", "replace")
