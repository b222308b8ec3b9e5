# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Compatibility of CUDA toolkits, NVIDIA's Linux drivers and GPUs. Data only.

Filters and tests read it on the controller, modules on hosts, and ``docs/generate.py`` for docs/cuda.md. Each row names
its source by a key of ``SOURCES``. Rows are ordered from oldest to newest. What is not listed is unknown, and is never
guessed.
"""

from __future__ import annotations

from dataclasses import dataclass

SOURCES = {
    "release notes": "https://docs.nvidia.com/cuda/cuda-toolkit-release-notes/ (table 3, as of 2026-11)",
    "installers": "https://developer.nvidia.com/cuda-toolkit-archive (the driver in the Linux installer's name)",
    "forward": "https://docs.nvidia.com/deploy/cuda-compatibility/forward-compatibility.html (as of 2026-09)",
    "minor": "https://docs.nvidia.com/deploy/cuda-compatibility/minor-version-compatibility.html (as of 2026-09)",
    "images": "https://gitlab.com/nvidia/container-images/cuda (NVIDIA_REQUIRE_CUDA of the images of that toolkit)",
    "repositories": "https://developer.download.nvidia.com/compute/cuda/repos/ (indexes of 2025-06 to 2026-10)",
    "installations": "https://github.com/Jimver/cuda-toolkit/issues/375 (of many toolkits, 12.5 is the oldest found)",
    "branches": "https://www.nvidia.com/en-us/drivers/unix/ and the tags of github.com/NVIDIA/open-gpu-kernel-modules",
    "legacy": "https://www.nvidia.com/en-us/drivers/unix/legacy-gpu/ and the release notes of CUDA 8.0, 10.2 and 11.8",
    "kernel modules": "https://docs.nvidia.com/datacenter/tesla/driver-installation-guide/kernel-modules.html",
    "open modules": "https://github.com/NVIDIA/open-gpu-kernel-modules (the README's table of GPUs, by tag)",
    "13.0": "https://docs.nvidia.com/cuda/archive/13.0.0/cuda-toolkit-release-notes/ (Maxwell, Pascal, Volta removed)",
    "10.0": "https://docs.nvidia.com/cuda/archive/10.0/cuda-toolkit-release-notes/ (Turing added)",
    "11.0": "https://docs.nvidia.com/cuda/archive/11.0/cuda-toolkit-release-notes/ (Ampere added)",
    "11.1": "https://docs.nvidia.com/cuda/archive/11.1.0/cuda-toolkit-release-notes/ (GA10x added)",
    "11.8": "https://docs.nvidia.com/cuda/archive/11.8.0/cuda-toolkit-release-notes/ (Ada and Hopper added)",
    "12.8": "https://docs.nvidia.com/cuda/archive/12.8.0/cuda-toolkit-release-notes/ (Blackwell added)",
    "12.9": "https://docs.nvidia.com/cuda/archive/12.9.0/cuda-toolkit-release-notes/ (sm_103 and sm_121 added)",
    "pci.ids": "https://pci-ids.ucw.cz (2026-08-22 and 2026-10-24)",
    "names": "nvidia-smi's names, compared with the README of open-gpu-kernel-modules 595.45.04 and with pci.ids",
}


@dataclass(frozen=True)
class Toolkit:
    """A minor version and the Linux drivers that its releases included: general availability, update 1, update 2...

    ``first`` is the third digit of the general availability release; lower ones were previews. ``any_update``: the
    driver supports every release of this version.
    """

    version: str
    drivers: tuple[str, ...]
    sources: tuple[str, ...] = ("release notes",)
    first: int = 0
    any_update: bool = False


_INSTALLERS = ("release notes", "installers")
TOOLKITS = (
    Toolkit("10.0", ("410.48",), any_update=True),
    Toolkit("10.1", ("418.39",), any_update=True),
    Toolkit("10.2", ("440.33",), any_update=True),
    Toolkit("11.0", ("450.51.05", "450.51.06"), first=2),
    Toolkit("11.1", ("455.23", "455.32")),
    Toolkit("11.2", ("460.27.03", "460.32.03", "460.32.03")),
    Toolkit("11.3", ("465.19.01", "465.19.01")),
    Toolkit("11.4", ("470.42.01", "470.57.02", "470.57.02", "470.82.01", "470.82.01")),
    Toolkit("11.5", ("495.29.05", "495.29.05", "495.29.05")),
    Toolkit("11.6", ("510.39.01", "510.47.03", "510.47.03")),
    Toolkit("11.7", ("515.43.04", "515.48.07")),
    Toolkit("11.8", ("520.61.05",)),
    Toolkit("12.0", ("525.60.13", "525.85.12"), _INSTALLERS),
    Toolkit("12.1", ("530.30.02", "530.30.02"), _INSTALLERS),
    Toolkit("12.2", ("535.54.03", "535.86.09", "535.104.05")),
    Toolkit("12.3", ("545.23.06", "545.23.08", "545.23.08"), _INSTALLERS),
    Toolkit("12.4", ("550.54.14", "550.54.15"), _INSTALLERS),
    Toolkit("12.5", ("555.42.02", "555.42.06"), _INSTALLERS),
    Toolkit("12.6", ("560.28.03", "560.35.03", "560.35.03", "560.35.05"), _INSTALLERS),
    Toolkit("12.8", ("570.26", "570.124.06", "570.211.01"), _INSTALLERS),
    Toolkit("12.9", ("575.51.03", "575.57.08", "575.57.08"), _INSTALLERS),
    Toolkit("13.0", ("580.65.06", "580.82.07", "580.95.05", "580.126.20"), _INSTALLERS),
    Toolkit("13.1", ("590.44.01", "590.48.01", "590.48.01"), _INSTALLERS),
    Toolkit("13.2", ("595.45.04", "595.58.03", "595.71.05"), _INSTALLERS),
    Toolkit("13.3", ("610.43.02", "610.43.02"), _INSTALLERS),
    # No driver is included: 615 is the branch that was built with CUDA 13.4.
    Toolkit("13.4", ("615", "615"), ("forward",), first=1),
)


@dataclass(frozen=True)
class Repository:
    """The oldest toolkit in NVIDIA's repository for a distribution. Older ones are never added later."""

    system: str
    first: str
    sources: tuple[str, ...] = ("repositories",)


REPOSITORIES = (
    Repository("Debian 12", "12.3"),
    Repository("Debian 13", "13.1"),
    Repository("Ubuntu 22.04", "11.7"),
    Repository("Ubuntu 24.04", "12.5", ("installations",)),
    Repository("Ubuntu 26.04", "13.3"),
)


@dataclass(frozen=True)
class MinorVersions:
    """The minimum driver that runs every toolkit of a major version, without all features."""

    major: int
    driver: str
    sources: tuple[str, ...] = ("minor",)


MINOR_VERSIONS = (
    MinorVersions(11, "450.80.02"),
    MinorVersions(12, "525.60.13"),
    MinorVersions(13, "580.65.06"),
)


@dataclass(frozen=True)
class Forward:
    """The driver branches with which a toolkit's package cuda-compat works (data-center GPUs only).

    ``ended``: discontinued long-term and production branches that NVIDIA supported when the toolkit was released
    (source ``images``), but no longer lists.
    """

    toolkit: str
    branches: tuple[int, ...]
    ended: tuple[int, ...] = ()
    sources: tuple[str, ...] = ("forward", "images")


FORWARD = (
    Forward("12.0", (), (450, 470, 510, 515), ("images",)),
    Forward("12.1", (), (450, 470), ("images",)),
    Forward("12.2", (), (450, 470)),
    Forward("12.3", (535,), (470,)),
    Forward("12.4", (535,), (470,)),
    Forward("12.5", (535,), (470,)),
    Forward("12.6", (535,), (470,)),
    Forward("12.8", (535,), (470,)),
    Forward("12.9", (535, 570), sources=("forward",)),
    Forward("13.0", (535, 570), (550,)),
    Forward("13.1", (535, 570, 580), (550,)),
    Forward("13.2", (535, 570, 580, 590), sources=("forward",)),
    Forward("13.3", (535, 570, 580, 590, 595), sources=("forward",)),
    Forward("13.4", (535, 570, 580, 590, 595, 610), sources=("forward",)),
)


@dataclass(frozen=True)
class Branches:
    """The driver branches of Linux. Other numbers in between are Windows branches."""

    numbers: tuple[int, ...]
    sources: tuple[str, ...] = ("branches",)


_NUMBERS = (
    "340 361 367 375 378 381 384 387 390 396 410 415 418 430 435 440 450 455 460 465 470 495 "
    "510 515 520 525 530 535 545 550 555 560 565 570 575 580 590 595 610 615 616"
)
BRANCHES = Branches(tuple(int(number) for number in _NUMBERS.split()))

OPEN_REQUIRED = "required"
OPEN_SUPPORTED = "supported"
OPEN_UNSUPPORTED = "unsupported"


@dataclass(frozen=True)
class Family:
    """GPUs of one architecture with the same driver and toolkit support; an architecture can have several families.

    Branches and toolkits are None if there is no limit, or one that is older than this table. ``data_center``: whether
    all of them are data-center GPUs, None if only some are.
    """

    name: str
    chips: str
    open_modules: str
    sources: tuple[str, ...]
    first_branch: int | None = None
    last_branch: int | None = None
    first_toolkit: str | None = None
    last_toolkit: str | None = None
    data_center: bool | None = None


_OLD = ("legacy", "kernel modules")
FERMI = Family("Fermi", "GF", OPEN_UNSUPPORTED, _OLD, last_branch=390, last_toolkit="8.0")
KEPLER_GK10X = Family("Kepler", "GK10x", OPEN_UNSUPPORTED, _OLD, last_branch=470, last_toolkit="10.2")
KEPLER = Family("Kepler", "GK110, GK208, GK210", OPEN_UNSUPPORTED, _OLD, last_branch=470, last_toolkit="11.8")
_REMOVED = ("13.0", "legacy", "kernel modules")
MAXWELL = Family("Maxwell", "GM", OPEN_UNSUPPORTED, _REMOVED, last_branch=580, last_toolkit="12.9")
PASCAL = Family("Pascal", "GP", OPEN_UNSUPPORTED, _REMOVED, last_branch=580, last_toolkit="12.9")
VOLTA = Family("Volta", "GV", OPEN_UNSUPPORTED, _REMOVED, last_branch=580, last_toolkit="12.9")
TURING = Family("Turing", "TU", OPEN_SUPPORTED, ("10.0", "kernel modules"), first_branch=410, first_toolkit="10.0")
AMPERE = Family("Ampere", "GA100", OPEN_SUPPORTED, ("11.0", "kernel modules"), first_branch=450, first_toolkit="11.0")
AMPERE_GA10X = Family(
    "Ampere", "GA10x", OPEN_SUPPORTED, ("11.1", "kernel modules"), first_branch=455, first_toolkit="11.1"
)
ADA = Family("Ada Lovelace", "AD", OPEN_SUPPORTED, ("11.8", "kernel modules"), first_branch=520, first_toolkit="11.8")
HOPPER = Family(
    "Hopper",
    "GH100",
    OPEN_SUPPORTED,
    ("11.8", "open modules", "kernel modules"),
    first_branch=520,
    first_toolkit="11.8",
    data_center=True,
)
GRACE_HOPPER = Family(
    "Grace Hopper",
    "GH100 with a Grace CPU",
    OPEN_REQUIRED,
    ("11.8", "open modules", "kernel modules"),
    first_branch=535,
    first_toolkit="11.8",
    data_center=True,
)
BLACKWELL = Family(
    "Blackwell",
    "GB100, GB20x",
    OPEN_REQUIRED,
    ("12.8", "open modules", "kernel modules"),
    first_branch=570,
    first_toolkit="12.8",
)
BLACKWELL_GB10 = Family(
    "Blackwell",
    "GB10",
    OPEN_REQUIRED,
    ("12.9", "open modules", "kernel modules"),
    first_branch=580,
    first_toolkit="12.9",
    data_center=False,
)
BLACKWELL_ULTRA = Family(
    "Blackwell Ultra",
    "GB110",
    OPEN_REQUIRED,
    ("12.9", "open modules", "kernel modules"),
    first_branch=580,
    first_toolkit="12.9",
    data_center=True,
)
# Of several families of one architecture, the first is the one that the architecture's name stands for.
FAMILIES = (
    FERMI,
    KEPLER,
    KEPLER_GK10X,
    MAXWELL,
    PASCAL,
    VOLTA,
    TURING,
    AMPERE,
    AMPERE_GA10X,
    ADA,
    HOPPER,
    GRACE_HOPPER,
    BLACKWELL,
    BLACKWELL_GB10,
    BLACKWELL_ULTRA,
)


@dataclass(frozen=True)
class Block:
    """Device IDs of vendor 10de of one family's chips. NVIDIA assigns them in blocks; rounded to 0x10."""

    first: int
    last: int
    family: Family
    sources: tuple[str, ...] = ("pci.ids",)


BLOCKS = (
    Block(0x06C0, 0x06DF, FERMI),
    Block(0x0DC0, 0x0DFF, FERMI),
    Block(0x0E22, 0x0E3F, FERMI),
    Block(0x0F00, 0x0F0F, FERMI),
    Block(0x0FC0, 0x0FFF, KEPLER_GK10X),
    Block(0x1000, 0x103F, KEPLER),
    Block(0x1040, 0x109F, FERMI),
    Block(0x1140, 0x114F, FERMI),
    Block(0x1180, 0x11FF, KEPLER_GK10X),
    Block(0x1200, 0x125F, FERMI),
    Block(0x1280, 0x130F, KEPLER),
    Block(0x1340, 0x143F, MAXWELL),
    Block(0x15C0, 0x15FF, PASCAL),
    Block(0x1610, 0x167F, MAXWELL),
    Block(0x1720, 0x172F, PASCAL),
    Block(0x1740, 0x17FF, MAXWELL),
    Block(0x1B00, 0x1D5F, PASCAL),
    Block(0x1D80, 0x1DFF, VOLTA),
    Block(0x1E00, 0x1FFF, TURING),
    Block(0x2080, 0x20FF, AMPERE),
    Block(0x2180, 0x21DF, TURING),
    Block(0x2200, 0x228F, AMPERE_GA10X),
    Block(0x2300, 0x2341, HOPPER),
    Block(0x2342, 0x2342, GRACE_HOPPER),
    Block(0x2343, 0x2347, HOPPER),
    Block(0x2348, 0x2348, GRACE_HOPPER),
    Block(0x2349, 0x23FF, HOPPER),
    Block(0x2410, 0x25FF, AMPERE_GA10X),
    Block(0x2680, 0x28FF, ADA),
    Block(0x2900, 0x2DFF, BLACKWELL),
    Block(0x2E00, 0x2EFF, BLACKWELL_GB10),
    Block(0x2F00, 0x2F8F, BLACKWELL),
    Block(0x3180, 0x323F, BLACKWELL_ULTRA),
)


@dataclass(frozen=True)
class Name:
    """A regular expression for the beginning of names (without "NVIDIA") of a family's GPUs; the first match counts.

    ``data_center`` is None if the name alone doesn't show it.
    """

    pattern: str
    family: Family
    data_center: bool | None = None
    sources: tuple[str, ...] = ("names",)


# A whole model: no digit or third letter may follow, because T4 is not T400, and A10 not A100.
_MODEL, _END = r"(?:tesla |grid |hgx )*(?:", r")[a-z]{0,2}(?![a-z0-9])"
NAMES = (
    Name(_MODEL + "k80|k40|k20" + _END, KEPLER, True),
    Name(_MODEL + "k10|k8|k1|k2|k520" + _END, KEPLER_GK10X, True),
    Name(_MODEL + "m60|m40|m10|m6|m4" + _END, MAXWELL, True),
    Name(_MODEL + "p100|p40|p10|p6|p4" + _END, PASCAL, True),
    Name(_MODEL + "v100" + _END, VOLTA, True),
    # A V100 with the name of its board.
    Name(r"(?:tesla )?pg503-[0-9]{3}(?![a-z0-9])", VOLTA, True),
    Name(_MODEL + "t4" + _END, TURING, True),
    Name(_MODEL + "a100|a30" + _END, AMPERE, True),
    Name(_MODEL + "a800|ax800" + _END, AMPERE),
    Name(_MODEL + "a40|a16|a10|a2" + _END, AMPERE_GA10X, True),
    Name(_MODEL + "l40|l20|l4|l2" + _END, ADA, True),
    Name(_MODEL + "gh200" + _END, GRACE_HOPPER, True),
    Name(_MODEL + "h800|h200|h100|h20" + _END, HOPPER, True),
    Name(_MODEL + "gb300|b300" + _END, BLACKWELL_ULTRA, True),
    Name(_MODEL + "gb200|b200|b100" + _END, BLACKWELL, True),
    Name(r"gb10(?![a-z0-9])", BLACKWELL_GB10, False),
    Name(r"geforce gtx titan(?: black| z)?$", KEPLER, False),
    # The GT 730 with DDR3 and 128 bits is a Fermi, which only its device ID shows.
    Name(r"geforce gt 7[123]0(?![a-z0-9])", KEPLER, False),
    Name(r"geforce gt 740(?![a-z0-9])", KEPLER_GK10X, False),
    Name(r"geforce gt 10[13]0(?![a-z0-9])", PASCAL, False),
    # GPUs for mining: P104 and P106 are GP104 and GP106, the CMP 100 are GV100, the CMP HX are Turing and Ampere.
    Name(r"p10[2-6]-[0-9]{2,3}(?![a-z0-9])", PASCAL, False),
    Name(r"cmp 100-[0-9]{3}(?![a-z0-9])", VOLTA, False),
    Name(r"cmp [345]0hx(?![a-z0-9])", TURING, False),
    Name(r"cmp [79]0hx(?![a-z0-9])", AMPERE_GA10X, False),
    Name(r"cmp 170hx(?![a-z0-9])", AMPERE, False),
    Name(r"nvs 3[01][05](?![a-z0-9])", FERMI, False),
    Name(r"nvs 510(?![a-z0-9])", KEPLER_GK10X, False),
    Name(r"nvs 810(?![a-z0-9])", MAXWELL, False),
    Name(r"geforce gtx 780(?: ti)?$", KEPLER, False),
    Name(r"geforce gtx (?:650|660|670|680|690|760|770)(?: ti| ti boost)?$", KEPLER_GK10X, False),
    Name(r"geforce gt[sx]? [45][0-9]{2}m?(?![a-z0-9])|geforce gt 6[12]0(?![a-z0-9])", FERMI, False),
    # A GT 640 may also have a GK208, which only its device ID shows.
    Name(r"geforce gt 640m?(?![a-z0-9])(?! le)", KEPLER_GK10X, False),
    Name(r"geforce gtx 8[78]0m(?![a-z0-9])", KEPLER_GK10X, False),
    Name(r"geforce 920m(?![a-z0-9])", KEPLER, False),
    Name(r"geforce gtx (?:745|850m)(?![a-z0-9])", MAXWELL, False),
    Name(r"geforce (?:8[34]0m|845m|920mx|9[34]0mx?)(?![a-z0-9])", MAXWELL, False),
    Name(r"geforce gtx titan x$", MAXWELL, False),
    Name(r"geforce gtx 9[5-8][05]m?(?![a-z0-9])", MAXWELL, False),
    Name(r"geforce mx1[13]0(?![a-z0-9])", MAXWELL, False),
    Name(r"titan xp|titan x \(?pascal", PASCAL, False),
    Name(r"geforce gtx 10[5-8]0(?![a-z0-9])", PASCAL, False),
    Name(r"geforce mx(?:150|2[35]0|3[35]0)(?![a-z0-9])", PASCAL, False),
    Name(r"titan v(?![a-z0-9])", VOLTA, False),
    Name(r"titan rtx(?![a-z0-9])", TURING, False),
    Name(r"geforce (?:rtx 20[678]0|gtx 16[356]0|mx[45]50)(?![a-z0-9])", TURING, False),
    Name(r"geforce (?:rtx 2050|mx570)(?![a-z0-9])", AMPERE_GA10X, False),
    Name(r"geforce rtx 3050 a(?![a-z0-9])", ADA, False),
    Name(r"geforce rtx 30[5-9]0(?:ti)?(?![a-z0-9])", AMPERE_GA10X, False),
    Name(r"geforce rtx 40[5-9]0(?![a-z0-9])", ADA, False),
    Name(r"geforce rtx 50[5-9]0(?![a-z0-9])", BLACKWELL, False),
    Name(r"quadro k(?:6000|5200|610m|510m)(?![a-z0-9])", KEPLER),
    Name(r"quadro k(?:620|1200|2200)m?(?![a-z0-9])", MAXWELL),
    Name(r"quadro k[0-9]{3,4}[dm]?(?![a-z0-9])", KEPLER_GK10X),
    Name(r"quadro m[0-9]{3,4}m?(?![a-z0-9])", MAXWELL),
    Name(r"quadro (?:p[0-9]{3,4}|gp100)(?![a-z0-9])", PASCAL),
    Name(r"quadro gv100(?![a-z0-9])", VOLTA),
    Name(r"(?:quadro|grid) rtx ?[3-8]000p?(?![a-z0-9])", TURING),
    Name(r"(?:quadro )?t(?:400e?|500|550|600|1000|1200|2000)(?![a-z0-9])", TURING),
    Name(r"rtx ?a[0-9]{3,4}h?(?![a-z0-9])", AMPERE_GA10X),
    Name(r"rtx ?[0-9]{3,4}e?[ -](?:sff )?ada(?![a-z0-9])", ADA),
    Name(r"rtx pro [0-9]{3,4}d? .*blackwell.* server edition", BLACKWELL, True),
    Name(r"rtx pro [0-9]{3,4}d? .*blackwell|rtx 6000d(?![a-z0-9])", BLACKWELL),
)
