"""Signed repositories: apt accepts them from a directory, and all checksums are correct."""

from __future__ import annotations

import gzip
import hashlib
import shutil
import subprocess
from pathlib import Path

import pytest

from lab.depot import apt, deb, signing
from upstream.lock import Key

tools = ("gpg", "gpgv", "gpgconf")
pytestmark = pytest.mark.skipif(not all(map(shutil.which, tools)), reason="GnuPG signs the repositories")


KEY = Key("https://upstream.example/gpg", "A" * 40, "never", "test", None)


@pytest.fixture(scope="module")
def key(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cache with a key, created only once because that takes a while."""
    with pytest.MonkeyPatch.context() as patch:
        directory = tmp_path_factory.mktemp("cache")
        patch.setenv("GPULAB_CACHE", str(directory))
        signing.make(KEY)
    return directory


@pytest.fixture
def debs(key: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Create two packages, and use the cache with the key."""
    monkeypatch.setenv("GPULAB_CACHE", str(key))
    return [deb.make(name, "1.0-1", out=key / "debs", files={f"/{name}": name}) for name in ("one", "two")]


def verified(root: Path) -> bool:
    """Return whether both signatures of a Release file are the depot's."""
    argv = ["gpgv", "--keyring", str(signing.binary(KEY))]
    inline = subprocess.run([*argv, root / "InRelease"], capture_output=True, check=False)
    detached = subprocess.run([*argv, root / "Release.gpg", root / "Release"], capture_output=True, check=False)
    return inline.returncode == detached.returncode == 0


def update(source: str, root: Path) -> subprocess.CompletedProcess[str]:
    """Run apt-get update with one source and without this machine's own configuration."""
    for name in ("lists/partial", "cache/archives/partial", "etc/preferences.d", "etc/trusted.gpg.d"):
        (root / name).mkdir(parents=True)
    (root / "status").write_text("")
    (root / "sources.list").write_text(source)
    settings = {
        "Dir::Etc": root / "etc",
        "Dir::Etc::SourceList": root / "sources.list",
        "Dir::Etc::SourceParts": "-",
        "Dir::State::Lists": root / "lists",
        "Dir::State::Status": root / "status",
        "Dir::Cache": root / "cache",
        "APT::Architecture": "amd64",
        "APT::Sandbox::User": "root",
    }
    options = [f"-o{name}={value}" for name, value in settings.items()]
    done = subprocess.run(["apt-get", *options, "update", "-qq"], capture_output=True, text=True, check=False)
    if done.returncode:
        return done
    argv = ["apt-cache", *options, "madison", "one", "two"]
    return subprocess.run(argv, capture_output=True, text=True, check=False)


def test_the_private_key_is_only_readable_by_its_owner(debs: list[Path]) -> None:
    assert signing.directory(KEY).stat().st_mode & 0o077 == 0
    assert (signing.directory(KEY) / "secret.asc").stat().st_mode & 0o077 == 0
    assert signing.armored(KEY).read_text().startswith("-----BEGIN PGP PUBLIC KEY BLOCK-----")


def test_checksums_and_sizes_are_correct(debs: list[Path], key: Path) -> None:
    root = key / "flat"
    with signing.loaded(KEY) as signer:
        apt.write_flat(root, debs, signer, about={"Label": "Test"}, below="amd64")

    release = (root / "Release").read_text()
    for name in ("Packages", "Packages.gz"):
        data = (root / name).read_bytes()
        assert f" {hashlib.sha256(data).hexdigest()} {len(data)} {name}\n" in release
    assert gzip.decompress((root / "Packages.gz").read_bytes()) == (root / "Packages").read_bytes()
    for stanza in (root / "Packages").read_text().split("\n\n"):
        fields = dict(line.split(": ", 1) for line in stanza.strip().splitlines())
        data = (root / fields["Filename"]).read_bytes()
        assert fields["SHA256"] == hashlib.sha256(data).hexdigest()
        assert int(fields["Size"]) == len(data)
    assert verified(root)


def test_a_changed_release_file_is_not_verified(debs: list[Path], key: Path) -> None:
    root = key / "changed"
    with signing.loaded(KEY) as signer:
        apt.write_flat(root, debs, signer, about={"Label": "Test"})
    release = root / "Release"
    release.write_text(release.read_text().replace("Label: Test", "Label: Best"))

    assert not verified(root)


@pytest.mark.skipif(shutil.which("apt-get") is None, reason="apt reads the repositories")
@pytest.mark.parametrize("layout", ["flat", "suites"])
def test_apt_accepts_the_repository(debs: list[Path], tmp_path: Path, layout: str) -> None:
    root = tmp_path / "repository"
    with signing.loaded(KEY) as signer:
        if layout == "flat":
            apt.write_flat(root, debs, signer, about={"Label": "Test"}, below="amd64")
        else:
            apt.write_suite(root, "bookworm", "stable", debs, signer, about={"Label": "Test"})
    release = root / "Release" if layout == "flat" else root / "dists/bookworm/Release"
    assert "Label: Test\n" in release.read_text()
    place = "/" if layout == "flat" else "bookworm stable"
    said = update(f"deb [signed-by={signing.armored(KEY)}] copy:{root} {place}\n", tmp_path / "apt")

    assert said.returncode == 0, said.stderr
    assert [line.split("|")[0].strip() for line in said.stdout.splitlines()] == ["one", "two"]


@pytest.mark.skipif(shutil.which("apt-get") is None, reason="apt reads the repositories")
def test_apt_refuses_a_manipulated_repository(debs: list[Path], tmp_path: Path) -> None:
    root = tmp_path / "repository"
    with signing.loaded(KEY) as signer:
        apt.write_flat(root, debs, signer, about={"Label": "Test"})
    inline = root / "InRelease"
    inline.write_text(inline.read_text().replace("Label: Test", "Label: Best"))
    said = update(f"deb [signed-by={signing.armored(KEY)}] copy:{root} /\n", tmp_path / "apt")

    assert said.returncode != 0
    assert "BADSIG" in said.stderr or "not signed" in said.stderr or "invalid" in said.stderr


def test_a_file_that_is_not_a_package_is_named(tmp_path: Path) -> None:
    (tmp_path / "x.deb").write_text("hello")
    with pytest.raises(ValueError, match=r"x\.deb: this is no Debian package"):
        apt.control(tmp_path / "x.deb")
