# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Plan the packages of parallel CUDA toolkits on a host, and check whether its driver and GPUs run them. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from .compatibility import FORWARD, MINOR, NATIVE, UNKNOWN, UNSUPPORTED, CudaError, Verdict, judge
from .data import REPOSITORIES

# From best to worst; the worst verdict of several GPUs counts.
_ORDER = (NATIVE, MINOR, FORWARD, UNKNOWN, UNSUPPORTED)
RELEASE = re.compile(r"([1-9][0-9]?)\.([0-9]{1,2})\.([0-9]{1,3})", re.ASCII)
MINOR_VERSION = re.compile(r"([1-9][0-9]?)\.([0-9]{1,2})", re.ASCII)
# The newest cuda-compat-12-8, 575.57.08-0ubuntu1, is an empty placeholder; this one contains the libraries.
_COMPAT_VERSIONS = {"cuda-compat-12-8": "570.211.01-*"}
# Packages of one toolkit. Packages that all toolkits share are kept.
_PACKAGES = r"(?:cuda|cuda-.+|lib(?:cu|np|nv).+|gds-tools)-{suffix}(?:-.+)?"


@dataclass(frozen=True)
class Toolkit:
    """One toolkit: ``home`` is its directory, ``kind`` a verdict of cuda_compatibility, None without a driver."""

    version: str
    minor: str
    home: str
    packages: list[dict[str, str]]
    kind: str | None = None
    reason: str = ""
    advice: str = ""
    accepted: bool = True
    compat: str = ""
    order: tuple[int, int] = field(default=(0, 0))
    absent: str = ""

    def fields(self) -> dict[str, Any]:
        return {**{key: value for key, value in asdict(self).items() if key != "order"}, "priority": self.priority}

    @property
    def priority(self) -> int:
        """Return the priority of its alternative, as NVIDIA's packages set it: 129 for 12.9."""
        return int(f"{self.order[0]}{self.order[1]}")


def plan(
    versions: Iterable[str],
    driver: str | None,
    gpus: Sequence[str],
    accept: Sequence[str],
    revision: str,
    system: str = "",
) -> list[Toolkit]:
    """Return the toolkits, oldest first. Raises CudaError for an invalid release, or two releases of one minor version.

    ``gpus`` are names or PCI device IDs; a toolkit is installed if its verdict is in ``accept``; ``system`` is the
    distribution, such as ``Debian 13``. ``absent``: its repository does not have the toolkit.
    """
    found: dict[tuple[int, int], Toolkit] = {}
    for version in versions:
        toolkit = _toolkit(version, driver, gpus, accept, revision)
        if toolkit.order in found:
            raise CudaError(
                f"Error while planning CUDA toolkits: {found[toolkit.order].version} and {version} can't be installed "
                f"side by side: both use {toolkit.home}. Remove one of them"
            )
        found[toolkit.order] = toolkit
    return [replace(found[order], absent=_absent(found[order], system)) for order in sorted(found)]


def _absent(toolkit: Toolkit, system: str) -> str:
    first = next((repository.first for repository in REPOSITORIES if repository.system == system), "")
    if not first or toolkit.order >= tuple(map(int, first.split("."))):
        return ""
    return f"CUDA {toolkit.version}: the oldest version in NVIDIA's repository for {system} is {first}"


def packages_of(minor: str, installed: Iterable[str]) -> list[str]:
    """Return the installed packages of this toolkit alone. Raises CudaError for an invalid minor version."""
    match = MINOR_VERSION.fullmatch(minor)
    if not match:
        raise CudaError(
            f"Error while removing CUDA toolkits: {minor!r:.60} is not a minor version. Write it as in 12.9"
        )
    pattern = re.compile(_PACKAGES.format(suffix=f"{match[1]}-{match[2]}"))
    return sorted(name for name in installed if pattern.fullmatch(name))


def _toolkit(version: str, driver: str | None, gpus: Sequence[str], accept: Sequence[str], revision: str) -> Toolkit:
    match = RELEASE.fullmatch(version)
    if not match:
        raise CudaError(
            f"Error while planning CUDA toolkits: {version!r:.60} is not a release. Write all three numbers, as in "
            "12.9.1"
        )
    minor, suffix = f"{match[1]}.{match[2]}", f"{match[1]}-{match[2]}"
    home = f"/usr/local/cuda-{minor}"
    packages = [{"name": f"cuda-toolkit-{suffix}", "version": f"{version}{revision}"}]
    order = (int(match[1]), int(match[2]))
    if not driver:
        # A host without a driver only compiles.
        return Toolkit(version, minor, home, packages, order=order)
    verdicts: list[Verdict] = [judge(version, driver, gpu) for gpu in gpus] or [judge(version, driver)]
    worst = max(verdicts, key=lambda verdict: _ORDER.index(verdict.kind))
    accepted = worst.kind in accept
    compat = ""
    if worst.kind == FORWARD and accepted and worst.package:
        packages = [*packages, {"name": worst.package, "version": _COMPAT_VERSIONS.get(worst.package, "")}]
        compat = f"{home}/compat"
    return Toolkit(version, minor, home, packages, worst.kind, worst.reason, worst.advice, accepted, compat, order)


def problem(toolkits: Sequence[Mapping[str, Any]], default: str, remove: Sequence[str], accept: Sequence[str]) -> str:
    """Return what prevents the installation of the planned toolkits and what to do, empty for nothing."""
    both = [toolkit["minor"] for toolkit in toolkits if toolkit["minor"] in remove]
    versions = [toolkit["version"] for toolkit in toolkits]
    absent = [toolkit["absent"] for toolkit in toolkits if toolkit["absent"]]
    refused = [shown(toolkit) for toolkit in toolkits if not toolkit["accepted"]]
    if both:
        what = f"both wanted and removed is {', '.join(both)}. Correct the variables."
    elif default and default not in versions:
        listed = ", ".join(versions)
        what = (
            f"cuda_toolkit_default is {default}, which is not among cuda_toolkit_versions ({listed}). Correct the "
            "variables."
        )
    elif absent:
        do = (
            "Choose newer ones for this host (cuda_toolkit_versions), or compile in a container: images of "
            "docker.io/nvidia/cuda include these toolkits, whatever the host's distribution"
        )
        what = _listed("the repository lacks some of them", absent, do)
    elif refused:
        do = "Leave them out, change the driver, or accept it (cuda_toolkit_accept)"
        what = _listed(f"these verdicts are not among {', '.join(accept)}", refused, do)
    else:
        return ""
    return f"Error while planning CUDA toolkits: {what}"


def _listed(what: str, words: Iterable[str], do: str) -> str:
    return "\n".join([f"{what}:", *(f"- {each}" for each in words), f"Nothing was changed. {do}."])


def shown(toolkit: Mapping[str, Any]) -> str:
    """Return a toolkit for a sentence in a message."""
    if toolkit["kind"] is None:
        return f"CUDA {toolkit['version']}: there is no driver with which to compare it"
    what = str(toolkit["kind"]).replace("_", " ")
    return f"CUDA {toolkit['version']}: {what}: {toolkit['reason']}. {toolkit['advice']}"
