"""Simulated CUDA toolkits: side by side, with alternatives, and each can go without the others."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from ansible_collections.gpulab.kubernetes.plugins.module_utils._cuda_compatibility import MINOR, NATIVE, judge

from lab.depot import apt, cuda_toolkits, versions

pytestmark = pytest.mark.skipif(shutil.which("dpkg-deb") is None, reason="dpkg-deb reads the packages back")


@pytest.fixture(scope="module")
def packed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    found = cuda_toolkits.pack(tmp_path_factory.mktemp("debs"))
    return {path.name.split("_")[0]: path for path in found}


def fields(package: Path) -> dict[str, str]:
    return dict(re.findall(r"^(\S+): (.*)$", apt.control(package), re.MULTILINE))


def extracted(package: Path, into: Path) -> Path:
    subprocess.run(["dpkg-deb", "-x", package, into], check=True)
    return into


def script(package: Path, name: str) -> str:
    return subprocess.run(["dpkg-deb", "-I", package, name], check=True, capture_output=True, text=True).stdout


def test_names_and_relations_are_those_of_the_repository(packed: dict[str, Path]) -> None:
    for toolkit in cuda_toolkits.toolkits():
        meta = fields(packed[f"cuda-toolkit-{toolkit.suffix}"])
        assert meta["Version"] == f"{toolkit.version}-1"
        needed = {part.split()[0] for part in meta["Depends"].split(", ")}
        assert needed <= set(packed)
        assert f"cuda-toolkit-{toolkit.suffix}-config-common" in needed
    assert {"cuda-toolkit-config-common", "cuda-toolkit-12-config-common", "cuda-compat-13-1"} <= set(packed)
    for path in packed.values():
        assert "simulated" in fields(path)["Description"]


def test_no_two_toolkits_share_a_file(packed: dict[str, Path], tmp_path: Path) -> None:
    seen: set[Path] = set()
    for name, path in packed.items():
        root = extracted(path, tmp_path / name)
        files = {each.relative_to(root) for each in root.rglob("*") if not each.is_dir() or each.is_symlink()}
        assert not files & seen
        seen |= files


def test_nvcc_tells_its_version(packed: dict[str, Path], tmp_path: Path) -> None:
    root = extracted(packed["cuda-nvcc-12-9"], tmp_path)
    said = subprocess.run([root / "usr/local/cuda-12.9/bin/nvcc", "--version"], check=True, capture_output=True)
    assert b"release 12.9, V12.9.1" in said.stdout and b"simulated" in said.stdout


def test_alternatives_come_and_go_with_the_package(packed: dict[str, Path]) -> None:
    common = packed["cuda-toolkit-13-0-config-common"]
    assert "--install /usr/local/cuda cuda /usr/local/cuda-13.0 130" in script(common, "postinst")
    assert "--remove cuda /usr/local/cuda-13.0" in script(common, "prerm")


def test_the_lab_has_a_toolkit_for_each_answer() -> None:
    answers = {judge(version, "580.178.04").kind for version in versions.CUDA_TOOLKITS}
    assert answers == {NATIVE, MINOR}


def test_what_is_packed_is_not_packed_again(lab_cache: Path) -> None:
    assert not cuda_toolkits.are_packed() and cuda_toolkits.found() == {}
    cuda_toolkits.build()
    assert cuda_toolkits.are_packed() and len(cuda_toolkits.found()) == 5 * len(versions.CUDA_TOOLKITS) + 3
