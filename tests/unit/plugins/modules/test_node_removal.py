# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpulab.kubernetes.plugins.module_utils._cluster.node_list import REMOVED_PATH, removed_text
from fake_cluster import FakeCluster, FakeNode

Module = Callable[..., dict[str, Any]]
RECORD = {"annotations": {"gpulab.io/inventory-host": "gpu2.example.org"}}
HOST = "gpu2.example.org"
CLAIM = {"node": "gpu2", "host": HOST, "addresses": ["10.0.0.2"]}


@pytest.fixture
def cluster() -> FakeCluster:
    nodes = [FakeNode(name, ["GPU-0"], address=f"10.0.0.{number}") for number, name in enumerate(("gpu1", "gpu2"), 1)]
    for node in nodes:
        node.labels = {"kubernetes.io/hostname": node.name, "pool": "all", "only": node.name}
    return FakeCluster(*nodes)


def remembered(cluster: FakeCluster) -> dict[str, Any]:
    data = cluster.objects.get(REMOVED_PATH, {}).get("data", {})
    return {name: json.loads(text)["host"] for name, text in data.items()}


def info(module: Module, cluster: FakeCluster, place: Path, *names: str, **options: Any) -> dict[str, Any]:
    with cluster.serve(place) as kubeconfig:
        result = module("node_removal_info", {"kubeconfig": str(kubeconfig), "names": [*names], **options})
    assert not result.get("failed"), result
    return result


def remove(module: Module, cluster: FakeCluster, place: Path, check: bool = False, **options: Any) -> dict[str, Any]:
    given = {"node": "gpu2", "uid": "uid-gpu2", "host": "gpu2.example.org", "machine_id": "1" * 32, **options}
    with cluster.serve(place) as kubeconfig:
        return module("node_removal", {"kubeconfig": str(kubeconfig), **given}, check=check)


def test_node_of_a_host_is_found_with_what_leaves_with_it(
    run_module: Module, tmp_path: Path, cluster: FakeCluster
) -> None:
    cluster.user_pod("train", "gpu2")["spec"]["volumes"] = [{"name": "cache", "emptyDir": {}}]
    cluster.user_pod("done", "gpu2", phase="Succeeded")
    cluster.user_pod("web", "gpu2", gpus=0)
    cluster.user_pod("other", "gpu1")
    cluster.volumes = [
        {
            "metadata": {"name": "pvc-1"},
            "spec": {"nfs": {"server": "10.0.0.2", "path": "/x"}, "claimRef": {"namespace": "team", "name": "data"}},
        },
    ]
    selectors = {"queue a": {"only": "gpu2"}, "queue b": {"pool": "all"}, "queue c": {"only": "gpu9"}, "agent": {}}
    found = info(run_module, cluster, tmp_path, HOST, identities=[CLAIM], selectors=selectors)
    (target,) = found["targets"]
    assert (target["host"], target["node"]["name"], target["node"]["uid"]) == ("gpu2.example.org", "gpu2", "uid-gpu2")
    assert (target["problem"], target["removed"]) == ("", None)
    assert target["pods"] == [{"uid": "uid-train", "namespace": "team", "name": "train", "empty_dirs": ["cache"]}]
    assert found["volumes"] == [{"name": "pvc-1", "claim": "team/data", "where": "NFS 10.0.0.2:/x"}]
    assert found["stranded"] == ["queue a"]


@pytest.mark.parametrize(
    ("name", "claims", "metadata", "node", "problem"),
    [
        # By the record, whatever the machine at its address calls itself.
        ("gpu2.example.org", [{**CLAIM, "node": "spare"}], RECORD, "gpu2", ""),
        # A silent host: by its name and its address in the inventory.
        ("gpu2", [{**CLAIM, "host": "gpu2", "node": ""}], {}, "gpu2", ""),
        ("gpu2", [{**CLAIM, "host": "gpu2", "addresses": []}], {}, "gpu2", "is not the host of node gpu2"),
        ("gpu2", [{**CLAIM, "host": "gpu2"}], RECORD, "gpu2", "belongs to the inventory host"),
        ("gpu2", [], {}, "gpu2", ""),
        ("gpu2", [], RECORD, "gpu2", "gpu2 is the node of the host gpu2.example.org. Use -e node=gpu2.example.org"),
        ("gpu7", [], {}, None, "gpu7 is neither a host of the inventory nor a node of the cluster"),
        ("gpu7", [{**CLAIM, "host": "gpu7", "node": "gpu7"}], {}, None, ""),
    ],
)
def test_only_the_node_of_the_named_host_is_found(
    run_module: Module,
    tmp_path: Path,
    cluster: FakeCluster,
    name: str,
    claims: list[dict[str, Any]],
    metadata: dict[str, Any],
    node: str | None,
    problem: str,
) -> None:
    cluster.nodes["gpu2"].metadata = metadata
    found = info(run_module, cluster, tmp_path, name, identities=claims, hosts=["gpu1", "gpu2.example.org"])
    (target,) = found["targets"]
    assert (target["node"] or {}).get("name") == node
    assert problem in target["problem"] if problem else not target["problem"]


def test_nodes_that_claim_one_host_are_refused(run_module: Module, tmp_path: Path, cluster: FakeCluster) -> None:
    cluster.nodes["gpu1"].metadata = RECORD
    (target,) = info(run_module, cluster, tmp_path, HOST, identities=[CLAIM])["targets"]
    assert "the nodes gpu1, gpu2 are all said to be the host gpu2.example.org" in target["problem"]


def test_removed_node_is_known_until_its_host_is_reset(
    run_module: Module, tmp_path: Path, cluster: FakeCluster
) -> None:
    result = remove(run_module, cluster, tmp_path)
    assert result["changed"] and result["diff"] == {"before": "node gpu2\n", "after": ""}
    assert list(cluster.nodes) == ["gpu1"] and remembered(cluster) == {"gpu2": "gpu2.example.org"}
    (target,) = info(run_module, cluster, tmp_path, HOST, identities=[CLAIM])["targets"]
    assert (target["node"], target["problem"]) == (None, "")
    assert target["removed"]["name"] == "gpu2" and target["removed"]["machine_id"] == "1" * 32
    # By the name of the node, too, which the inventory may not have.
    assert info(run_module, cluster, tmp_path, "gpu2")["targets"][0]["problem"] == ""
    assert not remove(run_module, cluster, tmp_path)["changed"]
    assert remove(run_module, cluster, tmp_path, state="reset")["changed"] and remembered(cluster) == {}
    assert not remove(run_module, cluster, tmp_path, state="reset")["changed"]


def test_check_mode_predicts_the_removal(run_module: Module, tmp_path: Path, cluster: FakeCluster) -> None:
    result = remove(run_module, cluster, tmp_path, check=True)
    assert result["changed"] and result["diff"]["before"] == "node gpu2\n"
    assert list(cluster.nodes) == ["gpu1", "gpu2"] and remembered(cluster) == {}


def test_node_that_has_joined_meanwhile_is_not_deleted(
    run_module: Module, tmp_path: Path, cluster: FakeCluster
) -> None:
    result = remove(run_module, cluster, tmp_path, uid="uid-of-the-former")
    assert result["failed"] and "another machine has joined with its name meanwhile" in result["msg"]
    assert list(cluster.nodes) == ["gpu1", "gpu2"]


def test_record_of_a_node_that_exists_again_is_removed(
    run_module: Module, tmp_path: Path, cluster: FakeCluster
) -> None:
    data = {name: removed_text(name, "", "2026-11-28T10:00:00Z") for name in ("gpu1", "gpu9")}
    cluster.objects[REMOVED_PATH] = {"data": data}
    assert remove(run_module, cluster, tmp_path)["changed"]
    assert remembered(cluster) == {"gpu9": "gpu9", "gpu2": "gpu2.example.org"}
