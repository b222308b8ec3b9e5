# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a host has against what is pinned for it. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from .._driver.version import AUTO, pinned
from .state import version_fits

_SITE = "site.yml puts it back"
_HEAL = f"{_SITE} and keeps the other one next to it"
_UPGRADE = "the playbook gpulab.kubernetes.upgrade_driver brings the nodes to one version"
_SWAP = "site.yml turns it off; remove swapon from scripts by hand, or it is on again after a reboot"
_ANY = "a version of the table"
_HOLD = "something may have changed the hold, or may change the version unasked; site.yml puts it back"


@dataclass(frozen=True)
class Row:
    """One difference; ``advice`` says what mends it."""

    host: str
    component: str
    wanted: str
    found: str
    advice: str

    def fields(self) -> dict[str, str]:
        text = f"{self.host}: {self.component}: wanted is {self.wanted}, found is {self.found}; {self.advice}"
        return {**asdict(self), "text": text}


def settle(hosts: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """The hosts with the version that ``auto`` means: of the table's versions that a pool's hosts have, the newest."""
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


def rows(host: str, seen: Mapping[str, Any], wanted: Mapping[str, Any]) -> Iterator[Row]:
    """Differences of one host (see the filter's documentation)."""
    if seen.get("failure"):
        yield Row(host, "host", "an answer", str(seen["failure"]), "reach it, and look again")
        return
    for name, version in wanted.get("packages", {}).items():
        found = seen["packages"].get(name)
        if found is None:
            yield Row(host, name, version, "not installed", _SITE)
        elif not version_fits(version, found["version"]):
            yield Row(host, name, version, found["version"], _SITE)
        elif not found["held"] and name not in wanted.get("loose", []):
            yield Row(host, name, f"{version}, on hold", f"{found['version']}, not on hold", _HOLD)
    if wanted.get("driver"):
        yield from _driver(host, seen["driver"], wanted["driver"])
    if wanted.get("gpus"):
        yield from _kernel(host, seen["kernel"])
    for area in seen.get("swap", []):
        origin = area["origin"] or "something that no file names (journalctl --boot --grep=swap may show it)"
        found = f"{area['name']}, turned on by {origin}" if area["name"] else f"on at the next boot by {origin}"
        yield Row(host, "swap", "off, also after a reboot", found, _SWAP)
    for path in seen.get("files", []):
        yield Row(
            host, path, "as the collection writes it", "changed by hand, or missing", f"{_SITE} and keeps the file"
        )


def _driver(host: str, driver: Mapping[str, Any], wanted: str) -> Iterator[Row]:
    for component, found in (("driver", driver["loaded"]), ("library", driver["library"])):
        if found != wanted:
            yield Row(host, component, wanted, found or "none", _UPGRADE)
    for name, package in driver["packages"].items():
        if not version_fits(wanted, package["version"]):
            yield Row(host, name, wanted, package["version"], _UPGRADE)
    if driver["packages"] and not any(package["held"] for package in driver["packages"].values()):
        yield Row(host, "driver", f"{wanted}, on hold", "no package of it is on hold", _HOLD)


def _kernel(host: str, kernel: Mapping[str, Any]) -> Iterator[Row]:
    """A kernel that the next boot takes without a driver: its headers are missing, or DKMS has not built for it."""
    newest_one = kernel["newest"]
    if newest_one == kernel["running"] or kernel["newest_has_driver"]:
        return
    advice = f"install linux-headers-{newest_one}, for which DKMS then builds the driver, or remove that kernel"
    if kernel.get("newest_has_headers"):
        advice = f"its headers are there: dkms autoinstall -k {newest_one} builds the driver, or shows why not"
    yield Row(
        host,
        "kernel",
        f"{kernel['running']}, which has the driver",
        f"{newest_one} at the next boot, which has none",
        advice,
    )
