# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Report which control planes a cluster lacks at the end of a run, and what another loss would mean. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ...module_utils._etcd.quorum import Standing
from ...module_utils._json import as_mapping
from ...module_utils._words import listing

# The role kubeadm sets it on a host that has become a control plane in this run.
JOINED = "kubeadm_joined_control_plane"


def standing_notice(group: Sequence[str], hostvars: Mapping[str, Any], there: Sequence[str]) -> str:
    """Return which control planes of the group are missing, in sentences, empty if none is.

    ``there`` are the hosts of this run that have not failed.
    """
    members = [name for name in group if is_member(hostvars[name])]
    if not members or len(members) == len(group):
        return ""
    lacking = [f"{name}{'' if name in there else ' (not reached, or failed)'}" for name in group if name not in members]
    may_fail = Standing(len(members), len(members)).may_fail
    loss = f"{may_fail} of them may fail" if may_fail else "If one of them fails, nothing can be written to the API"
    return (
        f"{len(members)} of {len(group)} control planes are in the cluster; {listing(lacking)} "
        f"{'is' if len(lacking) == 1 else 'are'} missing. {loss}. Run this again with all control planes."
    )


def is_member(variables: Mapping[str, Any]) -> bool:
    """Return whether a host is a control plane of the cluster, as this run has read or made it."""
    found = as_mapping(as_mapping(variables.get("preflight_host")).get("cluster"))
    return bool(found.get("finished") or variables.get(JOINED))
