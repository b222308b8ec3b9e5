# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The tables of a report: the health of GPUs, versions and drift, certificates. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from .read import Report, dictionaries, dictionary, number, text, texts

SOON, AT_ONCE = 30, 7
_MANY_PATHS = 12


@dataclass(frozen=True)
class Cell:
    """``state`` is ok, warn, bad, unknown, or empty for a plain text; ``code`` is for what can be copied."""

    text: str
    state: str = ""
    code: bool = False


@dataclass(frozen=True)
class Table:
    """The first cell of a row is its header. ``empty`` says what it means that there is no row. On a
    phone the rows of a ``wide`` table are shown one below the other.
    """

    key: str
    title: str
    note: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    empty: str
    wide: bool = False


def of(report: Report) -> tuple[Table, ...]:
    hosts = report["hosts"]
    return (
        Table(
            "health",
            "GPU health",
            "What each GPU reports about itself through the driver.",
            ("GPU", "Model", "Health", "Temperature", "PCI address", "UUID"),
            tuple(row for name, entry in hosts.items() for row in _health(name, entry)),
            "No host has reported a GPU.",
            wide=True,
        ),
        Table(
            "xids",
            "Errors in the kernel log",
            "What drivers reported since the last boot, or since the isolation of the GPUs last ended (Xids).",
            ("GPU", "Xid", "Meaning", "Severity", "Times", "Last", "What to do"),
            tuple(row for name, entry in hosts.items() for row in _xids(name, entry)),
            "No driver reported an error.",
            wide=True,
        ),
        Table(
            "versions",
            "Versions",
            "Wanted is what the variables and the table of versions of the collection ask for.",
            ("Component", "Found", "Wanted", "Drift", "Hosts"),
            tuple(_versions(hosts)),
            "No host has reported its versions.",
            wide=True,
        ),
        Table(
            "certificates",
            "Certificates",
            "Of the control plane, as kubeadm counts them. Kubelet renews its own.",
            ("Certificate", "Host", "Days left", "Expires"),
            tuple(row for name, entry in hosts.items() for row in _certificates(name, entry)),
            "No control plane has reported its certificates.",
        ),
        Table(
            "network",
            "Pod network",
            "Whether a pod on the first node reached a pod on the second. Of many, only those that failed.",
            ("From", "To", "Reached"),
            tuple(_paths(dictionary(report.get("network")))),
            "No path between two nodes failed.",
        ),
    )


def drift(report: Report) -> int:
    rows = [row for entry in report["hosts"].values() for row in dictionaries(entry.get("versions"))]
    return sum(1 for row in rows if row.get("drift") is True)


def days_left(report: Report) -> int | None:
    """Until the first certificate expires."""
    rows = [row for entry in report["hosts"].values() for row in dictionaries(entry.get("certificates"))]
    days = [found for found in (number(row.get("days_left")) for row in rows) if found is not None]
    return min(days, default=None)


def _health(name: str, entry: dict[str, Any]) -> Iterator[tuple[Cell, ...]]:
    for place, device in enumerate(dictionaries(entry.get("devices"))):
        index, heat = number(device.get("index")), number(device.get("temperature_c"))
        yield (
            Cell(f"{name} GPU {place if index is None else index}"),
            Cell(text(device.get("name"))),
            _well(entry, device),
            Cell("" if heat is None else f"{heat} °C"),
            Cell(text(device.get("pci_bus_id")), code=True),
            Cell(text(device.get("uuid")), code=True),
        )


def _xids(name: str, entry: dict[str, Any]) -> Iterator[tuple[Cell, ...]]:
    """The worst first."""
    states = {"critical": "bad", "warning": "warn"}
    order = [*states, "info"]

    def rank(row: dict[str, Any]) -> tuple[bool, int]:
        severity = text(row.get("severity"))
        return row.get("over") is True, order.index(severity) if severity in order else len(order)

    for row in sorted(dictionaries(entry.get("xids")), key=rank):
        over = row.get("over") is True
        word = "over" if over else text(row.get("severity"))
        yield (
            Cell(f"{name} {text(row.get('pci_bus_id'))}"),
            Cell(text(row.get("xid"))),
            Cell(text(row.get("what"))),
            Cell(word, "" if over else states.get(word, "")),
            Cell(text(row.get("count"))),
            Cell(text(row.get("last"))),
            Cell("" if over else text(row.get("advice"))),
        )


def _well(entry: dict[str, Any], device: dict[str, Any]) -> Cell:
    if entry.get("reachable") is False or not isinstance(device.get("healthy"), bool):
        return Cell("unknown", "unknown")
    if device["healthy"]:
        return Cell("healthy", "ok")
    return Cell("; ".join(texts(device.get("health"))) or "unhealthy", "bad")


def _versions(hosts: dict[str, Any]) -> Iterator[tuple[Cell, ...]]:
    """A row for all hosts that have the same version of a component, those with drift first."""
    grouped: dict[tuple[int, str, str, str], list[str]] = {}
    for name, entry in hosts.items():
        for row in dictionaries(entry.get("versions")):
            drifted = 2 if entry.get("reachable") is False else 0 if row.get("drift") is True else 1
            key = (drifted, text(row.get("component")), text(row.get("found")), text(row.get("wanted")))
            grouped.setdefault(key, []).append(name)
    known = (Cell("drifted", "warn"), Cell("as wanted", "ok"), Cell("unknown", "unknown"))
    for drifted, component, found, wanted in sorted(grouped, key=lambda key: key[0]):
        names = ", ".join(grouped[drifted, component, found, wanted])
        yield Cell(component), Cell(found or "not there"), Cell(wanted), known[drifted], Cell(names)


def _certificates(name: str, entry: dict[str, Any]) -> Iterator[tuple[Cell, ...]]:
    # Those that expire first come first.
    for row in sorted(dictionaries(entry.get("certificates")), key=lambda row: _days(row, 10**9)):
        days = _days(row, None)
        kind = " (CA)" if row.get("authority") is True else " (apt key)" if row.get("apt_key") is True else ""
        label = f"{text(row.get('name'))}{kind}"
        left = Cell("unknown", "unknown") if days is None else Cell(_left(days), _state(days))
        yield Cell(label), Cell(name), left, Cell(text(row.get("expires")).partition("T")[0])


def _days(row: dict[str, Any], otherwise: Any) -> Any:
    found = number(row.get("days_left"))
    return otherwise if found is None else found


def _left(days: int) -> str:
    return f"{days}" if days >= 0 else f"expired {-days} days ago"


def _state(days: int) -> str:
    return "bad" if days < AT_ONCE else "warn" if days < SOON else "ok"


def _paths(network: dict[str, Any]) -> Iterator[tuple[Cell, ...]]:
    paths = dictionaries(network.get("pod_to_pod"))
    failed = [each for each in paths if each.get("ok") is not True]
    # Their number is the square of that of the nodes.
    for each in paths if len(paths) <= _MANY_PATHS else failed:
        reached = Cell("reached", "ok") if each.get("ok") is True else Cell("not reached", "bad")
        yield Cell(text(each.get("from"))), Cell(text(each.get("to"))), reached
