# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""OpenPGP public keys without gnupg (RFC 9580): armor in the form that apt accepts, fingerprints, expiry."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass

from .._errors import DomainError

_BLOCK = re.compile(
    r"-----BEGIN PGP PUBLIC KEY BLOCK-----[ \t]*\n(.*?)\n?-----END PGP PUBLIC KEY BLOCK-----",
    re.DOTALL,
)
_CHECKSUM = re.compile(r"=([A-Za-z0-9+/]{4})\Z")
_SIGNATURE, _PUBLIC_KEY = 2, 6
_SELF_CERTIFICATIONS = (0x10, 0x11, 0x12, 0x13, 0x1F)
_CREATED, _KEY_EXPIRES, _ISSUER, _ISSUER_FINGERPRINT = 2, 9, 16, 33
# Version of a key -> first octet and length's width of the data to hash, and algorithm of its fingerprint.
_DIGESTS = {4: (b"\x99", 2, "sha1"), 6: (b"\x9b", 4, "sha256")}


class KeyFormatError(DomainError):
    """The data is not a valid public key."""


@dataclass(frozen=True)
class PublicKey:
    """A primary key: fingerprint in upper-case hex digits (40 in version 4, 64 in 6), times in Unix seconds.

    ``expires`` is None for a key without expiry. It is read from the newest self-signature, which is not verified: apt
    does that.
    """

    fingerprint: str
    created: int
    expires: int | None


@dataclass(frozen=True)
class _Packet:
    tag: int
    body: bytes
    data: bytes


def public_keys(data: bytes) -> list[PublicKey]:
    """Return the primary keys in a file, armored or binary, in order. Raise KeyFormatError."""
    return [_public_key(packets) for packets in _certificates(_binary(data))]


def armored(data: bytes, only: Collection[str] = ()) -> str:
    """Return a public key in any form (binary, armored, several blocks) as one armored block.

    apt's decoder does not accept several blocks. With the fingerprints ``only``, other keys are omitted. Raise
    KeyFormatError.
    """
    data = _binary(data)
    if only:
        kept = [packets for packets in _certificates(data) if _public_key(packets).fingerprint in only]
        data = b"".join(packet.data for packets in kept for packet in packets)
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


def _binary(data: bytes) -> bytes:
    data = data.removeprefix(b"\xef\xbb\xbf")
    if data[:1] < b"\x80" and b"-----BEGIN PGP" in data:
        text = data.decode("utf-8", "replace").replace("\r\n", "\n")
        blocks = _BLOCK.findall(text)
        if not blocks:
            raise KeyFormatError("it is OpenPGP armor without a complete public key block")
        data = b"".join(map(_dearmor, blocks))
    if not data or _packet_tag(data[0]) != _PUBLIC_KEY:
        start = data[:60].decode("utf-8", "replace").strip()
        raise KeyFormatError(f"it is not an OpenPGP public key, it begins with {start!r}")
    return data


def _dearmor(block: str) -> bytes:
    lines = [line.strip() for line in block.split("\n")]
    # Headers ("Version: ...") end at the first empty line, which may be missing if there are no headers.
    body = lines[lines.index("") + 1 :] if "" in lines else [line for line in lines if ":" not in line]
    text = "".join(body)
    checksum = _CHECKSUM.search(text) if len(text) % 4 == 1 or text[-5:-4] == "=" else None
    try:
        data = base64.b64decode(text[: checksum.start()] if checksum else text, validate=True)
    except ValueError as error:
        # Characters that are not ASCII raise ValueError, not binascii.Error.
        raise KeyFormatError(f"its armor can't be decoded ({error})") from error
    if checksum and base64.b64decode(checksum.group(1)) != _crc24(data).to_bytes(3, "big"):
        raise KeyFormatError("its checksum is wrong, so it is damaged")
    return data


def _packet_tag(byte: int) -> int:
    """Return the packet type in a first byte, -1 if it is not valid."""
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


def _certificates(data: bytes) -> Iterator[list[_Packet]]:
    """Yield the packets of each primary key, the key's own packet first."""
    packets: list[_Packet] = []
    for packet in _packets(data):
        if packet.tag == _PUBLIC_KEY and packets:
            yield packets
            packets = []
        packets.append(packet)
    yield packets


def _packets(data: bytes) -> Iterator[_Packet]:
    position = 0
    while position < len(data):
        start, tag = position, _packet_tag(data[position])
        if tag < 0:
            raise KeyFormatError(f"what follows octet {position} is not an OpenPGP packet")
        size, position = _packet_length(data, position)
        end = position + size
        if end > len(data):
            raise KeyFormatError(f"it ends within the packet that begins at octet {start}, so it is incomplete")
        yield _Packet(tag, data[position:end], data[start:end])
        position = end


def _packet_length(data: bytes, start: int) -> tuple[int, int]:
    """Return the length of a packet's body and its start."""
    if data[start] & 0x40:
        return _new_length(data, start + 1, "packet")
    width = {0: 1, 1: 2, 2: 4}.get(data[start] & 0x03, 0)
    if not width:
        raise KeyFormatError(f"the packet at octet {start} has no length")
    return _number(data, start + 1, width), start + 1 + width


def _new_length(data: bytes, position: int, what: str) -> tuple[int, int]:
    """Return a length (of one, two or five octets) and the position after it. Subpackets have no partial lengths."""
    first = _number(data, position, 1)
    if first < 192:
        return first, position + 1
    if first == 255:
        return _number(data, position + 1, 4), position + 5
    if first < (224 if what == "packet" else 255):
        return ((first - 192) << 8) + _number(data, position + 1, 1) + 192, position + 2
    raise KeyFormatError(f"the {what} at octet {position - 1} is in parts, which a key's packets never are")


def _number(data: bytes, start: int, width: int) -> int:
    if start + width > len(data):
        raise KeyFormatError("it ends within a length, so it is incomplete")
    return int.from_bytes(data[start : start + width], "big")


def _public_key(packets: list[_Packet]) -> PublicKey:
    body = packets[0].body
    version = body[0] if body else 0
    if version not in _DIGESTS or len(body) < 6:
        raise KeyFormatError(f"it is an OpenPGP key of version {version}, which is not supported")
    first, width, digest = _DIGESTS[version]
    if len(body) >> 8 * width:
        raise KeyFormatError("its key is larger than OpenPGP allows")
    content = first + len(body).to_bytes(width, "big") + body
    fingerprint = hashlib.new(digest, content, usedforsecurity=False).hexdigest().upper()
    created = int.from_bytes(body[1:5], "big")
    newest, valid_for = 0, 0
    for packet in packets:
        signed = _self_signature(packet, fingerprint, version) if packet.tag == _SIGNATURE else None
        if signed and signed[0] >= newest:
            newest, valid_for = signed
    return PublicKey(fingerprint, created, created + valid_for if valid_for else None)


def _self_signature(packet: _Packet, fingerprint: str, version: int) -> tuple[int, int] | None:
    """Return time and validity in seconds (0: unlimited) of a self-signature, None for other signatures."""
    body = packet.body
    if len(body) < 4 or body[0] not in _DIGESTS or body[1] not in _SELF_CERTIFICATIONS:
        return None
    width = _DIGESTS[body[0]][1]
    start = 4 + width
    middle = start + _number(body, 4, width)
    end = middle + width + _number(body, middle, width)
    if end > len(body):
        raise KeyFormatError("it has a signature that is incomplete")
    hashed = dict(_subpackets(body[start:middle]))
    issuers = {**dict(_subpackets(body[middle + width : end])), **hashed}
    key_id = fingerprint[-16:] if version == 4 else fingerprint[:16]
    named = {issuers.get(_ISSUER, b"").hex().upper(), issuers.get(_ISSUER_FINGERPRINT, b"")[1:].hex().upper()}
    if not named & {key_id, fingerprint}:
        return None
    return int.from_bytes(hashed.get(_CREATED, b""), "big"), int.from_bytes(hashed.get(_KEY_EXPIRES, b""), "big")


def _subpackets(area: bytes) -> Iterator[tuple[int, bytes]]:
    position = 0
    while position < len(area):
        size, position = _new_length(area, position, "subpacket")
        if size < 1 or position + size > len(area):
            raise KeyFormatError("it has a signature that is damaged")
        yield area[position] & 0x7F, area[position + 1 : position + size]
        position += size
