# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a host with GPUs says about itself without its driver: the PCI bus, dpkg, and kubelet's record of devices."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from .._apt.dpkg import Database, read_status
from .._errors import DomainError
from .kubelet_devices import Pod
from .xid import moment

# When GPUs of this host were last given back after an isolation; errors from before then are settled.
GIVEN_BACK = "var/lib/gpulab/gpus-given-back"
_NVIDIA = "0x10de"
_DISPLAY = "0x03"


def pci_gpus(root: Path) -> list[dict[str, str]]:
    """NVIDIA's display controllers and 3D controllers, by address, without functions of SR-IOV."""
    devices = root / "sys/bus/pci/devices"
    found = []
    for entry in sorted(devices.iterdir()) if devices.is_dir() else []:
        if (entry / "physfn").is_symlink():
            continue
        if _value(entry / "vendor") == _NVIDIA and _value(entry / "class").startswith(_DISPLAY):
            found.append({"address": entry.name, "device_id": _value(entry / "device")})
    return found


def installed(root: Path, names: Sequence[str]) -> dict[str, str]:
    """Version of each of these packages that is installed."""
    path = root / "var/lib/dpkg/status"
    try:
        database = Database(read_status(path.read_text(encoding="utf-8", errors="replace")))
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise DomainError(f"Error while reading {path}: {error.strerror}") from error
    versions = {name: database.version(name) for name in names}
    return {name: version for name, version in versions.items() if version}


def held(pods: Iterable[Pod]) -> dict[str, str]:
    """Device -> ``namespace/name`` of the pod that holds it, of those whose names are known."""
    return {device: f"{pod.namespace}/{pod.name}" for pod in pods if pod.name for device in pod.devices}


def given_back(root: Path) -> str:
    """The time as the role gpu_isolation wrote it, empty where GPUs were never given back."""
    found = _value(root / GIVEN_BACK).upper()
    return found if moment(found) is not None else ""


def _value(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii").strip().lower()
    except (OSError, ValueError):
        return ""
