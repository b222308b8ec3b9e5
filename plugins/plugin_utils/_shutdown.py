# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Choose how long a host's kubelet delays a shutdown for its pods. Pure functions."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

NAMES = ("shutdownGracePeriod", "shutdownGracePeriodCriticalPods")
_GATE = "GracefulNodeShutdown"
# The part of Go's durations that has whole seconds.
_DURATION = re.compile(r"(?:(\d+)h)?(?:(\d+)m)?(?:(\d+)s)?")


def shutdown_periods(
    wanted: tuple[int, int], shared: Mapping[str, Any], arguments: Mapping[str, Any], own: Mapping[str, Any]
) -> dict[str, str]:
    """Return the periods for a host: all of them, or none.

    ``wanted`` are those of NAMES in seconds. A field that is set for all nodes (``shared``, of KubeletConfiguration) or
    was changed on this node (``own``, of a kubelet that was set up before) remains in effect. The kubelet does not
    start with periods if the feature is disabled in ``shared`` or by its ``arguments``.
    """
    fields = {name: f"{seconds}s" for name, seconds in zip(NAMES, wanted)}
    if not wanted[0] or _excludes_periods(shared, arguments):
        return {}
    # kubeadm writes 0s for a period that is not set. Equal periods come from this role, when the host joined.
    there = {str(name): str(value) for name, value in own.items()}
    present = {name: value for name, value in there.items() if name.startswith(NAMES[0]) and value != "0s"}
    changed = present and (
        set(present) - set(NAMES) or any(_seconds(present.get(name, "0s")) != _seconds(fields[name]) for name in NAMES)
    )
    return {} if changed else fields


def with_possible_periods(
    own: Mapping[str, Any], cluster: Mapping[str, Any], shared: Mapping[str, Any], arguments: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the configuration of a node (``own``) with periods next to which its kubelet starts with ``shared``.

    If they are set for all nodes, or can't be, a node has what the ``cluster`` stores, like one that joins now.
    """
    if not _excludes_periods(shared, arguments):
        return dict(own)
    others = {name: value for name, value in own.items() if not str(name).startswith(NAMES[0])}
    return {**others, **{name: value for name, value in cluster.items() if str(name).startswith(NAMES[0])}}


def _excludes_periods(shared: Mapping[str, Any], arguments: Mapping[str, Any]) -> bool:
    return any(name.startswith(NAMES[0]) for name in shared) or not _is_enabled(shared, arguments)


def _is_enabled(shared: Mapping[str, Any], arguments: Mapping[str, Any]) -> bool:
    gates = {name: str(value).lower() for name, value in (shared.get("featureGates") or {}).items()}
    for gate in str(arguments.get("feature-gates", "")).split(","):
        name, equals, value = gate.strip().partition("=")
        gates.update({name: value.lower()} if equals else {})
    # The feature is in beta.
    return gates.get(_GATE, gates.get("AllBeta", "true")) != "false"


def _seconds(text: str) -> int | None:
    found = _DURATION.fullmatch(text)
    return sum(int(part or 0) * unit for part, unit in zip(found.groups(), (3600, 60, 1))) if found else None
