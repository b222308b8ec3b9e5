# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Add what a run read from the hosts to the report: health, versions, certificates, durations. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from .._inventory.access import cluster_name
from .._nodes.deferral import deferrals
from .actions import API_UNREAD, actions, api_unread
from .backup import known
from .benchmark import keep_figures
from .drift import compare, resolve_auto
from .launch import kept
from .origin import history, origin, predecessor, verified
from .read import Report, dictionaries, dictionary, number, text, texts

# The fields of a device from nvidia_smi_info to keep in the report; null stays null.
_DEVICE = (
    "index",
    "pci_bus_id",
    "memory_total_mib",
    "memory_used_mib",
    "temperature_c",
    "power_draw_w",
    "power_limit_w",
    "healthy",
)
# The same for an Xid error.
_XID = ("xid", "pci_bus_id", "severity", "what", "advice", "message", "count", "first", "last", "over")
_SLICE = ("profile", "uuid", "memory_total_mib")
# The time stamp is part of a command that a person copies.
_TIME_STAMP = re.compile(r"\d{8}T\d{6}\.\d{6}Z", re.ASCII)
_CERTIFICATE = ("name", "expires", "days_left", "externally_managed")


def complete(report: Report, seen: Mapping[str, Any], settings: Mapping[str, Any]) -> Report:
    """Return the report with the readings ``seen`` by inventory name, and actions.

    ``seen`` is what the filter acceptance_seen returns, or has a ``failure``. ``settings`` has ``observed`` and ``now``
    (the time as text and in seconds), ``phases`` (their starts in seconds), ``earlier_phases``, ``certificate_days``,
    ``api_failure``, ``launch``, ``inventory_sources``, ``cluster_name``, ``controller``, ``options`` (what stands for
    ``-i INVENTORY`` in commands), and ``earlier``, the text of the report that is replaced.
    """
    known = {text(entry.get("inventory_name")): node for node, entry in report["hosts"].items()}
    hosts = {node: dict(entry) for node, entry in report["hosts"].items()}
    entries = {name: {"seen": said.get("reading"), "wanted": said.get("pins")} for name, said in seen.items()}
    pinned = resolve_auto(entries)
    for name, said in seen.items():
        node = text(said.get("node")) or known.get(name) or name
        hosts[node] = _host(hosts.get(node) or _bare(), name, said, pinned[name]["wanted"])
    phases = _phases(dictionary(settings.get("phases")), settings.get("now"))
    name = cluster_name(text(settings.get("cluster_name")), texts(settings.get("inventory_sources")))
    cluster = dictionary(report.get("cluster"))
    whole: Report = {
        **report,
        "cluster": {**cluster, "name": name or text(cluster.get("name"))},
        "origin": origin(dict(settings)),
        "verified": verified(report),
        "hosts": hosts,
        "problems": _problems(report["problems"], text(settings.get("api_failure"))),
        "observed": text(settings.get("observed")),
        "phases": phases or dictionaries(settings.get("earlier_phases")),
        "launch": kept(dictionary(settings.get("launch"))),
    }
    whole["actions"] = [each.fields() for each in actions(whole, number(settings.get("certificate_days")) or 0)]
    before = predecessor(whole, settings.get("earlier"))
    return {**whole, "history": history(whole, before), "gpu_benchmark": keep_figures(whole, before)}


def _bare() -> dict[str, Any]:
    """Return the entry of a host that is new in the report."""
    gpus = dict.fromkeys(("expected", "nvidia_smi", "pci", "capacity", "allocatable", "proven", "in_use"), 0)
    return {"gpus": gpus, "devices": [], "problems": []}


def _host(entry: Mapping[str, Any], name: str, said: Mapping[str, Any], pins: Mapping[str, Any]) -> dict[str, Any]:
    common = {**entry, "inventory_name": name, "roles": texts(said.get("roles"))}
    failure = text(said.get("failure"))
    if failure:
        return {**common, "reachable": False, "failure": failure, "roles": common["roles"] or texts(entry.get("roles"))}
    reading = dictionary(said.get("reading"))
    driver, certificates = dictionary(reading.get("nvidia_smi")), dictionary(reading.get("certificates"))
    return {
        **common,
        "reachable": True,
        "failure": "",
        "pool": text(pins.get("pool")),
        "driver_state": text(driver.get("state")),
        "devices": _devices(dictionaries(entry.get("devices")), dictionaries(driver.get("gpus"))),
        "xids": [{key: each.get(key) for key in _XID} for each in dictionaries(driver.get("xids"))],
        "xids_failure": text(driver.get("xids_failure")),
        "topology": {key: dictionary(driver.get("topology")).get(key) for key in ("gpus", "matrix")}
        if driver.get("topology")
        else {},
        "versions": [row.fields() for row in compare(reading, pins)],
        "moved_aside": [each for each in texts(reading.get("moved_aside")) if _TIME_STAMP.fullmatch(each)],
        "deferred": [each.fields() for each in (deferrals(text(reading.get("deferred"))) or {}).values()],
        "backup": known(dictionary(reading.get("backup"))),
        "certificates": [
            {**{key: each.get(key) for key in _CERTIFICATE}, "authority": authority}
            for key, authority in (("certificates", False), ("certificate_authorities", True))
            for each in dictionaries(certificates.get(key))
            if each.get("missing") is not True
        ]
        + [
            {**{key: each.get(key) for key in _CERTIFICATE}, "authority": False, "apt_key": True}
            for each in dictionaries(reading.get("apt_keys"))
        ],
        "certificates_failure": text(certificates.get("msg")) if "certificates" not in certificates else "",
    }


def _devices(devices: list[dict[str, Any]], gpus: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the verified devices with their health, then devices that were not verified.

    The verification is often older than this reading (kept, or from an earlier report). Both are matched by UUID.
    """
    by_uuid = {text(gpu.get("uuid")): gpu for gpu in gpus if gpu.get("uuid")}
    # A MIG device has the health of its GPU.
    parents = {
        text(part.get("uuid")): gpu for gpu in gpus for part in dictionaries(dictionary(gpu.get("mig")).get("devices"))
    }
    by_uuid = {**{uuid: {**gpu, "mig": {}} for uuid, gpu in parents.items()}, **by_uuid}
    listed = {text(device.get("uuid")) for device in devices}
    found = [{**device, **_health(by_uuid.get(text(device.get("uuid"))))} for device in devices]
    for gpu in gpus:
        if text(gpu.get("uuid")) not in listed and not any(parents.get(uuid) is gpu for uuid in listed):
            own = {"uuid": text(gpu.get("uuid")), "name": text(gpu.get("name")), "state": "unproven"}
            found.append({**own, "reason": "no verification covers it", **_health(gpu)})
    return found


def _health(gpu: Mapping[str, Any] | None) -> dict[str, Any]:
    if gpu is None:
        # The driver was read, but does not list the device.
        return {"healthy": False, "health": ["nvidia-smi does not list it"], "mig": []}
    slices = dictionaries(dictionary(gpu.get("mig")).get("devices"))
    return {
        **{key: gpu.get(key) for key in _DEVICE},
        "ecc_uncorrected": number(dictionary(gpu.get("ecc")).get("uncorrected_aggregate")),
        "health": texts(gpu.get("problems")),
        "advice": texts(gpu.get("advice")),
        "faults": dictionaries(gpu.get("faults")),
        "mig": [{key: each.get(key) for key in _SLICE} for each in slices],
    }


def _phases(starts: Mapping[str, Any], now: Any) -> list[dict[str, Any]]:
    """Return a list of the durations of phases, from their start times in seconds."""
    begun = sorted((float(each), name) for name, each in starts.items())
    ends = [moment for moment, _name in begun[1:]] + [float(now or 0)]
    return [{"name": name, "seconds": round(max(0.0, end - moment), 1)} for (moment, name), end in zip(begun, ends)]


def _problems(found: list[Any], api_failure: str) -> list[Any]:
    """Return the problems; this run's failure to read the API replaces an earlier one."""
    # Older versions had no kind; only this problem had no host.
    known = [(each.get("kind") or ("" if each.get("host") else API_UNREAD), each) for each in dictionaries(found)]
    kept = [each for kind, each in known if kind != API_UNREAD]
    return [*kept, api_unread(api_failure).entry()] if api_failure else kept
