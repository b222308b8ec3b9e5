# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Parse X.509 certificates on hosts without openssl and python3-cryptography.

Structure of a certificate: RFC 5280, section 4.1; encoding: X.690 (DER).
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
from collections.abc import Iterator

from .._errors import DomainError

_PEM = re.compile(r"-----BEGIN CERTIFICATE-----\s*([A-Za-z0-9+/=\s]*?)-----END CERTIFICATE-----")
_SEQUENCE, _SET, _INTEGER, _OBJECT_ID, _VERSION = 0x30, 0x31, 0x02, 0x06, 0xA0
_COMMON_NAME = bytes.fromhex("550403")


class CertificateError(DomainError):
    """The data are not a valid certificate."""


def certificates(pem: str) -> list[bytes]:
    """Return the certificates of a PEM text in DER; keys and other content are skipped."""
    found = []
    for block in _PEM.findall(pem):
        try:
            found.append(base64.b64decode("".join(block.split()), validate=True))
        except (binascii.Error, ValueError) as error:
            raise CertificateError("Error while reading a certificate: it is not valid base64") from error
    if not found:
        raise CertificateError("Error while reading a certificate: there is none in the text")
    return found


def public_key_hash(certificate: bytes) -> str:
    """Return kubeadm's hash of a CA: ``sha256:`` and 64 hexadecimal digits, over the DER of its public key."""
    return "sha256:" + hashlib.sha256(_fields(certificate)[5][2]).hexdigest()


def common_name(certificate: bytes) -> str | None:
    """Return the first common name of the subject, such as ``system:node:worker1``."""
    for _tag, relative_name, _whole in _elements(_fields(certificate)[4][1]):
        for _tag, attribute, _whole in _elements(relative_name):
            parts = list(_elements(attribute))
            if len(parts) == 2 and parts[0][:2] == (_OBJECT_ID, _COMMON_NAME):
                return parts[1][1].decode("utf-8", "replace")
    return None


def _fields(certificate: bytes) -> list[tuple[int, bytes, bytes]]:
    """Return serial number, algorithm, issuer, validity, subject, public key (tag, content, whole) and more fields."""
    try:
        outer = next(_elements(certificate))
        fields = list(_elements(next(_elements(outer[1]))[1]))
    except StopIteration:
        raise CertificateError("Error while reading a certificate: it is empty") from None
    if fields and fields[0][0] == _VERSION:
        del fields[0]
    if [field[0] for field in fields[:6]] != [_INTEGER] + [_SEQUENCE] * 5:
        raise CertificateError("Error while reading a certificate: it is not an X.509 certificate")
    return fields


def _elements(data: bytes) -> Iterator[tuple[int, bytes, bytes]]:
    position = 0
    while position < len(data):
        header = data[position : position + 2]
        start = position + 2
        length = header[-1]
        if length & 0x80:
            size = length & 0x7F
            length = int.from_bytes(data[start : start + size], "big")
            start += size
            if not 1 <= size <= 4:
                raise CertificateError("Error while reading a certificate: it is not valid DER")
        if len(header) < 2 or start + length > len(data):
            raise CertificateError("Error while reading a certificate: it is cut off")
        yield header[0], data[start : start + length], data[position : start + length]
        position = start + length
