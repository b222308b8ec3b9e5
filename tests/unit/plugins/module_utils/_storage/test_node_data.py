# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.gpulab.kubernetes.plugins.module_utils._storage.node_data import lost_volumes
from hypothesis import given
from hypothesis import strategies as st

HOSTNAME = "kubernetes.io/hostname"
NODES = [
    {"metadata": {"name": name, "labels": {HOSTNAME: name, "zone": zone, "disks": disks}}}
    for name, zone, disks in (("gpu1", "a", "2"), ("gpu2", "b", "4"), ("gpu3", "b", "8"))
]
USER = {
    "metadata": {"namespace": "team", "name": "train"},
    "spec": {"nodeName": "gpu2", "volumes": [{"persistentVolumeClaim": {"claimName": "data"}}]},
}


def requirement(operator: str, *values: str, key: str = HOSTNAME) -> dict[str, Any]:
    return {"matchExpressions": [{"key": key, "operator": operator, "values": [*values]}]}


def volume(*terms: dict[str, Any], claim: str = "data", **source: Any) -> dict[str, Any]:
    affinity = {"nodeAffinity": {"required": {"nodeSelectorTerms": [*terms]}}} if terms else {}
    reference = {"claimRef": {"namespace": "team", "name": claim}} if claim else {}
    return {"metadata": {"name": "pvc-1"}, "spec": {**source, **affinity, **reference}}


def lost(found: dict[str, Any], *leaving: str) -> list[str]:
    servers = ["10.0.0.2", "gpu2"] if "gpu2" in leaving else []
    return [each["where"] for each in lost_volumes([found], [USER], NODES, leaving, servers)]


@pytest.mark.parametrize(
    ("found", "leaving", "where"),
    [
        (volume(requirement("In", "gpu2"), local={"path": "/x"}), ["gpu2"], "/x on gpu2"),
        (volume(requirement("In", "gpu2"), hostPath={"path": "/y"}), ["gpu2"], "/y on gpu2"),
        (volume(requirement("In", "gpu2"), hostPath={"path": "/y"}, claim=""), ["gpu2"], "/y on gpu2"),
        (volume(requirement("In", "gpu2"), csi={"driver": "topolvm.io"}), ["gpu2"], "storage on gpu2"),
        (volume(requirement("In", "gpu1"), local={"path": "/x"}), ["gpu2"], ""),
        # Another node has the data as long as it stays.
        (volume(requirement("In", "b", key="zone"), csi={}), ["gpu2"], ""),
        (volume(requirement("In", "b", key="zone"), csi={}), ["gpu2", "gpu3"], "storage on gpu2, gpu3"),
        (volume(requirement("In", "gpu1"), requirement("In", "gpu2"), local={"path": "/x"}), ["gpu2"], ""),
        (volume(requirement("NotIn", "gpu1", "gpu3"), local={"path": "/x"}), ["gpu2"], "/x on gpu2"),
        (volume(requirement("Exists"), local={"path": "/x"}), ["gpu2"], ""),
        (volume(requirement("DoesNotExist", key="none"), csi={}), ["gpu2"], ""),
        (volume(requirement("Gt", "7", key="disks"), csi={}), ["gpu3"], "storage on gpu3"),
        (volume(requirement("Lt", "3", key="disks"), csi={}), ["gpu1"], "storage on gpu1"),
        (volume(requirement("Gt", "none", key="disks"), csi={}), ["gpu3"], ""),
        (
            volume({"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["gpu2"]}]}, csi={}),
            ["gpu2"],
            "storage on gpu2",
        ),
        (volume({}, local={"path": "/x"}), ["gpu2"], ""),
        # Nothing says on which node it is, but a pod on gpu2 uses it.
        (volume(hostPath={"path": "/z"}), ["gpu2"], "/z on a node"),
        (volume(hostPath={"path": "/z"}), ["gpu1"], ""),
        (volume(hostPath={"path": "/z"}, claim="other"), ["gpu2"], ""),
        (volume(nfs={"server": "10.0.0.2", "path": "/srv"}), ["gpu2"], "NFS 10.0.0.2:/srv"),
        (volume(nfs={"server": "10.0.0.9", "path": "/srv"}), ["gpu2"], ""),
        (volume(csi={"driver": "nfs.csi.k8s.io"}), ["gpu2"], ""),
    ],
)
def test_volumes_that_no_other_node_can_use_are_lost(found: dict[str, Any], leaving: list[str], where: str) -> None:
    assert lost(found, *leaving) == ([where] if where else [])


OPERATORS = st.sampled_from(["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"])
VALUES = st.sampled_from(["gpu1", "gpu2", "gpu3", "a", "b", "1", "5", "-3", "x"])
TERM = st.builds(
    lambda key, operator, values: requirement(operator, *values, key=key),
    st.sampled_from([HOSTNAME, "zone", "disks", "none"]),
    OPERATORS,
    st.lists(VALUES, min_size=1, max_size=3),
)


@given(st.lists(TERM, min_size=1, max_size=3), st.sets(st.sampled_from(["gpu1", "gpu2", "gpu3"])))
def test_more_leaving_nodes_never_lose_less(terms: list[dict[str, Any]], leaving: set[str]) -> None:
    found = volume(*terms, local={"path": "/x"})
    whole = lost(found, "gpu1", "gpu2", "gpu3")
    assert lost(found) == []
    assert bool(lost(found, *leaving)) <= bool(whole)
