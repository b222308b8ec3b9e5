"""The depot follows upstream.lock: packages, relations, addresses, and one key per repository."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pytest

from lab import depot, paths
from lab.depot import apt, catalog, repositories, signing
from lab.depot.cache import DepotError
from lab.depot.catalog import Deb
from lab.depot.content import Filling
from upstream.lock import RELATIONS, Key, Package, Repository, load

pytestmark = pytest.mark.skipif(not all(map(shutil.which, ("gpg", "gpgconf"))), reason="GnuPG signs the repositories")

KUBERNETES = ["1.35.8", "1.36.4", "1.37.1"]
REPOSITORIES = list(load().repositories.values())
TODAY = date(2026, 11, 22)


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cache with small keys for the whole lock, created once."""
    with pytest.MonkeyPatch.context() as patch:
        directory = tmp_path_factory.mktemp("cache")
        patch.setenv("GPULAB_CACHE", str(directory))
        patch.setattr(signing, "ALGORITHM", "rsa2048")
        for key in signing.distinct(repository.key for repository in REPOSITORIES):
            signing.make(key)
    return directory


@pytest.fixture
def cached(keys: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("GPULAB_CACHE", str(keys))
    monkeypatch.setattr(signing, "ALGORITHM", "rsa2048")
    return keys


def hollow(found: Deb) -> Deb:
    """Write a package without files, because programs are not built in these tests."""
    return replace(found, content=replace(found.content, fill=Filling, key=f"hollow {found.content.key}"))


def held(repository: Repository) -> list[Deb]:
    found = [hollow(each) for each in catalog.debs([repository], KUBERNETES)[repository.name]]
    for each in found:
        each.pack()
    return found


def written(*wanted: Repository) -> Path:
    """Write repositories and return the served directory."""
    for site in repositories.sites(wanted, {each.name: held(each) for each in wanted}):
        site.build()
    return paths.www()


def stanzas(path: Path) -> list[dict[str, str]]:
    return [dict(re.findall(r"^(\S+): (.*)$", text, re.MULTILINE)) for text in path.read_text().split("\n\n") if text]


def fields(path: Path) -> dict[str, str]:
    return dict(re.findall(r"^(\S+): (.*)$", apt.control(path), re.MULTILINE))


def without_virtual(text: str) -> str:
    return ", ".join(part for part in text.split(", ") if part and not part.startswith("nvidia-simulated-"))


@pytest.mark.parametrize("repository", REPOSITORIES, ids=lambda each: each.name)
def test_packages_and_relations_are_those_of_the_lock(cached: Path, repository: Repository) -> None:
    found = held(repository)
    for each in found:
        control = fields(each.path)
        entry = each.entry
        assert (control["Package"], control["Version"]) == (entry.name, entry.version)
        assert control["Architecture"] == entry.architecture
        titles = {name: name.title().replace("_", "-") for name in RELATIONS}
        relations = {name: without_virtual(control.get(title, "")) for name, title in titles.items()}
        assert relations == {name: entry.relations.get(name, "") for name in RELATIONS}, entry.name
    names = {each.entry.name for each in found}
    assert names == {entry.name for entry in repository.packages}, "every name of the lock has at least one version"


@pytest.mark.parametrize("repository", REPOSITORIES, ids=lambda each: each.name)
def test_each_repository_has_one_key_under_its_own_name(cached: Path, repository: Repository) -> None:
    root = written(repository)
    place = root / repository.key.url.partition("://")[2]
    site = repositories.sites([repository], {repository.name: []})[0]
    found = [
        path
        for path in (root / site.below).rglob("*")
        if path.is_file() and path.read_bytes().startswith(b"-----BEGIN PGP PUBLIC KEY BLOCK")
    ]
    assert found == [place]
    assert place.read_text() == signing.public(repository.key)
    index = root / repository.url.partition("://")[2] / ("" if repository.suite == "/" else f"dists/{repository.suite}")
    argv: list[str | Path] = ["gpgv", "--keyring", signing.binary(repository.key), index / "InRelease"]
    assert subprocess.run(argv, capture_output=True, check=False).returncode == 0
    for field, value in repository.release.items():
        assert f"{field}: {value}\n" in (index / "Release").read_text()


def test_repositories_with_the_same_upstream_key_share_a_key(cached: Path) -> None:
    found = depot.contents().fingerprints
    assert set(found) == {repository.name for repository in REPOSITORIES}
    same: dict[str, set[str]] = {}
    for repository in REPOSITORIES:
        same.setdefault(repository.key.fingerprint, set()).add(found[repository.name])
    assert all(len(own) == 1 for own in same.values())
    assert len(set.union(*same.values())) == len(same) >= 6
    assert not set.union(*same.values()) & set(same), "the depot's keys are not upstream's"


def cuda() -> Repository:
    return load().repositories["cuda-ubuntu2604"]


def test_a_changed_key_file_in_the_lock_changes_the_path_in_the_depot(cached: Path) -> None:
    before = written(cuda())
    directory = before / "developer.download.nvidia.com/compute/cuda/repos/ubuntu2604/x86_64"
    assert [path.name for path in directory.glob("*.pub")] == ["60DF8A40.pub"]
    changed = replace(cuda(), key=replace(cuda().key, url=cuda().key.url.replace("60DF8A40", "12345678")))
    found = {each.name: held(each) for each in (cuda(),)}
    assert repositories.sites([cuda()], found)[0].is_written
    assert not repositories.sites([changed], found)[0].is_written
    written(changed)
    assert [path.name for path in directory.glob("*.pub")] == ["12345678.pub"]


def edited(repository: Repository, name: str, change: Callable[[Package], Package]) -> Repository:
    return replace(
        repository,
        packages=tuple(change(entry) if entry.name == name else entry for entry in repository.packages),
    )


def test_a_changed_dependency_in_the_lock_changes_the_depot(cached: Path) -> None:
    wanted = edited(cuda(), "nvidia-open", lambda entry: replace(entry, relations={"depends": "something (>= 7)"}))
    root = written(wanted)
    index = root / "developer.download.nvidia.com/compute/cuda/repos/ubuntu2604/x86_64/Packages"
    found = [stanza for stanza in stanzas(index) if stanza["Package"] == "nvidia-open"]
    assert found and {stanza["Depends"] for stanza in found} == {"something (>= 7)"}


def test_a_changed_version_in_the_lock_changes_the_depot(cached: Path) -> None:
    wanted = load().repositories["kubernetes-v1.36"]
    wanted = edited(wanted, "kubelet", lambda entry: replace(entry, version=entry.version.replace("-1.1", "-2.1")))
    index = written(wanted) / "pkgs.k8s.io/core:/stable:/v1.36/deb/Packages"
    assert [one["Version"] for one in stanzas(index) if one["Package"] == "kubelet"] == ["1.36.4-2.1"]


def test_an_edit_of_the_lock_only_changes_the_packages_concerned(cached: Path) -> None:
    wanted = edited(cuda(), "nvidia-open", lambda entry: replace(entry, relations={"depends": "something"}))
    before = {each.path for each in catalog.debs([cuda()], [])[cuda().name]}
    after = {each.path for each in catalog.debs([wanted], [])[cuda().name]}
    assert {path.name.partition("_")[0] for path in before ^ after} == {"nvidia-open"}
    # The source of an entry does not matter.
    wanted = edited(cuda(), "nvidia-open", lambda entry: replace(entry, source="other", verified="2026-11-30"))
    assert {each.path for each in catalog.debs([wanted], [])[cuda().name]} == before


def test_repositories_with_the_same_address_share_a_directory(cached: Path) -> None:
    wanted = [load().repositories[f"docker-{name}"] for name in ("debian12", "debian13")]
    root = written(*wanted) / "download.docker.com/linux/debian"
    assert sorted(path.name for path in (root / "dists").iterdir()) == ["bookworm", "trixie"]
    index = root / "dists/trixie/stable/binary-amd64/Packages"
    assert {"2.3.6-1~debian.13~trixie"} == {
        stanza["Version"] for stanza in stanzas(index) if stanza["Package"] == "containerd.io"
    }


def test_a_key_on_another_host_is_an_error(cached: Path) -> None:
    wanted = replace(cuda(), key=replace(cuda().key, url="https://keys.example/60DF8A40.pub"))
    with pytest.raises(DepotError, match=r"cuda-ubuntu2604.*another host"):
        repositories.sites([wanted], {wanted.name: []})


def test_a_package_that_is_no_longer_in_any_repository_is_deleted(cached: Path) -> None:
    found = held(cuda())
    catalog.prune(found[1:])
    assert not found[0].path.exists() and found[1].path.is_file()


def expiry(key: Key) -> str:
    """Return the day on which a key of the depot expires, according to gpg."""
    argv = ["gpg", "--with-colons", "--show-keys", str(signing.binary(key))]
    listed = subprocess.run(argv, check=True, capture_output=True, text=True).stdout
    ends = next(line.split(":")[6] for line in listed.splitlines() if line.startswith("pub:"))
    return datetime.fromtimestamp(int(ends), tz=UTC).date().isoformat() if ends else "never"


@pytest.fixture
def small(lab_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(signing, "ALGORITHM", "rsa2048")


def key(expires: str | None) -> Key:
    return Key("https://upstream.example/deb/Release.key", "B" * 40, expires, "test", None)


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize(("expires", "found"), [("never", "never"), (None, "never"), ("2099-12-29", "2099-12-29")])
def test_a_key_expires_on_the_same_day_as_upstreams(
    expires: str | None, found: str, capsys: pytest.CaptureFixture[str]
) -> None:
    signing.make(key(expires))
    assert expiry(key(expires)) == found
    assert signing.is_made(key(expires)) and capsys.readouterr().out == ""


@pytest.mark.usefixtures("small")
def test_a_key_that_upstream_renews_keeps_its_fingerprint(capsys: pytest.CaptureFixture[str]) -> None:
    today = datetime.now(tz=UTC).date()
    signing.make(key("2099-12-29"))
    first = signing.fingerprint(key("2099-12-29"))
    # In the week before upstream's key expires, the depot's key gets another week and a warning.
    soon = (today + timedelta(days=3)).isoformat()
    assert not signing.is_made(key(soon))
    signing.make(key(soon))
    assert expiry(key(soon)) == (today + timedelta(days=7)).isoformat()
    assert f"Release.key expires on {soon} upstream" in " ".join(capsys.readouterr().out.split())
    # It is only renewed two days before the end of that week.
    assert signing.is_made(key(soon), today + timedelta(days=5))
    assert not signing.is_made(key(soon), today + timedelta(days=6))
    signing.make(key("2100-01-31"))
    assert expiry(key("2100-01-31")) == "2100-01-31"
    assert signing.fingerprint(key("2100-01-31")) == first


def test_the_earliest_of_several_expiry_dates_of_a_key_counts() -> None:
    found = signing.distinct([key("never"), key("2099-12-29"), key("2098-01-01"), key(None)])
    assert [each.expires for each in found] == ["2098-01-01"]
