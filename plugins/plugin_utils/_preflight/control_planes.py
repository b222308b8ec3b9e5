# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Preflight's rule for clusters with several control planes."""

from __future__ import annotations

from collections.abc import Iterator

from ...module_utils._problem import Problem
from ...module_utils._words import listing
from .model import Cluster, ClusterRule


def endpoint_of_one(cluster: Cluster) -> Iterator[Problem]:
    """Check that no control plane is added to a cluster whose endpoint is the address of a single one."""
    names, there = cluster.settings["control_plane"], str(cluster.settings["cluster_api_endpoint"] or "")
    whose = {str(each.settings["node_address"]): each.host for each in cluster.control_planes}
    owner, first = whose.get(there.rpartition(":")[0]), cluster.control_plane
    if len(names) < 2 or not owner or all(each.finished for each in cluster.control_planes):
        return
    members = [each.host for each in cluster.control_planes if each.finished]
    yield Problem(
        "endpoint_of_one_machine",
        f"The endpoint of the cluster is {there}, the address of {owner}, so it can't get more control planes",
        "cluster_api_endpoint",
        f"All nodes would lose the API with {owner}, however many control planes there are",
        f"Leave only {listing(members)} in the group of control planes and remove cluster_api_endpoint, give the "
        "cluster a name with the playbook gpulab.kubernetes.migrate_endpoint, and run this with all control planes "
        "again"
        if first and first.finished
        else "Remove cluster_api_endpoint, so that the cluster gets a name, or set it to a load balancer of your own",
    )


RULES: tuple[ClusterRule, ...] = (endpoint_of_one,)
