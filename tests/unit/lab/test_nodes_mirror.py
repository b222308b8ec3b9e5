"""Finding Debian's mirror in real-world apt configurations."""

from __future__ import annotations

import functools
import http.server
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from lab.depot.debian import MIRROR_VARIABLE
from lab.nodes import mirror
from lab.nodes.errors import LabError
from lab.nodes.mirror import Mirror, Source


@pytest.fixture(autouse=True)
def _nothing_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(MIRROR_VARIABLE, raising=False)
    monkeypatch.setattr(mirror, "proxy", lambda: "")


@pytest.fixture
def apt(tmp_path: Path) -> Path:
    (tmp_path / "sources.list.d").mkdir()
    return tmp_path


def test_deb822_sources_with_comments_folded_lines_and_a_disabled_stanza_are_read(apt: Path) -> None:
    (apt / "sources.list.d" / "debian.sources").write_text(
        """# written by the installer
Types: deb deb-src
# another comment
URIs: http://mirror.example/debian/
Suites: bookworm
 bookworm-updates
Components: main
 contrib
Signed-By:
 -----BEGIN PGP PUBLIC KEY BLOCK-----
 .
 abc

Enabled: no
Types: deb
URIs: http://other.example/debian
Suites: bookworm
Components: main

Types: deb
URIs: http://mirror.example/debian-security
Suites: bookworm-security
Components: main
"""
    )
    assert list(mirror.sources(apt))[:2] == [
        Source("http://mirror.example/debian", "bookworm", ("main", "contrib")),
        Source("http://mirror.example/debian", "bookworm-updates", ("main", "contrib")),
    ]
    assert mirror.find(apt=apt) == Mirror("http://mirror.example/debian", "http://mirror.example/debian-security")


def test_one_line_sources_with_options_and_third_party_repositories_are_read(apt: Path) -> None:
    (apt / "sources.list").write_text(
        """
# deb http://commented.example/debian bookworm main
deb cdrom:[Debian GNU/Linux 12]/ bookworm main
deb-src http://src.example/debian bookworm main
deb [arch=amd64 signed-by=/usr/share/keyrings/k.gpg] https://mirror.example/pub/debian trixie main contrib # ours
deb http://security.example/debian-security trixie-security main
"""
    )
    (apt / "sources.list.d" / "aaa.list").write_text("deb https://download.docker.com/linux/debian bookworm stable\n")
    assert mirror.find(apt=apt) == Mirror(
        "https://mirror.example/pub/debian", "http://security.example/debian-security"
    )


def test_on_ubuntu_the_error_names_the_option(apt: Path) -> None:
    (apt / "sources.list").write_text("deb http://archive.example/ubuntu noble main universe\n")
    with pytest.raises(LabError, match="--debian-mirror URL"):
        mirror.find(apt=apt)


def test_the_option_must_be_an_http_address(apt: Path) -> None:
    with pytest.raises(LabError, match="must be an http or https address"):
        mirror.find("mirror.example/debian", apt)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[str]:
    root = tmp_path / "served"
    (root / "debian-security/dists/trixie-security").mkdir(parents=True)
    (root / "debian-security/dists/trixie-security/InRelease").touch()

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            pass

    served = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=str(root)))
    threading.Thread(target=served.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{served.server_port}"
    served.shutdown()


def test_the_security_archive_comes_from_the_chosen_mirror_if_it_has_one(server: str, apt: Path) -> None:
    assert mirror.find(f"{server}/debian/", apt) == Mirror(f"{server}/debian", f"{server}/debian-security")


def test_without_a_security_archive_no_source_is_written_for_it(server: str, apt: Path) -> None:
    found = mirror.find(f"{server}/elsewhere/debian", apt)
    assert found == Mirror(f"{server}/elsewhere/debian")
    assert "security" not in found.sources("trixie")


def test_the_environment_variable_selects_the_mirror_like_the_option(
    monkeypatch: pytest.MonkeyPatch, server: str, apt: Path
) -> None:
    monkeypatch.setenv(MIRROR_VARIABLE, f"{server}/debian")
    assert mirror.find(apt=apt).archive == f"{server}/debian"
