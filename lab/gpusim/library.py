"""Build the simulated NVML: our own C sources, and a stub for each other function in NVIDIA's header."""

from __future__ import annotations

import re
import shutil
import sys
import tempfile
import zipfile
from dataclasses import dataclass
from pathlib import Path

from lab import paths
from lab.depot import cache, tools

SOURCES = Path(__file__).parent / "nvml"

# Deliberately newer than the product's drivers: newer clients look up newer names, and a missing one ends a Go program.
_HEADER_PACKAGE = "nvidia-nvml-dev"
_HEADER_VERSION = "13.2.86"

_DECLARED = re.compile(r"\bDECLDIR\s+(nvml[A-Z]\w*)\s*\(")
_NOT_SUPPORTED = 3


@dataclass(frozen=True)
class Driver:
    """A driver version and its CUDA version."""

    version: str
    cuda: str

    @property
    def branch(self) -> str:
        """Return the first part of the version."""
        return self.version.partition(".")[0]


# The newest one is not in the product's table: apt installs it unless it is pinned.
DRIVERS = {
    driver.version: driver
    for driver in (Driver("580.178.04", "13.0"), Driver("595.91.07", "13.2"), Driver("615.71.09", "13.4"))
}


def driver(version: str) -> Driver:
    """Return a simulated driver by its version. Raises DepotError with the known versions."""
    if version not in DRIVERS:
        raise cache.DepotError(
            f"Error while looking up the simulated driver {version}: the lab simulates {', '.join(DRIVERS)}."
        )
    return DRIVERS[version]


def header() -> Path:
    """Return NVIDIA's nvml.h, which is downloaded once from PyPI and must not be in the repository."""
    target = paths.component_dir("nvml-header", _HEADER_VERSION)
    if not (target / "nvml.h").is_file():
        with cache.lock("nvml-header"), tempfile.TemporaryDirectory() as work:
            tools.run(
                [
                    *(sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"),
                    *("--only-binary=:all:", "--platform", "manylinux2014_x86_64", "--dest", work),
                    f"{_HEADER_PACKAGE}=={_HEADER_VERSION}",
                ],
                doing=f"downloading nvml.h (PyPI package {_HEADER_PACKAGE} {_HEADER_VERSION})",
                log="gpusim",
            )
            wheel = next(Path(work).glob("*.whl"))
            with cache.fresh(target, _HEADER_VERSION) as directory, zipfile.ZipFile(wheel) as archive:
                for member in archive.namelist():
                    if member.endswith(("/nvml.h", "License.txt")):
                        (directory / Path(member).name).write_bytes(archive.read(member))
    return target / "nvml.h"


def declared(text: str) -> list[str]:
    """Return all functions that an nvml.h declares, and one that only NVIDIA's programs use."""
    return sorted({*_DECLARED.findall(text), "nvmlInternalGetExportTable"})


def stubs(names: list[str]) -> str:
    """Return C code in which each function returns "not supported", unless our sources define it."""
    lines = [f"__attribute__((weak)) int {name}(void) {{ return {_NOT_SUPPORTED}; }}" for name in names]
    return "\n".join([*lines, ""])


def library(version: str) -> Path:
    """Return libnvidia-ml.so.<version>, compiled if our sources, the compiler or the header changed."""
    built = driver(version)
    target = paths.component_dir("libnvidia-ml", version)
    result = target / f"libnvidia-ml.so.{version}"
    compiler = shutil.which("gcc")
    if compiler is None:
        raise cache.DepotError(
            "Error while building the simulated NVML: gcc is not there. Install it (apt install gcc libc6-dev)."
        )
    key = cache.digest(cache.tree_digest(SOURCES), cache.file_digest(Path(compiler).resolve()), _HEADER_VERSION, built)
    if cache.key_of(target) != key:
        include = header()
        with cache.lock(f"libnvidia-ml-{version}"), cache.fresh(target, key) as directory:
            compile_library(built, include, directory / result.name, compiler)
    return result


def compile_library(built: Driver, include: Path, out: Path, compiler: str = "gcc") -> None:
    """Compile the library for one driver version into the file `out`."""
    major, _, minor = built.cuda.partition(".")
    with tempfile.TemporaryDirectory() as work:
        generated = Path(work, "stubs.c")
        generated.write_text(stubs(declared(include.read_text())))
        exports = Path(work, "exports")
        exports.write_text("{ global: nvml*; local: *; };\n")
        tools.run(
            [
                *(compiler, "-std=gnu11", "-O2", "-Wall", "-Wextra", "-Wno-deprecated-declarations"),
                *("-fPIC", "-shared", "-pthread", f"-I{include.parent}", f"-I{SOURCES}"),
                f'-DGPUSIM_DRIVER_VERSION="{built.version}"',
                f'-DGPUSIM_DRIVER_BRANCH="{built.branch}"',
                f'-DGPUSIM_CUDA_MAJOR="{major}"',
                f"-DGPUSIM_CUDA_VERSION={int(major) * 1000 + int(minor) * 10}",
                *("-Wl,-soname,libnvidia-ml.so.1", f"-Wl,--version-script={exports}", "-Wl,--build-id=none"),
                *("-s", "-o", str(out), *map(str, sorted(SOURCES.glob("*.c"))), str(generated)),
            ],
            doing=f"compiling the simulated NVML of driver {built.version}",
            log="gpusim",
        )
