# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Choose the version that ``nvidia_driver_version: auto`` means on each host. Pure.

The hosts of a pool get one version: the newest in the table that is in the repository of each host's distribution and
supports its GPUs. An installed driver is never changed by this choice.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from . import fit
from .fit import AUTO
from .packages import available, installed_versions, newest

_TAG = re.compile(r":(\d{3}\.\d+(?:\.\d+)?)(?:-[\w.-]*)?(?:@\S*)?\Z")


@dataclass(frozen=True)
class Host:
    """A host with GPUs; ``facts`` are those of preflight_info, empty for one that was not read."""

    name: str
    version: str
    source: str
    pool: str
    facts: Mapping[str, Any]
    modules: str = AUTO
    image: str = ""

    @property
    def counts(self) -> bool:
        """Return whether the host takes part in the choice of its pool's version."""
        return self.version == AUTO and self.source == "cuda_repository" and bool(self.facts.get("gpus"))

    @property
    def system(self) -> str:
        return str(self.facts["os"]["key"])


@dataclass(frozen=True)
class Choice:
    """The chosen version, empty if there is none; ``why`` is then the reason, ``advice`` what to do."""

    version: str = ""
    why: str = ""
    advice: str = ""


def choose(hosts: Mapping[str, Host], table: Mapping[str, Any]) -> dict[str, Choice]:
    """Return the version of each host that was read and has GPUs."""
    pools: dict[str, list[Host]] = {}
    for host in hosts.values():
        if host.counts:
            pools.setdefault(host.pool, []).append(host)
    found = {}
    for host in hosts.values():
        if not host.facts.get("gpus"):
            continue
        if host.version != AUTO:
            found[host.name] = Choice(host.version)
        elif host.source == "cuda_repository":
            found[host.name] = _of_pool(host, pools[host.pool], table)
        else:
            found[host.name] = _of_source(host)
    return found


def pinned(version: str, found: Iterable[str], table: Container[str]) -> str:
    """Return the version if ``auto`` was not decided: the newest installed one in the table, else ``auto``."""
    return version if version != AUTO else newest(each for each in found if each in table) or AUTO


def unread(hosts: Mapping[str, Host], table: Mapping[str, Any]) -> list[str]:
    """Return unread hosts that must be read, because a host without a driver is in their pool."""
    open_pools = {host.pool for host in hosts.values() if host.counts and not kept(host, table)}
    return [
        host.name
        for host in hosts.values()
        if not host.facts and host.version == AUTO and host.source == "cuda_repository" and host.pool in open_pools
    ]


def kept(host: Host, table: Mapping[str, Any]) -> str:
    """Return the version in the table that a host has installed from NVIDIA's repository, empty if none."""
    driver = host.facts["nvidia_driver"]
    if driver["origin"] != "cuda_repository":
        return ""
    installed = [version for version in installed_versions(driver) if version in table]
    loaded = str(driver["loaded_version"])
    return loaded if loaded in installed else newest(installed)


def fitting(host: Host, table: Mapping[str, Any]) -> list[str]:
    """Return the versions in the table that the host's repository has and that support its GPUs, oldest first."""
    return [version for version in available(host.system, table) if _drives(host, version)]


def other_distributions(devices: tuple[str, ...], system: str, table: Mapping[str, Any]) -> str:
    """Return distributions for which NVIDIA's repository has a driver for these GPUs, empty if ``system`` is one."""
    systems = dict.fromkeys(name for entry in table.values() for name in entry["packages"])
    choices: dict[str, list[str]] = {}
    for name in sorted(systems):
        able = [version for version in available(name, table) if _serves(devices, version)]
        if able:
            choices.setdefault(newest(able), []).append(name)
    if not devices or any(system in names for names in choices.values()):
        return ""
    listed = " or ".join(f"{', '.join(names)} ({version})" for version, names in choices.items())
    return (
        f"install a distribution for which NVIDIA's repository has a driver for these GPUs: {listed}" if listed else ""
    )


def _drives(host: Host, version: str) -> bool:
    return _serves(fit.devices_of(host.facts), version, host.modules)


def _serves(devices: tuple[str, ...], version: str, modules: str = AUTO) -> bool:
    branch = int(version.partition(".")[0])
    return any(fit.serves(devices, branch, kind) for kind in fit.KINDS if modules in (AUTO, kind))


def _of_pool(host: Host, pool: list[Host], table: Mapping[str, Any]) -> Choice:
    mine = kept(host, table)
    if mine:
        return Choice(mine)
    able = fitting(host, table)
    if not able:
        return _alone(host, table)
    # A host without a supported version must not prevent a choice for the others.
    pool = [each for each in pool if kept(each, table) or fitting(each, table)]
    label = f"in the pool {host.pool}" if host.pool else "without a pool"
    running = {version for version in (kept(each, table) for each in pool) if version}
    if running:
        common = [version for version in able if version in running]
        if common:
            return Choice(newest(common))
        return Choice(
            "",
            f"hosts {label} run {', '.join(sorted(running))}, but this host ({host.system}) supports only "
            f"{', '.join(able)}",
            "Upgrade the pool first (playbook gpulab.kubernetes.upgrade_driver), put this host into a separate pool "
            "(cluster_node_pool), or set nvidia_driver_version for it",
        )
    common = [version for version in able if all(version in fitting(each, table) for each in pool)]
    if common:
        return Choice(newest(common))
    return Choice(
        "",
        f"no version fits all hosts {label}: {'; '.join(_each(pool, table))}",
        "Put hosts that differ into separate pools (cluster_node_pool), or set nvidia_driver_version for them",
    )


def _alone(host: Host, table: Mapping[str, Any]) -> Choice:
    """Return the reason and advice for a host that no version supports, whatever the other hosts have."""
    devices, known = fit.devices_of(host.facts), ", ".join(available(host.system, table))
    has = (
        f"NVIDIA's repository for {host.system} has {known}"
        if known
        else f"no version in the table is for {host.system}"
    )
    if not known:
        return Choice("", has, f"I{other_distributions(devices, host.system, table)[1:]}")
    apart = fit.conflict(devices)
    if apart:
        return Choice("", f"no driver serves all its GPUs: {apart}", "Leave GPUs out with cluster_ignored_gpus")
    found = fit.driver_ranges(devices)
    if host.modules != AUTO and not any(each.modules == host.modules for each in found):
        return Choice(
            "", f"nvidia_driver_modules is {host.modules}, but {_need(found)}", "Set nvidia_driver_modules=auto"
        )
    other = other_distributions(devices, host.system, table)
    own = f"install a driver of {' or '.join(map(str, found))} yourself, and set nvidia_driver_source=preinstalled"
    archive = "set nvidia_driver_source=distribution and nvidia_driver_version to such a version in its archive"
    advice = "; or ".join(filter(None, [other, archive, own]))
    return Choice("", f"{_need(found)}, but {has}", advice[:1].upper() + advice[1:])


def _need(found: Iterable[fit.DriverRange]) -> str:
    return f"its GPUs need a driver of {' or '.join(map(str, found))}"


def _each(pool: list[Host], table: Mapping[str, Any]) -> Iterator[str]:
    by_choice: dict[str, list[str]] = {}
    for host in pool:
        able = ", ".join(fitting(host, table)) or kept(host, table)
        by_choice.setdefault(f"{able} ({host.system})", []).append(host.name)
    for words, names in by_choice.items():
        yield f"{', '.join(names)}: {words}"


def _of_source(host: Host) -> Choice:
    driver = host.facts["nvidia_driver"]
    loaded = str(driver["loaded_version"])
    if host.source == "preinstalled":
        return Choice(loaded)
    if host.source == "operator":
        # The GPU Operator's chart sets the version.
        return Choice("")
    if host.source == "daemonset":
        tag = _TAG.search(host.image)
        if tag:
            return Choice(tag.group(1))
        return Choice(
            "",
            "nvidia_driver_source is daemonset, but the tag of nvidia_driver_installer_image contains no version",
            "Set nvidia_driver_version to the version that this image installs",
        )
    if driver["origin"] == "distribution":
        installed = installed_versions(driver)
        found = loaded if loaded in installed else newest(installed)
        if found:
            return Choice(found)
    name = "nvidia-open-kernel-dkms" if host.system.startswith("Debian") else "'nvidia-headless-*-server-open'"
    return Choice(
        "",
        "nvidia_driver_source is distribution, whose versions are not in the table",
        f"Set nvidia_driver_version to a version in the distribution's archive, such as 550.163.01: apt list -a {name}",
    )
