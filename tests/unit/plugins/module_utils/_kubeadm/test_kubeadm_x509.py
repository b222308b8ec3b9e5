# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import contextlib
import datetime
import hashlib
from ipaddress import ip_address
from typing import Any

import pytest
from ansible_collections.gpulab.kubernetes.plugins.module_utils._kubeadm import x509 as pki
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.x509.oid import NameOID
from hypothesis import given
from hypothesis import strategies as st

NOW = datetime.datetime(2026, 1, 1)

KNOWN = """\
-----BEGIN CERTIFICATE-----
MIIBfjCCASWgAwIBAgIUUeH1cPeCT8q017A6RaIA+Heb4RwwCgYIKoZIzj0EAwIw
FTETMBEGA1UEAwwKa3ViZXJuZXRlczAeFw0yNjExMjEwNDExMDJaFw0zNjExMTgw
NDExMDJaMBUxEzARBgNVBAMMCmt1YmVybmV0ZXMwWTATBgcqhkjOPQIBBggqhkjO
PQMBBwNCAATH1uvQTCJGEJ9I/RKtbiSbsj4Zxm/XN0mSz+9UKE3iY9GDLkZ7zEnh
8Wx4qLLTBgDB19yOLr9tlyHvgNLGmkAro1MwUTAdBgNVHQ4EFgQUzv1D6b1u+4bk
s5JxhDVPRB6uJZQwHwYDVR0jBBgwFoAUzv1D6b1u+4bks5JxhDVPRB6uJZQwDwYD
VR0TAQH/BAUwAwEB/zAKBggqhkjOPQQDAgNHADBEAiBFCWSH1M7vr072Pz9Bke7y
ySuSyycp9vRTMATzc6VpAQIgXk9L4pJzbqeen4Hq1RIganeiU6nsi1bcOnuHs+q7
KmA=
-----END CERTIFICATE-----
"""
KNOWN_HASH = "sha256:fa435dcf483b0782a6559cdc65f0312a95176b1ccd351731806107c32be24358"


def make(key: Any, name: list[tuple[Any, str]], san: bool = True) -> x509.Certificate:
    subject = x509.Name([x509.NameAttribute(oid, value) for oid, value in name])
    builder = x509.CertificateBuilder().subject_name(subject).issuer_name(subject).public_key(key.public_key())
    builder = builder.serial_number(x509.random_serial_number()).not_valid_before(NOW)
    builder = builder.not_valid_after(NOW + datetime.timedelta(days=3650))
    if san:
        builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
    return builder.sign(key, None if isinstance(key, ed25519.Ed25519PrivateKey) else hashes.SHA256())


KEYS = {
    "rsa-2048": rsa.generate_private_key(65537, 2048),
    "rsa-4096": rsa.generate_private_key(65537, 4096),
    "ecdsa-p256": ec.generate_private_key(ec.SECP256R1()),
    "ecdsa-p384": ec.generate_private_key(ec.SECP384R1()),
    "ed25519": ed25519.Ed25519PrivateKey.generate(),
}
CERTIFICATE = make(KEYS["ecdsa-p256"], [(NameOID.COMMON_NAME, "kubernetes")])
DER = CERTIFICATE.public_bytes(serialization.Encoding.DER)


@pytest.mark.parametrize("kind", KEYS)
def test_the_public_key_hash_is_the_same_as_with_cryptography(kind: str) -> None:
    certificate = make(KEYS[kind], [(NameOID.ORGANIZATION_NAME, "o" * 200), (NameOID.COMMON_NAME, "kubernetes")])
    public = certificate.public_key().public_bytes(
        serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    pem = certificate.public_bytes(serialization.Encoding.PEM).decode()
    (der,) = pki.certificates(pem)
    assert pki.public_key_hash(der) == "sha256:" + hashlib.sha256(public).hexdigest()


def test_the_hash_of_a_known_certificate_is_the_same_as_openssls() -> None:
    # Created with: openssl x509 -pubkey -in ca.crt | openssl pkey -pubin -outform der | openssl dgst -sha256
    (der,) = pki.certificates(KNOWN)
    assert pki.public_key_hash(der) == KNOWN_HASH
    assert pki.common_name(der) == "kubernetes"


@pytest.mark.parametrize(
    ("name", "common_name"),
    [
        ([(NameOID.ORGANIZATION_NAME, "system:nodes"), (NameOID.COMMON_NAME, "system:node:gpu1")], "system:node:gpu1"),
        ([(NameOID.COMMON_NAME, "knöten")], "knöten"),
        ([(NameOID.ORGANIZATION_NAME, "nobody")], None),
    ],
)
def test_the_common_name_is_read(name: list[tuple[Any, str]], common_name: str | None) -> None:
    certificate = make(KEYS["ecdsa-p256"], name, san=False)
    assert pki.common_name(certificate.public_bytes(serialization.Encoding.DER)) == common_name


def test_certificates_are_found_between_a_key_and_text() -> None:
    pem = CERTIFICATE.public_bytes(serialization.Encoding.PEM).decode()
    text = f"subject=CN = kubernetes\r\n{pem}-----BEGIN EC PRIVATE KEY-----\nMHc=\n-----END EC PRIVATE KEY-----\n{pem}"
    assert pki.certificates(text) == [DER, DER]


@pytest.mark.parametrize("text", ["", "garbage", "-----BEGIN CERTIFICATE-----\nMII=A\n-----END CERTIFICATE-----"])
def test_a_text_without_a_certificate_is_empty(text: str) -> None:
    with pytest.raises(pki.CertificateError):
        pki.certificates(text)


# Every process creates another certificate, so test IDs must not contain its bytes.
@pytest.mark.parametrize(
    "data",
    [b"", b"\x30", b"\x30\x00", b"\x30\x80", DER[:-1], DER[:40], b"\x30\x03\x02\x01\x01"],
    ids=["empty", "tag", "empty-sequence", "endless", "one-byte-short", "cut", "other"],
)
def test_bytes_that_are_not_a_certificate_are_an_error(data: bytes) -> None:
    with pytest.raises(pki.CertificateError):
        pki.public_key_hash(data)


@pytest.mark.parametrize("year", [2027, 2049, 2050, 2126])
def test_the_end_of_the_validity_is_the_same_as_with_cryptography(year: int) -> None:
    key: Any = KEYS["ecdsa-p256"]
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "kube-apiserver")])
    end = datetime.datetime(year, 11, 28, 7, 1, 15)
    builder = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
    builder = builder.serial_number(1).not_valid_before(NOW).not_valid_after(end)
    names = [x509.DNSName("kubernetes.default"), x509.RFC822Name("a@b"), x509.IPAddress(ip_address("10.96.0.1"))]
    names += [x509.DNSName("cp1"), x509.IPAddress(ip_address("fd00::1"))]
    builder = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
    certificate = builder.add_extension(x509.SubjectAlternativeName(names), critical=False).sign(key, hashes.SHA256())
    der = certificate.public_bytes(serialization.Encoding.DER)
    assert pki.expires(der) == end.replace(tzinfo=datetime.timezone.utc)
    assert pki.begins(der) == NOW.replace(tzinfo=datetime.timezone.utc)
    assert pki.alternative_names(der) == ["10.96.0.1", "cp1", "fd00::1", "kubernetes.default"]


def test_a_certificate_for_no_server_has_no_names() -> None:
    assert pki.alternative_names(DER) == []


@given(st.binary(max_size=200) | st.integers(0, len(DER)).map(lambda n: DER[:n]))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    for reader in (pki.public_key_hash, pki.common_name, pki.begins, pki.expires, pki.alternative_names):
        with contextlib.suppress(pki.CertificateError):
            reader(data)


@given(st.integers(0, len(DER) - 1), st.integers(0, 255))
def test_damaged_certificates_are_read_or_refused(position: int, byte: int) -> None:
    data = DER[:position] + bytes([byte]) + DER[position + 1 :]
    with contextlib.suppress(pki.CertificateError):
        assert pki.public_key_hash(data).startswith("sha256:")
        pki.common_name(data)
        pki.expires(data)
        pki.alternative_names(data)
