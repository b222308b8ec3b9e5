# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Decide what is pending on a control plane: settings of kubeadm that differ, and certificates that end soon. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ...module_utils._json import as_mapping, as_mappings, as_texts
from ...module_utils._kubeadm.damage import ADMIN
from ...module_utils._mappings import merged
from ...module_utils._secrets import MASK, is_secret, mask
from ...module_utils._words import abridged, counted, listing
from .._preflight.differences import differences, read_duration
from .document import read_document

_PART = ("extraArgs", "extraVolumes", "extraEnvs")
# Parts of ClusterConfiguration that can be changed in a running cluster.
_CHANGEABLE = (
    *(f"{part}.{name}" for part in ("apiServer", "controllerManager", "scheduler") for name in _PART),
    "apiServer.certSANs",
    "certificateValidityPeriod",
    *(f"etcd.local.{name}" for name in ("extraArgs", "extraEnvs", "imageRepository", "imageTag")),
)
_LONGEST = 120
_DAY = 24 * 60 * 60


def is_changeable(path: str, recorded: Mapping[str, Any]) -> bool:
    """Return whether a setting of ClusterConfiguration, such as ``apiServer.certSANs``, can change in this cluster."""
    return path in _CHANGEABLE and not is_of_another_etcd(path, recorded)


def is_of_another_etcd(path: str, recorded: Mapping[str, Any]) -> bool:
    """Return whether this is a setting of kubeadm's etcd, but the cluster uses an external one."""
    return path.startswith("etcd.local.") and bool(as_mapping(recorded.get("etcd")).get("external"))


def configuration_changes(recorded: Mapping[str, Any], inventory: Mapping[str, Any]) -> list[tuple[str, Any, Any]]:
    """Return path, wanted and present value of each changeable setting of the inventory that the cluster lacks.

    A list is compared as a whole, but its order does not count. What the inventory does not set stays as it is in the
    cluster.
    """
    found = differences(inventory, recorded) if recorded else ()
    return [each for each in found if is_changeable(each[0], recorded) and _in_order(each[1]) != _in_order(each[2])]


def control_plane_plan(
    found: Mapping[str, Any], inventory: Mapping[str, Any], certificates: Mapping[str, Any], days: float
) -> dict[str, Any]:
    """Return what is pending on a control plane, empty if nothing is.

    ``found`` are the facts of preflight, ``certificates`` those of gpu_host_info, of which those with fewer than
    ``days`` left are renewed, or of short ones those of which less than a third is left. The result has the
    ``recorded`` and the ``wanted`` ClusterConfiguration, whether the cluster has to store the latter (``upload``),
    whether certificates are to be renewed (``renew``), and ``why``. If the API does not answer since a change was
    interrupted, or its administrator can't be used, that is only repeated or undone (``repair``).
    """
    recorded = read_document(as_mapping(found.get("texts")).get("ClusterConfiguration"))
    repair = bool(found.get("interrupted")) and (not recorded or ADMIN[0] in as_texts(found.get("restorable")))
    changes = [] if repair else configuration_changes(recorded, inventory)
    limit = _limit(recorded, days)
    ending = [] if repair else list(_ending(certificates, limit))
    why = [f"{path}: {_shown(there, path)} -> {_shown(wanted, path)}" for path, wanted, there in changes]
    why += [f"certificates with less than {counted(int(limit), 'day')} left: {listing(ending)}"] if ending else []
    why += ["a change that was interrupted"] if found.get("interrupted") else []
    if not why or not (recorded or found.get("interrupted")):
        return {}
    return {
        "recorded": recorded,
        "wanted": merged(recorded, _changed(inventory, [path for path, _wanted, _there in changes])),
        "upload": bool(changes),
        "renew": bool(ending and recorded),
        "repair": repair,
        "why": why,
    }


def stores_configuration(host: str, group: Sequence[str], hostvars: Mapping[str, Any], there: Sequence[str]) -> bool:
    """Return whether the cluster stores the configuration after the change of this host: the last one of its ``group``.

    Later joins and upgrades use what is stored, so all control planes have it by then, except those that join in this
    run. ``there`` are the hosts of the run; with --limit, some may lack the change.
    """
    group = [name for name in group if not _joins(hostvars[name])]
    results = [as_mapping(hostvars[name].get("__kubeadm_control_plane")) for name in group if name != host]
    return [host] == group[-1:] and not {*group} - {*there} and all(each.get("pending") is False for each in results)


def _joins(variables: Mapping[str, Any]) -> bool:
    """Return whether a host is not a control plane yet, as preflight has read it."""
    return as_mapping(as_mapping(variables.get("preflight_host")).get("cluster")).get("finished") is False


def pending_notice(why: Sequence[str], result: Mapping[str, Any], control_planes: int) -> list[str]:
    """Return what a run leaves pending because it may not interrupt the API, and how to apply it, as lines."""
    alone = control_planes == 1
    restarted = list(result.get("restarted") or [])
    changes, edits = abridged(result.get("changes") or why), abridged(result.get("edits") or [])
    gap = (
        "The API does not answer for about 20 s meanwhile"
        if alone
        else "One control plane at a time restarts, and the others answer meanwhile"
    )
    return [
        "Pending, because it restarts parts of the control plane:",
        *(f"  {line}" for line in changes),
        *(f"  kept, since it is so on this control plane alone: {line}" for line in edits),
        *([f"  It can't be applied: {result['msg']}"] if result.get("msg") else []),
        *([f"  It restarts {listing(restarted)}. {gap}; pods continue to run."] if restarted else []),
        "  To apply it, run this again with -e cluster_control_plane_gap=allow",
    ]


def _in_order(value: Any) -> list[str]:
    """Return a setting for a comparison."""
    return sorted(json.dumps(each, sort_keys=True, default=str) for each in _entries(value))


def _entries(value: Any) -> Sequence[Any]:
    """Return the entries of a list, or a single value; before v1beta4, extraArgs were a mapping."""
    if isinstance(value, Mapping):
        return [{"name": name, "value": inner} for name, inner in value.items()]
    return value if isinstance(value, (list, tuple)) else [value]


def _limit(recorded: Mapping[str, Any], days: float) -> float:
    """Return how many days before its end a certificate is renewed: new ones must have more left."""
    validity = read_duration(str(recorded.get("certificateValidityPeriod") or ""))
    return min(days, float(validity) / _DAY / 3) if validity else days


def _ending(certificates: Mapping[str, Any], days: float) -> Iterator[str]:
    for each in as_mappings(certificates.get("certificates")):
        left = each.get("days_left")
        if isinstance(left, int) and left < days and each.get("externally_managed") is not True:
            yield str(each.get("name"))


def _changed(inventory: Mapping[str, Any], paths: Sequence[str]) -> dict[str, Any]:
    """Return the settings of the inventory at these paths."""
    found: dict[str, Any] = {}
    for path in paths:
        value: Any = inventory
        *parents, last = path.split(".")
        inner = found
        for key in parents:
            value, inner = value[key], inner.setdefault(key, {})
        inner[last] = value[last]
    return found


def _shown(value: Any, path: str) -> str:
    """Return a setting as the user would write it, without secrets. Environment variables may contain any."""
    if value is None:
        return "(not set)"
    text = ", ".join(_entry(each, path.endswith("Envs")) for each in _entries(value))
    return (text if len(text) <= _LONGEST else text[:_LONGEST] + "...") or "(empty)"


def _entry(value: Any, secret: bool) -> str:
    if not isinstance(value, Mapping):
        return mask(str(value))
    if secret or {*value} == {"name", "value"}:
        name = str(value.get("name"))
        return f"{name}={MASK if secret or is_secret(name) else mask(str(value['value']))}"
    return mask(str(value))
