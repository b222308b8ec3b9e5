# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which GPU architecture a PCI device id of NVIDIA (vendor 10de) belongs to, and what drives it.

NVIDIA gives out the ids in blocks per chip. The blocks below are those in which the PCI ID database
(https://pci-ids.ucw.cz, 2026-10-24) lists chips of one architecture (GK..., GM..., TU...), rounded to 0x10. An id
outside of them has no family, and a person has to say which modules it takes.

Kernel modules: docs.nvidia.com/datacenter/tesla/driver-installation-guide/kernel-modules.html - open from Turing on,
required for Grace Hopper and from Blackwell on, impossible for Maxwell, Pascal and Volta.
Last branches: 580 for Maxwell, Pascal and Volta, 470 for Kepler, 390 for Fermi (NVIDIA's page of legacy GPUs).
"""

from __future__ import annotations

from dataclasses import dataclass

OPEN_REQUIRED = "required"
OPEN_SUPPORTED = "supported"
OPEN_UNSUPPORTED = "unsupported"


@dataclass(frozen=True)
class Family:
    """``first_branch`` and ``last_branch``: driver branches that support it, None where there is no bound to watch."""

    name: str
    open_modules: str
    first_branch: int | None = None
    last_branch: int | None = None


FERMI = Family("Fermi", OPEN_UNSUPPORTED, last_branch=390)
KEPLER = Family("Kepler", OPEN_UNSUPPORTED, last_branch=470)
MAXWELL = Family("Maxwell", OPEN_UNSUPPORTED, last_branch=580)
PASCAL = Family("Pascal", OPEN_UNSUPPORTED, last_branch=580)
VOLTA = Family("Volta", OPEN_UNSUPPORTED, last_branch=580)
TURING = Family("Turing", OPEN_SUPPORTED)
AMPERE = Family("Ampere", OPEN_SUPPORTED, first_branch=450)
ADA = Family("Ada Lovelace", OPEN_SUPPORTED, first_branch=525)
HOPPER = Family("Hopper", OPEN_SUPPORTED, first_branch=525)
GRACE_HOPPER = Family("Grace Hopper", OPEN_REQUIRED, first_branch=535)
BLACKWELL = Family("Blackwell", OPEN_REQUIRED, first_branch=570)
BLACKWELL_ULTRA = Family("Blackwell Ultra", OPEN_REQUIRED, first_branch=580)

# GH200: GH100 behind a Grace processor.
_SINGLE = {0x2342: GRACE_HOPPER, 0x2348: GRACE_HOPPER}
_BLOCKS = (
    (0x06C0, 0x06DF, FERMI),
    (0x0DC0, 0x0DFF, FERMI),
    (0x0E22, 0x0E3F, FERMI),
    (0x0F00, 0x0F0F, FERMI),
    (0x0FC0, 0x103F, KEPLER),
    (0x1040, 0x109F, FERMI),
    (0x1140, 0x114F, FERMI),
    (0x1180, 0x11FF, KEPLER),
    (0x1200, 0x125F, FERMI),
    (0x1280, 0x130F, KEPLER),
    (0x1340, 0x143F, MAXWELL),
    (0x15C0, 0x15FF, PASCAL),
    (0x1610, 0x167F, MAXWELL),
    (0x1720, 0x172F, PASCAL),
    (0x1740, 0x17FF, MAXWELL),
    (0x1B00, 0x1D5F, PASCAL),
    (0x1D80, 0x1DFF, VOLTA),
    (0x1E00, 0x1FFF, TURING),
    (0x2080, 0x20FF, AMPERE),
    (0x2180, 0x21DF, TURING),
    (0x2200, 0x228F, AMPERE),
    (0x2300, 0x23FF, HOPPER),
    (0x2410, 0x25FF, AMPERE),
    (0x2680, 0x28FF, ADA),
    (0x2900, 0x2F8F, BLACKWELL),
    (0x3180, 0x323F, BLACKWELL_ULTRA),
)


def gpu_family(device_id: str | int) -> Family | None:
    """The family of a device id such as ``0x1eb8`` or ``1eb8``; None when the id is unknown or none at all."""
    try:
        number = device_id if isinstance(device_id, int) else int(str(device_id).strip(), 16)
    except ValueError:
        return None
    if number in _SINGLE:
        return _SINGLE[number]
    return next((family for first, last, family in _BLOCKS if first <= number <= last), None)
