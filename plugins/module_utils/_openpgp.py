# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""OpenPGP public keys as apt wants them: ASCII armour, made and read without gnupg (RFC 9580, section 6)."""

from __future__ import annotations

import base64
import binascii
import re

from ansible_collections.gpulab.kubernetes.plugins.module_utils._errors import DomainError

_BLOCK = re.compile(
    r"-----BEGIN PGP PUBLIC KEY BLOCK-----[ \t]*\n(.*?)\n?-----END PGP PUBLIC KEY BLOCK-----",
    re.DOTALL,
)
_CHECKSUM = re.compile(r"=([A-Za-z0-9+/]{4})\Z")
_PUBLIC_KEY_TAG = 6


class KeyFormatError(DomainError):
    """What should be a public key isn't one."""


def armored(data: bytes) -> str:
    """Any form of a public key (binary, armoured, several blocks) as one armoured block.

    One block, because apt decodes the armour itself and chokes on several. Raises KeyFormatError.
    """
    data = data.removeprefix(b"\xef\xbb\xbf")
    if data[:1] < b"\x80" and b"-----BEGIN PGP" in data:
        text = data.decode("utf-8", "replace").replace("\r\n", "\n")
        blocks = _BLOCK.findall(text)
        if not blocks:
            raise KeyFormatError("it is OpenPGP armour without a complete public key block")
        data = b"".join(map(_dearmor, blocks))
    if not data or _packet_tag(data[0]) != _PUBLIC_KEY_TAG:
        start = data[:60].decode("utf-8", "replace").strip()
        raise KeyFormatError(f"it is not an OpenPGP public key, it begins with {start!r}")
    body = base64.b64encode(data).decode()
    lines = [body[start : start + 64] for start in range(0, len(body), 64)]
    checksum = base64.b64encode(_crc24(data).to_bytes(3, "big")).decode()
    return "\n".join(
        [
            "-----BEGIN PGP PUBLIC KEY BLOCK-----",
            "",
            *lines,
            f"={checksum}",
            "-----END PGP PUBLIC KEY BLOCK-----",
            "",
        ]
    )


def _dearmor(block: str) -> bytes:
    lines = [line.strip() for line in block.split("\n")]
    # Headers ("Version: ...") end at the first empty line; without headers there may be none.
    body = lines[lines.index("") + 1 :] if "" in lines else [line for line in lines if ":" not in line]
    text = "".join(body)
    checksum = _CHECKSUM.search(text) if len(text) % 4 == 1 or text[-5:-4] == "=" else None
    try:
        data = base64.b64decode(text[: checksum.start()] if checksum else text, validate=True)
    except binascii.Error as error:
        raise KeyFormatError(f"its armour can't be decoded ({error})") from error
    if checksum and base64.b64decode(checksum.group(1)) != _crc24(data).to_bytes(3, "big"):
        raise KeyFormatError("its checksum is wrong, so it is damaged")
    return data


def _packet_tag(byte: int) -> int:
    """The packet type that a first byte announces, -1 when it is none."""
    if not byte & 0x80:
        return -1
    return byte & 0x3F if byte & 0x40 else (byte & 0x3C) >> 2


def _crc24(data: bytes) -> int:
    crc = 0xB704CE
    for byte in data:
        crc ^= byte << 16
        for _bit in range(8):
            crc <<= 1
            if crc & 0x1000000:
                crc ^= 0x1864CFB
    return crc & 0xFFFFFF
