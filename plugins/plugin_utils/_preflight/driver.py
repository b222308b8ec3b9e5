# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Preflight's rules for the GPU driver: its version, an existing driver, Secure Boot."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ...module_utils._problem import Problem
from ...module_utils._words import listing
from .._cuda import compatibility
from .._driver.archive import builds
from .._driver.fit import AUTO, branch_of, devices_of, kind_for
from .._driver.packages import available, foreign_kernel, headers_problem, installed_versions, modules_of, newest
from .._driver.plan import INSTALLED
from .._driver.version import Host, fitting
from .model import Cluster, Facts, Reading
from .remedies import INSTEAD

# Components of a distribution's archive that contain its own driver.
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
        yield from _choice(reading, table, settings.get("driver_choice") or {})
        return
    # A failed upgrade may have rolled back to another version, which is kept if it is requested.
    kept = settings["nvidia_driver_upgrading"] and version == reading.facts["nvidia_driver"]["loaded_version"]
    system = reading.facts["os"]["key"]
    if settings["nvidia_driver_source"] == "distribution":
        yield from _archive(reading, str(version))
    if settings["nvidia_driver_source"] != "cuda_repository" or kept:
        return
    known = available(system, table)
    if version not in table:
        yield reading.problem(
            "driver_version_unknown",
            f"nvidia_driver_version is {version}, which is not in the table of versions",
            "nvidia_driver_version",
            f"Only versions that are known to work with the others are installed: {listing(known or table)}",
            "Choose one of these versions, or auto",
        )
    # An unsupported distribution is a separate problem.
    elif system not in table[version]["packages"] and known:
        yield reading.problem(
            "driver_version_not_offered",
            f"nvidia_driver_version is {version}, which is not in NVIDIA's repository for {system}",
            "nvidia_driver_version",
            f"Each distribution has its own set of versions. For {system}, the table contains {listing(known)}",
            INSTEAD,
        )


def _archive(reading: Reading, version: str) -> Iterator[Problem]:
    """Check that a version is installed or apt has it with the wanted modules; both kinds are built separately.

    apt's lists may be older than the archive: a version newer than those in the lists, of the same branch if they
    contain any, may become available when the run refreshes them.
    """
    facts, modules = reading.facts, wanted_modules(reading)
    read = sorted({(str(each["version"]), str(each["modules"])) for each in facts.get("distribution_versions") or ()})
    versions = {each for each, _modules in read}
    compared = {each for each in versions if branch_of(each) == branch_of(version)} or versions
    outdated = version not in versions and any(newest((version, each)) == version for each in compared)
    known = (version, modules) in read or version in installed_versions(facts["nvidia_driver"])
    if read and not known and not outdated:
        yield reading.problem(
            "driver_version_not_offered",
            f"nvidia_driver_version is {version}, which the archive of {facts['os']['key']} does not have with the "
            f"{modules} kernel modules",
            "nvidia_driver_version",
            "With nvidia_driver_source=distribution, apt must know the version. It knows "
            + listing(f"{each} ({kind})" for each, kind in read),
            INSTEAD,
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
                "Load it if it is installed (modprobe nvidia; nvidia-smi shows why not)",
            )
        return
    versions = installed_versions(found) or {found["loaded_version"]} - {""}
    if settings["nvidia_driver_source"] == "operator":
        # A driver from neither a package nor a .run file was installed by the operator in an earlier run.
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
    # A driver that a pod installed belongs to no package; one from the host's packages is then unmanaged.
    if settings["nvidia_driver_source"] == "daemonset":
        foreign = "comes from the host's packages" if found["packages"] else None
    # An upgrade may replace the driver; it handles the pods that use it.
    if foreign or (versions - {wanted} and not settings["nvidia_driver_upgrading"]):
        reason = foreign or f"is not the wanted version {wanted}"
        yield reading.problem(
            "driver_unmanaged",
            f"The existing NVIDIA driver ({listing(sorted(versions)) or 'version unknown'}) {reason}",
            listing(sorted(found["packages"])[:4]) or "/proc/driver/nvidia/version",
            "An existing driver is not replaced unless you ask for it",
            INSTEAD if foreign else "Change it with the playbook gpulab.kubernetes.upgrade_driver",
            **_kept_driver(found),
        )


def kept_modules(reading: Reading, cluster: Cluster) -> Iterator[Problem]:
    """Check for a driver of the wanted version with modules of the other kind, which apt would not replace."""
    settings, found, wanted = reading.settings, reading.facts["nvidia_driver"], wanted_version(reading)
    there, planned = modules_of(found, wanted), wanted_modules(reading)
    replacing = settings["nvidia_driver_replace_foreign"] or settings["nvidia_driver_upgrading"]
    if settings["nvidia_driver_source"] not in INSTALLED or replacing or not there or there == planned:
        return
    if reading.facts["gpus"] and wanted in installed_versions(found):
        yield reading.problem(
            "driver_modules_differ",
            f"The existing NVIDIA driver {wanted} has the {there} kernel modules, but the {planned} ones are needed",
            "nvidia_driver_modules",
            "An existing driver is not replaced unless you ask for it"
            if settings["nvidia_driver_modules"] != AUTO
            else f"The {there} modules do not drive the GPUs of this host",
            "Change it with the playbook gpulab.kubernetes.upgrade_driver",
        )


def _kept_driver(found: Facts) -> dict[str, str]:
    """Return the setting that keeps the loaded driver, empty if none is loaded."""
    return {"nvidia_driver_source": "preinstalled"} if found["loaded_version"] else {}


def secure_boot(reading: Reading, cluster: Cluster) -> Iterator[Problem]:
    source, facts = reading.settings["nvidia_driver_source"], reading.facts
    loaded = facts["nvidia_driver"]["loaded_version"] == wanted_version(reading)
    if not facts["secure_boot"] or not facts["gpus"] or source not in INSTALLED or loaded:
        return
    ubuntu = facts["os"]["key"].startswith("Ubuntu")
    # Canonical signs Ubuntu's own modules, which the role installs in this case.
    if ubuntu and source == "distribution":
        return
    key = facts.get("signing_key") or {}
    # The kernel loads modules that DKMS signs with an enrolled key.
    if key.get("enrolled"):
        return
    certificate = key.get("certificate") or ("/var/lib/shim-signed/mok/MOK.der" if ubuntu else "/var/lib/dkms/mok.pub")
    create = "update-secureboot-policy --new-key" if ubuntu else "dkms generate_mok"
    yield reading.problem(
        "secure_boot",
        "Secure Boot is on",
        f"firmware, {certificate}",
        "The kernel refuses the driver's modules, which DKMS builds on the host and signs with an unknown key",
        (
            "Use Ubuntu's own driver, whose modules are signed: nvidia_driver_source=distribution with a version from "
            "apt list -a 'linux-modules-nvidia-*-server-open-*' as nvidia_driver_version. "
            if ubuntu
            else ""
        )
        + f"Turn off Secure Boot in the firmware. Or enroll DKMS's key: mokutil --import {certificate} (if there is "
        f"none, install dkms and run {create} first), reboot, confirm at the console, and run again. Or install a "
        "signed driver yourself and set nvidia_driver_source=preinstalled",
    )


def kernel_headers(reading: Reading, cluster: Cluster) -> Iterator[Problem]:
    """Check for the kernel headers that DKMS needs; for some kernels, none of the host's apt sources has them."""
    facts, source = reading.facts, reading.settings["nvidia_driver_source"]
    found = facts.get("kernel_packages")
    if not found or not facts["gpus"] or source not in INSTALLED:
        return
    # Canonical's signed modules are already built.
    if facts["secure_boot"] and source == "distribution" and facts["os"]["key"].startswith("Ubuntu"):
        return
    if facts["nvidia_driver"]["loaded_version"] == wanted_version(reading):
        return
    # If apt was not queried, only kernels from other sources are checked; the role checks the others later.
    asked = found.get("headers_known") is not None or foreign_kernel(str(facts["kernel"]))
    what, do = headers_problem(facts) if asked else ("", "")
    if what:
        yield reading.problem(
            "kernel_headers_missing",
            what,
            f"kernel {facts['kernel']}",
            "DKMS builds the driver's modules for the running kernel with them",
            do,
        )


def components(reading: Reading, cluster: Cluster) -> Iterator[Problem]:
    facts, wanted = reading.facts, wanted_version(reading)
    if not _from_distribution(reading) or wanted in installed_versions(facts["nvidia_driver"]):
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
            f"Add {' '.join(missing)} to the components of the distribution's entries, including its security updates",
        )


def does_not_build(reading: Reading, cluster: Cluster) -> Iterator[Problem]:
    """Check for known build failures: stable kernel updates changed an interface that Debian's own driver uses."""
    facts, wanted, modules = reading.facts, wanted_version(reading), wanted_modules(reading)
    if not _from_distribution(reading) or facts["nvidia_driver"]["loaded_version"] == wanted:
        return
    if not builds(str(facts["os"]["key"]), wanted, modules, str(facts["kernel"])):
        yield reading.problem(
            "driver_does_not_build",
            f"Debian's driver {wanted} does not build for the kernel {facts['kernel']}",
            "nvidia_driver_source",
            f"This kernel's pci_resize_resource takes one more argument than the {modules} modules pass",
            "Boot an older kernel; or look for a newer version (apt-cache madison nvidia-open-kernel-dkms "
            "nvidia-kernel-dkms) and set nvidia_driver_version to it, with nvidia_driver_modules=proprietary if only "
            "nvidia-kernel-dkms has it",
        )


def wanted_version(reading: Reading) -> str:
    """Return the version that the host will have, empty if it was not decided."""
    version = str(reading.settings["nvidia_driver_version"])
    return version if version != AUTO else str((reading.settings.get("driver_choice") or {}).get("version", ""))


def wanted_modules(reading: Reading) -> str:
    """Return the kind of modules of the driver that packages will install."""
    wanted = wanted_version(reading)
    return kind_for(
        devices_of(reading.facts),
        str(reading.settings["nvidia_driver_modules"]),
        branch_of(wanted),
        modules_of(reading.facts["nvidia_driver"], wanted),
    )


def driver_to_be(reading: Reading) -> compatibility.Driver | None:
    """Return the driver that the host will have, None if unknown or invalid, which another rule reports."""
    preinstalled = reading.settings["nvidia_driver_source"] == "preinstalled"
    loaded, wanted = reading.facts["nvidia_driver"]["loaded_version"], wanted_version(reading)
    try:
        return compatibility.read_driver(str(loaded if preinstalled else wanted))
    except compatibility.CudaError:
        return None


def modules_to_be(reading: Reading) -> str:
    """Return the kind of modules that the host will have, empty if an image or the operator decides it."""
    source, setting = reading.settings["nvidia_driver_source"], str(reading.settings["nvidia_driver_modules"])
    if source == "preinstalled":
        return str(reading.facts["nvidia_driver"].get("loaded_modules") or "")
    if source in INSTALLED:
        return wanted_modules(reading)
    return setting if setting != AUTO else ""


def _from_distribution(reading: Reading) -> bool:
    return bool(reading.facts["gpus"]) and reading.settings["nvidia_driver_source"] == "distribution"


def _choice(reading: Reading, table: Facts, choice: Mapping[str, str]) -> Iterator[Problem]:
    if reading.settings["nvidia_driver_upgrading"]:
        yield reading.problem(
            "driver_upgrade_without_version",
            "No version is set for the driver upgrade",
            "nvidia_driver_version",
            "auto keeps the installed version",
            "Set it in the inventory, or run again with -e nvidia_driver_version=VERSION",
        )
    elif choice.get("why"):
        modules, source = str(reading.settings["nvidia_driver_modules"]), str(reading.settings["nvidia_driver_source"])
        able = fitting(Host(reading.host, AUTO, source, "", reading.facts, modules), table)
        yield reading.problem(
            "driver_version_undecided",
            f"nvidia_driver_version is auto, but no version can be chosen: {choice['why']}",
            "nvidia_driver_version",
            "All hosts of a pool get the same version, so that jobs find the same driver on each of them"
            if able and source == "cuda_repository"
            else "A host has one driver, which must serve all its GPUs",
            # Advice without remedies is about the pool.
            choice["advice"] if able and source == "cuda_repository" else INSTEAD,
        )
