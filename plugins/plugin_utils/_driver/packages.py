# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Choose the packages of a driver on a host by distribution, source, branch and GPUs. Pure.

NVIDIA's package names: https://docs.nvidia.com/datacenter/tesla/driver-installation-guide/ (compute-only, version
locking).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ...module_utils._nvidia.driver import is_helper
from ...module_utils._versions import compare_versions
from .fit import OPEN, PROPRIETARY, branch_of, devices_of, kind_for

COMPUTE, FULL = "compute", "full"
# NVIDIA's first branch without the branch in its package names.
_FIRST_UNSUFFIXED = 590
# The driver version (580.178.04) in a package's version, with or without epoch and revision.
_OF_DRIVER = re.compile(r"(?:\d+:)?(\d{3}\.\d+(?:\.\d+)?)(?:[-+~]|\Z)")
# Packages that show a driver's kind of modules and its extent; metapackages before their dependencies.
_IDENTITIES = (
    (re.compile(r"nvidia-open(?:-\d+)?\Z"), OPEN, FULL),
    (re.compile(r"cuda-drivers(?:-\d+)?\Z"), PROPRIETARY, FULL),
    (re.compile(r"nvidia-(?:dkms(?:-\d+)?-open|kernel-open-dkms)\Z"), OPEN, COMPUTE),
    (re.compile(r"nvidia-(?:dkms(?:-\d+)?|kernel-dkms)\Z"), PROPRIETARY, COMPUTE),
)
# The same for a distribution's own packages, whose extent can't be chosen.
_DISTRIBUTION_KINDS = (
    (re.compile(r"nvidia-(?:open-kernel-dkms|(?:headless(?:-no-dkms)?|dkms)-\d+(?:-server)?-open)\Z"), OPEN),
    (re.compile(r"nvidia-(?:kernel-dkms|(?:headless(?:-no-dkms)?|dkms)-\d+(?:-server)?)\Z"), PROPRIETARY),
)

# Kernels from other sources, by their release, and where their headers come from.
_FOREIGN_KERNELS = (
    (
        re.compile(r"-pve\Z"),
        "This is Proxmox VE's kernel: install {exact} or proxmox-default-headers (before Proxmox VE 8: pve-headers) "
        "from Proxmox's own source (pve-no-subscription, or pve-enterprise with a subscription)",
    ),
    (
        re.compile(r"xanmod"),
        "This is XanMod's kernel: install {exact} from its source (deb.xanmod.org)",
    ),
    (
        re.compile(r"liquorix"),
        "This is Liquorix' kernel: install {exact} or linux-headers-liquorix-amd64 from its source (liquorix.net)",
    ),
    (
        # 6.14.0-061400-generic, 6.15.0-061500rc3-generic
        re.compile(r"\A\d+\.\d+\.\d+-\d{6}(?:rc\d+)?-"),
        "This is a mainline build for Ubuntu, which is in no apt source: install the linux-headers packages of the "
        "same build from kernel.ubuntu.com/mainline, or boot Ubuntu's own kernel",
    ),
)


class DriverError(ValueError):
    """The driver can't be planned; the message gives the reason."""


@dataclass(frozen=True)
class Packages:
    """The packages of a driver; ``dkms``: its ``modules`` (open or proprietary) are built on the host.

    ``replaces`` are versions of packages that all change to ``follow`` together; a distribution's packages have none.
    """

    pinning: tuple[dict[str, Any], ...]
    packages: tuple[dict[str, Any], ...]
    follow: str = ""
    replaces: tuple[str, ...] = ()
    preferences: bool = True
    dkms: bool = True
    modules: str = ""


@dataclass(frozen=True)
class Wanted:
    """The settings; ``former`` is the package (``name``, ``version``) of a driver to keep or roll back to.

    ``reboot``: whether a reboot is allowed; there is none over the ``connection`` local.
    """

    version: str
    source: str = "cuda_repository"
    modules: str = "auto"
    extent: str = COMPUTE
    reboot: bool = False
    connection: str = ""
    profiling: str = "administrators"
    former: Mapping[str, str] = field(default_factory=dict)
    returning: bool = False


def packages_of(host: Mapping[str, Any], wanted: Wanted, table: Mapping[str, Any]) -> Packages:
    """Return the packages for a host, whose facts are those of preflight_info."""
    kind = _kind(host, wanted)
    if wanted.source == "distribution":
        return _of_distribution(host, wanted, kind)
    system, installed = host["os"]["key"], host["nvidia_driver"]["packages"]
    branch = wanted.version.partition(".")[0]
    version = _release(system, installed, wanted, table)
    if not version:
        raise DriverError(
            f"Error while planning the driver's packages: {wanted.version} is not in NVIDIA's repository for {system}. "
            f"{advice(system, table)}"
        )
    suffixed = int(branch) < _FIRST_UNSUFFIXED
    whole = _whole(installed, version)
    names, persistence = _names(system.partition(" ")[0], branch if suffixed else "", kind, _extent(whole, wanted))
    packages: list[dict[str, Any]] = [{"name": name, "version": version} for name in names]
    # The metapackage of an older release may lack the persistence daemon, and is left as it is.
    if not whole:
        packages.append({"name": persistence, "version": version, "optional": True})
    if int(host.get("nvswitches") or 0) > 0:
        packages.append({"name": "nvidia-fabricmanager", "version": version})
    pinning = () if suffixed else ({"name": f"nvidia-driver-pinning-{wanted.version}"},)
    others = [entry["packages"].get(system) for entry in table.values()]
    others += [found for found in installed.values() if _OF_DRIVER.match(found)]
    replaces = dict.fromkeys(other for other in others if other and other != version)
    return Packages(pinning, tuple(packages), version, tuple(replaces), preferences=suffixed, modules=kind)


def identity(packages: Mapping[str, str], version: str) -> dict[str, str]:
    """Return ``name`` and ``version`` of the package that shows a driver's modules and extent, empty without one."""
    own = {name: found for name, found in packages.items() if version and version in versions_in([found])}
    for pattern, _kind, _extent in _IDENTITIES:
        for name in sorted(own):
            if pattern.match(name):
                return {"name": name, "version": own[name]}
    return {}


def modules_of(driver: Mapping[str, Any], version: str) -> str:
    """Return the kind of modules of the installed driver ``version``, else of the loaded one, empty if unknown."""
    own = [name for name, found in driver["packages"].items() if version and version in versions_in([found])]
    for pattern, kind in (*((pattern, kind) for pattern, kind, _extent_of in _IDENTITIES), *_DISTRIBUTION_KINDS):
        if any(pattern.match(name) for name in own):
            return kind
    return str(driver.get("loaded_modules", "")) if driver.get("loaded_version") == version else ""


def installed_versions(driver: Mapping[str, Any]) -> set[str]:
    """Return the versions of the installed driver, without programs that several drivers share."""
    return versions_in(version for name, version in driver["packages"].items() if not is_helper(name))


def versions_in(versions: Iterable[str]) -> set[str]:
    """Return the driver versions among package versions; others, such as those of kernels, are skipped."""
    matches = (_OF_DRIVER.match(version) for version in versions)
    return {match.group(1) for match in matches if match}


def available(system: str, table: Mapping[str, Any]) -> list[str]:
    """Return the versions of the table that NVIDIA's repository has for a distribution, oldest first."""
    return [version for version, entry in table.items() if system in entry["packages"]]


def advice(system: str, table: Mapping[str, Any]) -> str:
    found = available(system, table)
    return (
        f"Set nvidia_driver_version to auto or one of {', '.join(found)}"
        if found
        else (f"No version in the table is for {system}")
    )


def newest(versions: Iterable[str]) -> str:
    best = ""
    for version in versions:
        if not best or compare_versions(version, best) > 0:
            best = version
    return best


def _release(system: str, installed: Mapping[str, str], wanted: Wanted, table: Mapping[str, Any]) -> str:
    """Return the version of the packages in the table, or the installed one of a driver to keep or roll back to."""
    listed = str(table.get(wanted.version, {}).get("packages", {}).get(system) or "")
    known = (str(each.get("version", "")) for each in (wanted.former, identity(installed, wanted.version)))
    return listed or next((version for version in known if wanted.version in versions_in([version])), "")


def _kind(host: Mapping[str, Any], wanted: Wanted) -> str:
    if wanted.returning and wanted.former:
        return next((kind for pattern, kind, _extent_of in _IDENTITIES if pattern.match(wanted.former["name"])), OPEN)
    kept = modules_of(host["nvidia_driver"], wanted.version)
    return kind_for(devices_of(host), wanted.modules, branch_of(wanted.version), kept)


def _whole(installed: Mapping[str, str], version: str) -> bool:
    """Return whether the metapackage of this version is installed."""
    patterns = [pattern for pattern, _kind_of, extent in _IDENTITIES if extent == FULL]
    return any(found == version and pattern.match(name) for name, found in installed.items() for pattern in patterns)


def _extent(whole: bool, wanted: Wanted) -> str:
    """Return the extent: that of the driver to roll back to, full if a full driver is installed, else the setting."""
    if wanted.returning and wanted.former:
        return next((extent for pattern, _kind_of, extent in _IDENTITIES if pattern.match(wanted.former["name"])), FULL)
    return FULL if whole else wanted.extent


def _names(family: str, branch: str, kind: str, extent: str) -> tuple[list[str], str]:
    """Return the packages of NVIDIA's repository, and the one with the persistence daemon."""
    suffix = f"-{branch}" if branch else ""
    is_open = kind == OPEN
    persistence = "nvidia-persistenced"
    if family == "Ubuntu" and branch:
        persistence = f"nvidia-compute-utils{suffix}"
    if extent == FULL:
        return [f"{'nvidia-open' if is_open else 'cuda-drivers'}{suffix}"], persistence
    if family == "Debian":
        return ["nvidia-driver-cuda", "nvidia-kernel-open-dkms" if is_open else "nvidia-kernel-dkms"], persistence
    modules = f"nvidia-dkms{suffix}{'-open' if is_open else ''}"
    # From branch 590 on, nvidia-smi is in libnvidia-compute.
    return [f"libnvidia-compute{suffix}", modules, *([f"nvidia-utils{suffix}"] if branch else [])], persistence


def _of_distribution(host: Mapping[str, Any], wanted: Wanted, kind: str) -> Packages:
    """Return Debian's or Ubuntu's own packages, whose version the distribution decides."""
    branch, version = wanted.version.partition(".")[0], f"{wanted.version}-*"
    is_open, signed = kind == OPEN, []
    if host["os"]["key"].startswith("Debian"):
        names = ["nvidia-open-kernel-dkms" if is_open else "nvidia-kernel-dkms", "libcuda1", "nvidia-smi"]
    else:
        server = f"{branch}-server{'-open' if is_open else ''}"
        if host.get("secure_boot"):
            # Canonical signs these modules; those that DKMS builds would be refused. Their version is the kernel's.
            signed = [{"name": f"linux-modules-nvidia-{server}-{kernel_flavor(host)}"}]
        names = [f"nvidia-headless-{'no-dkms-' if signed else ''}{server}", f"nvidia-utils-{branch}-server"]
    if int(host.get("nvswitches") or 0) > 0:
        names.append(f"nvidia-fabricmanager-{branch}")
    packages = (*signed, *({"name": name, "version": version} for name in names))
    # Debian's security archive has newer packages than the modules built by its open packages.
    return Packages((), packages, preferences=True, dkms=not signed, modules=kind)


def kernel_flavor(host: Mapping[str, Any]) -> str:
    """Return the suffix of Ubuntu's signed modules: that of the image's metapackage, else the kernel release."""
    meta = str(host.get("kernel_packages", {}).get("meta", ""))
    return meta.removeprefix("linux-image-") or str(host["kernel"])


def headers(host: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the headers of the running and the next kernels and their compiler; each is optional for apt."""
    found = host["kernel_packages"]
    names = [*found["headers"], *([found["compiler"]] if found["compiler"] else [])]
    return [{"name": name, "optional": True} for name in names]


def headers_problem(host: Mapping[str, Any]) -> tuple[str, str]:
    """Return that apt has no headers of the running kernel, and what to do; both empty if DKMS can build.

    A kernel from no package of the host (in a container, or built by hand) may already have its modules.
    """
    found = host["kernel_packages"]
    exact = str(found["headers"][0])
    foreign = foreign_kernel(str(host.get("kernel", "")))
    if not (found["image"] or foreign) or found["headers_found"] or found.get("headers_known"):
        return "", ""
    later = ", ".join(found.get("newer_without_headers") or ())
    change = (
        foreign.format(exact=exact)
        if foreign
        else f"Reboot into the newer kernel that is installed ({later})"
        if later
        else "Upgrade the kernel (apt-get dist-upgrade), reboot into the new kernel"
    )
    return (
        f"no apt source of this host has {exact}, without which DKMS can't build the driver's modules for the running "
        "kernel",
        f"{change}, and run again; or add the source that has {exact}",
    )


def foreign_kernel(release: str) -> str:
    """Return how to get the headers of a kernel that is not from the distribution, empty for one that is."""
    return next((advice for pattern, advice in _FOREIGN_KERNELS if pattern.search(release)), "")
