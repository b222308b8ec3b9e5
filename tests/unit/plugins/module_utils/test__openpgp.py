# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import base64
import shutil
import subprocess

import pytest
from ansible_collections.gpulab.kubernetes.plugins.module_utils._openpgp import KeyFormatError, armored
from hypothesis import given
from hypothesis import strategies as st

KEY = b"\x99\x01\x0d" + bytes(range(256)) + b"the rest"
_KEYS = st.binary(max_size=400).map(lambda tail: b"\x99" + tail)


def body(text: str) -> bytes:
    return base64.b64decode("".join(line for line in text.splitlines()[1:-1] if not line.startswith("=")))


@given(_KEYS)
def test_armour_keeps_every_byte_and_is_stable(key: bytes) -> None:
    text = armored(key)
    assert body(text) == key
    assert armored(text.encode()) == text
    assert max(map(len, text.splitlines())) <= 64


def test_several_blocks_become_one() -> None:
    text = armored(armored(KEY).encode() + b"\n" + armored(b"\x98other").encode())
    assert text.count("BEGIN PGP") == 1
    assert body(text) == KEY + b"\x98other"


def test_headers_and_windows_line_ends() -> None:
    text = armored(KEY).replace("BLOCK-----\n\n", "BLOCK-----\nVersion: GnuPG v2.0.22\nComment: x\n\n", 1)
    assert body(armored(("some words\n" + text).replace("\n", "\r\n").encode())) == KEY


def test_armour_without_a_checksum() -> None:
    text = "\n".join(line for line in armored(KEY).splitlines() if not line.startswith("="))
    assert body(armored(text.encode())) == KEY


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"<html><body>Blocked</body></html>", "begins with '<html>"),
        (b"", "not an OpenPGP public key"),
        (b"\x95secret key", "not an OpenPGP public key"),
        (b"-----BEGIN PGP PUBLIC KEY BLOCK-----\n\nmQE", "complete"),
        (b"-----BEGIN PGP PRIVATE KEY BLOCK-----\n\nmQE=\n-----END PGP PRIVATE KEY BLOCK-----", "complete"),
    ],
)
def test_what_is_no_key_is_refused(data: bytes, words: str) -> None:
    with pytest.raises(KeyFormatError, match=words):
        armored(data)


def test_damage_is_noticed() -> None:
    text = armored(KEY)
    first = text.splitlines()[3]
    with pytest.raises(KeyFormatError, match="damaged"):
        armored(text.replace(first, first[::-1]).encode())


@pytest.mark.skipif(shutil.which("gpg") is None, reason="compares with gpg itself")
def test_gpg_reads_it() -> None:
    result = subprocess.run(["gpg", "--dearmor"], input=armored(KEY).encode(), capture_output=True, check=True)
    assert result.stdout == KEY
