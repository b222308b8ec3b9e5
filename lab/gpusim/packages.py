"""Names and dependencies of NVIDIA's driver packages in its CUDA repositories, for the parts that the lab simulates.

Ubuntu: up to branch 580 the branch is part of every name, from 590 it is gone and pinning packages choose the branch
(docs.nvidia.com/datacenter/tesla/driver-installation-guide/recent-updates.html, "Ubuntu 590 package renames").
Debian: the names below the metapackages never had a branch. There `nvidia-open-580` and `cuda-drivers-580` merely ask
for something ">= 580.65.06", so without a pin they bring the newest driver (forums.developer.nvidia.com/t/353805).
"""

from __future__ import annotations

from dataclasses import dataclass

from lab.gpusim.library import Driver

# The first release of branch 580, which its metapackages on Debian ask for at least.
_BRANCH_MINIMUM = {"580": "580.65.06"}
_FIRST_UNVERSIONED_BRANCH = 590

_OPEN = ("open", "open GPU kernel modules")
_PROPRIETARY = ("proprietary", "proprietary kernel modules")

# Parts whose files lie at the same place under every name: a virtual package makes their holders exclude one another.
_EXCLUSIVE = ("library", "smi", "kernel-common", "source", "dkms", "persistenced")


@dataclass(frozen=True)
class Package:
    """One package: the parts of the simulated driver that it holds and what it depends on."""

    name: str
    version: str
    summary: str
    parts: tuple[str, ...] = ()
    depends: tuple[str, ...] = ()
    excludes: tuple[str, ...] = ()
    architecture: str = "amd64"

    @property
    def fields(self) -> dict[str, str]:
        """Control fields that let apt put one package in the place of another."""
        slots = {part.partition(":")[0] for part in self.parts}
        virtual = [*self.excludes, *(f"nvidia-simulated-{slot}" for slot in _EXCLUSIVE if slot in slots)]
        listed = ", ".join(virtual)
        return {"Provides": listed, "Conflicts": listed, "Replaces": listed} if virtual else {}


def packages(driver: Driver, family: str, version: str) -> list[Package]:
    """Return the packages of one driver in the repositories of a family, Debian or Ubuntu."""
    if family == "Debian":
        layered = _debian(driver, version)
    else:
        branch = "" if int(driver.branch) >= _FIRST_UNVERSIONED_BRANCH else f"-{driver.branch}"
        layered = _ubuntu(driver, version, branch)
    return [*layered, *_common(driver, version)]


def _common(driver: Driver, version: str) -> list[Package]:
    revision = version.removeprefix(driver.version)
    pinning = [
        (driver.branch, f"{driver.branch}{revision}", f"pin:{driver.branch}.*", "branch"),
        (driver.version, version, f"pin:{driver.version}-*", "version"),
    ]
    return [
        Package("nvidia-fabricmanager", version, "fabric manager for NVSwitch based systems", ("fabricmanager",)),
        Package(
            "nvidia-modprobe",
            version,
            "utility to load kernel modules and create device nodes",
            ("modprobe",),
            ("kmod",),
        ),
        *(
            Package(
                f"nvidia-driver-pinning-{name}",
                own,
                f"APT driver pinning file for driver {kind} {name}",
                (part,),
                excludes=("nvidia-driver-pinning",),
                architecture="all",
            )
            for name, own, part, kind in pinning
        ),
    ]


def _ubuntu(driver: Driver, version: str, branch: str) -> list[Package]:
    """The names of Ubuntu's repositories; `branch` is "-580" under the former scheme and empty under the later one."""
    same = f"(= {version})"
    compute, common = f"libnvidia-compute{branch}", f"nvidia-kernel-common{branch}"
    firmware = f"nvidia-firmware{branch}-{driver.version}" if branch else "nvidia-firmware"
    if branch:
        tools = [f"nvidia-compute-utils{branch}", f"nvidia-utils{branch}"]
        programs = [
            Package(tools[0], version, "nvidia-persistenced", ("persistenced",), (f"{compute} {same}",)),
            Package(tools[1], version, "driver support binaries, nvidia-smi", ("smi",), (f"{compute} {same}",)),
        ]
    else:
        # nvidia-utils and nvidia-compute-utils are gone: nvidia-smi comes with the compute libraries.
        tools = ["nvidia-persistenced"]
        programs = [Package(tools[0], version, "daemon to keep driver state", ("persistenced",))]
    result = [
        Package(compute, version, "compute libraries", ("library",) if branch else ("library", "smi"), ("libc6",)),
        _kernel_common(common, version),
        Package(firmware, version, "firmware of the GPU system processor", ("firmware",)),
        *programs,
    ]
    for (flavor, summary), end, meta in ((_OPEN, "-open", "nvidia-open"), (_PROPRIETARY, "", "cuda-drivers")):
        source, dkms = f"nvidia-kernel-source{branch}{end}", f"nvidia-dkms{branch}{end}"
        headless, full = f"nvidia-headless{branch}{end}", f"nvidia-driver{branch}{end}"
        bare = f"nvidia-headless-no-dkms{branch}{end}"
        names = {
            source: (f"source of the {summary}", (f"source:{flavor}",), []),
            dkms: (f"{summary}, built by DKMS", ("dkms",), [common, source, firmware]),
            bare: (f"headless driver without {summary}", (), [compute, common, firmware, tools[0]]),
            headless: (f"headless driver, {summary}", (), [bare, dkms]),
            full: (f"driver metapackage, {summary}", (), [compute, common, dkms, *tools]),
            **({f"{meta}{branch}": (f"driver metapackage, {summary}", (), [full])} if branch else {}),
            meta: (f"driver metapackage, {summary}, latest version", (), [f"{meta}{branch}" if branch else full]),
        }
        result += [
            Package(name, version, text, parts, tuple(f"{needed} {same}" for needed in depends))
            for name, (text, parts, depends) in names.items()
        ]
    return result


def _debian(driver: Driver, version: str) -> list[Package]:
    """The names of the Debian repositories."""
    same = f"(= {version})"
    least = f"(>= {driver.version})"
    result = [
        Package("libnvidia-ml1", version, "management library (NVML)", ("library",), ("libc6",)),
        Package("firmware-nvidia-gsp", version, "firmware of the GPU system processor", ("firmware",)),
        _kernel_common("nvidia-kernel-support", version),
        Package("nvidia-persistenced", version, "daemon to keep driver state", ("persistenced",)),
        Package(
            "nvidia-driver-cuda",
            version,
            "CUDA integration components, nvidia-smi",
            ("smi",),
            (f"libnvidia-ml1 {same}", f"nvidia-persistenced {least}"),
        ),
        Package("nvidia-driver", version, "driver metapackage", (), (f"nvidia-kernel-support {same}",)),
    ]
    minimum = _BRANCH_MINIMUM.get(driver.branch)
    for (flavor, summary), modules, meta in (
        (_OPEN, "nvidia-kernel-open-dkms", "nvidia-open"),
        (_PROPRIETARY, "nvidia-kernel-dkms", "cuda-drivers"),
    ):
        needed = (f"nvidia-kernel-support {same}", f"firmware-nvidia-gsp {same}")
        result.append(Package(modules, version, f"{summary}, built by DKMS", (f"source:{flavor}", "dkms"), needed))
        for name, lowest in {meta: driver.version, **({f"{meta}-{driver.branch}": minimum} if minimum else {})}.items():
            depends = tuple(f"{part} (>= {lowest})" for part in ("nvidia-driver", "nvidia-driver-cuda", modules))
            result.append(Package(name, version, f"driver metapackage, {summary}", (), depends))
    return result


def _kernel_common(name: str, version: str) -> Package:
    needed = ("kmod", "util-linux", "nvidia-modprobe")
    return Package(name, version, "files shared by the kernel modules", ("kernel-common",), needed)
