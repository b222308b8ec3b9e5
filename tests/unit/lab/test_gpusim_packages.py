"""The simulated driver packages: names, versions, dependencies and contents as apt and dpkg see them."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from lab.depot import versions
from lab.depot.cache import DepotError
from lab.gpusim import build_driver_debs, driver_debs, library
from lab.gpusim.packages import Package, packages

OLD, NEW = "580.178.04", "595.91.07"
FAMILIES = ("Debian", "Ubuntu")
# What a user's playbook asks for, under either scheme.
ENTRANCES = {
    OLD: {"nvidia-open-580", "cuda-drivers-580", "nvidia-open", "cuda-drivers"},
    NEW: {"nvidia-open", "cuda-drivers"},
}


def catalogue(family: str, version: str) -> dict[str, Package]:
    """The packages of one driver by name."""
    deb = versions.table()["nvidia_driver"][version]["packages"][family]
    return {package.name: package for package in packages(library.driver(version), family, deb)}


@pytest.mark.parametrize("family", FAMILIES)
def test_names_cross_the_change_of_scheme(family: str) -> None:
    old, new = catalogue(family, OLD), catalogue(family, NEW)
    assert set(old) >= ENTRANCES[OLD]
    assert set(new) >= ENTRANCES[NEW]
    assert not [name for name in new if re.search(r"-5\d\d(-|$)", name) and "pinning" not in name]
    assert {f"nvidia-driver-pinning-{name}" for name in ("595", NEW)} <= set(new)
    assert {"nvidia-fabricmanager", "nvidia-modprobe"} <= set(old) & set(new)


def test_the_layers_below_are_named_as_upstream() -> None:
    assert {"libnvidia-compute-580", "nvidia-utils-580", "nvidia-dkms-580-open"} <= set(catalogue("Ubuntu", OLD))
    assert {"libnvidia-compute", "nvidia-dkms-open", "nvidia-persistenced"} <= set(catalogue("Ubuntu", NEW))
    for version in (OLD, NEW):
        assert {"libnvidia-ml1", "nvidia-driver-cuda", "nvidia-kernel-open-dkms"} <= set(catalogue("Debian", version))


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("version", [OLD, NEW])
def test_an_entrance_brings_the_whole_driver(family: str, version: str) -> None:
    known = catalogue(family, version)
    for entrance in ENTRANCES[version]:
        wanted, seen = [entrance], set()
        parts: set[str] = set()
        while wanted:
            name = wanted.pop()
            if name in seen or name not in known:
                assert name in seen or name in ("libc6", "kmod", "util-linux"), name
                continue
            seen.add(name)
            parts |= {part.partition(":")[0] for part in known[name].parts}
            wanted += [depends.split()[0] for depends in known[name].depends]
        assert parts >= {"library", "smi", "kernel-common", "source", "dkms", "firmware", "modprobe"}, entrance


def test_without_a_pin_the_580_metapackage_of_debian_takes_any_driver() -> None:
    assert "nvidia-kernel-open-dkms (>= 580.65.06)" in catalogue("Debian", OLD)["nvidia-open-580"].depends
    depends = catalogue("Ubuntu", OLD)["nvidia-open-580"].depends
    assert depends == (f"nvidia-driver-580-open (= {OLD}-1ubuntu1)",)


@pytest.mark.parametrize("family", FAMILIES)
def test_one_file_has_one_owner_at_a_time(family: str) -> None:
    everything = [package for version in (OLD, NEW) for package in catalogue(family, version).values()]
    for part in ("library", "smi", "kernel-common", "source", "dkms", "persistenced"):
        owners = [package for package in everything if part in {name.partition(":")[0] for name in package.parts}]
        assert len({package.name for package in owners}) >= 1
        for package in owners:
            assert f"nvidia-simulated-{part}" in package.fields["Conflicts"]
            assert package.fields["Provides"] == package.fields["Conflicts"] == package.fields["Replaces"]


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Stands in for nvidia-smi, which is nothing to test packing with."""
    made = tmp_path / "smi" / "nvidia-smi"
    made.parent.mkdir()
    made.write_text("#!/bin/sh\necho nvidia-smi\n")
    made.with_name("copyright").write_text("non-free\n")
    monkeypatch.setattr(driver_debs, "nvidia_smi", lambda suite: made)
    return made


def _dpkg(*argv: str | Path) -> str:
    return subprocess.run(["dpkg-deb", *argv], check=True, text=True, stdout=subprocess.PIPE).stdout


@pytest.mark.parametrize(("distro", "deb"), [("debian13", f"{NEW}-1"), ("ubuntu2404", f"{NEW}-1ubuntu1")])
def test_packed_packages_say_what_they_are(tmp_path: Path, program: Path, distro: str, deb: str) -> None:
    try:
        debs = build_driver_debs(NEW, distro, tmp_path / "debs")
    except DepotError as error:
        pytest.skip(str(error))
    files: set[str] = set()
    for path in debs:
        fields = dict(line.split(": ", 1) for line in _dpkg("--field", path).splitlines() if ": " in line[:30])
        assert "Simulated" in fields["Description"]
        assert fields["Version"] in (deb, f"595-{deb.partition('-')[2]}")
        files |= {line.split()[5].removeprefix(".") for line in _dpkg("--contents", path).splitlines()}
    assert {
        f"/usr/lib/x86_64-linux-gnu/libnvidia-ml.so.{NEW}",
        "/usr/lib/x86_64-linux-gnu/libnvidia-ml.so.1",
        "/usr/bin/nvidia-smi",
        "/usr/lib/modprobe.d/nvidia-simulated.conf",
        f"/usr/lib/firmware/nvidia/{NEW}/gsp_tu10x.bin",
        "/etc/apt/preferences.d/nvidia-driver-pinning",
    } <= files


def test_pinning_prefers_its_version_even_downwards(tmp_path: Path, program: Path) -> None:
    try:
        debs = build_driver_debs(OLD, "debian12", tmp_path / "debs")
    except DepotError as error:
        pytest.skip(str(error))
    pinning = {path.name.partition("_")[0]: path for path in debs if "pinning" in path.name}
    texts = {}
    for name, path in pinning.items():
        _dpkg("--extract", path, tmp_path / name)
        texts[name] = (tmp_path / name / "etc/apt/preferences.d/nvidia-driver-pinning").read_text()
    assert "Pin: version 580.*\nPin-Priority: 1000" in texts["nvidia-driver-pinning-580"]
    assert f"Pin: version {OLD}-*\nPin-Priority: 1000" in texts[f"nvidia-driver-pinning-{OLD}"]


def test_unknown_distribution_is_named(tmp_path: Path) -> None:
    with pytest.raises(DepotError, match=r"rhel9.*debian12, debian13, ubuntu2404"):
        build_driver_debs(OLD, "rhel9", tmp_path)


def test_shell_scripts_are_well_formed() -> None:
    scripts = sorted((Path(driver_debs.__file__).parent / "driver").glob("*.sh"))
    assert len(scripts) == 7
    for script in scripts:
        subprocess.run(["sh", "-n", script], check=True)
