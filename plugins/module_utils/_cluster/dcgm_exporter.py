# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The DCGM exporter: obstacles to installing it, objects to remove, and the GPUs in its metrics.

Pure functions. ``found`` are objects from the API, ``wanted`` the role's manifests.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from .._nvidia_smi.values import bus_id
from . import manifests, objects
from .objects import Object

APP = "dcgm-exporter"
PORT = 9400
# Types of counters in dcgm-exporter: internal/pkg/counters/counter_config.go.
_TYPES = ("gauge", "counter", "histogram", "summary", "label")
# A GPU's last Xid is still reported when nothing else about it can be read.
_XID = "DCGM_FI_DEV_XID_ERRORS"
_SAMPLE = re.compile(r"^(DCGM_FI_\w+)\{(.*)\} \S+$", re.MULTILINE)
_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')


@dataclass(frozen=True)
class Plan:
    """A plan. ``obstacle``: why not to install, in sentences. ``removed``: in this order. ``kept``: what stays."""

    obstacle: str
    removed: Sequence[Object]
    kept: str


@dataclass(frozen=True)
class Gpu:
    """A GPU of a host. Unknown values are empty; ``complaint`` is the driver's problem report."""

    index: str
    uuid: str
    address: str
    complaint: str

    def __str__(self) -> str:
        names = ", ".join(filter(None, (self.uuid, self.address)))
        if not names:
            return f"GPU {self.index}" if self.index else "a GPU that is not on the PCI bus"
        return f"GPU {self.index} ({names})" if self.index else f"a GPU ({names})"


def plan(found: Sequence[Object], wanted: Sequence[Object]) -> Plan:
    removed, others = manifests.removable(found, wanted)
    names = ", ".join(map(objects.full_name, others))
    kept = f"Its namespace stays, because it has other pods: {names}." if others else ""
    return Plan(_obstacle(found, wanted), removed, kept)


def _counter_problem(wanted: Sequence[Object]) -> str:
    """Return an error in the counters, with which the exporter would exit and only its log would show why."""
    text = "".join(each["data"]["counters.csv"] for each in wanted if each["kind"] == "ConfigMap")
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
    for fields in csv.reader(lines):
        if len(fields) != 3 or fields[1].strip() not in _TYPES:
            return (
                f"a line of dcgm_exporter_counters is {','.join(fields)!r:.80}. Write a DCGM field, its type "
                f"({', '.join(_TYPES)}) and its help, separated by commas"
            )
    return ""


def _obstacle(found: Sequence[Object], wanted: Sequence[Object]) -> str:
    keys = [objects.key(each) for each in wanted]
    for each in found:
        kind, namespace, name = objects.key(each)
        if kind == "DaemonSet" and objects.key(each) not in keys and _exports(each):
            if not objects.is_ours(each):
                return (
                    f"the DaemonSet {namespace}/{name}, not managed by this collection, exports the metrics of the "
                    "GPUs already, and only one program at a time can profile a GPU. Keep it and don't run this "
                    "playbook, or remove it with what installed it and run again"
                )
            return (
                f"it runs in the namespace {namespace} already. Keep dcgm_exporter_namespace={namespace}, or remove it "
                f"there first with -e dcgm_exporter_state=absent -e dcgm_exporter_namespace={namespace}"
            )
    theirs = [each for each in found if objects.key(each) in keys and not objects.is_ours(each)]
    if theirs:
        words = ", ".join(map(objects.words, theirs))
        return f"not created by this collection: {words}. Choose another dcgm_exporter_namespace"
    if not any(each["kind"] == "RuntimeClass" for each in found):
        return (
            "the cluster has no RuntimeClass nvidia, with which pods reach the driver. "
            "Run ansible-playbook gpulab.kubernetes.site -i INVENTORY first"
        )
    return _counter_problem(wanted)


def _exports(daemonset: Object) -> bool:
    containers = daemonset["spec"]["template"]["spec"].get("containers") or []
    return any(each.get("image", "").rpartition("/")[2].startswith(APP) for each in containers)


def gpus_of(entry: Mapping[str, Any]) -> list[Gpu]:
    """Return the GPUs of a host, from its driver (``gpus``) and its PCI bus (``pci``).

    GPUs that are only on the bus count up to ``expected``, or all if it is None. Expected GPUs that neither lists have
    no name.
    """
    listed = [
        Gpu(
            index=str(gpu["index"]) if gpu.get("index") is not None else "",
            uuid=gpu.get("uuid") or "",
            address=gpu.get("pci_bus_id") or "",
            complaint="; ".join(gpu.get("problems") or []),
        )
        for gpu in entry.get("gpus") or []
    ]
    places = {gpu.address for gpu in listed}
    bare = [address for address in map(bus_id, entry.get("pci") or []) if address and address not in places]
    unplaced = sum(not gpu.address for gpu in listed)
    expected = entry.get("expected")
    more = max(0, len(bare) - unplaced if expected is None else int(expected) - len(listed))
    unknown = [*bare, *[""] * more][:more]
    return [*listed, *(Gpu("", "", address, entry.get("complaint") or "") for address in unknown)]


def unmeasured(gpus: Sequence[Gpu], text: str) -> list[Gpu]:
    """Return the GPUs without a measured value in an exporter's response.

    The driver often reports only the index of a lost GPU; the exporter's metrics for that index may contain its name.
    """
    named: dict[str, Gpu] = {}
    measured: set[str] = set()
    for family, labels in _SAMPLE.findall(text):
        found = dict(_LABEL.findall(labels))
        gpu = Gpu(found.get("gpu", ""), found.get("UUID", ""), bus_id(found.get("pci_bus_id")) or "", "")
        named[gpu.uuid] = gpu
        if family != _XID:
            measured |= {gpu.uuid, gpu.address} - {""}
    silent = {gpu.index: gpu for gpu in named.values() if gpu.uuid not in measured}
    return [
        gpu if gpu.uuid or gpu.address else replace(silent.get(gpu.index, gpu), complaint=gpu.complaint)
        for gpu in gpus
        if (gpu.uuid or gpu.address) not in measured
    ]
