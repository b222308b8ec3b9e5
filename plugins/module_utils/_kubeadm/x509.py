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
import ipaddress
import re
from collections.abc import Iterator
from datetime import datetime, timezone

from .._errors import DomainError

_PEM = re.compile(r"-----BEGIN CERTIFICATE-----\s*([A-Za-z0-9+/=\s]*?)-----END CERTIFICATE-----")
_SEQUENCE, _SET, _INTEGER, _OBJECT_ID, _VERSION, _EXTENSIONS = 0x30, 0x31, 0x02, 0x06, 0xA0, 0xA3
_COMMON_NAME, _ALTERNATIVE_NAMES = bytes.fromhex("550403"), bytes.fromhex("551d11")
_DNS_NAME, _IP_ADDRESS = 0x82, 0x87
# A UTCTime has two digits for the year, from 1950 to 2049.
_UTC_TIME, _GENERALIZED_TIME = 0x17, 0x18


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


def expires(certificate: bytes) -> datetime:
    """Return the end of the validity, in UTC."""
    return _time(certificate, -1)


def begins(certificate: bytes) -> datetime:
    """Return the beginning of the validity, in UTC."""
    return _time(certificate, 0)


def is_valid(certificate: bytes) -> bool:
    """Return whether the certificate is valid at this time."""
    return begins(certificate) <= datetime.now(timezone.utc) < expires(certificate)


def _time(certificate: bytes, place: int) -> datetime:
    tag, content, _whole = (list(_elements(_fields(certificate)[3][1])) or [(0, b"", b"")])[place]
    try:
        century = "" if tag == _GENERALIZED_TIME else "20" if content[:2] < b"50" else "19"
        if tag not in (_UTC_TIME, _GENERALIZED_TIME):
            raise ValueError
        return datetime.strptime(century + content.decode("ascii"), "%Y%m%d%H%M%SZ").replace(tzinfo=timezone.utc)
    except ValueError:
        raise CertificateError("Error while reading a certificate: its validity is not a time") from None


def alternative_names(certificate: bytes) -> list[str]:
    """Return the DNS names and IP addresses for which a server's certificate is valid, sorted."""
    found = []
    lists = [field[1] for field in _fields(certificate)[6:] if field[0] == _EXTENSIONS]
    for extension in (each for content in lists for whole in _elements(content) for each in _elements(whole[1])):
        parts = list(_elements(extension[1]))
        if len(parts) > 1 and parts[0][1] == _ALTERNATIVE_NAMES:
            found += [_name(*each[:2]) for names in _elements(parts[-1][1]) for each in _elements(names[1])]
    return sorted(filter(None, found))


def _name(tag: int, content: bytes) -> str:
    if tag == _DNS_NAME:
        return content.decode("ascii", "replace")
    try:
        return str(ipaddress.ip_address(content)) if tag == _IP_ADDRESS else ""
    except ValueError:
        return ""


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
