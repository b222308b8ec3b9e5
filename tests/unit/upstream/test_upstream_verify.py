# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""`make verify-upstream` with a small upstream on this machine: HTTPS with its own authority, and real keys."""

from __future__ import annotations

import base64
import datetime
import gzip
import hashlib
import ipaddress
import json
import os
import re
import shutil
import ssl
import subprocess
import sys
import tempfile
import threading
import urllib.parse
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import yaml
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from upstream import __main__ as program
from upstream import behind, check, render, verify
from upstream import lock as reader
from upstream.web import Web, WebError

REPOSITORY = Path(__file__).resolve().parents[3]
DAY = datetime.timedelta(days=1)
NEVER = ("20200101T000000", "never")
ENDED = ("20200101T000000", "1y")
FILE = b"a file to download\n"
PACKAGES = """\
Package: driver
Version: 580.1-1
Architecture: amd64
Depends: library (>= 580.1-1), libc6 (>= 2.34), mesa (>= 7)
Description: a driver
 with more lines

Package: driver
Version: 590.1-1
Architecture: amd64
Depends: library (= 590.1-1)

Package: library
Version: 590.1-1
Architecture: amd64

Package: unrelated
Version: 1
Architecture: amd64

Package: library
Version: 580.1-1
Architecture: arm64
"""


def today() -> datetime.date:
    """The date in UTC, taken when it is needed because a run of all tests may pass midnight."""
    return datetime.datetime.now(datetime.timezone.utc).date()


# --- a small upstream


def issued(place: Path) -> tuple[Path, Path]:
    """A certificate authority, and a certificate with its key for this machine."""

    def name(text: str) -> x509.Name:
        return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])

    def builder(subject: str, key: ec.EllipticCurvePrivateKey) -> x509.CertificateBuilder:
        now = datetime.datetime.now(datetime.timezone.utc)
        return (
            x509.CertificateBuilder()
            .subject_name(name(subject))
            .issuer_name(name("authority"))
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - DAY)
            .not_valid_after(now + DAY)
        )

    authority_key, key = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    authority = builder("authority", authority_key).add_extension(
        x509.BasicConstraints(ca=True, path_length=None), critical=True
    )
    usage = x509.KeyUsage(
        digital_signature=False,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=True,
        crl_sign=True,
        encipher_only=False,
        decipher_only=False,
    )
    subject_id = x509.SubjectKeyIdentifier.from_public_key(authority_key.public_key())
    authority = authority.add_extension(usage, critical=True).add_extension(subject_id, critical=False)
    hosts = x509.SubjectAlternativeName([x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
    issuer_id = x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(subject_id)
    host = builder("localhost", key).add_extension(hosts, critical=False).add_extension(issuer_id, critical=False)
    pem = serialization.Encoding.PEM
    ca, server = place / "ca.pem", place / "server.pem"
    ca.write_bytes(authority.sign(authority_key, hashes.SHA256()).public_bytes(pem))
    plain = (pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    server.write_bytes(host.sign(authority_key, hashes.SHA256()).public_bytes(pem) + key.private_bytes(*plain))
    return ca, server


class Keys:
    """Signing keys created by gpg, for any creation and expiry time."""

    def __init__(self) -> None:
        # gpg's sockets require a short path.
        self._home = Path(tempfile.mkdtemp(prefix="gpg"))
        self._made: dict[tuple[str, str], tuple[bytes, str]] = {}

    def make(self, created: str, lasts: str) -> tuple[bytes, str]:
        """Return an armored public key and its fingerprint."""
        if (created, lasts) not in self._made:
            name = f"{created}-{lasts}@localhost"
            how = ("--faked-system-time", created, "--passphrase", "", "--pinentry-mode", "loopback")
            self._gpg(*how, "--quick-generate-key", name, "ed25519", "sign", lasts)
            listed = self._gpg("--with-colons", "--list-keys", name).decode()
            fingerprint = next(line for line in listed.splitlines() if line.startswith("fpr:")).split(":")[9]
            self._made[created, lasts] = self._gpg("--armor", "--export", name), fingerprint
        return self._made[created, lasts]

    def remove(self) -> None:
        """Stop gpg's agent and delete the keys."""
        subprocess.run(["gpgconf", "--homedir", str(self._home), "--kill", "all"], check=False, capture_output=True)
        shutil.rmtree(self._home)

    def _gpg(self, *arguments: str) -> bytes:
        command = ["gpg", "--batch", "--homedir", str(self._home), *arguments]
        return subprocess.run(command, check=True, capture_output=True).stdout


@pytest.fixture(scope="module")
def keys() -> Iterator[Keys]:
    made = Keys()
    yield made
    made.remove()


class Upstream:
    """Files, redirects and images by path; `lock` describes all of them correctly."""

    def __init__(self, place: Path, keys: Keys) -> None:
        self.place, self.keys = place, keys
        self.files: dict[str, bytes] = {}
        self.redirects: dict[str, str] = {}
        self.images: dict[str, str] = {}
        self.asked: list[str] = []
        self.logins: dict[str, str] = {}
        self.environ: dict[str, str] = {}
        self.token = "t0ken"
        self.ca, certificate = issued(place)
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def log_message(self, *_args: Any) -> None:
                pass

            def do_HEAD(self) -> None:
                outer.answer(self, body=False)

            def do_GET(self) -> None:
                outer.answer(self, body=True)

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate)
        self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        self.host = f"localhost:{self._server.server_port}"
        self.path = place / "upstream.lock"
        self.lock = self._usual()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def answer(self, handler: BaseHTTPRequestHandler, body: bool) -> None:
        path, _question, query = handler.path.partition("?")
        self.asked.append(f"{handler.command} {path}")
        self.logins[path] = handler.headers.get("Authorization") or ""
        headers: dict[str, str] = {}
        status, content = 404, b""
        if path == "/token":
            status, content = (200, json.dumps({"token": self.token}).encode()) if "repository" in query else (400, b"")
        elif path.startswith("/v2/"):
            name = path.removeprefix("/v2/").replace("/manifests/", ":")
            if handler.headers.get("Authorization") != f"Bearer {self.token}":
                realm = f'Bearer realm="https://{self.host}/token",service="here",scope="repository:x:pull"'
                status, headers = 401, {"WWW-Authenticate": realm}
            elif name in self.images:
                status, headers = 200, {"Docker-Content-Digest": self.images[name]}
        elif path in self.redirects:
            status, headers = 302, {"Location": self.redirects[path]}
        elif path in self.files:
            status, content = 200, self.files[path]
        handler.send_response(status)
        for name, value in headers.items():
            handler.send_header(name, value)
        handler.send_header("Content-Length", str(len(content)))
        handler.end_headers()
        if body:
            handler.wfile.write(content)

    def publish(self, packages: str = PACKAGES) -> None:
        """Publish the repository's index and Release file."""
        index = gzip.compress(packages.encode())
        digest = hashlib.sha256(index).hexdigest()
        release = f"Origin: here\nLabel: small\nSHA256:\n {digest} {len(index)} Packages.gz\n"
        self.files["/repo/InRelease"] = f"-----BEGIN PGP SIGNED MESSAGE-----\nHash: SHA512\n\n{release}".encode()
        self.files["/repo/Packages.gz"] = index

    def _usual(self) -> dict[str, Any]:
        armored, fingerprint = self.keys.make(*NEVER)
        self.files |= {"/repo/key.pub": armored, "/file": FILE}
        self.publish()
        self.images["pause:1"] = "sha256:" + "1" * 64
        made: dict[str, Any] = {"source": "told", "verified": None}
        return {
            "schema": 1,
            "dated": "2026-01-01",
            "sources": {"told": {"about": "a person said so", "known": "seen", "dated": "2026-01-01", "address": None}},
            "repositories": {
                "small": {
                    "url": f"https://{self.host}/repo/",
                    "suite": "/",
                    "components": [],
                    "distributions": ["Debian 12"],
                    "release": {"Origin": "here", "Label": "small"},
                    "key": {
                        "url": f"https://{self.host}/repo/key.pub",
                        "fingerprint": fingerprint,
                        "expires": "never",
                        **made,
                    },
                    **made,
                    "packages": {
                        "driver": {
                            "580.1-1": {"depends": "library (>= 580.1-1), libc6", **made},
                            "590.1-1": {"depends": "library (= 590.1-1)", **made},
                        },
                        "library": {"590.1-1": dict(made)},
                    },
                }
            },
            "images": {f"{self.host}/pause:1": {"digest": self.images["pause:1"], **made}},
            "downloads": {
                "file": {"url": f"https://{self.host}/file", "sha256": hashlib.sha256(FILE).hexdigest(), **made}
            },
        }

    def verify(self, *arguments: str, ca: bool = True) -> tuple[int, str]:
        """Run the program and return its exit status and output."""
        if not self.path.exists():
            self.path.write_text(render.render("# The head.\n", self.lock))
        authority = ["--ca", str(self.ca)] if ca else []
        command = [sys.executable, "-m", "upstream", "--lock", str(self.path), *authority, "--timeout", "5"]
        environ = {name: value for name, value in os.environ.items() if not name.lower().endswith("_proxy")}
        done = subprocess.run(
            [*command, *arguments],
            cwd=REPOSITORY,
            env={
                **environ,
                "GPULAB_UPSTREAM_PAUSE": "0",
                "GOPROXY": f"https://{self.host}/go,direct",
                "PIP_INDEX_URL": f"https://{self.host}/simple/",
                **self.environ,
            },
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )
        assert "Traceback" not in done.stderr, done.stderr
        return done.returncode, done.stdout + done.stderr

    def written(self) -> dict[str, Any]:
        """The current content of the lock."""
        loaded: dict[str, Any] = yaml.safe_load(self.path.read_text())
        return loaded


@pytest.fixture
def upstream(tmp_path: Path, keys: Keys) -> Iterator[Upstream]:
    made = Upstream(tmp_path, keys)
    yield made
    made.close()


# --- differences


def test_without_differences_progress_is_shown(upstream: Upstream) -> None:
    status, output = upstream.verify()
    assert status == 0, output
    assert "Nothing differs from upstream.lock." in output
    for number in range(1, 5):
        assert f"[{number}/4, " in output
    for label in ("small: key key.pub", "] small: ", "pause:1", "] file: "):
        assert label in output
    assert upstream.written() == upstream.lock, "nothing is written without being asked for"
    assert not {"GET /v2/pause/manifests/1"} & set(upstream.asked), "a digest needs no manifest"


def test_a_changed_digest_is_reported(upstream: Upstream) -> None:
    upstream.images["pause:1"] = "sha256:" + "2" * 64
    status, output = upstream.verify()
    assert status == 1
    assert f"its digest is sha256:{'2' * 64}, the lock has sha256:{'1' * 64}" in output
    assert "1 differ from upstream.lock" in output


def test_a_deleted_tag_is_reported(upstream: Upstream) -> None:
    upstream.images.clear()
    status, output = upstream.verify()
    assert status == 1
    assert "/v2/pause/manifests/1 answers 404" in output


def test_a_changed_download_is_reported(upstream: Upstream) -> None:
    upstream.files["/file"] = b"another\n"
    status, output = upstream.verify()
    assert status == 1
    assert f"its sha256 is {hashlib.sha256(b'another' + bytes([10])).hexdigest()}, the lock has" in output


def test_a_missing_version_is_reported(upstream: Upstream) -> None:
    upstream.publish(PACKAGES.replace("Version: 580.1-1", "Version: 585.1-1"))
    status, output = upstream.verify()
    assert status == 1
    assert "driver 580.1-1 is not there, there are 590.1-1, 585.1-1" in output


def test_a_version_for_another_architecture_does_not_count(upstream: Upstream) -> None:
    packages = upstream.lock["repositories"]["small"]["packages"]
    packages["library"]["580.1-1"] = {"source": "told", "verified": None}
    status, output = upstream.verify()
    assert status == 1
    assert "library 580.1-1 is not there, there are 590.1-1" in output


def test_a_changed_relation_is_reported(upstream: Upstream) -> None:
    upstream.publish(PACKAGES.replace("library (= 590.1-1)", "library (>= 590.1-1)"))
    status, output = upstream.verify()
    assert status == 1
    assert "driver 590.1-1: depends is library (>= 590.1-1), the lock has library (= 590.1-1)" in output
    assert "mesa" not in output, "what the lock does not hold is not a relation that matters"


def test_a_newer_version_is_a_note(upstream: Upstream) -> None:
    upstream.publish(PACKAGES.replace("Version: 590.1-1\nArchitecture: amd64\nDepends", "Version: 595.1-1\nDepends"))
    upstream.lock["repositories"]["small"]["packages"]["driver"].pop("590.1-1")
    status, output = upstream.verify()
    assert status == 0, output
    assert "newer than in the lock: driver 595.1-1" in output


def test_a_changed_release_file_is_reported(upstream: Upstream) -> None:
    upstream.lock["repositories"]["small"]["release"]["Label"] = "NVIDIA CUDA"
    status, output = upstream.verify()
    assert status == 1
    assert "Release: Label is 'small', the lock has 'NVIDIA CUDA'" in output


def test_an_index_that_does_not_match_the_release_file_is_reported(upstream: Upstream) -> None:
    upstream.files["/repo/Packages.gz"] = gzip.compress(b"Package: driver\n")
    status, output = upstream.verify()
    assert status == 1
    assert "is not the file that the Release file names" in output


def test_a_repository_without_inrelease_and_compression_is_read(upstream: Upstream) -> None:
    upstream.files["/repo/Release"] = b"Origin: here\nLabel: small\n"
    upstream.files["/repo/Packages"] = PACKAGES.encode()
    del upstream.files["/repo/InRelease"], upstream.files["/repo/Packages.gz"]
    assert upstream.verify()[0] == 0


def test_a_repository_with_suites_is_read(upstream: Upstream) -> None:
    upstream.lock["repositories"]["small"] |= {"suite": "noble", "components": ["stable"]}
    for name in ("InRelease", "Packages.gz"):
        below = "stable/binary-amd64/" if name == "Packages.gz" else ""
        upstream.files[f"/repo/dists/noble/{below}{name}"] = upstream.files.pop(f"/repo/{name}")
    assert upstream.verify()[0] == 0


def test_a_changed_key_is_reported(upstream: Upstream, keys: Keys) -> None:
    armored, fingerprint = keys.make("20210101T000000", "never")
    upstream.files["/repo/key.pub"] = armored
    status, output = upstream.verify()
    assert status == 1
    assert f"its fingerprint is {fingerprint}, the lock has" in output
    upstream.files["/repo/key.pub"] = keys.make(*NEVER)[0] + armored
    assert upstream.verify()[0] == 0, "one of several keys is enough"


def test_an_expired_key_is_reported(upstream: Upstream, keys: Keys) -> None:
    armored, fingerprint = keys.make(*ENDED)
    upstream.files["/repo/key.pub"] = armored
    upstream.lock["repositories"]["small"]["key"] |= {"fingerprint": fingerprint, "expires": "2020-12-31"}
    status, output = upstream.verify()
    assert status == 1
    assert "key key.pub: 1 differs\n  ! it expired on 2020-12-31" in output


def test_a_key_that_expires_soon_is_reported(upstream: Upstream, keys: Keys) -> None:
    ends = today() + 29 * DAY
    armored, fingerprint = keys.make((ends - 30 * DAY).strftime("%Y%m%dT000000"), "30d")
    upstream.files["/repo/key.pub"] = armored
    upstream.lock["repositories"]["small"]["key"] |= {"fingerprint": fingerprint, "expires": "never"}
    status, output = upstream.verify()
    assert status == 1
    assert f"it expires {ends}, the lock has never" in output
    assert f"it expires on {ends}, in 29 days" in output


def test_a_key_file_without_a_key_is_reported(upstream: Upstream) -> None:
    upstream.files["/repo/key.pub"] = b"<html>please log in</html>"
    status, output = upstream.verify()
    assert status == 1
    assert "/repo/key.pub holds no key" in output


def test_a_redirect_is_followed_and_reported(upstream: Upstream) -> None:
    upstream.files["/cdn/InRelease"] = upstream.files.pop("/repo/InRelease")
    upstream.redirects["/repo/InRelease"] = f"https://{upstream.host}/cdn/InRelease"
    status, output = upstream.verify()
    assert status == 0, output
    assert f"/repo/InRelease redirects to https://{upstream.host}/cdn/InRelease" in output


def test_a_redirect_to_plain_http_is_refused(upstream: Upstream) -> None:
    upstream.redirects["/repo/InRelease"] = f"http://{upstream.host}/cdn/InRelease"
    status, output = upstream.verify()
    assert status == 1
    assert "which is not HTTPS" in output


def test_a_host_that_does_not_respond_is_named(upstream: Upstream) -> None:
    upstream.lock["downloads"]["file"]["url"] = "https://127.0.0.1:1/file"
    status, output = upstream.verify()
    assert status == 1
    assert "] file: no answer\n" in output
    assert "127.0.0.1:1 can't be asked: " in output
    assert "refused" in output
    assert output.endswith("0 differ from upstream.lock (0 more could be learned; questions without an answer: 1).\n")


def test_an_unknown_certificate_authority_is_named(upstream: Upstream) -> None:
    status, output = upstream.verify(ca=False)
    assert status == 1
    assert output.count("CERTIFICATE_VERIFY_FAILED") >= 4


# --- writing the lock


def test_renewal_updates_the_lock(upstream: Upstream) -> None:
    upstream.images["pause:1"] = "sha256:" + "2" * 64
    upstream.lock["downloads"]["file"]["sha256"] = None
    upstream.lock["repositories"]["small"]["key"]["expires"] = None
    upstream.publish(PACKAGES.replace("library (= 590.1-1)", "library (>= 590.1-1)"))
    date = today().isoformat()
    status, output = upstream.verify("--write")
    assert status == 0, output
    text = upstream.path.read_text()
    assert text.startswith("# The head.\n---\n")
    written = upstream.written()
    assert written["dated"] == date
    assert list(written["sources"]) == ["upstream"]
    small = written["repositories"]["small"]
    now = {"source": "upstream", "verified": date}
    assert small["key"]["expires"] == "never" and now.items() <= small["key"].items()
    assert small["packages"]["driver"]["590.1-1"] == {"depends": "library (>= 590.1-1)", **now}
    assert small["packages"]["driver"]["580.1-1"]["depends"] == "library (>= 580.1-1), libc6 (>= 2.34)"
    assert written["images"] == {f"{upstream.host}/pause:1": {"digest": "sha256:" + "2" * 64, **now}}
    assert written["downloads"]["file"]["sha256"] == hashlib.sha256(FILE).hexdigest()
    assert check.malformed(written) == []
    assert list(reader.load(upstream.path).unverified()) == []
    assert "Nothing differs" in upstream.verify()[1]
    assert [path.name for path in upstream.place.glob(".upstream.lock*")] == []


def test_renewal_keeps_entries_that_are_gone_or_unreachable(upstream: Upstream) -> None:
    upstream.publish(PACKAGES.replace("Version: 580.1-1", "Version: 585.1-1"))
    upstream.lock["downloads"]["file"]["url"] = "https://127.0.0.1:1/file"
    status, output = upstream.verify("--write")
    assert status == 1
    assert "left as it was: small: driver 580.1-1 is not there" in output
    assert "left as it was: file: 127.0.0.1:1 can't be asked" in output
    written = upstream.written()
    assert written["dated"] == "2026-01-01", "not every server was asked"
    assert written["downloads"] == upstream.lock["downloads"]
    packages = upstream.lock["repositories"]["small"]["packages"]
    assert written["repositories"]["small"]["packages"]["driver"]["580.1-1"] == packages["driver"]["580.1-1"]
    assert set(written["sources"]) == {"told", "upstream"}
    assert "renewed, with its old date" in output


def test_with_an_invalid_lock_nothing_is_requested(upstream: Upstream) -> None:
    upstream.lock["images"] = {"pause": {"digest": None, "source": "told", "verified": None}}
    status, output = upstream.verify()
    assert status == 2
    assert "pause: reference" in output
    assert upstream.asked == []


def test_renewal_without_a_response_keeps_the_file(upstream: Upstream) -> None:
    text = render.render("# The head.\n", upstream.lock).replace(upstream.host, "127.0.0.1:1")
    upstream.path.write_text(text)
    status, output = upstream.verify("--write")
    assert status == 1
    assert output.endswith("left as it is, because nothing answered. Check the network, or the proxy (HTTPS_PROXY).\n")
    assert upstream.path.read_text() == text


def test_without_a_network_no_difference_is_reported_and_nothing_suggested(upstream: Upstream) -> None:
    upstream.path.write_text(render.render("# The head.\n", upstream.lock).replace(upstream.host, "127.0.0.1:1"))
    upstream.environ = {"GOPROXY": "https://127.0.0.1:1", "PIP_INDEX_URL": "https://127.0.0.1:1/simple"}
    status, output = upstream.verify()
    assert status == 1
    assert "differ" not in output and "WRITE=1" not in output and "None of" not in output
    assert output.endswith(
        "could not be compared, because nothing answered. Check the network, or the proxy (HTTPS_PROXY).\n"
    )
    assert "It is not known which of the table's versions are behind, because no registry could be asked." in output
    assert output.count("not known: ") == 1


@pytest.mark.parametrize(
    ("registries", "headline"),
    [
        (len(behind.COMPONENTS), "None of the table's versions is behind."),
        (4, "Versions of the table that are behind: 0 (6 of 10 components could not be asked)"),
        (0, "It is not known which of the table's versions are behind, because no registry could be asked."),
    ],
)
def test_being_up_to_date_is_only_reported_if_all_registries_responded(
    registries: int, headline: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    answering = [component.title for component in behind.COMPONENTS[:registries]]

    def releases(component: behind.Component, _web: Web) -> list[str]:
        if component.title not in answering:
            raise WebError("it can't be asked")
        return []

    monkeypatch.setattr(behind, "releases", releases)
    said: list[str] = []
    versions = yaml.safe_load(check.TABLE.read_text())["cluster_versions"] | {"nvidia_driver": {}}
    behind.ask(versions, Web(), said.append, tmp_path, today())
    assert said[0] == headline
    assert len(said) == 1 + (registries < len(behind.COMPONENTS))


def test_renewal_is_only_suggested_if_it_removes_a_difference(upstream: Upstream) -> None:
    upstream.publish(PACKAGES.replace("Version: 580.1-1", "Version: 585.1-1"))
    assert upstream.verify()[1].endswith("1 differ from upstream.lock (0 more could be learned).\n")
    upstream.images["pause:1"] = "sha256:" + "2" * 64
    assert upstream.verify()[1].endswith("2 differ from upstream.lock (0 more could be learned). WRITE=1 renews it.\n")


def test_a_server_that_refuses_connections_is_tried_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPULAB_UPSTREAM_PAUSE", "-1")
    web, tries = Web(timeout=5), []
    ask = web._get

    def counted(*of: Any) -> Any:
        tries.append(of)
        return ask(*of)

    monkeypatch.setattr(web, "_get", counted)
    for url in ("https://127.0.0.1:1/a", "https://127.0.0.1:1/b"):
        with pytest.raises(WebError, match=r"127\.0\.0\.1:1 can't be asked: "):
            web.get(url)
    assert len(tries) == 3


def test_with_a_read_only_lock_nothing_is_requested(upstream: Upstream) -> None:
    upstream.path.write_text(render.render("# The head.\n", upstream.lock))
    upstream.path.chmod(0o444)
    status, output = upstream.verify("--write")
    assert status == 2
    assert "the file or its directory is read-only. Make both writable" in output
    assert upstream.asked == []


@pytest.mark.parametrize("moment", ["ask", "replace"])
def test_an_interruption_leaves_the_file_unchanged_and_nothing_next_to_it(
    moment: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "upstream.lock"
    shutil.copyfile(reader.PATH, path)

    def interrupted(*_of: object) -> None:
        raise KeyboardInterrupt

    if moment == "replace":
        monkeypatch.setattr(verify.Verification, "ask", lambda *_of: None)
        monkeypatch.setattr(verify.Verification, "answered", lambda _self: True)
        monkeypatch.setattr(behind, "ask", lambda *_of: None)
    monkeypatch.setattr(verify.Verification if moment == "ask" else Path, moment, interrupted)
    assert program.main(["--lock", str(path), "--write"]) == 130
    assert capsys.readouterr().out == "Interrupted: upstream.lock was left as it is.\n"
    assert path.read_bytes() == reader.PATH.read_bytes()
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(("content", "cause"), [(None, "No such file"), ("no certificate", "it holds no certificate")])
def test_a_file_without_certificate_authorities_is_named(upstream: Upstream, content: str | None, cause: str) -> None:
    file = upstream.place / "ca.txt"
    if content is not None:
        file.write_text(content)
    status, output = upstream.verify("--ca", str(file))
    assert status == 2
    assert output.startswith(f"Error while reading the authorities in {file} (--ca): {cause}")
    assert output.endswith("Give a PEM file.\n")


@pytest.mark.parametrize("seconds", ["0", "-5", "nan", "inf", "x"])
def test_an_invalid_time_limit_is_an_error(upstream: Upstream, seconds: str) -> None:
    status, output = upstream.verify("--timeout", seconds)
    assert (status, upstream.asked) == (2, [])
    assert "--timeout" in output


def test_check_requests_nothing(upstream: Upstream) -> None:
    status, output = upstream.verify("--check")
    assert (status, upstream.asked) == (0, [])
    assert "warning: upstream.lock is of 2026-01-01" in output
    assert "make verify-upstream" in output


# --- outdated versions


def test_newer_releases_are_shown_with_the_lines_to_change(upstream: Upstream) -> None:
    upstream.files["/go/github.com/flannel-io/flannel/@v/list"] = b"v0.28.1\nv0.99.0\nv0.99.1-rc.1\nv1.x\n"
    upstream.files["/go/github.com/!n!v!i!d!i!a/k8s-device-plugin/@v/list"] = b"v0.99.0\n"
    upstream.files["/simple/wandb/"] = json.dumps({"versions": ["0.1.0", "99.0.0", "99.0.1rc1"]}).encode()
    status, output = upstream.verify()
    assert status == 0, "being behind is not a difference"
    assert "Versions of the table that are behind: 3 (7 of 10 components could not be asked)" in output
    versions = yaml.safe_load(check.TABLE.read_text())["cluster_versions"]
    assert f"flannel {versions['flannel']}: v0.99.0 is out\n" in output
    assert f"      roles/cluster/vars/main/versions.yml:{_line(versions['flannel'])}: flannel: " in output
    assert f"wandb {versions['wandb']}: 99.0.0 is out\n" in output
    assert f"NVIDIA device plugin {versions['nvidia_device_plugin']}: v0.99.0 is out; it stays, because " in output
    assert "not known: Kubernetes: https://" in output


@pytest.mark.parametrize("login", ["user:s3cret", "us%40er:s3cr%2Fet", "s3cret"])
def test_a_password_in_an_address_is_sent_but_not_printed(upstream: Upstream, login: str) -> None:
    upstream.environ = {
        "GOPROXY": f"https://{login}@{upstream.host}/go",
        "PIP_INDEX_URL": f"https://{login}@{upstream.host}/simple",
    }
    upstream.files["/go/github.com/flannel-io/flannel/@v/list"] = b"v0.99.0\n"
    upstream.files["/simple/wandb/"] = b"<html>no list</html>"
    output = upstream.verify()[1]
    assert "s3cr" not in output and "Traceback" not in output
    assert "v0.99.0 is out" in output
    assert f"not known: wandb: https://{upstream.host}/simple/wandb/ lists no versions" in output
    user, _colon, password = map(urllib.parse.unquote, login.partition(":"))
    expected = "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()
    assert upstream.logins["/simple/wandb/"] == expected
    assert upstream.logins["/go/github.com/flannel-io/flannel/@v/list"] == expected
    assert upstream.logins["/repo/InRelease"] == ""


@pytest.mark.parametrize(
    ("proxy", "said"),
    [
        ("https://[bad", "GOPROXY: https://[bad is not a valid address"),
        ("https://user:s3cret@[bad", "GOPROXY: https://[bad is not a valid address"),
        ("https://user:s3/cret@127.0.0.1:1", "GOPROXY holds an address with an @ after a slash"),
        ("https://user:s3#cret@127.0.0.1:1", "GOPROXY: https://127.0.0.1:1 is not a valid address"),
        ("https://", "GOPROXY holds https:, which is not an HTTPS address"),
        ("http://user:s3cret@127.0.0.1:1", "GOPROXY holds http://127.0.0.1:1, which is not an HTTPS address"),
        ("off", "GOPROXY names no module proxy"),
        ("direct", "GOPROXY names no module proxy"),
        (",|", "GOPROXY names no module proxy"),
        ("off,https://127.0.0.1:1", "GOPROXY names no module proxy"),
        ("https://127.0.0.1:1,https://127.0.0.1:2", "127.0.0.1:1 can't be asked"),
        ("https://127.0.0.1:1|https://127.0.0.1:2", "127.0.0.1:2 can't be asked"),
        ("https://127.0.0.1:1 | direct", "127.0.0.1:1 can't be asked"),
    ],
)
def test_a_go_proxy_that_cannot_be_reached_is_named(proxy: str, said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GOPROXY", proxy)
    monkeypatch.setenv("GPULAB_UPSTREAM_PAUSE", "0")
    with pytest.raises(WebError) as error:
        behind.releases(behind.COMPONENTS[0], Web(timeout=5))
    assert str(error.value).startswith(said)
    assert "s3" not in str(error.value)


def test_a_module_missing_on_a_go_proxy_is_requested_from_the_next_one(upstream: Upstream) -> None:
    upstream.environ = {"GOPROXY": f"https://{upstream.host}/none,https://{upstream.host}/go"}
    upstream.files["/go/github.com/flannel-io/flannel/@v/list"] = b"v0.99.0\n"
    assert "v0.99.0 is out" in upstream.verify()[1]


def _line(version: str) -> int:
    texts = check.TABLE.read_text().splitlines()
    return next(number for number, text in enumerate(texts, 1) if text == f"  flannel: {version}")


@pytest.mark.parametrize(
    ("key", "pinned", "released", "newest"),
    [
        ("kubernetes", {"1.35.8": {}, "1.36.4": {}}, ["v1.36.5", "v1.37.2", "v1.36.10", "v1.36.11-rc.0"], ["1.36.10"]),
        ("kubernetes", {"1.36.4": {}}, ["v1.37.0", "v1.36.4", "v1.36.3"], []),
        ("kubernetes", {"1.36.4": {}, "1.36.10": {}, "1.36.9": {}}, ["v1.36.10", "v1.36.9"], []),
        ("nvidia_container_toolkit", {"1.20.2": {}, "1.20.1": {}}, ["v1.20.2"], []),
        ("containerd", {"2.3.6": {}}, ["v2.4.2", "v2.3.7"], ["2.3.7"]),
        ("docker", {"29.8.2": {}}, ["v29.9.3+incompatible", "v29.9.3-rc.1+incompatible"], ["29.9.3"]),
        ("flannel", "v0.28.9", ["v0.28.10", "v0.28.2"], ["v0.28.10"]),
        ("flannel", "v0.28.9", [], []),
        ("wandb", "0.31.0", ["0.31.0", "0.31.1.dev1", "nonsense"], []),
    ],
)
def test_outdated_components_are_reported(key: str, pinned: Any, released: list[str], newest: list[str]) -> None:
    component = next(one for one in behind.COMPONENTS if one.key == key)
    assert [one.newest for one in behind.find(component, {key: pinned}, released)] == newest


@pytest.mark.parametrize(
    ("today", "said"),
    [
        ("2026-08-31", []),
        ("2026-09-01", ["NVIDIA driver 595.1: the support of branch 595 ends in 2027-03"]),
        ("2027-03-31", ["NVIDIA driver 595.1: the support of branch 595 ends in 2027-03"]),
        ("2027-04-01", ["NVIDIA driver 595.1: the support of branch 595 ended in 2027-03"]),
    ],
)
def test_drivers_whose_support_ends_are_reported(today: str, said: list[str]) -> None:
    drivers = {"580.1": {"branch": "580", "ends": "2028-06"}, "595.1": {"branch": "595", "ends": "2027-03"}}
    assert list(behind.ending(drivers, datetime.date.fromisoformat(today))) == said


def test_each_driver_has_its_end_of_support() -> None:
    for version, entry in yaml.safe_load(check.TABLE.read_text())["cluster_versions"]["nvidia_driver"].items():
        assert entry["support"] in ("long-term", "production", "new feature"), version
        assert re.fullmatch(r"20[0-9]{2}-(0[1-9]|1[0-2])", entry["ends"]), version


def test_each_component_is_in_the_version_table() -> None:
    versions = yaml.safe_load(check.TABLE.read_text())["cluster_versions"]
    for component in behind.COMPONENTS:
        pinned = versions[component.key]
        for version in [pinned] if isinstance(pinned, str) else pinned:
            assert behind.number_of(version), f"{component.title} {version}"


def test_only_lines_with_the_complete_version_are_listed(tmp_path: Path) -> None:
    (tmp_path / "roles").mkdir()
    (tmp_path / "docs/reference").mkdir(parents=True)
    (tmp_path / "roles/a.yml").write_text("a: v1.2.3\nb: 1.2.30\nc: 11.2.3\nd: 0.1.2.3\ne: 1.2.3-1.1\n")
    (tmp_path / "docs/reference/b.md").write_text("1.2.3")
    (tmp_path / "README.md").write_text("\n1.2.3.\n")
    assert list(behind.lines(tmp_path, "v1.2.3")) == [
        "roles/a.yml:1: a: v1.2.3",
        "roles/a.yml:5: e: 1.2.3-1.1",
        "README.md:2: 1.2.3.",
    ]
