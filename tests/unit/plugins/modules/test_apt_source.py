# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from ansible_collections.gpulab.kubernetes.plugins.module_utils._apt import source
from ansible_collections.gpulab.kubernetes.plugins.module_utils._apt.keyring import armored, public_keys
from first_run_record import recorded
from openpgp_keys import fingerprint, public_key

KEY = public_key(1)
URI = "http://depot.example/core:/v1.36/deb/"

# Downloads the index of the given source file, unless it should fail; every call is recorded.
APT_GET = r"""
import os, pathlib, sys
here = pathlib.Path("{directory}")
def uri_of(text):
    return [line.split()[1] for line in text.splitlines() if line.startswith("URIs")][0]
with (here / "calls").open("a") as calls:
    calls.write(" ".join(sys.argv[1:]) + "\n")
options = dict(word.split("=", 1) for word in sys.argv if "=" in word)
source = pathlib.Path(options["Dir::Etc::sourcelist"])
text = source.read_text()
key = [line.split()[1] for line in text.splitlines() if line.startswith("Signed-By")][0]
assert pathlib.Path(key).read_text().startswith("-----BEGIN PGP PUBLIC KEY BLOCK-----")
signed_by = here / "signed_by"
if signed_by.exists() and signed_by.read_text() not in pathlib.Path(key).read_text():
    print("Err:1 " + uri_of(text))
    print("E: GPG error: " + (here / "complaint").read_text(), file=sys.stderr)
    sys.exit(100)
if (here / "fail").exists():
    print("Err:1 " + (here / "fail").read_text())
    print("E: " + (here / "fail").read_text(), file=sys.stderr)
    sys.exit(100)
name = uri_of(text).split("://")[1].replace("/", "_") + "InRelease"
(pathlib.Path(options["Dir::State::lists"]) / name).write_text("signed")
"""

Apply = Callable[..., dict[str, Any]]


class Host:
    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.etc = directory / "etc/apt"
        self.lists = directory / "lists"
        self.source = self.etc / "sources.list.d/test.sources"
        self.key = self.etc / "keyrings/test.asc"
        (self.etc / "sources.list.d").mkdir(parents=True)
        self.lists.mkdir()
        (directory / "key.gpg").write_bytes(KEY)

    def files(self) -> dict[str, str]:
        return {str(path.relative_to(self.etc)): path.read_text() for path in self.etc.rglob("*") if path.is_file()}

    def serve(self, data: bytes) -> None:
        (self.directory / "key.gpg").write_bytes(data)

    def sign(self, data: bytes, complaint: str) -> None:
        """Let this key sign the index from now on; for any other key, apt prints this message."""
        text = armored(data).splitlines()[2]
        (self.directory / "signed_by").write_text(text)
        (self.directory / "complaint").write_text(complaint)

    def calls(self) -> list[str]:
        calls = self.directory / "calls"
        return calls.read_text().splitlines() if calls.exists() else []


@pytest.fixture
def host(tmp_path: Path, programs: Any) -> Host:
    host = Host(tmp_path)
    programs.python("apt-get", APT_GET.replace("{directory}", str(tmp_path)))
    return host


@pytest.fixture
def apply(run_module: Any, host: Host) -> Apply:
    def call(check: bool = False, **options: Any) -> dict[str, Any]:
        args = {
            "name": "test",
            "uris": URI,
            "key_url": f"file://{host.directory}/key.gpg",
            "etc_dir": str(host.etc),
            "lists_dir": str(host.lists),
            **options,
        }
        result: dict[str, Any] = run_module("apt_source", args, check=check)
        return result

    return call


def test_a_source_is_added_to_a_bare_host_and_a_second_run_changes_nothing(apply: Apply, host: Host) -> None:
    result = apply()
    assert result["changed"] and result["refreshed"]
    assert host.source.read_text().splitlines()[2:] == [
        "Types: deb",
        f"URIs: {URI}",
        "Suites: /",
        "Architectures: amd64",
        f"Signed-By: {host.key}",
    ]
    assert [path.stat().st_mode & 0o777 for path in (host.source, host.key)] == [0o644, 0o644]
    (call,) = host.calls()
    assert f"Dir::Etc::sourcelist={host.source}" in call and "Dir::Etc::sourceparts=-" in call
    assert "APT::Get::List-Cleanup=0" in call

    (host.directory / "key.gpg").unlink()
    again = apply()
    assert not again["failed"] and not again["changed"], "neither the key nor the index is fetched again"
    assert len(host.calls()) == 1


def test_with_a_private_umask_apt_can_still_read_the_files(apply: Apply, host: Host) -> None:
    old = os.umask(0o077)
    try:
        apply()
    finally:
        os.umask(old)
    assert host.key.stat().st_mode & 0o777 == 0o644
    assert host.key.parent.stat().st_mode & 0o777 == 0o755


def test_check_mode_predicts_the_same_files_and_changes_nothing(apply: Apply, host: Host) -> None:
    foretold = apply(check=True)
    assert foretold["changed"] and host.files() == {} and host.calls() == []
    real = apply()
    assert [entry["after"] for entry in foretold["diff"]] == [entry["after"] for entry in real["diff"]]
    assert foretold["diff"][0]["after"] == host.source.read_text()
    assert not apply(check=True)["changed"]


@pytest.mark.parametrize("gone", ["key", "index", "mode", "source mode"])
def test_missing_files_are_restored(apply: Apply, host: Host, gone: str) -> None:
    apply()
    before = host.files()
    if gone == "key":
        host.key.unlink()
    elif gone == "index":
        next(host.lists.iterdir()).unlink()
    else:
        (host.key if gone == "mode" else host.source).chmod(0o600)
    assert apply(check=True)["changed"]
    assert apply()["changed"]
    assert host.files() == before and host.key.stat().st_mode & 0o777 == 0o644
    assert not apply()["changed"]


def test_a_changed_key_url_downloads_the_key(apply: Apply, host: Host) -> None:
    apply()
    (host.directory / "new.gpg").write_bytes(public_key(2))
    before = host.key.read_text()
    assert apply(key_url=f"file://{host.directory}/new.gpg")["changed"]
    assert host.key.read_text() != before


def test_suites_and_components_are_written(apply: Apply, host: Host) -> None:
    apply(uris="http://h/debian", suites=["bookworm"], components=["stable", "test"])
    assert "Suites: bookworm\nComponents: stable test\n" in host.source.read_text()


@pytest.mark.parametrize("first", [True, False])
def test_a_failed_update_restores_everything(apply: Apply, host: Host, first: bool) -> None:
    if not first:
        apply()
    before = host.files()
    (host.directory / "fail").write_text("The repository 'http://depot.example' is not signed.")
    result = apply(uris="http://depot.example/other/")
    assert result["failed"]
    assert "The repository 'http://depot.example' is not signed." in result["msg"]
    assert "http://depot.example/other/" in result["msg"]
    assert host.files() == before


@pytest.mark.parametrize(
    ("content", "words"),
    [(b"<html>proxy says no</html>", "begins with '<html>proxy"), (None, "No such file")],
)
def test_an_invalid_key_changes_nothing(apply: Apply, host: Host, content: bytes | None, words: str) -> None:
    key = host.directory / "key.gpg"
    key.unlink() if content is None else key.write_bytes(content)
    result = apply()
    assert result["failed"] and words in result["msg"] and str(key) in result["msg"]
    assert host.files() == {}


ONE_LINE = (
    "# mine\ndeb [signed-by=/usr/share/keyrings/k8s.gpg] http://depot.example/core:/v1.36/deb /\ndeb http://d/ x main\n"
)
STANZA = f"Types: deb\nURIs: http://d/\nSuites: x\n\nTypes: deb\nURIs: {URI}\nSuites: ./\nSigned-By: /k.gpg\n"


@pytest.mark.parametrize(
    ("file", "text", "line"),
    [
        ("sources.list", ONE_LINE, 2),
        ("sources.list.d/kubernetes.list", ONE_LINE, 2),
        ("sources.list.d/kubernetes.sources", STANZA, 5),
        ("sources.list.d/test.sources", STANZA, 1),
    ],
)
def test_a_conflict_names_file_and_line(apply: Apply, host: Host, file: str, text: str, line: int) -> None:
    (host.etc / file).write_text(text)
    for check in (True, False):
        result = apply(check=check)
        assert result["failed"]
        assert f"{host.etc / file} line {line}" in result["msg"]
        assert "replace_conflicting" in result["msg"]
    assert host.files() == {file: text}


@pytest.mark.parametrize("file", ["sources.list", "sources.list.d/a.list", "sources.list.d/a.sources"])
def test_a_conflicting_source_is_disabled_on_request(apply: Apply, host: Host, file: str) -> None:
    text = STANZA if file.endswith("sources") else ONE_LINE
    (host.etc / file).write_text(text)
    result = apply(replace_conflicting=True)
    assert result["changed"] and result["disabled"] == [str(host.etc / file)]
    after = (host.etc / file).read_text()
    assert "http://d/" in after and all(line.startswith("#") for line in after.splitlines() if "depot.example" in line)
    assert not apply()["changed"]


def test_the_files_of_a_source_are_recorded_as_they_were(apply: Apply, host: Host) -> None:
    other = host.etc / "sources.list"
    other.write_text(ONE_LINE)
    apply(check=True, replace_conflicting=True)
    assert recorded(host.directory) == {}
    apply(replace_conflicting=True)
    found = recorded(host.directory)
    assert found.pop("/etc/apt/sources.list")["sha256"] == hashlib.sha256(ONE_LINE.encode()).hexdigest()
    assert found == {"/etc/apt/sources.list.d/test.sources": None, "/etc/apt/keyrings/test.asc": None}
    (copy,) = host.directory.rglob("files/etc/apt/sources.list")
    assert copy.read_text() == ONE_LINE


def test_disabling_an_entry_keeps_all_other_bytes(apply: Apply, host: Host) -> None:
    before = b"# caf\xe9 \xff\xfe\r\n" + ONE_LINE.encode() + b"deb http://m\xfcnchen.example/ /\n"
    (host.etc / "sources.list").write_bytes(before)
    assert apply(replace_conflicting=True)["changed"]
    after = (host.etc / "sources.list").read_bytes()
    assert b"# deb " in after
    note = next(line for line in after.splitlines(keepends=True) if b"Disabled by" in line)
    assert after.replace(note, b"").replace(b"# deb ", b"deb ") == before


def test_a_failed_update_enables_the_conflicting_source_again(apply: Apply, host: Host) -> None:
    (host.etc / "sources.list").write_text(ONE_LINE)
    (host.directory / "fail").write_text("404")
    assert apply(replace_conflicting=True)["failed"]
    assert host.files() == {"sources.list": ONE_LINE}


def test_an_entry_with_further_addresses_is_not_disabled(apply: Apply, host: Host) -> None:
    text = f"Types: deb\nURIs: {URI} http://other/\nSuites: /\n"
    (host.etc / "sources.list.d/a.sources").write_text(text)
    result = apply(replace_conflicting=True)
    assert result["failed"] and "other addresses" in result["msg"]
    assert host.files() == {"sources.list.d/a.sources": text}


def test_similar_sources_without_a_conflict_are_ignored(apply: Apply, host: Host) -> None:
    (host.etc / "sources.list").write_text(f"# deb {URI} /\ndeb http://depot.example/core:/v1.35/deb/ /\n")
    (host.etc / "sources.list.d/off.sources").write_text(f"Types: deb\nURIs: {URI}\nSuites: /\nEnabled: no\n")
    (host.etc / "sources.list.d/x.list.save").write_text(f"deb {URI} /\n")
    assert not apply()["failed"]


def test_an_absent_source_is_removed(apply: Apply, host: Host) -> None:
    apply()
    assert apply(check=True, state="absent")["changed"]
    assert apply(state="absent")["changed"]
    assert host.files() == {}
    assert not apply(state="absent")["changed"]


def spaced(text: str) -> str:
    return " ".join(text[start : start + 4] for start in range(0, 40, 4)).lower()


def test_the_pinned_key_is_accepted(apply: Apply, host: Host) -> None:
    result = apply(key_fingerprints=[fingerprint(9), spaced(fingerprint(1))])
    assert result["changed"] and result["key_fingerprints"] == [fingerprint(1)] and result["key_expires"] is None
    assert not apply(key_fingerprints=[fingerprint(1)])["changed"]


@pytest.mark.parametrize("check", [True, False])
@pytest.mark.parametrize("url", ["http://depot.example/key.gpg", "HTTP://depot.example/key.gpg"])
def test_without_a_fingerprint_no_key_is_accepted_from_an_unencrypted_address(
    apply: Apply, host: Host, url: str, check: bool
) -> None:
    apply()
    before = host.files()
    result = apply(check=check, key_url=url)
    assert result["failed"] and host.files() == before
    assert f"key_fingerprints is empty, and {url} is not encrypted" in result["msg"] and "https" in result["msg"]
    assert not apply(check=True, key_url=url, key_fingerprints=[fingerprint(1)])["failed"]
    assert not apply(check=True, key_url=url, state="absent")["failed"]


def test_a_key_without_a_fingerprint_is_a_warning(apply: Apply) -> None:
    (warning,) = apply(check=True, key_url="https://depot.example/key.gpg")["warnings"]
    assert "any key at https://depot.example/key.gpg is accepted" in str(warning)
    pinned = apply(check=True, key_url="https://depot.example/key.gpg", key_fingerprints=[fingerprint(1)])
    assert not pinned.get("warnings") and not apply().get("warnings")


def test_another_key_is_refused_before_anything_is_written(apply: Apply, host: Host) -> None:
    result = apply(key_fingerprints=[fingerprint(2), fingerprint(3)])
    assert result["failed"] and host.files() == {} and host.calls() == []
    assert result["msg"].startswith(
        f"Error while fetching the key of the apt source test from file://{host.directory}/key.gpg: its fingerprint is "
        f"{fingerprint(1)}, expected {fingerprint(2)} or {fingerprint(3)}. "
    )


@pytest.mark.parametrize("pin", ["", "DE15B144", "Z" * 40, "A" * 64])
def test_an_invalid_fingerprint_is_an_error_of_the_argument(apply: Apply, host: Host, pin: str) -> None:
    for check in (True, False):
        result = apply(check=check, key_fingerprints=[pin])
        assert result["failed"] and "key_fingerprints" in result["msg"] and "40 hex digits" in result["msg"]
    assert host.files() == {}


def test_only_the_pinned_key_of_several_is_kept(apply: Apply, host: Host) -> None:
    host.serve(public_key(1) + public_key(2))
    assert apply()["key_fingerprints"] == [fingerprint(1), fingerprint(2)]
    assert apply(check=True, key_fingerprints=[fingerprint(2)])["changed"]
    assert apply(key_fingerprints=[fingerprint(2)])["key_fingerprints"] == [fingerprint(2)]
    assert [key.fingerprint for key in public_keys(host.key.read_bytes())] == [fingerprint(2)]
    assert not apply(key_fingerprints=[fingerprint(2)])["changed"]


def test_an_expired_key_is_refused(apply: Apply, host: Host) -> None:
    host.serve(public_key(1, days_left=-1))
    result = apply()
    assert result["failed"] and host.files() == {}
    assert f"file://{host.directory}/key.gpg: it expired on 20" in result["msg"] and "clock" in result["msg"]


@pytest.mark.parametrize("days_left", [-1, 59])
def test_a_key_that_expires_soon_is_renewed(apply: Apply, host: Host, days_left: int) -> None:
    apply()
    host.key.write_text(armored(public_key(1, days_left)))
    host.key.chmod(0o644)
    host.serve(public_key(1, days_left=400))
    assert apply(check=True, key_fingerprints=[fingerprint(1)])["changed"]
    result = apply(key_fingerprints=[fingerprint(1)])
    assert result["changed"] and result["refreshed"] and not result.get("warnings")
    assert host.key.read_text() == armored(public_key(1, days_left=400))
    assert len(host.calls()) == 2
    assert not apply(key_fingerprints=[fingerprint(1)])["changed"]


def test_a_key_that_expires_later_is_not_renewed(apply: Apply, host: Host) -> None:
    host.serve(public_key(1, days_left=61))
    apply()
    (host.directory / "key.gpg").unlink()
    again = apply()
    assert not again["changed"] and not again.get("warnings")


@pytest.mark.parametrize(
    ("served", "words"),
    [
        (public_key(1, days_left=20), "has no renewed key yet"),
        (public_key(2, days_left=400), f"its fingerprint is {fingerprint(2)}"),
        (b"<html>", "it begins with"),
        (None, "No such file"),
    ],
)
def test_a_key_that_cannot_be_renewed_yet_is_a_warning(
    apply: Apply, host: Host, served: bytes | None, words: str
) -> None:
    host.serve(public_key(1, days_left=20))
    expires = apply()["key_expires"]
    (host.directory / "key.gpg").unlink() if served is None else host.serve(served)
    before = host.files()
    result = apply(key_fingerprints=[fingerprint(1)])
    assert not result["failed"] and not result["changed"] and result["key_expires"] == expires
    (warning,) = result["warnings"]
    # A text, or a dictionary in newer versions of Ansible.
    assert f"The key of the apt source test expires on {expires}, " in str(warning) and words in str(warning)
    assert host.files() == before and len(host.calls()) == 1


def test_a_key_that_cannot_be_renewed_is_reported_30_days_before_it_expires(apply: Apply, host: Host) -> None:
    host.serve(public_key(1, days_left=40))
    apply()
    assert not apply().get("warnings")


def test_a_stored_key_that_has_expired_and_cannot_be_renewed_is_an_error(apply: Apply, host: Host) -> None:
    apply()
    host.key.write_text(armored(public_key(1, days_left=-1)))
    host.key.chmod(0o644)
    host.serve(public_key(1, days_left=-1))
    result = apply()
    assert result["failed"] and "it expired on" in result["msg"]


@pytest.mark.parametrize(
    "complaint",
    [
        "The following signatures were invalid: EXPKEYSIG 234654DA9A296436 isv:kubernetes",
        "The following signatures couldn't be verified because the public key is not available: NO_PUBKEY 234654DA",
        "Sub-process /usr/bin/sqv returned an error code (1), error message is: Missing key DE15B14486CD377B9E876E1A",
    ],
)
def test_an_index_signed_by_another_key_makes_the_key_be_downloaded_again(
    apply: Apply, host: Host, complaint: str
) -> None:
    apply()
    next(host.lists.iterdir()).unlink()
    host.sign(public_key(2), complaint)
    host.serve(public_key(2))
    pins = [fingerprint(1), fingerprint(2)]
    result = apply(key_fingerprints=pins)
    assert result["changed"] and result["key_fingerprints"] == [fingerprint(2)]
    assert len(host.calls()) == 3
    assert not apply(key_fingerprints=pins)["changed"]


def test_an_index_signed_by_an_unknown_key_is_an_error(apply: Apply, host: Host) -> None:
    apply()
    next(host.lists.iterdir()).unlink()
    before = host.files()
    host.sign(public_key(2), "NO_PUBKEY 234654DA9A296436")
    result = apply()
    assert result["failed"] and "NO_PUBKEY" in result["msg"] and "still has the key that is stored" in result["msg"]
    host.serve(public_key(3))
    result = apply()
    assert result["failed"] and "NO_PUBKEY" in result["msg"]
    assert host.files() == before, "a key that does not help is not kept"


CREDENTIALS = [{"machine": "http://depot.example", "username": "ci", "password": "S3CRET-1"}]
OTHERS = [{**CREDENTIALS[0], "password": "S3CRET-2"}]
TEXT = "machine http://depot.example login ci password S3CRET-"


def test_credentials_are_written_changed_and_removed_and_never_shown(apply: Apply, host: Host) -> None:
    file = host.etc / "auth.conf.d/90gpulab.conf"
    for wanted, text in ((CREDENTIALS, f"{TEXT}1\n"), (OTHERS, f"{TEXT}2\n"), (None, f"{TEXT}2\n"), ([], "")):
        predicted = apply(check=True, credentials=wanted)
        result = apply(credentials=wanted)
        assert predicted["changed"] == result["changed"] == (wanted is not None)
        assert predicted["diff"] == result["diff"] and result["disabled"] == []
        assert "S3CRET" not in str([predicted, result])
        assert file.exists() == bool(text)
        if text:
            assert file.read_text().splitlines(keepends=True)[1:] == [text]
            assert file.stat().st_mode & 0o777 == 0o600
        assert not apply(credentials=wanted)["changed"]


def test_credentials_that_everyone_can_read_become_private(apply: Apply, host: Host) -> None:
    apply(credentials=CREDENTIALS)
    file = host.etc / "auth.conf.d/90gpulab.conf"
    file.chmod(0o644)
    assert apply(credentials=CREDENTIALS)["changed"] and file.stat().st_mode & 0o777 == 0o600


def test_credentials_that_the_server_refuses_are_restored(apply: Apply, host: Host) -> None:
    apply(credentials=CREDENTIALS)
    before = host.files()
    (host.directory / "fail").write_text("401 Unauthorized")
    assert "401" in apply(credentials=OTHERS)["msg"]
    assert host.files() == before
    assert (host.etc / "auth.conf.d/90gpulab.conf").stat().st_mode & 0o777 == 0o600


def test_the_password_in_an_unmanaged_source_is_not_shown(apply: Apply, host: Host) -> None:
    (host.etc / "sources.list").write_text(f"deb {URI} /\ndeb https://me:S3CRET@mirror.example/debs /\n")
    result = apply(replace_conflicting=True)
    assert result["changed"] and "S3CRET" not in str(result)


def test_a_source_is_written_after_its_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run that is killed in between leaves no source that apt refuses."""
    written: list[Path] = []
    monkeypatch.setattr(source, "put_file", lambda path, *_more: written.append(path))
    wanted = source.Wanted("test", etc=tmp_path)
    source.apply(wanted, source.Plan(files={wanted.path: b"", wanted.key_path: b""}), Mock(), 0, Mock())
    assert written == [wanted.key_path, wanted.path]
