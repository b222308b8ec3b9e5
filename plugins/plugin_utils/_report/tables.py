# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The tables of a report: problems are shown, other rows folded. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from ...module_utils._words import counted
from . import backup
from .benchmark import benchmark_tables
from .health import healthy_gpus, unhealthy_gpus
from .read import Report, dictionaries, dictionary, number, text
from .table import Cell, Fold, Row, Table
from .words import moment

SOON, AT_ONCE = 30, 7
_XID_COLUMNS = ("GPU", "Xid", "Meaning", "Severity", "Times", "Last", "What to do")
_VERSION_COLUMNS = ("Component", "Installed", "Pinned", "State", "Hosts")
_CERTIFICATE_COLUMNS = ("Certificate", "Host", "Days left", "Expires")
_BACKUP_COLUMNS = ("Backup", "Host", "Age", "Encrypted", "Copies")
_PATH_COLUMNS = ("From", "To", "Reached")


def report_tables(report: Report, fleet: bool) -> tuple[Table, ...]:
    """Return the tables; in a ``fleet``, which has many hosts, a healthy host has one row."""
    rest = (_xids(report), _versions(report), _certificates(report), *_backups(report), _paths(report))
    return (_health(report, fleet), *benchmark_tables(report), *rest)


def differing(report: Report) -> tuple[int, int]:
    """Return how many versions differ from the pinned ones, and on how many hosts."""
    found = [
        (row.get("component"), row.get("found"), row.get("wanted"), name)
        for name, entry in report["hosts"].items()
        for row in dictionaries(entry.get("versions"))
        if row.get("drift") is True
    ]
    return len({tuple(map(text, each[:3])) for each in found}), len({name for *_version, name in found})


def days_left(report: Report) -> int | None:
    """Return the days until the first certificate expires."""
    rows = [row for entry in report["hosts"].values() for row in dictionaries(entry.get("certificates"))]
    days = [found for found in (number(row.get("days_left")) for row in rows) if found is not None]
    return min(days, default=None)


def left(days: int) -> str:
    return counted(days, "day") if days >= 0 else f"expired {counted(-days, 'day')} ago"


def urgency(days: int) -> str:
    return "bad" if days < AT_ONCE else "warn" if days < SOON else "ok"


def _health(report: Report, fleet: bool) -> Table:
    columns, rows, words, known = unhealthy_gpus(report)
    return Table(
        "health",
        "GPU health",
        "What each GPU reports about itself through the driver.",
        columns,
        rows,
        words,
        wide=True,
        fold=healthy_gpus(report, fleet),
        unchecked=not known,
    )


def _each(
    report: Report, rows: Callable[[str, dict[str, Any]], Iterable[tuple[Any, bool, Row]]]
) -> tuple[tuple[Row, ...], tuple[Row, ...]]:
    """Return the rows of all hosts, sorted by rank: those with a problem, and the others."""
    found = [each for name, entry in report["hosts"].items() for each in rows(name, entry)]
    found.sort(key=lambda each: each[0])
    return tuple(row for _rank, open_, row in found if open_), tuple(row for _rank, open_, row in found if not open_)


def _xids(report: Report) -> Table:
    rows, rest = _each(report, _xid_rows)
    hosts = report["hosts"].values()
    unread = sum(1 for entry in hosts if entry.get("reachable") is False or text(entry.get("xids_failure")))
    words = "No error requires action." if rest else "No driver reported an error."
    if unread:
        words = f"The kernel log of {counted(unread, 'host')} could not be read."
    return Table(
        "xids",
        "Errors in the kernel log",
        "What drivers reported since the last boot, or since the isolation of the GPUs last ended (Xids).",
        _XID_COLUMNS,
        rows,
        words,
        wide=True,
        fold=Fold(f"{len(rest)} that require no action", _XID_COLUMNS, rest),
        unchecked=unread > 0,
    )


def _xid_rows(name: str, entry: dict[str, Any]) -> Iterator[tuple[Any, bool, Row]]:
    """Yield rows, the most severe Xid error first."""
    states = {"critical": "bad", "warning": "warn"}
    order = [*states, "info"]
    for row in dictionaries(entry.get("xids")):
        past, severity = row.get("over") is True, text(row.get("severity"))
        word = "past" if past else severity
        rank = (past, order.index(severity) if severity in order else len(order))
        yield (
            rank,
            not past and severity in states,
            (
                Cell(f"{name} {text(row.get('pci_bus_id'))}"),
                Cell(text(row.get("xid"))),
                Cell(text(row.get("what"))),
                Cell(word, "" if past else states.get(word, "")),
                Cell(text(row.get("count"))),
                Cell(moment(text(row.get("last")))),
                Cell("" if past else text(row.get("advice"))),
            ),
        )


def _versions(report: Report) -> Table:
    """Return a table with one row for all hosts that have the same version of a component."""
    hosts = report["hosts"]
    grouped: dict[tuple[int, str, str, str], list[str]] = {}
    for name, entry in hosts.items():
        for row in dictionaries(entry.get("versions")):
            state = 1 if entry.get("reachable") is False else 0 if row.get("drift") is True else 2
            key = (state, text(row.get("component")), text(row.get("found")), text(row.get("wanted")))
            grouped.setdefault(key, []).append(name)
    states = (Cell("differs", "warn"), Cell("unknown", "unknown"), Cell("as pinned", "ok"))
    rows = [
        (
            state,
            (
                Cell(component),
                Cell(found or "not installed"),
                Cell(wanted),
                states[state],
                Cell(_hosts(names, len(hosts), state == 2)),
            ),
        )
        for (state, component, found, wanted), names in sorted(grouped.items(), key=lambda each: each[0][0])
    ]
    rest = tuple(row for state, row in rows if state == 2) + tuple(row for state, row in rows if state == 1)
    pinned = sum(1 for state, _row in rows if state == 2)
    unknown = f", {len(rest) - pinned} unknown" if len(rest) > pinned else ""
    return Table(
        "versions",
        "Versions",
        "Pinned versions come from the variables and the collection's table of versions.",
        _VERSION_COLUMNS,
        tuple(row for state, row in rows if state == 0),
        f"All versions are as pinned{unknown}." if pinned else "No host has reported its versions.",
        wide=True,
        fold=Fold(f"{counted(pinned, 'version')} as pinned{unknown}", _VERSION_COLUMNS, rest),
        unchecked=pinned == 0 or len(rest) > pinned,
    )


def _hosts(names: Sequence[str], all_of_them: int, may_be_short: bool) -> str:
    if not may_be_short or len(names) < 7:
        return ", ".join(names)
    return f"all {len(names)} hosts" if len(names) == all_of_them else f"{len(names)} hosts"


def _certificates(report: Report) -> Table:
    rows, rest = _each(report, _certificate_rows)
    return Table(
        "certificates",
        "Certificates",
        "Certificates of the control plane, as reported by kubeadm, and keys of apt sources. The kubelet renews its "
        "own certificates.",
        _CERTIFICATE_COLUMNS,
        rows,
        f"No certificate expires within {SOON} days." if rest else "No control plane has reported its certificates.",
        fold=Fold(f"{counted(len(rest), 'certificate')} valid for longer", _CERTIFICATE_COLUMNS, rest),
        unchecked=not rest,
    )


def _certificate_rows(name: str, entry: dict[str, Any]) -> Iterator[tuple[Any, bool, Row]]:
    for row in dictionaries(entry.get("certificates")):
        days = number(row.get("days_left"))
        kind = " (CA)" if row.get("authority") is True else " (apt key)" if row.get("apt_key") is True else ""
        state = "unknown" if days is None else urgency(days)
        words = "unknown" if days is None else left(days) if days < 0 else str(days)
        expires = Cell(text(row.get("expires")).partition("T")[0])
        cells = (Cell(f"{text(row.get('name'))}{kind}"), Cell(name), Cell(words, state), expires)
        yield (10**9 if days is None else days), state in ("bad", "warn"), cells


def _backups(report: Report) -> tuple[Table, ...]:
    rows, rest = _each(report, _backup_rows)
    table = Table(
        "backups",
        "Backups",
        "The newest backup of each control plane that was restored on trial. Data in volumes are not in it.",
        _BACKUP_COLUMNS,
        rows,
        "Each control plane has a recent backup.",
        fold=Fold(f"{counted(len(rest), 'control plane')} with a recent backup", _BACKUP_COLUMNS, rest),
    )
    return (table,) if rows or rest else ()


def _backup_rows(name: str, entry: dict[str, Any]) -> Iterator[tuple[Any, bool, Row]]:
    found = dictionary(entry.get("backup"))
    if not found:
        return
    wrong, hours = bool(list(backup.problems(found))), number(found.get("hours")) or 0
    copies = [text(each.get("place")) for each in dictionaries(found.get("places")) if not text(each.get("failure"))]
    cells = (
        Cell(text(found.get("archive")).rpartition("/")[2] or "none"),
        Cell(name),
        Cell(counted(hours, "hour"), "warn" if wrong else "ok"),
        Cell("yes" if found.get("recipients") else "no"),
        Cell(", ".join(copies) or "none"),
    )
    yield -hours, wrong, cells


def _paths(report: Report) -> Table:
    paths = dictionaries(dictionary(report.get("network")).get("pod_to_pod"))
    rows = [
        (ok, (Cell(text(each.get("from"))), Cell(text(each.get("to"))), Cell(*words)))
        for each in paths
        for ok in [each.get("ok") is True]
        for words in [("reached", "ok") if ok else ("not reached", "bad")]
    ]
    good = tuple(row for ok, row in rows if ok)
    # The number of paths is quadratic in the number of nodes.
    fold = Fold(f"{counted(len(good), 'path')} that worked", _PATH_COLUMNS, good if len(paths) <= 12 else ())
    return Table(
        "network",
        "Pod network",
        "Whether a pod on the first node reached a pod on the second.",
        _PATH_COLUMNS,
        tuple(row for ok, row in rows if not ok),
        f"Pods reached each other on {counted(len(good), 'path')} between nodes."
        if good
        else "The pod network between nodes was not tested.",
        fold=fold,
        unchecked=not good,
    )
