# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Preflight's rules about the GPUs' driver: its version, what is there already, Secure Boot."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from ...module_utils._problem import Problem
from .._driver.packages import available, versions_in
from .._driver.plan import INSTALLED
from .._driver.version import AUTO
from .model import Cluster, Facts, Reading, listing

# Distribution and driver -> of each series of kernels the first one that is known to have the newer pci_resize_resource
# (see include/linux/pci.h in linux-headers-*-common), for which the distribution's own packages fail.
_DOES_NOT_BUILD = {
    ("Debian 12", "535.261.03"): ((6, 1, 0, 53), (6, 12, 117)),
    ("Debian 13", "550.163.01"): ((6, 12, 117),),
}
_KERNEL = re.compile(r"[\d.]+(?:-\d+)?")
# Where a distribution keeps its own driver.
_COMPONENTS = {"Debian": ("contrib", "non-free", "non-free-firmware"), "Ubuntu": ("restricted",)}
_ORIGINS = {
    "cuda_repository": "comes from NVIDIA's CUDA repository",
    "distribution": "comes from the distribution's packages",
    "runfile": "was installed by NVIDIA's .run file",
    "other": "does not belong to a package",
}


def known_version(reading: Reading, cluster: Cluster) -> Iterator[Problem]:
    settings = reading.settings
    version, table = settings["nvidia_driver_version"], cluster.settings["nvidia_driver_versions"]
    if not reading.facts["gpus"]:
        return
    if version == AUTO:
        yield from _choice(reading, settings.get("driver_choice") or {})
        return
    # An upgrade that failed may have come back to another one, which is then kept by asking for it.
    kept = settings["nvidia_driver_upgrading"] and version == reading.facts["nvidia_driver"]["loaded_version"]
    if settings["nvidia_driver_source"] != "cuda_repository" or kept:
        return
    system = reading.facts["os"]["key"]
    known = available(system, table)
    if version not in table:
        yield reading.problem(
            "driver_version_unknown",
            f"nvidia_driver_version is {version}, which is not in the table of versions",
            "nvidia_driver_version",
            "Only versions that are known to work with the others are installed",
            f"Choose one of {listing(known or table)}, or auto",
        )
    # A distribution that is not supported is a problem of its own.
    elif system not in table[version]["packages"] and known:
        yield reading.problem(
            "driver_version_not_offered",
            f"nvidia_driver_version is {version}, which is not in NVIDIA's repository for {system}",
            "nvidia_driver_version",
            "Each distribution has its own set of versions",
            f"For {system}, the table contains {listing(known)}: choose one of them for this host, or auto",
        )


def driver(reading: Reading, cluster: Cluster) -> Iterator[Problem]:
    settings, found = reading.settings, reading.facts["nvidia_driver"]
    if not reading.facts["gpus"]:
        return
    if settings["nvidia_driver_source"] == "preinstalled":
        if not found["loaded_version"]:
            yield reading.problem(
                "driver_not_loaded",
                "No NVIDIA driver is loaded, though nvidia_driver_source expects one",
                "/proc/driver/nvidia/version",
                "Nothing works without a driver",
                "Load it (modprobe nvidia; nvidia-smi shows why not), or set nvidia_driver_source to cuda_repository",
            )
        return
    versions = versions_in(found["packages"].values()) or {found["loaded_version"]} - {""}
    if settings["nvidia_driver_source"] == "operator":
        # One that no package and no .run file has brought is the operator's own, of an earlier run.
        if found["origin"] not in ("none", "other"):
            yield reading.problem(
                "driver_present",
                f"An NVIDIA driver ({listing(sorted(versions)) or 'version unknown'}) is installed, but the GPU "
                "Operator is configured to install one (nvidia_driver_source)",
                listing(sorted(found["packages"])[:4]) or "/proc/driver/nvidia/version",
                "The operator's driver container does not start if the host has its own driver",
                "Keep the driver (nvidia_driver_source=preinstalled), or remove it and reboot",
                **_kept_driver(found),
            )
        return
    if settings["nvidia_driver_replace_foreign"]:
        return
    wanted = wanted_version(reading)
    foreign = _ORIGINS.get(found["origin"]) if found["origin"] != settings["nvidia_driver_source"] else None
    # A driver that a pod has installed belongs to no package; one of the host's packages is of another hand then.
    if settings["nvidia_driver_source"] == "daemonset":
        foreign = "comes from the host's packages" if found["packages"] else None
    # The upgrade is what was asked for; it looks after the pods that use the driver.
    if foreign or (versions - {wanted} and not settings["nvidia_driver_upgrading"]):
        reason = foreign or f"is not the wanted version {wanted}"
        yield reading.problem(
            "driver_unmanaged",
            f"The existing NVIDIA driver ({listing(sorted(versions)) or 'version unknown'}) {reason}",
            listing(sorted(found["packages"])[:4]) or "/proc/driver/nvidia/version",
            "An existing driver is not replaced unless you ask for it",
            "Keep it (nvidia_driver_source=preinstalled), or choose its version (nvidia_driver_version), or "
            + (
                "let it be replaced (nvidia_driver_replace_foreign=true)"
                if foreign
                else "change it with the playbook gpulab.kubernetes.upgrade_driver, or let it be replaced by this "
                "version (nvidia_driver_replace_foreign=true)"
            ),
            **_kept_driver(found),
        )


def _kept_driver(found: Facts) -> dict[str, str]:
    """Only a driver that is loaded can be kept as it is."""
    return {"nvidia_driver_source": "preinstalled"} if found["loaded_version"] else {}


def secure_boot(reading: Reading, cluster: Cluster) -> Iterator[Problem]:
    source, facts = reading.settings["nvidia_driver_source"], reading.facts
    loaded = facts["nvidia_driver"]["loaded_version"] == wanted_version(reading)
    if not facts["secure_boot"] or not facts["gpus"] or source not in INSTALLED or loaded:
        return
    ubuntu = facts["os"]["key"].startswith("Ubuntu")
    # Ubuntu's own modules are signed by Canonical, and the role takes them there.
    if ubuntu and source == "distribution":
        return
    own = "install a signed driver yourself, or enroll a key for DKMS at the console, and set "
    yield reading.problem(
        "secure_boot",
        "Secure Boot is on",
        "firmware",
        "The kernel refuses the driver's modules, which DKMS builds on the host and signs with an unknown key",
        (
            "Use Ubuntu's own driver, whose modules are signed: nvidia_driver_source=distribution with a version from "
            "apt list -a 'linux-modules-nvidia-*-server-open-*' as nvidia_driver_version. "
            if ubuntu
            else ""
        )
        + f"Turn off Secure Boot in the firmware; or {own}nvidia_driver_source=preinstalled",
    )


def components(reading: Reading, cluster: Cluster) -> Iterator[Problem]:
    facts, wanted = reading.facts, wanted_version(reading)
    if not _from_distribution(reading) or wanted in versions_in(facts["nvidia_driver"]["packages"].values()):
        return
    needed = _COMPONENTS.get(str(facts["os"]["key"]).partition(" ")[0], ())
    missing = [name for name in needed if name not in facts["apt_components"]]
    # A mirror may have merged the components, or have none.
    if missing and not facts["distribution_drivers"]:
        yield reading.problem(
            "apt_components_missing",
            f"The apt sources of this host do not enable {listing(missing)}",
            "/etc/apt/sources.list, /etc/apt/sources.list.d",
            "These components contain the distribution's own driver (nvidia_driver_source=distribution)",
            f"Add {' '.join(missing)} to the components of the distribution's entries, including its security "
            "updates; or set nvidia_driver_source=cuda_repository",
        )


def does_not_build(reading: Reading, cluster: Cluster) -> Iterator[Problem]:
    """What is known to fail: Debian's own driver, since stable updates of its kernels changed an interface."""
    facts, wanted = reading.facts, wanted_version(reading)
    known = _DOES_NOT_BUILD.get((str(facts["os"]["key"]), wanted), ())
    loaded = facts["nvidia_driver"]["loaded_version"] == wanted
    if not known or not _from_distribution(reading) or loaded:
        return
    release = _KERNEL.match(str(facts["kernel"]))
    kernel = tuple(map(int, re.findall(r"\d+", release.group()))) if release else ()
    if any(kernel[: len(first) - 1] == first[:-1] and kernel >= first for first in known):
        yield reading.problem(
            "driver_does_not_build",
            f"Debian's driver {wanted} does not build for the kernel {facts['kernel']}",
            "nvidia_driver_source",
            "This kernel's pci_resize_resource takes one more argument",
            "Set nvidia_driver_source=cuda_repository; or look for a newer version "
            "(apt-cache madison nvidia-open-kernel-dkms nvidia-kernel-dkms) and set nvidia_driver_version to it, with "
            "nvidia_driver_modules=proprietary if only nvidia-kernel-dkms has it; or boot an older kernel; "
            "or install a driver yourself and set nvidia_driver_source=preinstalled",
        )


def wanted_version(reading: Reading) -> str:
    """The version that a host is to have, empty where that is not decided."""
    version = str(reading.settings["nvidia_driver_version"])
    return version if version != AUTO else str((reading.settings.get("driver_choice") or {}).get("version", ""))


def _from_distribution(reading: Reading) -> bool:
    return bool(reading.facts["gpus"]) and reading.settings["nvidia_driver_source"] == "distribution"


def _choice(reading: Reading, choice: Mapping[str, str]) -> Iterator[Problem]:
    if reading.settings["nvidia_driver_upgrading"]:
        yield reading.problem(
            "driver_upgrade_without_version",
            "No version is set for the driver upgrade",
            "nvidia_driver_version",
            "auto keeps the installed version",
            "Set it in the inventory, or run again with -e nvidia_driver_version=VERSION",
        )
    elif choice.get("why"):
        yield reading.problem(
            "driver_version_undecided",
            f"nvidia_driver_version is auto, but no version can be chosen: {choice['why']}",
            "nvidia_driver_version",
            "All hosts of a pool get the same version, so that jobs find the same driver on each of them",
            choice["advice"],
        )
