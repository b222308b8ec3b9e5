# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import time

import pytest
from ansible_collections.gpulab.kubernetes.plugins.module_utils._apt.sources_list import (
    Source,
    address,
    comment_out,
    read_sources,
)
from hypothesis import given
from hypothesis import strategies as st

LIST = """\
# deb http://old.example/ stable main
deb [arch=amd64,arm64 signed-by=/etc/apt/keyrings/docker.gpg] https://download.docker.com/linux/debian bookworm stable #
deb-src http://mirror.example/debian bookworm main contrib

deb cdrom:[Debian GNU/Linux 12 _Bookworm_ - amd64 1]/ bookworm main
  deb https://nvidia.github.io/libnvidia-container/stable/deb/$(ARCH) /
nonsense
deb http://only-a-uri/
"""

DEB822 = """\
# Our sources
Types: deb deb-src
URIs: http://mirror.example/debian
 http://second.example/debian
Suites: bookworm bookworm-updates
Components: main
# a comment in the middle
Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg

Enabled: no
Types: deb
URIs: https://off.example/
Suites: /

Types: deb
URIs: https://key.example/deb/
Suites: /
Signed-By:
 -----BEGIN PGP PUBLIC KEY BLOCK-----
 .
 mQ==
 -----END PGP PUBLIC KEY BLOCK-----
"""


def test_one_line_format_is_parsed() -> None:
    docker, source, cdrom, nvidia = read_sources(LIST, "/etc/apt/sources.list")
    assert docker == Source(
        "/etc/apt/sources.list",
        2,
        2,
        types=("deb",),
        uris=("https://download.docker.com/linux/debian",),
        suites=("bookworm",),
        components=("stable",),
        architectures=("amd64", "arm64"),
        signed_by="/etc/apt/keyrings/docker.gpg",
    )
    assert (source.line, source.types, source.components) == (3, ("deb-src",), ("main", "contrib"))
    assert cdrom.suites == ("bookworm",)
    assert nvidia.addresses("amd64") == {("https://nvidia.github.io/libnvidia-container/stable/deb/amd64", "")}


def test_open_brackets_take_linear_time() -> None:
    begun = time.process_time()
    assert read_sources(f"deb {'[' * 100_000}", "/etc/apt/sources.list") == []
    assert time.process_time() - begun < 1


def test_deb822_format_is_parsed() -> None:
    debian, off, inline = read_sources(DEB822, "/etc/apt/sources.list.d/debian.sources")
    assert (debian.line, debian.last_line) == (2, 8)
    assert debian.types == ("deb", "deb-src")
    assert len(debian.addresses("amd64")) == 4
    assert debian.signed_by == "/usr/share/keyrings/debian-archive-keyring.gpg"
    assert (off.enabled, debian.enabled) == (False, True)
    assert inline.signed_by is not None and "BEGIN PGP" in inline.signed_by


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (("https://h/deb/", "/"), ("https://h/deb", "/")),
        (("https://h/deb/", "/"), ("HTTPS://H/deb", "./")),
        (("https://h/deb", "sub/"), ("https://h/deb//sub/", "/")),
        (("https://h/$(ARCH)/", "/"), ("https://h/amd64", "/")),
        (("https://h/debian/", "bookworm"), ("https://h/debian", "bookworm")),
    ],
)
def test_different_spellings_of_one_address_are_equal(one: tuple[str, str], other: tuple[str, str]) -> None:
    assert address(*one, "amd64") == address(*other, "amd64")


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (("https://h/deb", "/"), ("http://h/deb", "/")),
        (("https://h/deb", "/"), ("https://h/Deb", "/")),
        (("https://h/debian", "bookworm"), ("https://h/debian", "trixie")),
        (("https://h/debian", "bookworm"), ("https://h/debian/bookworm", "/")),
    ],
)
def test_different_addresses_are_not_equal(one: tuple[str, str], other: tuple[str, str]) -> None:
    assert address(*one, "amd64") != address(*other, "amd64")


@pytest.mark.parametrize(("text", "name"), [(LIST, "a.list"), (DEB822, "a.sources")])
def test_a_disabled_entry_is_gone_and_the_rest_is_unchanged(text: str, name: str) -> None:
    first, *rest = read_sources(text, name)
    changed = comment_out(text, [first], "why")
    shift = len(changed.split("\n")) - len(text.split("\n"))
    assert [(source.line - shift, source.uris) for source in read_sources(changed, name)] == [
        (source.line, source.uris) for source in rest
    ]
    assert changed.count("# why\n") == 1


_WORD = st.text("abcdefghij0123456789.-_", min_size=1, max_size=8)
_PATH = st.builds(lambda host, path: f"https://{host}/{path}", _WORD, _WORD)


@given(st.lists(st.tuples(_PATH, _WORD, st.lists(_WORD, max_size=2), st.booleans()), max_size=6))
def test_both_formats_give_the_same_sources(entries: list[tuple[str, str, list[str], bool]]) -> None:
    lines, stanzas = [], []
    for uri, suite, components, signed in entries:
        option = "[signed-by=/k.asc] " if signed else ""
        lines.append(f"deb {option}{uri} {suite} {' '.join(components)}")
        fields = {"Types": "deb", "URIs": uri, "Suites": suite, "Components": " ".join(components)}
        fields |= {"Signed-By": "/k.asc"} if signed else {}
        stanzas.append("".join(f"{key}: {value}\n" for key, value in fields.items()))

    def meaning(sources: list[Source]) -> list[object]:
        return [(s.uris, s.suites, s.components, s.signed_by, s.addresses("amd64")) for s in sources]

    assert meaning(read_sources("\n".join(lines), "x.list")) == meaning(read_sources("\n".join(stanzas), "x.sources"))


@given(st.text(), st.sampled_from(["x.list", "x.sources"]))
def test_any_text_is_parsed_without_an_error(text: str, name: str) -> None:
    for source in read_sources(text, name):
        assert 1 <= source.line <= source.last_line <= text.count("\n") + 1
        assert source.uris and source.suites
        source.addresses("amd64")
