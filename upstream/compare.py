"""Compare an entry of the lock with upstream. Report differences, and the new value."""

from __future__ import annotations

import functools
import gzip
import hashlib
import re
import zlib
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import date, datetime, timezone
from typing import Any

from upstream import relations
from upstream.check import OF_THE_DISTRIBUTION, UPSTREAM
from upstream.collection import KeyFormatError, compare_versions, public_keys
from upstream.lock import RELATIONS
from upstream.web import Answer, Web, WebError

# Keys are usually renewed some weeks before they expire.
_ENDS_SOON_DAYS = 60
_SHOWN = 4
_CHECKSUM = re.compile(r"^ ([0-9a-f]{64})\s+[0-9]+\s+(\S+)$", re.MULTILINE)

Entry = dict[str, Any]


@dataclass
class Report:
    """The result of one comparison.

    `stays` are differences that a renewal does not resolve (a missing version, an unreachable host), `differs` those
    that it does, `learned` new facts, `notes` other information.
    """

    label: str
    stays: list[str] = field(default_factory=list)
    differs: list[str] = field(default_factory=list)
    learned: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    unreachable: bool = False
    verified: int = 0

    def fails(self, error: WebError) -> Report:
        """Record that upstream gave no answer, or not with the requested content."""
        self.stays.append(str(error))
        self.unreachable = self.unreachable or not error.status or error.status >= 500
        return self


def key(label: str, entry: Entry, web: Web, today: date) -> Report:
    """Compare the signing key of a repository."""
    report = Report(f"{label}: key {entry['url'].rsplit('/', 1)[1]}")
    try:
        answer = _get(web, entry["url"], report)
        known = public_keys(answer.body)
    except WebError as error:
        return report.fails(error)
    except KeyFormatError as error:
        report.stays.append(f"{entry['url']} holds no key: {error}")
        return report
    found = next((one for one in known if one.fingerprint == entry["fingerprint"]), known[0])
    expires = day_of(found.expires)
    if found.fingerprint != entry["fingerprint"]:
        report.differs.append(f"its fingerprint is {found.fingerprint}, the lock has {entry['fingerprint']}")
    if entry["expires"] is None:
        report.learned.append(f"expires: {expires}")
    elif entry["expires"] != expires:
        report.differs.append(f"it expires {expires}, the lock has {entry['expires']}")
    if found.expires is not None:
        days = (date.fromisoformat(expires) - today).days
        if days < 0:
            report.stays.append(f"it expired on {expires}")
        elif days <= _ENDS_SOON_DAYS:
            report.notes.append(f"it expires on {expires}, in {days} days")
    _take(entry, {"fingerprint": found.fingerprint, "expires": expires}, today, report)
    return report


def repository(label: str, entry: Entry, names: Collection[str], web: Web, today: date) -> Report:
    """Compare the Release file and the packages of a repository; `names` are all packages of the lock."""
    report = Report(label)
    suite = "" if entry["suite"] == "/" else f"dists/{entry['suite']}/"
    base = f"{entry['url'].rstrip('/')}/{suite}"
    try:
        release = _first(web, (f"{base}InRelease", f"{base}Release"), report)
        text = release.body.decode("utf-8", "replace")
        sums = {name: digest for digest, name in _CHECKSUM.findall(text)}
        parts = [f"{component}/binary-amd64/" for component in entry["components"]] or [""]
        stanzas: list[dict[str, str]] = []
        for part in parts:
            index = _first(web, (f"{base}{part}Packages.gz", f"{base}{part}Packages"), report)
            stanzas += packages(_index(index, part, sums), set(entry["packages"]))
    except WebError as error:
        return report.fails(error)
    fields = dict(re.findall(r"^([A-Za-z-]+): ?(.*)$", text.split("\nMD5Sum:")[0].split("\nSHA256:")[0], re.MULTILINE))
    for name, value in entry["release"].items():
        if fields.get(name) != value:
            report.differs.append(f"Release: {name} is {fields.get(name)!r}, the lock has {value!r}")
    there = {name: fields[name] for name in entry["release"] if name in fields}
    _take(entry, {"release": there}, today, report)
    by_name: dict[str, dict[str, dict[str, str]]] = {}
    for stanza in stanzas:
        by_name.setdefault(stanza["Package"], {}).setdefault(stanza["Version"], stanza)
    newer = []
    for name, versions in entry["packages"].items():
        held = by_name.get(name, {})
        for version, about in versions.items():
            if version in held:
                _package(f"{name} {version}", about, held[version], names, today, report)
            else:
                report.stays.append(f"{name} {version} is not there, {_listing(held)}")
        newest = max(held, key=functools.cmp_to_key(compare_versions), default="")
        if newest and all(compare_versions(newest, version) > 0 for version in versions):
            newer.append(f"{name} {newest}")
    if newer:
        report.notes.append("newer than in the lock: " + ", ".join(newer))
    return report


def image(reference: str, entry: Entry, web: Web, today: date) -> Report:
    """Compare the digest of an image."""
    report = Report(reference)
    try:
        digest = web.digest(reference)
    except WebError as error:
        return report.fails(error)
    _value(entry, "digest", digest, today, report)
    return report


def download(name: str, entry: Entry, web: Web, today: date) -> Report:
    """Compare the checksum of a file."""
    report = Report(name)
    try:
        answer = _get(web, entry["url"], report)
    except WebError as error:
        return report.fails(error)
    _value(entry, "sha256", hashlib.sha256(answer.body).hexdigest(), today, report)
    return report


def packages(text: str, names: Collection[str]) -> Iterator[dict[str, str]]:
    """Yield the stanzas of a Packages file with one of these names, for amd64 or all."""
    for stanza in re.split(r"\n\s*\n", text):
        found = re.search(r"^Package: *(\S+)", stanza, re.MULTILINE)
        if not found or found[1] not in names:
            continue
        fields: dict[str, str] = {}
        last = ""
        for line in stanza.split("\n"):
            if line[:1] in (" ", "\t"):
                fields[last] = f"{fields.get(last, '')}\n{line.strip()}"
            elif ":" in line:
                last, _colon, value = line.partition(":")
                fields[last] = value.strip()
        if fields.get("Architecture", "amd64") in ("amd64", "all") and "Version" in fields:
            yield fields


def _package(
    label: str, entry: Entry, stanza: Mapping[str, str], names: Collection[str], today: date, report: Report
) -> None:
    values: Entry = {}
    for name in RELATIONS:
        wanted, own = entry.get(name), _groups(entry.get(name) or "")
        known = {*names, *OF_THE_DISTRIBUTION, *(part.name for group in own for part in group)}
        try:
            there = _groups(stanza.get(name.replace("_", "-").title(), ""))
        except ValueError as error:
            report.stays.append(f"{label}: {error}")
            return
        kept = [group for group in there if any(part.name in known for part in group)]
        text = relations.write(kept)
        if wanted is None and text:
            report.learned.append(f"{label}: {name}: {text}")
        elif wanted is not None and _compared(own) != _compared(kept):
            report.differs.append(f"{label}: {name} is {text or 'empty'!s}, the lock has {wanted or 'empty'!s}")
        if text or wanted is not None:
            values[name] = text
    architecture = stanza.get("Architecture", "amd64")
    if architecture != entry.get("architecture", "amd64"):
        report.differs.append(f"{label}: its architecture is {architecture}")
        values["architecture"] = architecture
    _take(entry, values, today, report)


def _groups(text: str) -> list[tuple[relations.Relation, ...]]:
    return relations.parse(text.replace("\n", " "))


def _compared(groups: Iterable[Iterable[relations.Relation]]) -> set[str]:
    # The required version of a distribution's own package does not matter here.
    return {
        " | ".join(part.name if part.name in OF_THE_DISTRIBUTION else str(part) for part in group) for group in groups
    }


def _value(entry: Entry, name: str, found: str, today: date, report: Report) -> None:
    if entry[name] is None:
        report.learned.append(f"{name}: {found}")
    elif entry[name] != found:
        report.differs.append(f"its {name} is {found}, the lock has {entry[name]}")
    _take(entry, {name: found}, today, report)


def _take(entry: Entry, values: Entry, today: date, report: Report) -> None:
    """Copy upstream's values into the entry, in the entry's order."""
    kept = {name: value for name, value in entry.items() if name not in ("source", "relations_source", "verified")}
    rest = {name: kept.pop(name) for name in ("packages",) if name in kept}
    entry.clear()
    entry.update(kept | values | {"source": UPSTREAM, "verified": today.isoformat()} | rest)
    report.verified += 1


def _get(web: Web, url: str, report: Report) -> Answer:
    answer = web.get(url)
    if answer.url != url:
        report.notes.append(f"{url} redirects to {answer.url}")
    return answer


def _first(web: Web, urls: Iterable[str], report: Report) -> Answer:
    failure: WebError | None = None
    for url in urls:
        try:
            return _get(web, url, report)
        except WebError as error:
            if not error.status:
                raise
            failure = failure or error
    raise failure or WebError("there is nothing to ask for")


def _index(answer: Answer, part: str, sums: Mapping[str, str]) -> str:
    name = answer.url.rsplit("/", 1)[1]
    expected = sums.get(f"{part}{name}") or sums.get(f"./{part}{name}")
    if expected and hashlib.sha256(answer.body).hexdigest() != expected:
        raise WebError(f"{answer.url} is not the file that the Release file names; try again in a few minutes", 200)
    try:
        data = gzip.decompress(answer.body) if answer.body[:2] == b"\x1f\x8b" else answer.body
    except (OSError, EOFError, zlib.error) as error:
        raise WebError(f"{answer.url} can't be unpacked: {error}", 200) from error
    return data.decode("utf-8", "replace")


def _listing(versions: Collection[str]) -> str:
    newest = sorted(versions, key=functools.cmp_to_key(compare_versions), reverse=True)
    more = f" and {len(newest) - _SHOWN} more" if len(newest) > _SHOWN else ""
    return f"there are {', '.join(newest[:_SHOWN])}{more}" if newest else "there is no version of it"


def day_of(seconds: int | None) -> str:
    return "never" if seconds is None else datetime.fromtimestamp(seconds, timezone.utc).date().isoformat()
