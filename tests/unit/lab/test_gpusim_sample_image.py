"""The stand-in for the CUDA sample image: its content, and its program's output with and without GPUs."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from gpusim_probe import Machine, machine

from lab.depot.cache import DepotError
from lab.gpusim import check_image, library, models

DRIVER = "580.178.04"


@pytest.fixture(scope="module")
def context(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The build context."""
    if shutil.which("gcc") is None:
        pytest.skip("no gcc here")
    try:
        return check_image(tmp_path_factory.mktemp("image") / "context")
    except DepotError as error:
        pytest.skip(str(error))


@pytest.fixture
def gpus(tmp_path: Path, context: Path) -> Machine:
    """A machine with two A100, whose library a container would find."""
    libraries = tmp_path / "lib"
    libraries.mkdir()
    (libraries / "libnvidia-ml.so.1").symlink_to(library.library(DRIVER))
    return machine(tmp_path, libraries / "libnvidia-ml.so.1", models.A100, 2, DRIVER)


def run(context: Path, made: Machine | None = None) -> subprocess.CompletedProcess[str]:
    """Run the image's program as in its container."""
    variables = {**made.environment, "LD_LIBRARY_PATH": str(made.library.parent)} if made else {}
    return subprocess.run(
        [context / "rootfs/cuda-samples/sample"], env={**os.environ, **variables}, capture_output=True, text=True
    )


def test_the_build_context_is_complete(context: Path) -> None:
    rootfs = context / "rootfs"
    for program in ("usr/bin/sh", "usr/bin/sleep", "cuda-samples/vectorAdd"):
        assert os.access(rootfs / program, os.X_OK)
    assert (rootfs / "bin").is_symlink()
    assert list(rootfs.rglob("libc.so.6"))
    assert list(rootfs.rglob("libdl.so.2"))
    text = (context / "Dockerfile").read_text()
    assert 'ENTRYPOINT ["/cuda-samples/sample"]' in text
    assert "NVIDIA_VISIBLE_DEVICES=all NVIDIA_DRIVER_CAPABILITIES=compute,utility" in text


def test_gpus_are_named_and_the_test_passes(context: Path, gpus: Machine) -> None:
    done = run(context, gpus)
    assert done.returncode == 0
    assert done.stdout.splitlines()[:2] == [
        f"[simulated] GPU {index}: NVIDIA A100-SXM4-40GB (UUID: {gpu['uuid']})" for index, gpu in enumerate(gpus.gpus)
    ]
    assert "[simulated] Test PASSED" in done.stdout


@pytest.mark.parametrize(
    ("nodes", "driver", "words"),
    [
        ((), DRIVER, "no CUDA-capable device is detected"),
        (("nvidia0",), "", "CUDA driver version is insufficient for CUDA runtime version"),
        (("nvidia0",), "595.91.07", "system has unsupported display driver / cuda driver combination"),
    ],
)
def test_without_a_usable_gpu_it_fails_like_the_real_sample(
    context: Path, gpus: Machine, nodes: tuple[str, ...], driver: str, words: str
) -> None:
    for node in (gpus.root / "dev").glob("nvidia?"):
        if node.name not in nodes:
            node.unlink()
    gpus.write(driver)
    done = run(context, gpus)
    assert done.returncode == 1
    assert done.stderr == f"Failed to allocate device vector A (error code {words})!\n"
    assert "PASSED" not in done.stdout


def test_without_the_library_it_reports_a_missing_driver(context: Path) -> None:
    done = run(context)
    assert done.returncode == 1
    assert "CUDA driver version is insufficient" in done.stderr
