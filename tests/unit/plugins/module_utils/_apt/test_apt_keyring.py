# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import base64
import contextlib
import shutil
import subprocess
from pathlib import Path

import pytest
from ansible_collections.gpulab.kubernetes.plugins.module_utils._apt.keyring import (
    KeyFormatError,
    PublicKey,
    armored,
    public_keys,
)
from hypothesis import given
from hypothesis import strategies as st
from openpgp_keys import identity, key_body, packet, self_signature

KEY = b"\x99\x01\x0d" + bytes(range(256)) + b"the rest"
_KEYS = st.binary(max_size=400).map(lambda tail: b"\x99" + tail)


def body(text: str) -> bytes:
    return base64.b64decode("".join(line for line in text.splitlines()[1:-1] if not line.startswith("=")))


@given(_KEYS)
def test_armoring_keeps_every_byte_and_is_stable(key: bytes) -> None:
    text = armored(key)
    assert body(text) == key
    assert armored(text.encode()) == text
    assert max(map(len, text.splitlines())) <= 64


def test_several_armored_blocks_are_merged() -> None:
    text = armored(armored(KEY).encode() + b"\n" + armored(b"\x98other").encode())
    assert text.count("BEGIN PGP") == 1
    assert body(text) == KEY + b"\x98other"


def test_armor_headers_and_windows_line_ends_are_accepted() -> None:
    text = armored(KEY).replace("BLOCK-----\n\n", "BLOCK-----\nVersion: GnuPG v2.0.22\nComment: x\n\n", 1)
    assert body(armored(("some words\n" + text).replace("\n", "\r\n").encode())) == KEY


def test_armor_without_a_checksum_is_accepted() -> None:
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
def test_a_file_that_is_not_a_key_is_refused(data: bytes, words: str) -> None:
    with pytest.raises(KeyFormatError, match=words):
        armored(data)


@pytest.mark.parametrize("damage", ["\u00e9", "\u2028", "\ud7ff", "\U0001f511", " "])
def test_invalid_characters_in_a_key_are_a_clear_error(damage: str) -> None:
    text = armored(KEY)
    body_line = text.splitlines()[3]
    with pytest.raises(KeyFormatError, match=r"its armor can't be decoded|its checksum is wrong"):
        armored(text.replace(body_line, body_line[:10] + damage + body_line[11:]).encode())


@given(st.integers(0, 300), st.binary(max_size=4), st.text(max_size=3))
def test_a_damaged_key_file_is_read_or_refused_with_one_error(place: int, octets: bytes, words: str) -> None:
    data = armored(KEY).encode()
    for damage in (octets, words.encode("utf-8", "surrogatepass")):
        with contextlib.suppress(KeyFormatError):
            public_keys(data[:place] + damage + data[place + 1 :])


def test_a_damaged_checksum_is_detected() -> None:
    text = armored(KEY)
    first = text.splitlines()[3]
    with pytest.raises(KeyFormatError, match="damaged"):
        armored(text.replace(first, first[::-1]).encode())


@pytest.mark.skipif(shutil.which("gpg") is None, reason="compares with gpg itself")
def test_gpg_reads_the_armored_key() -> None:
    result = subprocess.run(["gpg", "--dearmor"], input=armored(KEY).encode(), capture_output=True, check=True)
    assert result.stdout == KEY


_2026 = 1767225600
NEVER = base64.b64decode(
    "mDMEaVW5ABYJKwYBBAHaRw8BAQdA+6gfUGZrfEd55V4Jx0o9mNxZRfYJD08qWc6WxHRINCG0F2dwdWxhYiB0ZXN0IGtleSAobmV2ZXIpiJAEEx"
    "YIADgWIQSMZFsCcQBMKj1frT+82mGdwOEuMwUCaVW5AAIbAwULCQgHAgYVCgkICwIEFgIDAQIeAQIXgAAKCRC82mGdwOEuM9ZlAP9vdkWcAJao"
    "BS5wJCMXVKUKBWuPWE/MvbrlTG4j9gWRCgD8De4t4NUeoq5Qns0rjSHpFOhbDI6NC2h4sRdPSAKMngg="
)
ENDS = base64.b64decode(
    "mDMEaVW5ABYJKwYBBAHaRw8BAQdAqsk5wuYYIQl+TO6Ikoi1j0wl4wjnhKyCZurkof+wXru0FmdwdWxhYiB0ZXN0IGtleSAoZW5kcymIlgQTFg"
    "gAPhYhBI2cnuI1VrWSkx2gcZtrCtXLT1YiBQJpVbkAAhsDBQkFpZTABQsJCAcCBhUKCQgLAgQWAgMBAh4BAheAAAoJEJtrCtXLT1YiwD0A/j6U"
    "a6ZKiQOfxPFfBjIZ053qHbsPM6RUSHs0awZwjyBCAQCFQX5Fi1X4HJQiw6bNMawLsGX2NtqSbSWnTVLWUSPKCg=="
)
EXTENDED = base64.b64decode(
    "mDMEaVW5ABYJKwYBBAHaRw8BAQdAl8svb4uE316TH6TwYQoB341t0xqaCFdS/vjeLl4HkPG0GmdwdWxhYiB0ZXN0IGtleSAoZXh0ZW5kZWQpiJ"
    "YEExYIAD4CGwMFCwkIBwIGFQoJCAsCBBYCAwECHgECF4AWIQSeRnKU7JXxEkamAeldnunJrLpFWAUCaX6XgAUJCWf7wAAKCRBdnunJrLpFWLG0"
    "AQDOOKb0y7Dnht/4ndONYJs/eOJ3hsKrzbknaVR+FRSKKAEAmN6odlLB0bZS2jJAtv8hKZ1WH9FKzruIz6+BMge7uQA="
)
KEYS = {
    NEVER: PublicKey("8C645B0271004C2A3D5FAD3FBCDA619DC0E12E33", _2026, None),
    ENDS: PublicKey("8D9C9EE23556B592931DA0719B6B0AD5CB4F5622", _2026, 1861963200),
    EXTENDED: PublicKey("9E467294EC95F11246A601E95D9EE9C9ACBA4558", _2026, 1925035200),
}


@pytest.mark.parametrize("data", KEYS)
def test_keys_created_by_gpg_are_read(data: bytes) -> None:
    assert public_keys(data) == public_keys(armored(data).encode()) == [KEYS[data]]


def test_a_single_key_can_be_selected_from_a_file_with_several() -> None:
    several = b"".join(KEYS)
    assert public_keys(several) == list(KEYS.values())
    chosen = {KEYS[NEVER].fingerprint, KEYS[EXTENDED].fingerprint}
    assert body(armored(armored(several).encode(), only=chosen)) == NEVER + EXTENDED


@given(
    version=st.sampled_from([4, 6]),
    created=st.integers(0, 2**31),
    signatures=st.lists(
        st.tuples(st.integers(1, 2**31), st.integers(0, 2**31), st.sampled_from([0x10, 0x11, 0x12, 0x13, 0x1F])),
        max_size=5,
        unique_by=lambda signature: signature[0],
    ),
    new=st.booleans(),
    width=st.sampled_from([1, 2, 4]),
)
def test_the_newest_self_signature_determines_the_expiry(
    version: int, created: int, signatures: list[tuple[int, int, int]], new: bool, width: int
) -> None:
    key = key_body(created, version)
    fingerprint = identity(key)
    data = packet(6, key, new, width) + packet(13, b"a user", new, width)
    for made, valid_for, kind in signatures:
        data += packet(2, self_signature(fingerprint, made, valid_for, kind, version=version), new, width)
    valid_for = max(signatures, default=(0, 0, 0))[1]
    assert public_keys(data) == [PublicKey(fingerprint, created, created + valid_for if valid_for else None)]


@pytest.mark.parametrize(
    "signature",
    [
        pytest.param({"fingerprint": "AB" * 20}, id="of another key"),
        pytest.param({"kind": 0x18}, id="of a subkey"),
        pytest.param({"kind": 0x30}, id="that takes another one back"),
        pytest.param({"hashed": False}, id="whose end is not signed"),
    ],
)
def test_invalid_signatures_are_ignored(signature: dict[str, object]) -> None:
    key = key_body(_2026)
    said = {"fingerprint": identity(key), "made": _2026 + 9, "valid_for": 60, **signature}
    assert public_keys(packet(6, key) + packet(2, self_signature(**said))) == [PublicKey(identity(key), _2026, None)]


@given(st.one_of(st.binary(max_size=300), st.binary(max_size=60).map(lambda tail: ENDS[:60] + tail)))
def test_any_input_gives_keys_or_one_error(data: bytes) -> None:
    try:
        assert public_keys(data)
    except KeyFormatError as error:
        assert str(error)


@given(st.integers(0, len(ENDS) - 1), st.integers(0, 255))
def test_a_damaged_key_gives_keys_or_one_error(place: int, octet: int) -> None:
    try:
        assert public_keys(ENDS[:place] + bytes([octet]) + ENDS[place + 1 :])
    except KeyFormatError as error:
        assert str(error)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (ENDS[:-1], "incomplete"),
        (ENDS[:1], "within a length"),
        (ENDS + b"x", "not an OpenPGP packet"),
        (packet(6, b"\x03" + bytes(20)), "version 3"),
        (packet(6, b""), "version 0"),
        (b"\x9b" + ENDS, "no length"),
        (b"\xc6\xe0" + ENDS, "in parts"),
    ],
)
def test_unreadable_keys_are_an_error(data: bytes, words: str) -> None:
    with pytest.raises(KeyFormatError, match=words):
        public_keys(data)


@pytest.mark.skipif(shutil.which("gpg") is None, reason="compares with gpg itself")
@pytest.mark.parametrize("algorithm", ["ed25519", "rsa2048"])
def test_fingerprint_and_expiry_are_the_same_as_in_gpg(algorithm: str, tmp_path: Path) -> None:
    def gpg(*words: str) -> bytes:
        home = ["gpg", "--homedir", str(tmp_path), "--batch", "--quiet", "--passphrase", ""]
        return subprocess.run([*home, *words], capture_output=True, check=True).stdout

    gpg("--quick-gen-key", "gpulab test key", algorithm, "sign", "2d")
    first = public_keys(gpg("--export"))
    gpg("--quick-set-expire", first[0].fingerprint, "400d")
    after = public_keys(gpg("--armor", "--export"))
    columns = [line.split(":") for line in gpg("--with-colons", "--list-keys").decode().splitlines()]
    key = next(row for row in columns if row[0] == "pub")
    fingerprint = next(row[9] for row in columns if row[0] == "fpr")
    assert after == [PublicKey(fingerprint, int(key[5]), int(key[6]))]
    assert (first[0].expires or 0) < (after[0].expires or 0)
    subprocess.run(["gpgconf", "--homedir", str(tmp_path), "--kill", "all"], check=True)
