# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Plan a host's driver: packages, pending changes, and the driver that an upgrade can roll back to. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from ...module_utils._cluster.maintenance import reliable
from ...module_utils._cluster.nodes import labels_of
from ...module_utils._cluster.records import DRIVER_UPGRADE, key, offered
from .packages import DriverError, Packages, Wanted, headers, headers_problem, identity, modules_of, packages_of

INSTALLED = ("cuda_repository", "distribution")
Facts = Mapping[str, Any]


def plan(host: Facts, wanted: Wanted, table: Facts) -> dict[str, Any]:
    """Return the plan for a host's driver; ``host`` is the result of preflight_info, empty if it was not read.

    ``version``, the kind of its ``modules``, and ``problem`` if its packages are not known; whether it is installed
    ``by_packages`` or ``by_pod``, is ``loaded``, and ``interrupts`` another one; ``reboot`` with ``why``, ``allowed``
    and what to ``do``; ``packages`` with ``pinning``, ``preferences``, ``follow`` and ``fabric_manager``; ``headers``
    and ``headers_problem`` if a module must be built; ``pending``, what NVIDIA's repository must provide.
    """
    found, problem = Packages((), ()), ""
    if host and wanted.source in INSTALLED:
        try:
            found = packages_of(host, wanted, table)
        except DriverError as error:
            problem = str(error)
    driver = host.get("nvidia_driver") or {}
    loaded = _loaded(host)
    # Modules of the other kind are replaced, even if their version is the same.
    other = bool(found.modules) and driver.get("loaded_modules", "") not in ("", found.modules)
    is_loaded = loaded == wanted.version and not other
    built = bool(found.packages) and found.dkms and not is_loaded
    return {
        "version": wanted.version,
        "problem": problem,
        "by_packages": wanted.source in INSTALLED,
        "by_pod": wanted.source == "daemonset" and bool(host.get("gpus")),
        "loaded": is_loaded,
        "modules": found.modules,
        "interrupts": wanted.source in (*INSTALLED, "daemonset") and bool(loaded) and not is_loaded,
        "reboot": {
            "why": _reboot_reason(host) if wanted.source in INSTALLED and not is_loaded else "",
            "allowed": wanted.reboot and wanted.connection != "local",
            "do": _reboot_remedy(wanted),
        },
        "profiling": _profiling(driver, wanted) if is_loaded else "",
        "preferences": bool(found.packages) and found.preferences,
        "pinning": list(found.pinning),
        "packages": list(found.packages),
        "follow": {"version": found.follow, "replaces": list(found.replaces)} if found.follow else None,
        "headers": headers(host) if built else [],
        "headers_problem": _headers_problem(host) if built else "",
        "fabric_manager": wanted.source in INSTALLED and int(host.get("nvswitches") or 0) > 0,
        "pending": _pending(host, wanted, found),
    }


def upgrade(host: Facts, wanted: Wanted, table: Facts, node: Facts, services: Sequence[str] = ()) -> dict[str, Any]:
    """Plan the driver of a node in use; the record of an interrupted upgrade takes precedence over the present state.

    Only recorded services in ``services`` count. Raises DomainError for an invalid record.
    """
    record = reliable(node, DRIVER_UPGRADE).record if node else None
    data = record.data if record else {}
    driver = host["nvidia_driver"]
    stopped = data.get("services") or []
    former = str(data.get("from") or _loaded(host))
    package = data.get("package") or identity(driver["packages"], former)
    found = plan(host, replace(wanted, former=package), table)
    pending = not found["loaded"] or any(
        version in (found["follow"] or {}).get("replaces", []) for version in driver["packages"].values()
    )
    # The label is set when the GPUs are free. Before that, the node is only cordoned, and may be deferred.
    begun = record and (record.labels or record.failure or key(DRIVER_UPGRADE) in labels_of(node))
    return {
        **found,
        "upgrade": {
            "pending": pending,
            "interrupted": bool(begun if pending else record),
            "former": former,
            "package": package,
            "return": _return(host, replace(wanted, version=former, former=package, returning=True), table)
            if former and (former != wanted.version or _kind(package, former) not in ("", found["modules"]))
            else {},
            "services": [name for name in stopped if name in services],
            "ignored": [name for name in stopped if name not in services],
            "offered": offered(node, record),
        },
    }


def _headers_problem(host: Facts) -> str:
    what, do = headers_problem(host)
    return f"Error while installing the kernel headers: {what}. {do}." if what else ""


def _reboot_remedy(wanted: Wanted) -> str:
    if wanted.connection == "local":
        return "Reboot this host yourself and run again: Ansible runs on it, and can't reboot it"
    if wanted.reboot:
        return "The run reboots the host (nvidia_driver_reboot=true)"
    return "Reboot this host and run again, or allow it with -e nvidia_driver_reboot=true"


def _reboot_reason(host: Facts) -> str:
    """Return why loading the driver may require a reboot, empty if no reason is known."""
    if not host or not host["nvidia_driver"].get("nouveau_loaded"):
        return ""
    bound = [gpu for gpu in host["gpus"] if gpu.get("driver") == "nouveau"]
    drives = f"drives {len(bound)} of {len(host['gpus'])} GPUs" if bound else "is loaded"
    return (
        f"nouveau {drives}. While a console or a desktop uses it, it can't be unloaded, and NVIDIA's driver needs a "
        "reboot"
    )


def _profiling(driver: Facts, wanted: Wanted) -> str:
    """Return why the setting for performance counters is not in effect, empty if it is.

    If restricted by default, another file on the host may enable the counters; this is accepted.
    """
    opened = wanted.profiling == "administrators" and driver.get("profiling_files")
    if opened or wanted.source not in INSTALLED or driver.get("profiling", "") in ("", wanted.profiling):
        return ""
    return (
        f"The loaded driver lets {driver['profiling']} read the GPU's performance counters. "
        f"nvidia_driver_profiling={wanted.profiling} has effect when the driver is loaded the next time: drain the "
        "node and reboot it"
    )


def _loaded(host: Facts) -> str:
    return str((host.get("nvidia_driver") or {}).get("loaded_version") or "")


def _kind(package: Mapping[str, str], version: str) -> str:
    return modules_of({"packages": {package["name"]: package["version"]}}, version) if package else ""


def _pending(host: Facts, wanted: Wanted, found: Packages) -> dict[str, str]:
    """Return the packages that NVIDIA's repository must contain, empty if all are installed."""
    installed = host.get("installed") or {}
    asked = {
        each["name"]: str(each.get("version", ""))
        for each in (*found.pinning, *found.packages)
        if not each.get("optional")
    }
    complete = all(installed.get(name) and version in ("", installed[name]) for name, version in asked.items())
    return asked if wanted.source == "cuda_repository" and host.get("gpus") and not complete else {}


def _return(host: Facts, former: Wanted, table: Facts) -> dict[str, Any]:
    """Return the plan for rolling back to the former driver, empty if its packages are unknown."""
    if former.source == "distribution" and host["nvidia_driver"]["origin"] != "distribution":
        return {}
    found = plan(host, former, table)
    return {} if found["problem"] else found
