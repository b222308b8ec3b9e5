# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A small API server for tests: real TLS with client certificates of a real CA, answers from a table."""

from __future__ import annotations

import base64
import datetime
import ipaddress
import json
import ssl
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

CLUSTER_INFO = "/api/v1/namespaces/kube-public/configmaps/cluster-info"
NODES = "/api/v1/nodes"
DAEMONSETS = "/apis/apps/v1/daemonsets?limit=1"
DEPLOYMENTS = "/apis/apps/v1/deployments?limit=1"
_USAGES = (
    "digital_signature",
    "content_commitment",
    "key_encipherment",
    "data_encipherment",
    "key_agreement",
    "key_cert_sign",
    "crl_sign",
    "encipher_only",
    "decipher_only",
)


class Authority:
    """A CA such as kubeadm makes."""

    def __init__(self, name: str = "kubernetes") -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        self.certificate = self._sign(self._name, self._key, ca=True)
        self.pem = self.certificate.public_bytes(serialization.Encoding.PEM).decode()

    @property
    def hash(self) -> str:
        public = self._key.public_key().public_bytes(
            serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
        )
        digest = hashes.Hash(hashes.SHA256())
        digest.update(public)
        return "sha256:" + digest.finalize().hex()

    def issue(self, name: str, organization: str = "system:nodes") -> tuple[str, str]:
        """Certificate and key, in PEM."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name(
            [
                x509.NameAttribute(NameOID.ORGANIZATION_NAME, organization),
                x509.NameAttribute(NameOID.COMMON_NAME, name),
            ]
        )
        certificate = self._sign(subject, key)
        private = key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        return certificate.public_bytes(serialization.Encoding.PEM).decode(), private.decode()

    def kubeconfig(self, server: str, user: str = "kubernetes-admin") -> str:
        """A kubeconfig with everything inside, as kubeadm writes admin.conf."""
        certificate, key = self.issue(user, "kubeadm:cluster-admins")
        return kubeconfig(server, self.pem, certificate, key)

    def _sign(self, subject: x509.Name, key: ec.EllipticCurvePrivateKey, ca: bool = False) -> x509.Certificate:
        now = datetime.datetime.now(datetime.timezone.utc)
        builder = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(hours=1))
            .not_valid_after(now + datetime.timedelta(days=1))
            .add_extension(x509.BasicConstraints(ca=ca, path_length=None), critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()), critical=False)
        )
        if ca:
            usage = dict.fromkeys(_USAGES, False) | {"key_cert_sign": True, "digital_signature": True}
            builder = builder.add_extension(x509.KeyUsage(**usage), critical=True)
        if not ca:
            names = [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
            builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
        return builder.sign(self._key, hashes.SHA256())


def kubeconfig(server: str, ca: str, certificate: str, key: str) -> str:
    data = {name: base64.b64encode(text.encode()).decode() for name, text in _named(ca, certificate, key)}
    return f"""apiVersion: v1
clusters:
- cluster:
    certificate-authority-data: {data["ca"]}
    server: {server}
  name: kubernetes
contexts:
- context:
    cluster: kubernetes
    user: somebody
  name: somebody@kubernetes
current-context: somebody@kubernetes
kind: Config
users:
- name: somebody
  user:
    client-certificate-data: {data["certificate"]}
    client-key-data: {data["key"]}
"""


def rotated_kubeconfig(server: str, ca: str) -> str:
    """kubelet.conf as it is once the kubelet has its own certificate."""
    pem = "/var/lib/kubelet/pki/kubelet-client-current.pem"
    text = kubeconfig(server, ca, "c", "k")
    head = text[: text.index("    client-certificate-data")]
    return head + f"    client-certificate: {pem}\n    client-key: {pem}\n"


def _named(ca: str, certificate: str, key: str) -> list[tuple[str, str]]:
    return [("ca", ca), ("certificate", certificate), ("key", key)]


class ApiServer:
    """``answers`` maps paths to (status, body); what is not there is 404. ``asked`` lists (user, path).

    A path without its query answers for all queries; a body that is a text is sent as it is. ``written`` lists (method,
    path, body) of what changes something; ``after_write`` is told the same, and may change the answers. Such a request
    is answered with what it brought, or by ``answers["METHOD path"]``.
    """

    def __init__(self, authority: Authority, directory: Path) -> None:
        self.authority = authority
        self.answers: dict[str, tuple[int, Any]] = {}
        self.asked: list[tuple[str | None, str]] = []
        self.before_answer: Callable[[], None] = lambda: None
        self.written: list[tuple[str, str, Any]] = []
        self.after_write: Callable[[str, str, Any], None] = lambda method, path, body: None
        certificate, key = authority.issue("kube-apiserver")
        pair, ca = directory / "apiserver.pem", directory / "client-ca.pem"
        pair.write_text(certificate + key)
        ca.write_text(authority.pem)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(pair)
        context.load_verify_locations(ca)
        context.verify_mode = ssl.CERT_OPTIONAL
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        self.url = f"https://127.0.0.1:{self._server.server_address[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def finished(self, *nodes: str) -> None:
        """Answer as a cluster whose kubeadm init reached its end."""
        self.answers[CLUSTER_INFO] = (200, {"kind": "ConfigMap"})
        self.answers[NODES] = (200, {"items": [{"metadata": {"name": name}} for name in nodes or ("cp1",)]})
        self.answers[DAEMONSETS] = (200, {"items": [{"metadata": {"name": "kube-proxy"}}]})
        self.answers[DEPLOYMENTS] = (200, {"items": [{"metadata": {"name": "coredns"}}]})

    def barren(self) -> None:
        """Answer as a cluster that serves, but whose kubeadm init was interrupted before it let anybody join."""
        self.answers.clear()
        self.answers[NODES] = (200, {"items": [{"metadata": {"name": "cp1"}}]})
        self.answers[DAEMONSETS] = (200, {"items": []})
        self.answers[DEPLOYMENTS] = (200, {"items": []})

    def published(self) -> None:
        """Answer as a cluster that others can join, but that has no addons."""
        self.barren()
        self.answers[CLUSTER_INFO] = (200, {"kind": "ConfigMap"})

    def down(self) -> None:
        """Answer as an API server that has no etcd."""
        for path in (CLUSTER_INFO, NODES, DAEMONSETS, DEPLOYMENTS):
            self.answers[path] = (500, {"message": "etcdserver: request timed out"})

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        server = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                certificate = self.connection.getpeercert()
                names = dict(pair for part in certificate["subject"] for pair in part) if certificate else {}
                server.asked.append((names.get("commonName"), self.path))
                server.before_answer()
                bare = self.path.partition("?")[0]
                missing = (404, {"message": "not found"})
                self._answer(*server.answers.get(self.path, server.answers.get(bare, missing)))

            def do_POST(self) -> None:
                length = int(self.headers.get("Content-Length") or 0)
                body = json.loads(self.rfile.read(length) or "null")
                server.written.append((self.command, self.path, body))
                server.after_write(self.command, self.path, body)
                self._answer(*server.answers.get(f"{self.command} {self.path.partition('?')[0]}", (200, body)))

            def do_PATCH(self) -> None:
                self.do_POST()

            def do_DELETE(self) -> None:
                self.do_POST()

            def _answer(self, status: int, body: Any) -> None:
                data = (body if isinstance(body, str) else json.dumps(body)).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *args: Any) -> None:
                pass

        return Handler
