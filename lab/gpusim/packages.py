"""Find the parts of the simulated driver in NVIDIA's packages, by package name alone.

Versions and relations are those of upstream.lock. Ubuntu: up to branch 580, the branch is part of every name; from 590
on it is not, and nvidia-smi is in the compute libraries. Debian: names other than metapackages never contained a
branch.
"""

from __future__ import annotations

import re

# The first matching pattern counts.
_PARTS: tuple[tuple[str, tuple[str, ...]], ...] = (
    (r"nvidia-driver-pinning-(?P<pin>[\d.]+)", ("pin:{pin}",)),
    (r"libnvidia-compute-\d+|libnvidia-ml1", ("library",)),
    (r"libnvidia-compute", ("library", "smi")),
    (r"nvidia-utils-\d+|nvidia-driver-cuda", ("smi",)),
    (r"nvidia-compute-utils-\d+|nvidia-persistenced", ("persistenced",)),
    (r"nvidia-kernel-common(-\d+)?|nvidia-kernel-support", ("kernel-common",)),
    (r"nvidia-firmware(-\d+)?|firmware-nvidia-gsp", ("firmware",)),
    (r"nvidia-kernel-source(-\d+)?-open", ("source:open",)),
    (r"nvidia-kernel-source(-\d+)?", ("source:proprietary",)),
    (r"nvidia-dkms(-\d+)?(-open)?", ("dkms",)),
    (r"nvidia-kernel-open-dkms", ("source:open", "dkms")),
    (r"nvidia-kernel-dkms", ("source:proprietary", "dkms")),
    (r"nvidia-modprobe", ("modprobe",)),
    (r"nvidia-fabricmanager", ("fabricmanager",)),
    # Metapackages, and packages that the lab does not use.
    (r"(nvidia-open|cuda-drivers|nvidia-driver|nvidia-headless(-no-dkms)?)(-\d+)?(-open)?", ()),
    (r"libcuda1|nvidia-settings|nvidia-xconfig|nvidia-powerd", ()),
)
# From this branch on, there are no proprietary modules: their package only depends on the open ones.
_LAST_PROPRIETARY = 610
# Parts with the same file paths in all packages: with a virtual package, only one of these packages is installed.
_EXCLUSIVE = ("library", "smi", "kernel-common", "source", "dkms", "persistenced")


def parts(name: str, version: str) -> tuple[str, ...] | None:
    """Return the parts in a package, none for a metapackage; None for a name that is not the driver's."""
    for pattern, held in _PARTS:
        if found := re.fullmatch(pattern, name):
            if "source:proprietary" in held and int(version.partition(".")[0]) > _LAST_PROPRIETARY:
                return ()
            return tuple(part.format(**found.groupdict()) for part in held)
    return None


def virtual(held: tuple[str, ...]) -> tuple[str, ...]:
    """Return the lab's virtual packages with which apt can replace one package of these parts with another."""
    kinds = {part.partition(":")[0] for part in held}
    return tuple(f"nvidia-simulated-{kind}" for kind in _EXCLUSIVE if kind in kinds)
