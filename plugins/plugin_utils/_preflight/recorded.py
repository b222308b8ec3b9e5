# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read the settings that a running cluster has, from what preflight found on its control plane."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ...module_utils._json import as_texts
from .._nodes.document import read_document
from .model import Cluster, Facts, Reading


def each_control_plane(cluster: Cluster) -> Iterator[tuple[Reading, Facts]]:
    """Return each control plane that matters to this run, and what it was found to have."""
    for reading in cluster.control_planes:
        counts = not reading.left_out or reading == cluster.control_plane
        if reading.facts.get("control_plane") and counts:
            yield reading, reading.facts["control_plane"]


def control_plane_facts(cluster: Cluster) -> Iterator[tuple[Reading, Facts]]:
    """Return the control plane that shows what the cluster has, and its facts, nothing if it was not read."""
    reading = cluster.control_plane
    if reading and reading.facts.get("control_plane"):
        yield reading, reading.facts["control_plane"]


def lost_files(reading: Reading) -> list[str]:
    """Return the damaged files of a host without those that the run restores from copies of an interrupted change."""
    restorable = as_texts((reading.facts.get("control_plane") or {}).get("restorable"))
    return [path for path in reading.facts["cluster"].get("damaged") or () if path not in restorable]


def document(found: Facts, name: str) -> Mapping[str, Any]:
    """Return a document that the cluster has stored, empty if there is none that can be read."""
    return read_document(found["texts"].get(name, ""))


def value_at(made: Mapping[str, Any], path: tuple[str, ...]) -> str:
    """Return a value in a document as text, empty if it is none."""
    value: Any = made
    for key in path:
        value = value.get(key) if isinstance(value, Mapping) else None
    return "" if value is None or isinstance(value, (Mapping, list)) else str(value)
