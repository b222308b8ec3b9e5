# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Find changes of settings with which the driver rules find no problem on a host.

Each remedy was tried with the same rules, so that it does not lead to another problem.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ...module_utils._nvidia.pci import PASSED_THROUGH, selects
from ...module_utils._problem import Problem, Remedy
from .._driver import fit
from .._driver.archive import archive_versions
from .._driver.fit import AUTO
from .._driver.packages import available
from .._driver.version import Host, choose
from .model import Cluster, Reading

SOURCE, VERSION, MODULES = "nvidia_driver_source", "nvidia_driver_version", "nvidia_driver_modules"
REPLACE, IGNORED = "nvidia_driver_replace_foreign", "cluster_ignored_gpus"
IMAGE = "acceptance_image"
# The last resort if no change helps.
INSTEAD = "Use a different driver, or a different GPU"
_EXTRAS: tuple[dict[str, Any], ...] = (
    {},
    {MODULES: AUTO},
    {REPLACE: True},
    {MODULES: AUTO, REPLACE: True},
    # For some drivers only these build.
    {MODULES: fit.PROPRIETARY},
)
# Problems that no setting fixes, and that may remain after a remedy for another problem.
_OF_HOST = {"secure_boot", "kernel_headers_missing"}
# Incomplete requests, which no other driver on the host completes.
_OF_REQUEST = {"driver_upgrade_without_version"}
# Problem -> what a person can do on the host to fix it.
_BY_HAND: dict[str, Callable[[Reading], tuple[str, str]]] = {
    "secure_boot": lambda reading: (
        "signing_key",
        str((reading.facts.get("signing_key") or {}).get("certificate", "")),
    ),
    "kernel_headers_missing": lambda reading: ("packages", str(reading.facts["kernel_packages"]["headers"][0])),
    "apt_components_missing": lambda reading: ("components", str(reading.facts["os"]["key"])),
}
Find = Callable[[Reading, Cluster], Iterable[Problem]]
Try = Callable[[Mapping[str, Any]], list[Remedy]]


def remedies(reading: Reading, cluster: Cluster, problem: Problem, find: Find) -> tuple[Remedy, ...]:
    """Return the remedies for a problem of a host's driver, the best one first; ``find`` applies all rules."""
    kinds = {each.kind for each in find(reading, cluster)}
    found: tuple[Remedy, ...] = ()
    for left in dict.fromkeys((frozenset(), frozenset(kinds & _OF_HOST) - {problem.kind})):
        found = tuple(dict.fromkeys(_all(reading, cluster, problem.kind, find, left)))
        if any(not remedy.host for remedy in found):
            break
    return found


def apply_settings(reading: Reading, cluster: Cluster, settings: Mapping[str, Any]) -> Reading:
    """Return the reading with other settings, and with the version that ``auto`` then means for this host alone."""
    own = {key.removeprefix("cluster_"): value for key, value in settings.items()}
    now = {**reading.settings, **own}
    result = replace(reading, settings=now, facts=fit.with_gpus_left_out(reading.facts, now.get("ignored_gpus") or ()))
    if str(now[VERSION]) != AUTO:
        return result
    host = Host(
        reading.host,
        AUTO,
        str(now[SOURCE]),
        "",
        result.facts,
        str(now[MODULES]),
        str(now.get("nvidia_driver_installer_image", "")),
    )
    choice = choose({reading.host: host}, cluster.settings["nvidia_driver_versions"]).get(reading.host)
    entry = {"version": choice.version, "why": choice.why, "advice": choice.advice} if choice else {}
    return replace(result, settings={**now, "driver_choice": entry})


def describe_remedies(found: Sequence[Remedy], more: str = "") -> str:
    """Return the remedies as a sentence, followed by other possible actions."""
    parts = [*map(_describe, found), *([more] if more else [])]
    text = "; or ".join(parts)
    return text[:1].upper() + text[1:]


def _all(reading: Reading, cluster: Cluster, kind: str, find: Find, left: frozenset[str]) -> Iterator[Remedy]:
    accepted = functools.partial(_accepted, reading, cluster, find, left)
    if kind in _BY_HAND:
        yield Remedy((), (_BY_HAND[kind](reading),))
    packaged = list(_by_settings(reading, cluster, accepted, {}))
    yield from packaged
    if reading.facts["nvidia_driver"]["loaded_version"]:
        yield from accepted({SOURCE: "preinstalled"})
    ignored, left_out = list(reading.settings.get("ignored_gpus") or ()), reading.facts["gpus_left_out"]
    driven = [gpu for gpu in left_out if gpu.get("driver") != PASSED_THROUGH]
    needed = [entry for entry in ignored if not any(selects(str(entry), gpu) for gpu in driven)]
    if len(needed) < len(ignored):
        yield from accepted({IGNORED: needed})
    same = [remedy for remedy in packaged if SOURCE not in dict(remedy.settings)]
    if same or kind in _BY_HAND or kind in _OF_REQUEST:
        return
    for drivers in fit.driver_ranges(fit.devices_of(reading.facts)):
        wish = (("branches", f"{drivers.first}-{drivers.last or ''}"), ("modules", drivers.modules))
        yield Remedy(tuple(_different(reading, {SOURCE: "preinstalled"}).items()), wish)
    if packaged:
        return
    gpus = reading.facts["gpus"]
    for split in fit.splits(gpus):
        rest = {IGNORED: [*ignored, *split.left_out]}
        yield from itertools.islice(_by_settings(reading, cluster, accepted, rest), 1)
    if fit.unsupported(fit.devices_of(reading.facts)):
        yield from accepted({IGNORED: [*ignored, *(str(gpu["address"]) for gpu in gpus)]})


def _accepted(
    reading: Reading, cluster: Cluster, find: Find, left: frozenset[str], settings: Mapping[str, Any]
) -> list[Remedy]:
    """Try changed settings of a host, and return them as a remedy if only problems of the kinds ``left`` remain."""
    changes = _different(reading, settings)
    if not changes:
        return []
    kinds = {problem.kind for problem in find(apply_settings(reading, cluster, changes), cluster)}
    return [Remedy(tuple(changes.items()))] if kinds <= left else []


def _by_settings(reading: Reading, cluster: Cluster, accepted: Try, settings: Mapping[str, Any]) -> Iterator[Remedy]:
    """Yield the smallest change for each package source, the present source first."""
    sources = dict.fromkeys([str(reading.settings[SOURCE]), "cuda_repository", "distribution"])
    gpus = fit.with_gpus_left_out(reading.facts, settings.get(IGNORED) or reading.settings.get("ignored_gpus") or ())
    for source in sources:
        offers: list[dict[str, Any]] = [{SOURCE: source, VERSION: each} for each in _versions(gpus, cluster, source)]
        if source == reading.settings[SOURCE]:
            offers.insert(0, {})
        tries = ({**settings, **offer, **extra} for extra in _EXTRAS for offer in offers)
        yield from next(filter(None, map(accepted, tries)), [])


def _versions(facts: Mapping[str, Any], cluster: Cluster, source: str) -> list[str]:
    """Return the versions of a source for this host: supported ones first, then newest first."""
    system, table = str(facts["os"]["key"]), cluster.settings["nvidia_driver_versions"]
    if source == "cuda_repository":
        versions = available(system, table)
    elif source == "distribution":
        versions = archive_versions(facts)
    else:
        return []
    devices = fit.devices_of(facts)

    def fits(version: str) -> bool:
        return any(fit.serves(devices, int(version.partition(".")[0]), kind) for kind in fit.KINDS)

    return [version for version in reversed(versions) if fits(version)]


def _different(reading: Reading, settings: Mapping[str, Any]) -> dict[str, Any]:
    now = reading.settings
    return {key: value for key, value in settings.items() if now.get(key.removeprefix("cluster_")) != value}


def _describe(remedy: Remedy) -> str:
    settings, host = dict(remedy.settings), dict(remedy.host)
    shown = " and ".join(f"{name}={_value(value)}" for name, value in settings.items())
    if "branches" in host:
        first, _dash, last = host["branches"].partition("-")
        drivers = fit.DriverRange(host["modules"], int(first), int(last) if last else None)
        kept = f", and set {shown}" if shown else ""
        return f"install a driver of {drivers} yourself, such as NVIDIA's .run file{kept}"
    if settings.get(IGNORED):
        return f"leave GPUs out of Kubernetes ({shown})"
    if settings == {SOURCE: "preinstalled"}:
        return f"keep it ({shown})"
    if REPLACE in settings:
        return f"let the existing driver be replaced ({shown})"
    return f"set {shown} for this host"


def _value(value: Any) -> str:
    if isinstance(value, list):
        return f"[{', '.join(map(str, value))}]"
    return "true" if value is True else str(value)
