# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Parse apt's sources in one-line and deb822 format. Pure functions."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

# File names that apt reads in sources.list.d, see sources.list(5) and apt.conf(5).
FILE_NAME = re.compile(r"[A-Za-z0-9_.-]+\.(?:list|sources)\Z")
_WORD = re.compile(r'(?:"[^"]*"|\[[^\[\]]*\]|[^\s\["])+')
_ENTRY = re.compile(r"\s*(deb|deb-src)\s+(?:\[([^\]]*)\]\s+)?(\S.*)\Z")
_FALSE = {"no", "false", "without", "off", "disable", "0"}


@dataclass(frozen=True)
class Source:
    """One entry: a line of a one-line file, or a paragraph of a deb822 file. Lines start at 1, both inclusive."""

    file: str
    line: int
    last_line: int
    types: tuple[str, ...]
    uris: tuple[str, ...]
    suites: tuple[str, ...]
    components: tuple[str, ...] = ()
    architectures: tuple[str, ...] = ()
    signed_by: str | None = None
    enabled: bool = True

    def addresses(self, architecture: str) -> set[tuple[str, str]]:
        """Return the entry's addresses as comparable (address, suite) pairs."""
        return {address(uri, suite, architecture) for uri in self.uris for suite in self.suites}


@dataclass(frozen=True)
class Paragraph:
    """A deb822 paragraph: values by lower-case field name, continuation lines joined by newlines."""

    line: int
    last_line: int
    fields: Mapping[str, str]


def address(uri: str, suite: str, architecture: str) -> tuple[str, str]:
    """Return an address in uniform spelling: slashes, $(ARCH) and flat repositories (suite "")."""
    uri, suite = (part.replace("$(ARCH)", architecture) for part in (uri.strip('"'), suite.strip('"')))
    if suite.endswith("/"):
        uri, suite = f"{uri}/{suite}", ""
    scheme, colon, rest = uri.partition("://")
    host, _slash, path = rest.partition("/") if colon else ("", "", uri)
    parts = [part for part in path.split("/") if part not in ("", ".")]
    start = f"{scheme.lower()}://{host.lower()}/" if colon else ""
    return start + "/".join(parts), suite.rstrip("/")


def read_sources(text: str, file: str) -> list[Source]:
    """Return the entries of a file, whose name shows its format. Entries that apt can't read are skipped."""
    return list(_deb822_sources(text, file) if file.endswith(".sources") else _line_sources(text, file))


def paragraphs(text: str) -> Iterator[Paragraph]:
    """Yield the paragraphs of a deb822 file; comments and invalid lines are skipped."""
    fields: dict[str, str] = {}
    first = last = 0
    name = ""
    for number, line in enumerate([*text.split("\n"), ""], start=1):
        if line.startswith("#"):
            continue
        if not line.strip():
            if fields:
                yield Paragraph(first, last, fields)
            fields, name, first = {}, "", 0
        elif line[0] in " \t":
            if name:
                fields[name] += "\n" + line.strip()
                last = number
        else:
            name, colon, value = line.partition(":")
            name = name.strip().lower() if colon else ""
            if name:
                fields[name] = value.strip()
                first, last = first or number, number


def _line_sources(text: str, file: str) -> Iterator[Source]:
    for number, line in enumerate(text.split("\n"), start=1):
        match = _ENTRY.match(line.partition("#")[0].rstrip())
        words = _WORD.findall(match.group(3)) if match else []
        if match is None or len(words) < 2:
            continue
        options = dict(_options(match.group(2) or ""))
        yield Source(
            file,
            number,
            number,
            types=(match.group(1),),
            uris=(words[0],),
            suites=(words[1],),
            components=tuple(words[2:]),
            architectures=tuple(filter(None, options.get("arch", "").split(","))),
            signed_by=options.get("signed-by"),
        )


def _options(text: str) -> Iterator[tuple[str, str]]:
    for word in text.split():
        name, equals, value = word.partition("=")
        if equals:
            yield name.rstrip("+-").lower(), value.strip('"')


def _deb822_sources(text: str, file: str) -> Iterator[Source]:
    for paragraph in paragraphs(text):
        fields = paragraph.fields
        types, uris, suites = (tuple(fields.get(name, "").split()) for name in ("types", "uris", "suites"))
        if types and uris and suites:
            yield Source(
                file,
                paragraph.line,
                paragraph.last_line,
                types=types,
                uris=uris,
                suites=suites,
                components=tuple(fields.get("components", "").split()),
                architectures=tuple(fields.get("architectures", "").split()),
                signed_by=fields.get("signed-by"),
                enabled=fields.get("enabled", "yes").strip().lower() not in _FALSE,
            )


def comment_out(text: str, sources: Iterable[Source], reason: str) -> str:
    """Return the text with the lines of these entries commented out, each entry preceded by the reason."""
    lines = text.split("\n")
    heads = set()
    for source in sources:
        heads.add(source.line)
        for number in range(source.line, source.last_line + 1):
            lines[number - 1] = "# " + lines[number - 1]
    out: list[str] = []
    for number, line in enumerate(lines, start=1):
        out += [f"# {reason}", line] if number in heads else [line]
    return "\n".join(out)
