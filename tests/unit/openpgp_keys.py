# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""OpenPGP public keys for tests, whose self-signatures are not real: they have any times that a test wants."""

from __future__ import annotations

import hashlib
import time

_NOW = time.time()


def public_key(number: int = 0, days_left: float | None = None, made: int = 1767225600) -> bytes:
    """A key that is like no other with this number and ends so many days from now on, or never."""
    key = key_body(1767225600 - number)
    valid_for = 0 if days_left is None else int(_NOW + days_left * 86400) - (1767225600 - number)
    return packet(6, key) + packet(13, b"a user") + packet(2, self_signature(identity(key), made, valid_for))


def fingerprint(number: int = 0) -> str:
    return identity(key_body(1767225600 - number))


def packet(tag: int, content: bytes, new: bool = False, width: int = 4) -> bytes:
    """A packet in the new format, or in the old one with a length of 1, 2 or 4 octets."""
    if not new:
        return bytes([0x80 | tag << 2 | {1: 0, 2: 1, 4: 2}[width]]) + len(content).to_bytes(width, "big") + content
    return bytes([0xC0 | tag]) + new_length(len(content), width) + content


def new_length(size: int, width: int) -> bytes:
    if width == 1 and size < 192:
        return bytes([size])
    if width <= 2 and 192 <= size < 8384:
        return bytes([((size - 192) >> 8) + 192, (size - 192) & 0xFF])
    return b"\xff" + size.to_bytes(4, "big")


def key_body(created: int, version: int = 4) -> bytes:
    return bytes([version]) + created.to_bytes(4, "big") + b"\x16" + bytes(range(40))


def identity(key: bytes) -> str:
    if key[0] == 6:
        return hashlib.sha256(b"\x9b" + len(key).to_bytes(4, "big") + key).hexdigest().upper()
    return hashlib.sha1(b"\x99" + len(key).to_bytes(2, "big") + key).hexdigest().upper()


def self_signature(
    fingerprint: str,
    made: int,
    valid_for: int,
    kind: int = 0x13,
    hashed: bool = True,
    version: int = 4,
) -> bytes:
    def sub(kind: int, content: bytes) -> bytes:
        return new_length(len(content) + 1, 1) + bytes([kind]) + content

    width = 2 if version == 4 else 4
    end = sub(9 | 0x80, valid_for.to_bytes(4, "big"))
    first = sub(2, made.to_bytes(4, "big")) + (end if hashed else b"")
    key_id = fingerprint[-16:] if version == 4 else fingerprint[:16]
    second = sub(16, bytes.fromhex(key_id)) + (b"" if hashed else end)
    areas = b"".join(len(area).to_bytes(width, "big") + area for area in (first, second))
    return bytes([version, kind, 22, 8]) + areas + b"\x00\x00 the signature"
