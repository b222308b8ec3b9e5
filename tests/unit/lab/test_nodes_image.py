"""Node images: how a Debian image presents itself as Ubuntu."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from lab.nodes import image
from lab.nodes.spec import DISTRIBUTIONS, SYSTEMS
from upstream.lock import load

SHAPED = [system for system in SYSTEMS if system.endswith("-shaped")]


def read(path: Path) -> dict[str, str]:
    lines = path.read_text().splitlines()
    return {name: "".join(shlex.split(value)) for name, _, value in (line.partition("=") for line in lines)}


@pytest.mark.parametrize("system", SHAPED)
def test_a_node_that_simulates_ubuntu_presents_itself_as_that_release(
    system: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    diverted = []
    monkeypatch.setattr(image, "_divert", lambda _root, path: diverted.append(path))
    image._shape(tmp_path, image._SHAPES[system], image._CODENAMES[system])
    name, version = DISTRIBUTIONS[system].split()
    release = read(tmp_path / "usr/lib/os-release")
    docker = load().repository("docker", DISTRIBUTIONS[system])
    assert (release["NAME"], release["VERSION_ID"], release["ID"]) == (name, version, "ubuntu")
    assert release["VERSION_CODENAME"] == release["UBUNTU_CODENAME"] == docker.suite
    assert release["PRETTY_NAME"].startswith(f"Ubuntu {version}")
    lsb = read(tmp_path / "etc/lsb-release")
    assert (lsb["DISTRIB_RELEASE"], lsb["DISTRIB_CODENAME"]) == (version, docker.suite)
    assert "{" not in (tmp_path / "usr/lib/os-release").read_text() + (tmp_path / "etc/lsb-release").read_text()
    assert diverted == ["/usr/lib/os-release"]


def test_each_system_has_a_debian_base_and_upstreams_repositories() -> None:
    assert set(image._CODENAMES) == set(SYSTEMS)
    assert set(image._SHAPES) == set(SHAPED)
    for distribution in DISTRIBUTIONS.values():
        for family in ("docker", "cuda", "container-toolkit", "kubernetes-v1.36"):
            assert load().repository(family, distribution)
    # apt of 26.04 verifies with sqv, like that of Debian 13.
    assert image._CODENAMES["ubuntu2604-shaped"] == "trixie"
