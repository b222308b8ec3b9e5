# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether, and how, a Linux driver runs programs of a CUDA toolkit; facts are in ``data.py``. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass

from ...module_utils._errors import DomainError
from . import data
from .families import Gpu, identify

NATIVE = "native"
MINOR = "minor_version_compatibility"
FORWARD = "forward_compatibility"
UNSUPPORTED = "unsupported"
UNKNOWN = "unknown"
# The driver runs the programs without a further package.
RUNS = (NATIVE, MINOR)

_CUDA = re.compile(r"(?:cuda[-_ :]?)?v?([1-9][0-9]?)(?:\.([0-9]{1,2}))?(?:\.([0-9]{1,3}))?", re.IGNORECASE | re.ASCII)
_DRIVER = re.compile(r"([1-9][0-9]{2})(?:\.([0-9]{1,3}))?(?:\.([0-9]{1,3}))?", re.ASCII)
# The version in the tag or name of an image: cuda:12.4.1-base, vectoradd-cuda12.5.0, pytorch:2.4-cuda12.4.
_IMAGE = re.compile(
    r"(?<![a-z0-9])cuda[-_:]?v?([1-9][0-9]?\.[0-9]{1,2}(?:\.[0-9]{1,3})?)(?![0-9])", re.IGNORECASE | re.ASCII
)

_ANY_RELEASE = 9999


class CudaError(DomainError):
    """A text is not a valid CUDA or driver version."""


@dataclass(frozen=True)
class Verdict:
    """How a driver runs a toolkit; ``package`` is set only for forward compatibility."""

    kind: str
    reason: str
    advice: str
    package: str | None = None


@dataclass(frozen=True)
class Cuda:
    """A toolkit's version; ``release`` (the third digit) is None if the text has none: the first release."""

    major: int
    minor: int
    release: int | None

    @property
    def version(self) -> str:
        return f"{self.major}.{self.minor}"

    def __str__(self) -> str:
        return self.version if self.release is None else f"{self.version}.{self.release}"


@dataclass(frozen=True)
class Driver:
    """A driver; ``exact`` is false if only the branch is given, and ``key`` is then that of its earliest release."""

    text: str
    key: tuple[int, int, int]
    exact: bool

    @property
    def branch(self) -> int:
        return self.key[0]

    @property
    def branch_end(self) -> tuple[int, int, int]:
        return (self.branch, _ANY_RELEASE, 0)


@dataclass(frozen=True)
class Limits:
    """What a GPU requires of a driver and of forward compatibility."""

    data_center: bool | None
    family: data.Family | None

    def newer(self, driver: str) -> str:
        family = self.family
        if family and family.last_branch is not None and _key(driver)[0] > family.last_branch:
            return f"use a different GPU: no driver since {driver} supports {family.name} GPUs"
        return f"use driver {driver} or newer"


def read_cuda(text: str) -> Cuda:
    """Parse a CUDA version such as 12.4, 12.4.1, cuda-12.4 or 13 (which is 13.0)."""
    match = _CUDA.fullmatch(text.strip())
    if not match:
        raise CudaError(
            f"Error while reading a CUDA version: {_shown(text)} is not a valid CUDA version. Write it as in 12.4, "
            "12.4.1 or cuda-12.4"
        )
    major, minor, release = match.groups()
    return Cuda(int(major), int(minor or 0), None if release is None else int(release))


def read_driver(text: str) -> Driver:
    """Parse a Linux driver's version such as 550.54.14, or its branch, 550."""
    match = _DRIVER.fullmatch(text.strip())
    if not match:
        raise CudaError(
            f"Error while reading a driver version: {_shown(text)} is not a valid version of a Linux driver. Write it "
            "as nvidia-smi does: 550.54.14 (or 550, the branch)"
        )
    return Driver(text.strip(), _key(text), match.group(2) is not None)


def cuda_of_image(image: str) -> str | None:
    """Return the CUDA version in an image's reference, None if there is none."""
    match = _IMAGE.search(image.partition("@")[0])
    return match.group(1) if match else None


def judge(cuda: str, driver: str, gpu: str | None = None, data_center: bool | None = None) -> Verdict:
    """Return how ``driver`` runs programs of the toolkit ``cuda`` on any GPU, or on the one that ``gpu`` names.

    ``gpu`` is a name or PCI device ID. ``data_center``: whether it is a data-center GPU, if this doesn't follow from
    the name. Raises CudaError.
    """
    toolkit, version = read_cuda(cuda), read_driver(driver)
    found = identify(gpu) if gpu is not None else None
    if found:
        verdict = _gpu_refuses(toolkit, version, found)
        if verdict:
            return verdict
    if data_center is None and found:
        data_center = found.data_center
    verdict = _without_gpu(toolkit, version, Limits(data_center, found.family if found else None))
    if verdict.kind in (UNSUPPORTED, UNKNOWN):
        return verdict
    if gpu is not None:
        return _doubts(toolkit, version, found, gpu) or verdict
    return verdict


def branch_problem(family: data.Family, branch: int) -> str | None:
    """Return why a driver branch doesn't support a GPU family, None if it does or is newer than the table."""
    if family.last_branch is not None and branch > family.last_branch:
        return f"{family.last_branch} is the last driver branch that supports them"
    if family.first_branch is not None and branch < family.first_branch:
        return f"{family.first_branch} is the first driver branch that supports them"
    return None


def _gpu_refuses(cuda: Cuda, driver: Driver, gpu: Gpu) -> Verdict | None:
    family = gpu.family
    problem = branch_problem(family, driver.branch)
    if problem:
        newest = family.last_branch is not None and driver.branch > family.last_branch
        bound = f"{family.last_branch} or older" if newest else f"{family.first_branch} or newer"
        return Verdict(
            UNSUPPORTED,
            f"Driver {driver.text} does not support {family.name} GPUs: {problem}",
            f"Use a driver of branch {bound}",
        )
    if family.last_toolkit is not None and _pair(cuda.version) > _pair(family.last_toolkit):
        return Verdict(
            UNSUPPORTED,
            f"CUDA {cuda} has no code for {family.name} GPUs: CUDA {family.last_toolkit} is the last version that has",
            f"Use CUDA {family.last_toolkit} or older on these GPUs, or a different GPU",
        )
    return None


def _doubts(cuda: Cuda, driver: Driver, found: Gpu | None, gpu: str) -> Verdict | None:
    if found is None:
        return Verdict(
            UNKNOWN,
            f"The GPU {_shown(gpu)} is not in the table, so the drivers and toolkits that support it are unknown",
            "Look up its architecture (Turing, Ampere, ...) and use that instead",
        )
    family = found.family
    if driver.branch > data.BRANCHES.numbers[-1] and family.last_branch is None:
        return Verdict(
            UNKNOWN,
            f"Driver branch {driver.branch} is newer than the table: whether it supports {family.name} GPUs is unknown",
            "Check the list of supported GPUs in its release notes",
        )
    if family.first_toolkit is not None and _pair(cuda.version) < _pair(family.first_toolkit):
        return Verdict(
            UNKNOWN,
            f"CUDA {cuda} is older than {family.name} GPUs ({family.chips}; CUDA {family.first_toolkit} is the first "
            f"with code for them). Driver {driver.text} runs only programs that contain PTX, which it compiles for "
            "the GPU",
            f"Use CUDA {family.first_toolkit} or newer, or try the program with CUDA_FORCE_PTX_JIT=1",
        )
    return None


def _without_gpu(cuda: Cuda, driver: Driver, limits: Limits) -> Verdict:
    index = next((i for i, row in enumerate(data.TOOLKITS) if row.version == cuda.version), None)
    if index is None:
        return Verdict(
            UNKNOWN,
            f"CUDA {cuda.version} is not in the table, which ranges from {data.TOOLKITS[0].version} to "
            f"{data.TOOLKITS[-1].version}",
            "Look at the table of drivers in its release notes",
        )
    if driver.branch not in data.BRANCHES.numbers and driver.branch < data.BRANCHES.numbers[-1]:
        return Verdict(
            UNKNOWN,
            f"{driver.branch} is not a branch of Linux drivers in the table; Windows drivers have different version "
            "numbers",
            "Use the version that nvidia-smi prints on the Linux host",
        )
    row = data.TOOLKITS[index]
    release = row.first if cuda.release is None or row.any_update else cuda.release
    if release < row.first:
        return Verdict(
            UNKNOWN,
            f"CUDA {cuda} was a preview of {row.version}.{row.first}, and is not in the table",
            f"Use {row.version}.{row.first} or newer",
        )
    known = release - row.first < len(row.drivers)
    least = row.drivers[min(release - row.first, len(row.drivers) - 1)]
    if driver.key >= _key(least):
        later = data.TOOLKITS[index + 1 :]
        if known or (later and driver.key >= _key(later[0].drivers[0])):
            return Verdict(
                NATIVE,
                f"Driver {driver.text} meets the requirement of CUDA {cuda} ({least} or newer)",
                "Nothing has to be changed",
            )
        return Verdict(
            UNKNOWN,
            f"CUDA {cuda} is newer than the last {row.version} release in the table "
            f"({row.version}.{row.first + len(row.drivers) - 1}, which requires {least})",
            "Look at the table of drivers in its release notes",
        )
    return _older_driver(cuda, driver, least, limits)


def _older_driver(cuda: Cuda, driver: Driver, least: str, limits: Limits) -> Verdict:
    """Judge a driver that is, or may be, older than the toolkit's own."""
    floor = next((row.driver for row in data.MINOR_VERSIONS if row.major == cuda.major), None)
    package = f"cuda-compat-{cuda.major}-{cuda.minor}"
    row = next((row for row in data.FORWARD if row.toolkit == cuda.version), None)
    listed, ended = (row.branches, row.ended) if row else ((), ())
    # NVIDIA gives its rule by branch alone (">= 525").
    if floor and (driver.key if driver.exact else driver.branch_end) >= _key(floor):
        doubt = not driver.exact and driver.branch == _key(least)[0]
        older = "has releases that are older" if doubt else "is older"
        lifted = f" or {package} (on data-center GPUs)" if driver.branch in listed else ""
        return Verdict(
            MINOR,
            f"Driver {driver.text} {older} than CUDA {cuda} requires ({least}), but runs all of CUDA {cuda.major}. It "
            "can't compile this toolkit's PTX (needed by programs without code for the GPU), and lacks features that "
            "need the newer driver (cudaErrorCallRequiresNewerDriver)",
            f"No change is needed for programs that need neither; for others, {limits.newer(least)}{lifted}",
        )
    needed, what = least, str(cuda)
    if floor and _key(floor) < _key(least):
        needed, what = floor, str(cuda.major)
    why = f"Driver {driver.text} is older than CUDA {what} requires ({needed})"
    change = limits.newer(needed)
    other = f"{change[0].upper()}{change[1:]}{_or_older_toolkit(driver)}"
    if driver.branch not in listed + ended:
        return Verdict(UNSUPPORTED, f"{why}, and NVIDIA lists no {package} for driver branch {driver.branch}", other)
    if limits.data_center is False:
        return Verdict(UNSUPPORTED, f"{why}, and {package} works on data-center GPUs only", other)
    condition = "" if limits.data_center else ", on data-center GPUs (and a few certified RTX GPUs) only"
    end = (
        (f". The branch {driver.branch} has reached its end of life, and NVIDIA no longer lists it")
        if driver.branch in ended
        else ""
    )
    return Verdict(
        FORWARD,
        f"{why}, but runs it with the newer CUDA driver libraries of {package}{condition}. Interoperability with "
        f"OpenGL and Vulkan is lost{end}",
        f"Install {package} where the program runs, with /usr/local/cuda-{cuda.version}/compat in its library path; or "
        f"{change}{_or_older_toolkit(driver)}",
        package,
    )


def _or_older_toolkit(driver: Driver) -> str:
    """Return advice to use the newest toolkits that the driver supports, as the end of a sentence."""
    majors = [row.major for row in data.MINOR_VERSIONS if driver.key >= _key(row.driver)]
    if majors:
        return f", or use CUDA {majors[-1]}"
    versions = [row.version for row in data.TOOLKITS if driver.key >= _key(row.drivers[0])]
    return f", or use CUDA {versions[-1]}" if versions else ""


def _key(text: str) -> tuple[int, int, int]:
    parts = [int(part) for part in text.strip().split(".")]
    first, second, third = [*parts, 0, 0][:3]
    return (first, second, third)


def _pair(text: str) -> tuple[int, int]:
    major, minor = text.split(".")
    return (int(major), int(minor))


def _shown(text: str) -> str:
    return repr(text if len(text) <= 60 else f"{text[:60]}...")
