# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Compare a host's installed state with its pinned state. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from ...module_utils._acceptance.problems import SITE
from ...module_utils._problem import split_commands
from .._driver.fit import AUTO
from .._driver.version import pinned
from .._nodes.deferral import deferrals, pending_changes, sentence
from .._nodes.kubernetes import release_of_package
from .._preflight.existing import version_to_install

_VERSION = f"Install it: {SITE}. Or set the variable of this version to the installed version."
_FILE = f"Restore it; the changed file is kept next to it: {SITE}."
_UPGRADE = "Install the same version on all nodes: `ansible-playbook gpulab.kubernetes.upgrade_driver -i INVENTORY`."
_SWAP = f"Turn it off: {SITE}. If a script runs swapon, remove that line; otherwise, swap is on again after a reboot."
_ANY = "a version in the table"
_HOLD = f"Without a hold, apt may change the version. Restore it: {SITE}."
_PACKAGED_DRIVER = ("cuda_repository", "distribution")
_EPOCH = re.compile(r"^\d+:")


@dataclass(frozen=True)
class Row:
    """A comparison; with ``drift``, ``advice`` says what to do.

    Backticks in the given ``advice`` enclose commands. They are removed, and ``commands`` lists what they enclosed.
    """

    component: str
    wanted: str
    found: str
    drift: bool = True
    advice: str = ""
    commands: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        advice, commands = split_commands(self.advice)
        object.__setattr__(self, "advice", advice)
        object.__setattr__(self, "commands", commands)

    @property
    def text(self) -> str:
        return f"{self.component}: expected {self.wanted}, found {self.found or 'nothing'}"

    def fields(self) -> dict[str, Any]:
        return {**asdict(self), "commands": list(self.commands)}


def resolve_auto(hosts: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """Return the hosts with the version that ``auto`` means: the newest in the table that a host of the pool has."""
    pools: dict[str, list[str]] = {}
    entries = {host: {**entry, "wanted": dict(entry.get("wanted") or {})} for host, entry in hosts.items()}
    automatic = [entry for entry in entries.values() if entry["wanted"].get("driver") == AUTO]
    for entry in automatic:
        loaded = ((entry.get("seen") or {}).get("driver") or {}).get("loaded", "")
        pools.setdefault(entry["wanted"].get("pool", ""), []).append(loaded)
    for entry in automatic:
        wanted = entry["wanted"]
        version = pinned(AUTO, pools[wanted.get("pool", "")], wanted.get("versions", []))
        wanted["driver"] = version if version != AUTO else _ANY
    return entries


def compare(seen: Mapping[str, Any], wanted: Mapping[str, Any]) -> Iterator[Row]:
    """Yield all versions, and other settings that differ, of a host that was read.

    ``seen`` is the result of gpu_host_info, with ``files`` for the paths of configuration files that differ. ``wanted``
    has versions by ``packages`` and ``gpu_packages`` (on hosts with GPUs), those that are not held (``loose``), those
    that may stay (``minimums``, ``existing``), and ``source`` and version of the ``driver``. If it is empty, nothing is
    compared.
    """
    if not wanted:
        return
    has_gpus = bool(seen["pci"])
    for name, version in {**wanted["packages"], **(wanted["gpu_packages"] if has_gpus else {})}.items():
        yield _package(name, version, seen["packages"].get(name), wanted)
    if has_gpus and wanted["source"] == "cuda_repository":
        yield from _driver(seen["driver"], wanted["driver"])
    if has_gpus and wanted["source"] in _PACKAGED_DRIVER:
        yield from _kernel(seen["kernel"])
    for area in seen["swap"]:
        origin = area["origin"] or "something that no file names (journalctl --boot --grep=swap may show it)"
        found = f"{area['name']}, turned on by {origin}" if area["name"] else f"on at the next boot by {origin}"
        yield Row("swap", "off, also after a reboot", found, advice=_SWAP)
    for path in seen.get("files", []):
        yield Row(path, "the file that the collection writes", "another file, or none", advice=_FILE)


def deferral_of(row: Row, seen: Mapping[str, Any], wanted: Mapping[str, Any]) -> str:
    """Return a sentence about the deferred change that would correct this difference, empty if there is none."""
    entries = (deferrals(seen.get("deferred")) or {}).values()
    corrections = _corrections(row, seen, wanted)
    return next((sentence(each.fields()) for each in entries if corrections & pending_changes(each)), "")


def _corrections(row: Row, seen: Mapping[str, Any], wanted: Mapping[str, Any]) -> set[str]:
    """Return which changes correct a difference, as pending_changes names them."""
    name = row.component
    if name.startswith("NVIDIA driver") or name in seen.get("driver", {}).get("packages", {}):
        return {"nvidia_driver/packages", "nvidia_driver/kernel module", f"the NVIDIA driver to {row.wanted}"}
    if name.startswith("/"):
        return {f"{'nvidia_container_toolkit' if 'nvidia' in name else 'containerd'}/configuration"}
    if name in wanted.get("gpu_packages", {}):
        return {"nvidia_container_toolkit/packages"}
    if name in wanted.get("packages", {}):
        if name == "containerd.io":
            return {"containerd/packages"}
        return {"kubeadm/packages", f"the kubelet to {release_of_package(wanted['packages'].get('kubelet'))}"}
    return set()


def version_fits(wanted: str, found: str) -> bool:
    """Return whether a package's version is the wanted one, given in full or without the packaging's part.

    2.3.6 fits 2.3.6-1~debian.12~bookworm and 1:2.3.6-1, but neither 2.3.60-1 nor 2.3.6.1-1.
    """
    bare = _EPOCH.sub("", found).removeprefix("v")
    plain = _EPOCH.sub("", wanted).removeprefix("v")
    return bare == plain or bare.startswith((f"{plain}-", f"{plain}+", f"{plain}~"))


def _package(name: str, version: str, found: Mapping[str, Any] | None, wanted: Mapping[str, Any]) -> Row:
    if found is None:
        return Row(name, version, "", advice=_VERSION)
    minimum = wanted["minimums"].get(name)
    if minimum and not version_fits(version, found["version"]):
        version = version_to_install(found["version"], version, minimum, wanted["existing"])
    if not version_fits(version, found["version"]):
        return Row(name, version, found["version"], advice=_VERSION)
    if not found["held"] and name not in wanted["loose"]:
        return Row(name, f"{version}, on hold", f"{found['version']}, not on hold", advice=_HOLD)
    return Row(name, version, found["version"], drift=False)


def _driver(driver: Mapping[str, Any], wanted: str) -> Iterator[Row]:
    yield Row("NVIDIA driver", wanted, driver["loaded"], driver["loaded"] != wanted, _UPGRADE)
    if driver["library"] != wanted:
        yield Row("NVIDIA driver's library", wanted, driver["library"], advice=_UPGRADE)
    for name, package in driver["packages"].items():
        if not version_fits(wanted, package["version"]):
            yield Row(name, wanted, package["version"], advice=_UPGRADE)
    if driver["packages"] and not any(package["held"] for package in driver["packages"].values()):
        yield Row("NVIDIA driver", f"{wanted}, on hold", "none of its packages on hold", advice=_HOLD)


def _kernel(kernel: Mapping[str, Any]) -> Iterator[Row]:
    """Yield kernels that would boot without a driver: headers are missing, or DKMS has not built the modules."""
    newest = kernel["newest"]
    if newest == kernel["running"] or kernel["newest_has_driver"]:
        return
    advice = f"Install linux-headers-{newest}, for which DKMS then builds the driver, or remove that kernel."
    if kernel["newest_has_headers"]:
        advice = (
            "Its headers are installed. Build the driver, or find out why the build fails: `dkms autoinstall -k "
            f"{newest}`."
        )
    yield Row("kernel of the next boot", "one with an NVIDIA driver", f"{newest}, which has none", advice=advice)
