"""Simulated CUDA toolkits: installable together, with alternatives, and removable one by one."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from ansible_collections.gpulab.kubernetes.plugins.plugin_utils._cuda.compatibility import MINOR, NATIVE, judge

from lab.depot import catalog, cuda_toolkits
from lab.depot.catalog import Deb
from upstream.lock import Repository, load

pytestmark = pytest.mark.skipif(shutil.which("dpkg-deb") is None, reason="dpkg-deb reads the packages back")

CUDA = [each for each in load().repositories.values() if each.name.startswith("cuda-")]
TOOLKIT = re.compile(r"cuda-toolkit-(\d+-\d+)")


def toolkits(repository: Repository) -> list[Deb]:
    found = catalog.debs([repository], [])[repository.name]
    return [each for each in found if cuda_toolkits.content(each.entry.name, each.entry.version)]


@pytest.fixture(scope="module")
def packed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The packages of one repository, the newest of each name."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GPULAB_CACHE", str(tmp_path_factory.mktemp("cache")))
        found = toolkits(load().repositories["cuda-ubuntu2404"])
        for each in found:
            each.pack()
        return {each.entry.name: each.path for each in found}


def extracted(package: Path, into: Path) -> Path:
    subprocess.run(["dpkg-deb", "-x", package, into], check=True)
    return into


def script(package: Path, name: str) -> str:
    return subprocess.run(["dpkg-deb", "-I", package, name], check=True, capture_output=True, text=True).stdout


@pytest.mark.parametrize("repository", CUDA, ids=lambda each: each.name)
def test_each_toolkit_has_a_compiler_a_runtime_and_alternatives(repository: Repository) -> None:
    known = {entry.name: entry for entry in repository.packages}
    series = [found[1] for name in known if (found := TOOLKIT.fullmatch(name))]
    assert series
    for suffix in series:
        pending, seen = [f"cuda-toolkit-{suffix}"], set()
        while pending:
            name = pending.pop()
            seen.add(name)
            pending += [relation.split()[0] for relation in known[name].depends]
        assert {f"cuda-nvcc-{suffix}", f"cuda-cudart-{suffix}", f"cuda-toolkit-{suffix}-config-common"} <= seen


def test_repositories_offer_different_toolkits() -> None:
    found = {
        each.name: {match[1] for entry in each.packages if (match := TOOLKIT.fullmatch(entry.name))} for each in CUDA
    }
    assert found["cuda-ubuntu2604"] == {"13-3", "13-4"}
    assert "13-0" not in found["cuda-debian13"] and "12-9" in found["cuda-debian12"]


def test_no_two_toolkits_contain_the_same_file(packed: dict[str, Path], tmp_path: Path) -> None:
    seen: set[Path] = set()
    for name, path in packed.items():
        root = extracted(path, tmp_path / name)
        files = {each.relative_to(root) for each in root.rglob("*") if not each.is_dir() or each.is_symlink()}
        assert not files & seen
        seen |= files


def test_nvcc_prints_the_version_of_its_package(packed: dict[str, Path], tmp_path: Path) -> None:
    root = extracted(packed["cuda-nvcc-12-9"], tmp_path)
    said = subprocess.run([root / "usr/local/cuda-12.9/bin/nvcc", "--version"], check=True, capture_output=True)
    # It differs from the toolkit's version, 12.9.1.
    assert b"release 12.9, V12.9.86" in said.stdout and b"simulated" in said.stdout


def test_alternatives_are_added_and_removed_with_the_package(packed: dict[str, Path]) -> None:
    common = packed["cuda-toolkit-13-0-config-common"]
    assert "--install /usr/local/cuda cuda /usr/local/cuda-13.0 130" in script(common, "postinst")
    assert "--remove cuda /usr/local/cuda-13.0" in script(common, "prerm")


def test_the_newest_compatibility_package_of_12_8_is_empty_like_upstreams(packed: dict[str, Path]) -> None:
    found = {
        each.entry.version: set(each.content.fill().files)
        for each in toolkits(load().repositories["cuda-ubuntu2404"])
        if each.entry.name == "cuda-compat-12-8"
    }
    library = "/usr/local/cuda-12.8/compat/libcuda.so.1"
    assert library in found["570.211.01-0ubuntu1"]
    assert found["575.57.08-0ubuntu1"] == set()


def test_the_lab_has_toolkits_for_each_kind_of_compatibility() -> None:
    found = {
        entry.version.partition("-")[0]
        for each in CUDA
        for entry in each.packages
        if TOOLKIT.fullmatch(entry.name) and entry.version.startswith(("12", "13.0", "13.1"))
    }
    assert {judge(version, "580.178.04").kind for version in found} == {NATIVE, MINOR}


def test_a_package_of_several_repositories_is_only_packed_once() -> None:
    places = [
        {each.path for each in toolkits(load().repositories[f"cuda-{name}"])} for name in ("debian12", "debian13")
    ]
    assert {path.name for path in places[0] & places[1]} >= {"cuda-nvcc-13-1_13.1.115-1_amd64.deb"}
