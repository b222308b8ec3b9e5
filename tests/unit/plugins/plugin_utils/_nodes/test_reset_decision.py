# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which hosts may be reset, and what is done before."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.gpulab.kubernetes.plugins.plugin_utils._nodes.reset import decide
from hypothesis import given
from hypothesis import strategies as st

CLUSTER = ["cp1", "gpu1", "gpu2"]
THREE = ["cp1", "cp2", "cp3", "gpu1"]
REMOVE = "First run ansible-playbook gpulab.kubernetes.remove_node -i INVENTORY -e node={}."
UNKNOWN = (
    "The cluster can't be asked whether {} has left it. Repair its API, or if the cluster no longer exists, add -e "
    "reset_without_api=true."
)
LEFT_OUT = (
    "Without its control plane, gpu1, gpu2 would keep parts of a cluster that no longer exists. Run this without "
    '--limit. If these hosts are lost, add -e \'{"reset_abandoned_hosts": ["gpu1", "gpu2"]}\'.'
)


def host(name: str, **fields: Any) -> dict[str, Any]:
    return {"cluster": {"name": "lab", "node_name": name}, "node": name, "etcd": "", "begun": False, **fields}


def hosts(*names: str, **fields: Any) -> dict[str, dict[str, Any]]:
    etcd = {"etcd": "/var/lib/etcd"}
    return {name: host(name, **{**(etcd if name.startswith("cp") else {}), **fields}) for name in names}


def decided(selected: list[str], all_hosts: list[str] | None = None, **options: Any) -> dict[str, Any]:
    all_hosts = CLUSTER if all_hosts is None else all_hosts
    control_planes = [name for name in all_hosts if name.startswith("cp")]
    found = options.pop("found", hosts(*selected))
    settings = {"confirm": "lab", **options.pop("settings", {})}
    return decide(found, selected, all_hosts, control_planes, "lab", settings, **options)


OTHER = {"gpu1": host("gpu1", cluster={"name": "other"})}
DEAD = {"settings": {"without_api": True}}


@pytest.mark.parametrize(
    ("selected", "options", "problem"),
    [
        pytest.param(CLUSTER, {}, "", id="whole"),
        pytest.param(
            CLUSTER,
            {"found": hosts("cp1") | OTHER},
            "gpu1 belongs to the cluster other, and not to lab. Use the inventory of its cluster.",
            id="another-cluster",
        ),
        pytest.param(["gpu1"], {"nodes": ["cp1", "gpu2"]}, "", id="worker-has-left"),
        pytest.param(
            ["gpu1"],
            {"nodes": ["cp1", "gpu1"]},
            f"gpu1 is still a node of the cluster. {REMOVE.format('gpu1')}",
            id="worker-is-still-a-node",
        ),
        pytest.param(["gpu1"], {}, UNKNOWN.format("gpu1"), id="api-is-dead"),
        pytest.param(["gpu1"], DEAD, "", id="api-is-dead-and-that-is-known"),
        pytest.param(
            ["gpu1"],
            {"nodes": ["gpu1"], **DEAD},
            f"gpu1 is still a node of the cluster. {REMOVE.format('gpu1')}",
            id="an-api-that-answers-counts",
        ),
        pytest.param(["cp1"], {}, LEFT_OUT, id="only-control-plane"),
        pytest.param(["cp1", "gpu1"], {"settings": {"abandoned": ["gpu2"]}}, "", id="lost-host"),
        pytest.param(
            ["cp2"],
            {"all_hosts": THREE, "nodes": ["cp1"], "members": ["cp1", "cp2", "cp3"]},
            f"cp2 is still a member of etcd. {REMOVE.format('cp2')}",
            id="control-plane-is-still-a-member",
        ),
        pytest.param(["cp2"], {"all_hosts": THREE, "nodes": ["cp1"]}, UNKNOWN.format("cp2"), id="members-are-unknown"),
        pytest.param(["cp2"], {"all_hosts": THREE, "nodes": ["cp1"], "members": ["cp1", "cp3"]}, "", id="has-left"),
        pytest.param(CLUSTER, {"settings": {"last_etcd_copy": "lose"}}, "", id="no-backup-on-purpose"),
    ],
)
def test_refusals(selected: list[str], options: dict[str, Any], problem: str) -> None:
    assert decided(selected, **options)["problems"] == ([problem] if problem else [])


@pytest.mark.parametrize(
    ("confirm", "confirmed"), [("lab", True), ("", False), ("Lab", False), ("other", False), (None, False)]
)
def test_only_the_name_of_the_cluster_confirms(confirm: Any, confirmed: bool) -> None:
    assert decided(CLUSTER, settings={"confirm": confirm})["confirmed"] is confirmed


@pytest.mark.parametrize(
    ("selected", "options", "backup", "loses"),
    [
        pytest.param(CLUSTER, {}, "cp1", True, id="whole"),
        pytest.param(CLUSTER, {"settings": {"last_etcd_copy": "lose"}}, "", True, id="whole-without-backup"),
        pytest.param(CLUSTER, {"found": hosts(*CLUSTER, begun=True)}, "", False, id="continues"),
        pytest.param(CLUSTER, {"found": hosts("gpu1", "gpu2") | {"cp1": host("cp1")}}, "", False, id="no-etcd"),
        # The machine of cp1 is a new one, which has not joined.
        pytest.param(THREE, {"all_hosts": THREE, "found": hosts(*THREE) | {"cp1": host("cp1")}}, "cp2", True, id="new"),
        pytest.param(["cp2"], {"all_hosts": THREE, "nodes": [], "members": ["cp1"]}, "", True, id="has-left"),
        pytest.param(["cp2"], {"all_hosts": THREE, **DEAD}, "", False, id="may-be-the-last-copy"),
    ],
)
def test_last_copy_of_etcd(selected: list[str], options: dict[str, Any], backup: str, loses: bool) -> None:
    found = decided(selected, **options)
    assert (found["backup"], found["loses_etcd"]) == (backup, loses)


def of(ca: str, name: str = "lab", **fields: Any) -> dict[str, Any]:
    return host("x", cluster={"name": name, "node_name": "x", "ca_hashes": [ca] if ca else []}, **fields)


@pytest.mark.parametrize(
    ("selected", "found", "authority", "foreign"),
    [
        # A host of a cluster that this collection did not set up has no record of a name.
        (["cp2"], {"cp2": of("b", "", etcd="/var/lib/etcd")}, ["a"], True),
        (["cp2"], {"cp2": of("a", "")}, ["a"], False),
        (["cp2"], {"cp2": of("")}, ["a"], False),
        # No control plane was read, which is a problem of its own.
        (["cp2"], {"cp2": of("b", "")}, [], False),
        (CLUSTER, {"cp1": of("a"), "gpu1": of("b", ""), "gpu2": of("a")}, [], True),
        (CLUSTER, {"cp1": of(""), "gpu1": of("a"), "gpu2": of("a")}, [], False),
    ],
)
def test_host_with_another_ca_is_not_reset(
    selected: list[str], found: dict[str, Any], authority: list[str], foreign: bool
) -> None:
    hosts_of_all = CLUSTER if selected == CLUSTER else THREE
    problems = decided(selected, hosts_of_all, found=found, nodes=["cp1"], members=["cp1"], authority=authority)[
        "problems"
    ]
    assert ["another cluster than lab" in each for each in problems] == ([True] if foreign else [])


def test_control_plane_that_is_lost_can_be_abandoned() -> None:
    selected = ["cp1", "cp3", "gpu1"]
    assert not decided(selected, THREE, nodes=[], members=[])["whole"]
    found = decided(selected, THREE, settings={"abandoned": ["cp2"]})
    assert (found["whole"], found["problems"], found["backup"]) == (True, [], "cp1")
    assert not decided(["gpu1"], THREE, settings={"abandoned": ["cp1", "cp2", "cp3"]}, nodes=[])["whole"]


NAMES = st.none() | st.lists(st.sampled_from(THREE), unique=True)


@given(st.lists(st.sampled_from(THREE), unique=True, min_size=1), NAMES, NAMES, st.booleans())
def test_no_host_that_is_known_to_be_in_the_cluster_is_reset_alone(
    selected: list[str], nodes: list[str] | None, members: list[str] | None, without_api: bool
) -> None:
    found = decided(selected, THREE, nodes=nodes, members=members, settings={"without_api": without_api})
    if found["problems"]:
        return
    assert found["whole"] or not set(selected) & {*(nodes or ()), *(name for name in members or () if "cp" in name)}
    # Without a backup of the run, data of etcd go only if the others have them.
    assert found["backup"] or not found["loses_etcd"] or members is not None
