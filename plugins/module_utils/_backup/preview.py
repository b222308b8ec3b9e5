# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a restore of a backup changes, as data and as lines for people. Pure functions."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from .._json import as_mapping, as_mappings, as_text
from .._words import abridged, counted, listing
from .database import Database
from .manifest import Manifest
from .objects import Losses, Place, by_kind, have_same_past, losses
from .pods import EndingPod, RunningPod, ending_pods, owner_of, stored_pods

# Where the objects of before the restore come from.
ETCD, FILES, UNKNOWN = "etcd", "files", "unknown"


@dataclass(frozen=True)
class Preview:
    """``source`` is where the objects of before were read. ``unread`` are the nodes whose pods are not known."""

    manifest: Manifest
    source: str
    losses: Losses
    ending: Sequence[EndingPod]
    unread: Collection[str] = ()


def preview(
    manifest: Manifest,
    snapshot: Database,
    old: Database | None,
    source: str,
    running: Mapping[str, Sequence[RunningPod] | None],
) -> Preview:
    """Compare a snapshot with the objects of before, None if they can't be read, and with the pods of the nodes.

    The pods of a node that was not read are None.
    """
    known = old if old is not None and have_same_past(old, snapshot) else None
    return Preview(
        manifest,
        source if known else UNKNOWN,
        losses(known.keys, snapshot.keys) if known else Losses(),
        ending_pods(
            {node: pods for node, pods in running.items() if pods is not None},
            stored_pods(snapshot.keys),
            stored_pods(known.keys) if known else {},
        ),
        [node for node, pods in running.items() if pods is None],
    )


def read_running(value: Any) -> dict[str, list[RunningPod] | None]:
    """Parse what node_pods_info returned for each node, by the names of the nodes; None for one that was not read."""
    return {
        node: None if pods is None else [_running(each) for each in as_mappings(pods)]
        for node, pods in as_mapping(value).items()
    }


def _running(pod: Mapping[str, Any]) -> RunningPod:
    gpus, labels = pod.get("gpus"), {str(key): as_text(each) for key, each in as_mapping(pod.get("labels")).items()}
    name = as_text(pod.get("name"))
    return RunningPod(
        as_text(pod.get("uid")),
        as_text(pod.get("namespace")),
        name,
        gpus if isinstance(gpus, int) else 0,
        owner_of(labels, name),
        pod.get("static") is True,
    )


def fields(found: Preview) -> dict[str, Any]:
    """Return a preview as in a module's result."""
    manifest = asdict(found.manifest)
    manifest.pop("parts")
    return {
        "backup": manifest,
        "source": found.source,
        "lost": [asdict(each) for each in found.losses.lost],
        "ending": [
            {
                "node": each.node,
                "namespace": each.pod.namespace,
                "name": each.pod.name,
                "gpus": each.pod.gpus,
                "owner": each.owner,
                "why": each.why,
            }
            for each in found.ending
        ],
        "lines": lines(found),
    }


def lines(found: Preview) -> list[str]:
    """Return what a person must know before a restore."""
    manifest, taken = found.manifest, _clock(found.manifest.taken)
    return [
        f"This backup of the cluster {manifest.cluster} was taken at {taken} on {manifest.node}, with Kubernetes "
        f"{manifest.kubernetes}.",
        *(_objects(found, taken)),
        *_pods(found),
        "Data in volumes are not in a backup, and a restore does not change them.",
    ]


def _objects(found: Preview, taken: str) -> list[str]:
    if found.source == UNKNOWN:
        return [f"Everything written after {taken} will be lost. What that is can't be read any more."]
    return [
        *_section(found.losses.lost, "will be lost"),
        *_section(found.losses.changed, f"will have the state of {taken}"),
        *_section(found.losses.returning, "deleted since will exist again"),
    ] or [f"No object has changed since {taken}."]


def _section(places: Sequence[Place], what: str) -> list[str]:
    if not places:
        return []
    return [f"{counted(len(places), 'object')} {what}:", *(f"  {line}" for line in abridged(by_kind(places)))]


def _pods(found: Preview) -> list[str]:
    unread = [f"The pods of {listing(found.unread)} are unknown: they could not be read."] if found.unread else []
    if not found.ending:
        return [*([] if unread else ["No running pod will end."]), *unread]
    gpus = sum(each.pod.gpus for each in found.ending)
    count = counted(len(found.ending), "running pod")
    used = f" ({counted(gpus, 'GPU')})" if gpus else ""
    head = f"{count} will end{used}:"
    return [head, *(f"  {line}" for line in abridged(map(str, found.ending))), *unread]


def _clock(taken: str) -> str:
    return f"{taken[:10]} {taken[11:19]} UTC"
