# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpulab.kubernetes.plugins.filter.preflight import FilterModule
from apiserver import kubeconfig
from test_preflight_problems import SETTINGS, find, machines

kept_files = FilterModule().filters()["kept_files"]
CA = "sha256:" + "a" * 64
NODE = {"role": "worker", "begun": True, "finished": True, "ca_hashes": [CA], "server": "https://192.168.7.11:6443"}
NODE |= {"endpoint": "192.168.7.11:6443"}
NAMED = {**NODE, "server": "https://api.lab.internal:6443", "endpoint": "api.lab.internal:6443"}
OTHER = {**NODE, "server": "https://192.168.9.9:6443", "endpoint": "192.168.9.9:6443", "name": "other"}
RESET = {"role": "", "begun": False, "finished": False, "ca_hashes": [], "server": "", "name": "lab"}


def problems(cluster: dict[str, dict[str, Any]], **settings: Any) -> list[dict[str, Any]]:
    hosts = machines()
    for host, state in cluster.items():
        hosts[host]["facts"]["cluster"] = state
    found: list[dict[str, Any]] = find(hosts, {**SETTINGS, "name": "lab", "api_name": "api.lab.internal", **settings})
    return found


@pytest.mark.parametrize(
    ("cluster", "settings", "shown"),
    [
        ({"gpu1": NODE}, {}, "the host gpu1"),
        ({"gpu1": NAMED, "gpu2": NAMED}, {}, "the host gpu1, the host gpu2"),
        ({"gpu2": RESET}, {}, "the host gpu2"),
        ({}, {"kept": {"kubeconfigs": ["/x/my-admin.conf"], "backups": []}}, "the kubeconfig /x/my-admin.conf"),
        ({}, {"kept": {"kubeconfigs": [], "backups": ["/x/b.tar.age"]}}, "the backup /x/b.tar.age"),
    ],
)
def test_control_plane_without_data_is_restored_if_anything_knows_its_cluster(
    cluster: dict[str, Any], settings: dict[str, Any], shown: str
) -> None:
    (problem,) = problems(cluster, **settings)
    assert (problem["kind"], problem["host"]) == ("control_plane_lost", "cp1")
    assert f"as {shown} shows" in problem["what"] and problem["do"].startswith("Restore the cluster from a backup")
    assert problems(cluster, **settings, restores=True) == []


def test_new_machines_are_not_refused() -> None:
    assert problems({}, kept={"kubeconfigs": [], "backups": []}) == []


def test_node_of_another_cluster_is_no_trace_of_this_one() -> None:
    (problem,) = problems({"gpu1": OTHER})
    assert (problem["kind"], problem["host"]) == ("host_in_other_cluster", "gpu1")


def test_new_cluster_can_be_chosen_but_not_with_nodes_of_the_former_one() -> None:
    assert problems({"gpu2": RESET}, new_cluster=True) == []
    (problem,) = problems({"gpu1": NODE}, new_cluster=True)
    assert problem["kind"] == "host_in_other_cluster"


def test_control_plane_with_data_is_not_lost() -> None:
    mine = {**NODE, "role": "control_plane"}
    assert problems({"cp1": mine, "gpu1": NODE}, kept={"kubeconfigs": ["/x"], "backups": ["/y"]}) == []


def test_files_next_to_the_inventory(tmp_path: Path) -> None:
    inventory = tmp_path / "my.ini"
    inventory.write_text("")
    admin = tmp_path / "my-admin.conf"
    sources = [str(inventory), "cp1,"]
    assert kept_files(str(admin), sources, "lab") == {"kubeconfigs": [], "backups": []}
    admin.write_text(kubeconfig("https://192.168.7.11:6443", "a", "c", "k"))
    names = ("gpulab-other-20261128T120000Z.tar", "gpulab-lab-20261128T110000Z.tar", "gpulab-lab.tar")
    for name in (*names, "backups/gpulab-lab-20261128T120000Z.tar.age"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("")
    assert kept_files(str(admin), sources, "lab") == {
        "kubeconfigs": [str(admin)],
        "backups": [str(tmp_path / "backups/gpulab-lab-20261128T120000Z.tar.age")],
    }
    admin.write_text("nonsense")
    assert kept_files("", [], "lab") == {"kubeconfigs": [], "backups": []}
    assert kept_files(str(admin), [], "lab")["kubeconfigs"] == []
