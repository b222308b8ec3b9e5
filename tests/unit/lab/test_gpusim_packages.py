"""The simulated driver in NVIDIA's packages: every documented set of packages installs a working driver."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from lab.depot import catalog
from lab.depot.cache import DepotError
from lab.depot.catalog import Deb
from lab.gpusim import driver_content, driver_debs, library
from lab.gpusim.packages import parts, virtual
from upstream.lock import Package, Repository, load

OLD, NEW, NEWEST = "580.178.04", "595.91.07", "615.71.09"
CUDA = [each for each in load().repositories.values() if each.name.startswith("cuda-")]
# The components of a working driver: without one of them, nvidia-smi shows nothing, or no module can be loaded.
WHOLE = {"library", "smi", "kernel-common", "source", "dkms", "firmware", "modprobe"}
# The packages that playbooks request, by kind of repository and naming scheme.
ENTRANCES = {
    ("ubuntu", OLD): [
        ["nvidia-open-580"],
        ["cuda-drivers-580"],
        ["nvidia-open"],
        ["cuda-drivers"],
        ["libnvidia-compute-580", "nvidia-dkms-580-open", "nvidia-utils-580"],
    ],
    ("ubuntu", NEW): [
        ["nvidia-open"],
        ["cuda-drivers"],
        ["libnvidia-compute", "nvidia-dkms-open", "nvidia-persistenced"],
    ],
    ("ubuntu", NEWEST): [["nvidia-open"]],
    ("debian", OLD): [["nvidia-open-580"], ["cuda-drivers-580"], ["nvidia-driver-cuda", "nvidia-kernel-open-dkms"]],
    ("debian", NEW): [["nvidia-open"], ["cuda-drivers"], ["nvidia-driver-cuda", "nvidia-kernel-open-dkms"]],
    ("debian", NEWEST): [["nvidia-open"], ["nvidia-driver-cuda", "nvidia-kernel-dkms"]],
}
CASES = [
    (repository, version, wanted)
    for repository in CUDA
    for (family, version), sets in ENTRANCES.items()
    if family in repository.name and any(held.startswith(version) for held in repository.versions("nvidia-modprobe"))
    for wanted in sets
]


def of_driver(repository: Repository, version: str) -> dict[str, Package]:
    """The packages of a repository by name; driver packages only of one version."""
    others = [release for release in library.DRIVERS if release != version]
    return {
        package.name: package
        for package in repository.packages
        if not package.version.startswith(tuple(f"{release}-" for release in others))
    }


@pytest.mark.parametrize(
    ("repository", "version", "wanted"), CASES, ids=[f"{one.name}-{two}-{three[0]}" for one, two, three in CASES]
)
def test_the_requested_packages_install_the_whole_driver(
    repository: Repository, version: str, wanted: list[str]
) -> None:
    known = of_driver(repository, version)
    pending, seen = list(wanted), set()
    found: set[str] = set()
    while pending:
        name = pending.pop()
        if name in seen or name not in known:
            assert name in seen or name in ("libc6", "kmod", "util-linux"), name
            continue
        seen.add(name)
        found |= {part.partition(":")[0] for part in parts(name, known[name].version) or ()}
        pending += [relation.split()[0] for relation in known[name].depends]
    assert found >= WHOLE


def test_the_repositories_contain_the_same_driver_branches_as_upstreams() -> None:
    assert {repository.name for repository, version, _ in CASES if version == OLD} == {
        "cuda-debian12",
        "cuda-ubuntu2204",
        "cuda-ubuntu2404",
    }
    assert {repository.name for repository, version, _ in CASES if version == NEW} == {each.name for each in CUDA}


@pytest.mark.parametrize("repository", CUDA, ids=lambda each: each.name)
def test_all_driver_packages_are_known_to_the_simulation(repository: Repository) -> None:
    unknown = {
        package.name
        for package in repository.packages
        if package.version.startswith(tuple(library.DRIVERS)) and parts(package.name, package.version) is None
    }
    assert {name for name in unknown if not name.startswith("cuda-compat-")} == set()


@pytest.mark.parametrize("repository", CUDA, ids=lambda each: each.name)
def test_packages_with_the_same_files_conflict(repository: Repository) -> None:
    for found in catalog.debs([repository], [])[repository.name]:
        for name in virtual(parts(found.entry.name, found.entry.version) or ()):
            for field in ("Provides", "Conflicts", "Replaces"):
                assert name in found.fields[field].split(", "), found.filename


def test_components_are_derived_from_the_package_name() -> None:
    assert parts("libnvidia-compute-580", f"{OLD}-1ubuntu1") == ("library",)
    assert parts("libnvidia-compute", f"{NEW}-1ubuntu1") == ("library", "smi")
    assert parts("nvidia-dkms-580-open", f"{OLD}-1ubuntu1") == ("dkms",)
    assert parts("nvidia-driver-580-open", f"{OLD}-1ubuntu1") == ()
    assert parts("nvidia-driver-pinning-595.91.07", f"{NEW}-1") == ("pin:595.91.07",)
    assert parts("nvlsm", "2025.10.14-1") is None
    # Proprietary modules end with branch 610.
    assert parts("nvidia-kernel-dkms", f"{NEW}-1") == ("source:proprietary", "dkms")
    assert parts("nvidia-kernel-dkms", f"{NEWEST}-1") == ()


def test_a_driver_that_is_not_simulated_is_omitted_and_other_packages_are_placeholders() -> None:
    assert driver_content("nvidia-open", "590.48.01-1", "debian13") is None
    assert driver_content("libnvidia-ml1", "590.48.01-1", "debian13") is None
    pinning = driver_content("nvidia-driver-pinning-610", "610-1ubuntu1", "ubuntu2404")
    assert pinning is not None and "Simulated" in pinning.description
    other = driver_content("nvlink5-580", "580.159.04-1", "ubuntu2404")
    assert other is not None and other.description.startswith("Placeholder for nvlink5-580")


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Replaces nvidia-smi, whose build is not needed to test packing."""
    made = tmp_path / "smi" / "nvidia-smi"
    made.parent.mkdir()
    made.write_text("#!/bin/sh\necho nvidia-smi\n")
    made.with_name("copyright").write_text("non-free\n")
    monkeypatch.setattr(driver_debs, "nvidia_smi", lambda suite: made)
    return made


def packed(repository: str, version: str) -> list[Deb]:
    """The packages of one driver; library and modules are compiled for it."""
    wanted = load().repositories[repository]
    found = [
        each
        for each in catalog.debs([wanted], [])[repository]
        if parts(each.entry.name, each.entry.version) is not None and each.entry in of_driver(wanted, version).values()
    ]
    try:
        for each in found:
            each.pack()
    except DepotError as error:
        pytest.skip(str(error))
    return found


def _dpkg(*argv: str | Path) -> str:
    return subprocess.run(["dpkg-deb", *argv], check=True, text=True, stdout=subprocess.PIPE).stdout


@pytest.mark.parametrize("repository", ["cuda-debian13", "cuda-ubuntu2404"])
def test_packed_packages_contain_the_driver_and_are_described_as_simulated(
    lab_cache: Path, program: Path, monkeypatch: pytest.MonkeyPatch, repository: str
) -> None:
    built = lab_cache / f"libnvidia-ml.so.{NEW}"
    built.parent.mkdir()
    built.write_bytes(b"library")
    monkeypatch.setattr(library, "library", lambda version: built)
    files: set[str] = set()
    for each in packed(repository, NEW):
        description = _dpkg("--field", each.path, "Description")
        assert description.startswith("Simulated: ")
        listed = {line.split()[5].removeprefix(".") for line in _dpkg("--contents", each.path).splitlines()}
        assert f"/usr/share/doc/{each.entry.name}/README.simulated" in listed
        files |= listed
    assert {
        f"/usr/lib/x86_64-linux-gnu/libnvidia-ml.so.{NEW}",
        "/usr/lib/x86_64-linux-gnu/libnvidia-ml.so.1",
        "/usr/bin/nvidia-smi",
        "/usr/bin/nvidia-persistenced",
        "/usr/bin/nv-fabricmanager",
        "/usr/lib/nvidia-simulated/modules/nvidia-uvm.ko",
        "/usr/lib/modprobe.d/nvidia-simulated.conf",
        f"/usr/lib/firmware/nvidia/{NEW}/gsp_tu10x.bin",
        "/etc/apt/preferences.d/nvidia-driver-pin",
    } <= files


@pytest.mark.parametrize(
    ("name", "version", "line"),
    [
        ("nvidia-driver-pinning-580", "580-1ubuntu1", "Pin: version 580.*\nPin-Priority: 1000"),
        ("nvidia-driver-pinning-595.91.07", "595.91.07-1ubuntu1", "Pin: version 595.91.07-*\nPin-Priority: 1000"),
    ],
)
def test_pinning_prefers_its_version_even_for_a_downgrade(name: str, version: str, line: str) -> None:
    content = driver_content(name, version, "ubuntu2404")
    assert content is not None
    text = str(content.fill().files["/etc/apt/preferences.d/nvidia-driver-pin"])
    assert line in text
    assert re.search(r"^Package: .*\blibcuda1\b", text)


def test_an_unknown_distribution_is_named() -> None:
    with pytest.raises(DepotError, match=r"rhel9.*debian12, debian13, ubuntu2204"):
        driver_content("nvidia-driver-cuda", f"{OLD}-1", "rhel9")


def test_shell_scripts_are_valid() -> None:
    scripts = sorted((Path(driver_debs.__file__).parent / "driver").glob("*.sh"))
    assert len(scripts) == 7
    for script in scripts:
        subprocess.run(["sh", "-n", script], check=True)
