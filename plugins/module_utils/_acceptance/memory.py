# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Store verifications: a ConfigMap for each node, deleted with its Node, and one for the pod network.

Any controller can read them, and they are deleted with the cluster.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from .. import _problem
from .._cluster import objects
from .._cluster.api import Api, ApiError
from .pods import LABELS

Entry = dict[str, Any]

_NAMESPACE = "kube-system"
_PATH = f"/api/v1/namespaces/{_NAMESPACE}/configmaps"
# Earlier versions stored the whole report in one ConfigMap, which is too small for large clusters.
FORMER, _FORMER_KEY = "gpulab-acceptance", "report"
NETWORK = "gpulab-acceptance-network"
_KEY, _FORMAT = "verification", 1
_LONGEST_NAME = 253
_PAGE, _CONNECTIONS = 500, 4
# Limits of stored data: a node may have 16 GPUs with 7 MIG devices each, a cluster 5,000 nodes.
_DEVICES, _PROBLEMS, _NODES, _COUNT = 128, 100, 5000, 100_000
_LETTERS, _OUTPUT = 500, 2000
_STATES = {"proven": ("pod", "check_output"), "in_use": ("pod",), "missing": ("kind", "reason")}
# Statuses of errors that do not depend on the ConfigMap: no response, or not permitted.
_OF_ALL = (0, 401, 403)


class Memory:
    """The stored verifications of one cluster. ``warnings`` are sentences about read and write errors."""

    def __init__(self, api: Api, uids: Mapping[str, str]) -> None:
        """Take the uids of the cluster's nodes by name."""
        self._api, self._uids = api, dict(uids)
        self.warnings: list[str] = []
        selector = ",".join(f"{key}={value}" for key, value in LABELS.items())
        found = api.items(_PATH, labelSelector=selector, limit=str(_PAGE))
        self._stored = {objects.name(each): each for each in found}
        self._former = self._read(FORMER, _FORMER_KEY, _former, "all GPUs are") or {"hosts": {}, "network": {}}
        self.network: Entry = self._read(NETWORK, _KEY, _network, "the pod network is") or self._former["network"]

    def entry(self, node: str) -> Entry:
        """Return the stored verification of a node, empty if there is none."""
        name, uid = config_map_name(node), self._uids.get(node)
        if uid and _owner(self._stored.get(name, {})) in (uid, ""):
            return self._read(name, _KEY, _node, f"the GPUs of {node} are") or self._former["hosts"].get(node, {})
        # It belongs to an earlier node of this name.
        return {}

    def changes(self, entries: Mapping[str, Entry], network: Mapping[str, Any]) -> list[Entry]:
        """Return the ConfigMaps that differ from the stored ones; nodes that the cluster does not have are skipped."""
        former = self._former["hosts"]
        hosts = {**{node: former[node] for node in former if config_map_name(node) not in self._stored}, **entries}
        wanted = [
            self._body(config_map_name(node), _node, entry, node)
            for node, entry in hosts.items()
            if node in self._uids and entry
        ]
        wanted += [self._body(NETWORK, _network, network)] if network else []
        return [body for body in wanted if body and not self._is_stored(body)]

    def save(self, bodies: list[Entry]) -> bool:
        """Write ConfigMaps, then delete that of earlier versions; return whether anything has changed.

        Errors become warnings, so that the verification itself is not lost.
        """
        written: list[str] = []
        failed: list[tuple[str, ApiError]] = []

        def write(body: Entry) -> None:
            if any(_answers_alike(error) for _name, error in failed):
                return
            try:
                self._api.apply(f"{_PATH}/{objects.name(body)}", body)
            except ApiError as error:
                failed.append((objects.name(body), error))
            else:
                written.append(objects.name(body))

        with ThreadPoolExecutor(_CONNECTIONS) as pool:
            list(pool.map(write, bodies))
        order = {objects.name(body): place for place, body in enumerate(bodies)}
        for name, error in sorted(failed, key=lambda each: order[each[0]])[:1]:
            others = len(bodies) - len(written) - 1
            self.warnings.append(
                f"The verification could not be stored in the ConfigMap {_NAMESPACE}/{name}"
                + (f" and {others} others" if others else "")
                + f", so the next run verifies again what they are about. The report is complete. {error}"
            )
        forgotten = not failed and self._forget_former()
        return forgotten or bool(written)

    def _forget_former(self) -> bool:
        if FORMER not in self._stored:
            return False
        try:
            self._api.delete(f"{_PATH}/{FORMER}")
        except ApiError as error:
            self.warnings.append(
                f"The ConfigMap {_NAMESPACE}/{FORMER} of an earlier version could not be deleted. {error}"
            )
            return False
        return True

    def _read(self, name: str, key: str, read: Callable[[Any], Entry], what: str) -> Entry:
        """Return the content of a ConfigMap, empty if it is missing or invalid."""
        if name not in self._stored:
            return {}
        try:
            return read(json.loads(_text(_object(self._stored[name].get("data")), key, 1024 * 1024)))
        except (ValueError, RecursionError) as error:
            why = "it is not valid JSON" if isinstance(error, (json.JSONDecodeError, RecursionError)) else str(error)
            self.warnings.append(
                f"The ConfigMap {_NAMESPACE}/{name} is not readable as a verification of this version ({why}), so "
                f"{what} verified again."
            )
            return {}

    def _body(self, name: str, read: Callable[[Any], Entry], entry: Mapping[str, Any], node: str = "") -> Entry:
        """Return the ConfigMap, empty if the limits are exceeded."""
        try:
            text = json.dumps(
                {"format": _FORMAT, **read({"format": _FORMAT, **entry})}, sort_keys=True, separators=(",", ":")
            )
        except ValueError as error:
            self.warnings.append(f"The verification is not stored in the ConfigMap {_NAMESPACE}/{name}: {error}.")
            return {}
        owner = {"apiVersion": "v1", "kind": "Node", "name": node, "uid": self._uids.get(node)}
        return {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {
                "name": name,
                "namespace": _NAMESPACE,
                "labels": LABELS,
                **({"ownerReferences": [owner]} if node else {}),
            },
            "data": {_KEY: text},
        }

    def _is_stored(self, body: Entry) -> bool:
        stored = self._stored.get(objects.name(body), {})
        return stored.get("data") == body["data"] and _owner(stored) == _owner(body)


def config_map_name(node: str) -> str:
    """Return the name of a node's ConfigMap. Both are DNS subdomains of at most 253 characters."""
    name = f"{FORMER}.{node}"
    if len(name) <= _LONGEST_NAME:
        return name
    digest = hashlib.sha256(node.encode()).hexdigest()[:16]
    return f"{name[: _LONGEST_NAME - len(digest) - 1].rstrip('.-')}-{digest}"


def _answers_alike(error: ApiError) -> bool:
    """Return whether the next ConfigMap would fail with the same error."""
    return error.passing or error.status in _OF_ALL


def _owner(config_map: Mapping[str, Any]) -> str:
    """Return the UID of the owner node, empty if there is none."""
    owners = config_map.get("metadata", {}).get("ownerReferences")
    owner = owners[0] if isinstance(owners, list) and owners else None
    return str(owner.get("uid", "")) if isinstance(owner, dict) else ""


def _node(value: Any) -> Entry:
    """Return the known fields of a node's verification, within limits. Raise ValueError for other data."""
    entry = _versioned(value)
    isolation = _object(entry, "isolation")
    if isolation:
        isolation = {"ok": _bool(isolation, "ok"), "saw": [_short(each) for each in _list(isolation, "saw", _DEVICES)]}
    return {
        "fingerprint": _text(entry, "fingerprint"),
        "proven_at": _text(entry, "proven_at"),
        "devices": [_device(each) for each in _list(entry, "devices", _DEVICES)],
        "pods": _count(entry, "pods"),
        "isolation": isolation,
        "problems": _problems(entry),
        # Present GPUs come first, so the limit drops lost ones.
        "known": {_short(uuid): _short(name) for uuid, name in list(_object(entry, "known").items())[:_DEVICES]},
        "known_count": _count(entry, "known_count"),
    }


def _network(value: Any) -> Entry:
    """Return the known fields of the pod network's verification, within limits."""
    entry = _versioned(value)
    dials = _list(entry, "pod_to_pod", 2 * _NODES)
    return {
        "pod_to_pod": [
            {"from": _text(each, "from"), "to": _text(each, "to"), "ok": _bool(each, "ok")} for each in dials
        ],
        "service": _bool(entry, "service"),
        "dns": _bool(entry, "dns"),
        "problems": _problems(entry),
        "nodes": [_short(each) for each in _list(entry, "nodes", _NODES)],
    }


def _former(value: Any) -> Entry:
    """Return the verifications in a whole report, as earlier versions stored it."""
    hosts = {}
    for node, raw in _object(value, "hosts").items():
        entry = {"proven_at": "", **_object(raw), "format": _FORMAT}
        gpus = _object(entry, "gpus")
        devices = [_object(each) for each in _list(entry, "devices", _DEVICES)]
        known = {_text(each, "uuid"): _text(each, "name") for each in devices}
        entry["known"] = {uuid: name for uuid, name in known.items() if uuid.startswith("GPU-")}
        entry["known_count"] = len(entry["known"])
        hosts[node] = _node({**entry, "pods": gpus.get("pods", gpus.get("proven"))})
    network = _object(value, "network")
    return {"hosts": hosts, "network": _network({**network, "format": _FORMAT}) if network else {}}


def _device(value: Any) -> Entry:
    state = _text(value, "state")
    if state not in _STATES:
        raise ValueError("the state of a device is not known")
    more = {key: _text({key: "", **value}, key, _OUTPUT) for key in _STATES[state]}
    return {"uuid": _text(value, "uuid"), "name": _text(value, "name"), "state": state, **more}


def _problems(entry: Mapping[str, Any]) -> list[Entry]:
    found = [_problem.read(_object(each)).entry() for each in _list(entry, "problems", _COUNT)[:_PROBLEMS]]
    return [{key: _short(text) for key, text in each.items()} for each in found]


def _versioned(value: Any) -> Entry:
    entry = _object(value)
    if entry.get("format") != _FORMAT:
        raise ValueError(f"its format is not {_FORMAT}")
    return entry


def _object(value: Any, key: str = "") -> Entry:
    found = _object(value).get(key) if key else value
    if not isinstance(found, dict):
        raise ValueError(f"{key or 'a part'} is not an object")
    return found


def _list(entry: Any, key: str, most: int) -> list[Any]:
    found = _object(entry).get(key)
    if not isinstance(found, list) or len(found) > most:
        raise ValueError(f"{key} is not a list of at most {most}")
    return found


def _text(entry: Any, key: str, most: int = _LETTERS) -> str:
    return _short(_object(entry).get(key), most, key)


def _short(value: Any, most: int = _LETTERS, key: str = "a value") -> str:
    """Return a printable text, truncated to the limit."""
    if not isinstance(value, str):
        raise ValueError(f"{key} is not a text")
    return value[:most].encode("utf-8", "replace").decode()


def _bool(entry: Any, key: str) -> bool:
    found = _object(entry).get(key)
    if not isinstance(found, bool):
        raise ValueError(f"{key} is neither true nor false")
    return found


def _count(entry: Entry, key: str) -> int:
    found = entry.get(key)
    if isinstance(found, bool) or not isinstance(found, int) or not 0 <= found <= _COUNT:
        raise ValueError(f"{key} is not a number of at most {_COUNT}")
    return found
