# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""gpu_acceptance with a small API server: what users of the role rely on."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import dra_objects
import pytest
from acceptance_lab import A100, MODEL, T4, Lab, causes, states, warnings
from fake_cluster import FakeCluster, FakeNode


@pytest.fixture
def lab(run_module: Callable[..., dict[str, Any]], tmp_path: Path) -> Iterator[Lab]:
    cluster = FakeCluster(FakeNode("cp1"), FakeNode("gpu1", T4), FakeNode("gpu2", A100, MODEL))
    with ExitStack() as stack:
        yield Lab(run_module, stack.enter_context(cluster.serve(tmp_path)), cluster)


def test_all_gpus_are_verified_in_parallel(lab: Lab) -> None:
    result = lab.verify()
    assert result["problems"] == []
    assert result["changed"]
    assert result["report"]["totals"] == {"gpus": 5, "proven": 5, "in_use": 0}
    assert lab.cluster.most_gpu_pods == 5
    assert states(result, "gpu2") == {"GPU-a0": "proven", "GPU-a1": "proven"}
    assert result["summary"][0] == "5 of 5 GPUs verified on 2 hosts"
    # The module's own pods no longer count.
    assert result["free_gpus"] == {"gpu1": 3, "gpu2": 2}


def test_the_report_lists_each_hosts_gpus(lab: Lab) -> None:
    lab.hosts[1]["toolkit"] = "1.20.1-1"
    report = lab.verify()["report"]
    entry = report["hosts"]["gpu1"]
    assert entry["gpus"] == {
        "expected": 3,
        "nvidia_smi": 3,
        "pci": 3,
        "capacity": 3,
        "allocatable": 3,
        "proven": 3,
        "in_use": 0,
        "pods": 3,
    }
    versions = {key: entry[key] for key in ("os", "kernel", "driver", "toolkit", "containerd", "kubelet")}
    assert versions == {
        "os": "Debian 13",
        "kernel": "6.12",
        "driver": "580.1",
        "toolkit": "1.20.1-1",
        "containerd": "2.3.6",
        "kubelet": "v1.36.4",
    }
    assert report["cluster"]["kubernetes_version"] == "v1.36.4"
    assert report["hosts"]["cp1"]["gpus"]["nvidia_smi"] == 0
    assert report["isolation"] == {"gpu1": True, "gpu2": True}
    assert report["network"]["service"] and report["network"]["dns"]
    assert len(report["network"]["pod_to_pod"]) == 6


def test_conflicts_in_the_containerd_configuration_are_always_checked_and_reported(lab: Lab) -> None:
    good = {"default_runtime": "nvidia", "cdi": True, "systemd_cgroup": {"runc": True, "nvidia": True}, "conflicts": []}
    lab.hosts[1]["containerd"] = good
    result = lab.verify()
    assert result["problems"] == []
    assert result["report"]["hosts"]["gpu1"]["containerd_config"] == good
    note = {"kind": "runtime_twice", "level": "note", "text": "defined twice", "files": ["/a"]}
    bad = {"kind": "systemd_cgroup", "level": "problem", "text": "not for mine, see /a", "files": ["/a", "/b"]}
    lab.hosts[1]["containerd"] = {**good, "conflicts": [note, bad]}
    for _turn in range(2):
        result = lab.verify()
        assert result["problems"] == ["gpu1: containerd's configuration: not for mine, see /a (see /b)"]
    lab.hosts[1]["containerd"] = {**good, "conflicts": [note]}
    assert lab.verify()["problems"] == []
    assert lab.verify()["kept"]


def test_only_the_record_of_the_verification_is_left_in_the_cluster(lab: Lab) -> None:
    lab.verify()
    assert list(lab.cluster.namespaces) == ["kube-system"]
    assert lab.cluster.pods == {}


def test_a_second_run_keeps_the_verification_and_creates_no_pod(lab: Lab) -> None:
    first = lab.verify()
    lab.cluster.created.clear()
    second = lab.verify()
    assert lab.cluster.created == []
    assert not second["changed"]
    assert second["kept"] and second["report"]["kept"]
    assert second["report"]["totals"] == first["report"]["totals"]
    assert "kept from the verification of" in second["summary"][0]


CONFIG_MAPS = "/api/v1/namespaces/kube-system/configmaps/"


def config_maps(lab: Lab) -> dict[str, Any]:
    return {path: body for path, body in lab.cluster.objects.items() if path.startswith(CONFIG_MAPS)}


def test_each_node_has_a_config_map_that_is_deleted_with_it(lab: Lab) -> None:
    lab.verify()
    found = config_maps(lab)
    names = ["gpulab-acceptance-network", *(f"gpulab-acceptance.{name}" for name in ("cp1", "gpu1", "gpu2"))]
    assert sorted(found) == [f"{CONFIG_MAPS}{name}" for name in names]
    owner = {"apiVersion": "v1", "kind": "Node", "name": "gpu1", "uid": "uid-gpu1"}
    assert found[f"{CONFIG_MAPS}gpulab-acceptance.gpu1"]["metadata"]["ownerReferences"] == [owner]
    lab.hosts[1]["driver"] = "580.2"
    lab.verify()
    changed = [path for path, body in config_maps(lab).items() if body is not found[path]]
    assert changed == [f"{CONFIG_MAPS}gpulab-acceptance.gpu1"]


def test_the_result_of_earlier_versions_is_reused_and_moved(lab: Lab) -> None:
    report = lab.verify()["report"]
    for path in config_maps(lab):
        del lab.cluster.objects[path]
    labels = {"app.kubernetes.io/managed-by": "gpulab.kubernetes", "app.kubernetes.io/part-of": "acceptance"}
    lab.cluster.objects[f"{CONFIG_MAPS}gpulab-acceptance"] = {
        "metadata": {"name": "gpulab-acceptance", "labels": labels},
        "data": {"report": json.dumps(report)},
    }
    lab.cluster.created.clear()
    lab.hosts = lab.hosts[:2]
    moved = lab.verify()
    assert (moved["kept"], moved["changed"], lab.cluster.created) == (True, True, [])
    assert sorted(path.rpartition(".")[2] for path in config_maps(lab)) == [
        f"{CONFIG_MAPS}gpulab-acceptance-network",
        "cp1",
        "gpu1",
        "gpu2",
    ]
    assert not lab.verify()["changed"]


@pytest.mark.parametrize("refusal", [(403, "forbidden"), (422, "Too long: may not be more than 1048576 bytes")])
def test_a_result_that_cannot_be_stored_is_a_warning_and_still_reported(lab: Lab, refusal: tuple[int, str]) -> None:
    lab.cluster.refusals["PATCH", CONFIG_MAPS] = refusal
    result = lab.verify()
    assert not result["failed"] and result["problems"] == []
    assert result["report"]["totals"]["proven"] == 5
    [warning] = warnings(result)
    assert "could not be stored in the ConfigMap kube-system/gpulab-acceptance." in warning and refusal[1] in warning
    lab.cluster.refusals.clear()
    assert not lab.verify()["kept"] and lab.verify()["kept"]


def test_an_edited_result_is_a_warning_and_verified_again(lab: Lab) -> None:
    lab.verify()
    lab.cluster.objects[f"{CONFIG_MAPS}gpulab-acceptance.gpu1"]["data"] = {"verification": '{"devices": 7}'}
    lab.cluster.created.clear()
    result = lab.verify()
    assert result["problems"] == [] and not result["kept"]
    assert "The ConfigMap kube-system/gpulab-acceptance.gpu1 is not readable" in warnings(result)[0]
    assert [name for name in lab.cluster.created if "gpu-0" in name] == ["Pod/gpu-0-gpu1"]
    assert not warnings(lab.verify())


@pytest.mark.parametrize("server", ["https://192.0.2.11:6443", ""])
def test_the_cluster_is_identified_by_its_server_and_not_by_the_end_of_a_tunnel(lab: Lab, server: str) -> None:
    kubeconfig = json.loads(Path(lab.kubeconfig).read_text())
    cluster = kubeconfig["clusters"][0]["cluster"]
    if server:
        cluster["extensions"] = [{"name": "gpulab.io/server", "extension": {"server": server}}]
    Path(lab.kubeconfig).write_text(json.dumps(kubeconfig))
    assert lab.verify(verify=False)["report"]["cluster"]["endpoint"] == (server or cluster["server"])


def test_force_verifies_again(lab: Lab) -> None:
    lab.verify()
    result = lab.verify(force=True)
    assert result["changed"]
    assert not result["kept"]
    assert lab.cluster.created.count("Pod/gpu-0-gpu1") == 2


def reboot(lab: Lab) -> None:
    lab.node("gpu1").boot = "boot-2"


def new_driver(lab: Lab) -> None:
    lab.hosts[1]["driver"] = "595.1"
    lab.node("gpu1").labels = {
        **lab.node("gpu1").body()["metadata"]["labels"],
        "nvidia.com/cuda.driver-version.full": "595.1",
    }


def new_toolkit(lab: Lab) -> None:
    lab.hosts[1]["toolkit"] = "1.21.0-1"


def new_gpu(lab: Lab) -> None:
    lab.node("gpu1").gpus = [*T4[:2], "GPU-new"]
    lab.hosts[1]["gpus"] = [{"uuid": uuid, "name": "Tesla T4"} for uuid in lab.node("gpu1").gpus]


@pytest.mark.parametrize("change", [reboot, new_driver, new_toolkit, new_gpu])
def test_only_hosts_with_relevant_changes_are_verified_again(lab: Lab, change: Callable[[Lab], None]) -> None:
    lab.verify()
    change(lab)
    lab.cluster.created.clear()
    result = lab.verify()
    assert result["problems"] == []
    gpu_pods = sorted(name for name in lab.cluster.created if name.startswith("Pod/gpu-"))
    assert gpu_pods == ["Pod/gpu-0-gpu1", "Pod/gpu-1-gpu1", "Pod/gpu-2-gpu1"]
    assert result["report"]["totals"]["proven"] == 5
    assert [result["report"]["hosts"][name]["kept"] for name in ("gpu1", "gpu2")] == [False, True]
    assert "partly kept" in result["summary"][0]


def test_a_run_for_some_hosts_keeps_the_verification_of_the_others(lab: Lab) -> None:
    lab.verify()
    everyone = lab.hosts
    lab.hosts = everyone[1:2]
    limited = lab.verify(force=True)
    assert list(limited["report"]["hosts"]) == ["gpu1"]
    assert "Network: pod to pod not tested, there is only one node, Service ok, DNS ok" in limited["summary"]
    lab.hosts = everyone
    lab.cluster.created.clear()
    whole = lab.verify()
    assert lab.cluster.created == []
    assert whole["report"]["totals"]["proven"] == 5


def test_a_failed_verification_is_not_kept(lab: Lab) -> None:
    lab.cluster.check_fails = True
    assert lab.verify()["problems"]
    lab.cluster.check_fails = False
    result = lab.verify()
    assert result["changed"]
    assert result["problems"] == []


def test_check_mode_predicts_and_creates_nothing(lab: Lab) -> None:
    predicted = lab.verify(check=True)
    assert predicted["changed"]
    assert predicted["report"] == {}
    assert lab.cluster.created == []
    lab.verify()
    assert not lab.verify(check=True)["changed"]


def test_a_gpu_held_by_a_users_pod_is_in_use_and_named(lab: Lab) -> None:
    lab.cluster.user_pod("train", "gpu1")
    lab.node("gpu1").given = T4[1:]
    result = lab.verify()
    assert result["problems"] == []
    assert states(result, "gpu1") == {"GPU-t0": "in_use", "GPU-t1": "proven", "GPU-t2": "proven"}
    assert result["report"]["hosts"]["gpu1"]["devices"][0]["pod"] == "team/train"
    assert result["report"]["totals"] == {"gpus": 5, "proven": 4, "in_use": 1}
    assert result["free_gpus"] == {"gpu1": 2, "gpu2": 2}
    assert "team/train" in lab.cluster.pods


def test_a_gpu_held_by_a_claim_is_in_use_and_named(lab: Lab) -> None:
    lab.cluster.pods["team/train"] = dra_objects.pod("train", dra_objects.by_name("c"))
    held = dra_objects.claim("c", dra_objects.result("gpu-0"), pods=("train",))
    lab.cluster.objects[dra_objects.CLAIMS] = {"items": [held]}
    lab.node("gpu1").given = T4[1:]
    result = lab.verify()
    assert result["problems"] == []
    assert states(result, "gpu1") == {"GPU-t0": "in_use", "GPU-t1": "proven", "GPU-t2": "proven"}
    assert result["report"]["hosts"]["gpu1"]["devices"][0]["pod"] == "team/train"


def test_the_kubelets_record_distinguishes_gpus_in_use_from_missing_ones(lab: Lab) -> None:
    lab.cluster.user_pod("train", "gpu1")
    lab.hosts[1]["held"] = {"GPU-t1": "team/train"}
    lab.node("gpu1").allocatable = 2
    lab.node("gpu1").given = ["GPU-t0"]
    lab.cluster.plugin_log = "I1 fine\nI2 'nvidia.com/gpu' device marked unhealthy: GPU-t2"
    # A user's pod with the same label is not the device plugin.
    lab.cluster.user_pod("forged", "gpu1", gpus=0)["metadata"]["labels"] = {"app": "nvidia-device-plugin"}
    lab.cluster.plugin_pod("plugin", "gpu1")
    result = lab.verify()
    assert states(result, "gpu1") == {"GPU-t0": "proven", "GPU-t1": "in_use", "GPU-t2": "missing"}
    problems = result["report"]["problems"]
    [told] = [problem for problem in problems if "device marked unhealthy: GPU-t2" in problem["cause"]]
    assert (told["kind"], told["host"]) == ("gpus_not_allocatable", "gpu1")
    assert "kubectl --namespace nvidia-device-plugin delete pod plugin" in told["do"]
    assert told["do"] in result["remedies"]
    assert any(problem["gpu"] == "GPU-t2" for problem in result["report"]["problems"])


def test_gpus_in_use_are_verified_once_they_are_free(lab: Lab) -> None:
    lab.cluster.user_pod("train", "gpu1")
    lab.node("gpu1").given = T4[1:]
    lab.verify()
    assert not lab.verify()["changed"]
    del lab.cluster.pods["team/train"]
    lab.node("gpu1").given = None
    assert lab.verify()["report"]["totals"] == {"gpus": 5, "proven": 5, "in_use": 0}


def test_a_gpu_that_is_taken_while_pods_start_counts_as_in_use(lab: Lab) -> None:
    snatch = lab.cluster.user_pod("snatch", "gpu2")
    del lab.cluster.pods["team/snatch"]
    lab.cluster.snatch = snatch
    lab.node("gpu2").given = ["GPU-a1"]
    started = time.monotonic()
    result = lab.verify(timeout=40)
    assert time.monotonic() - started < 30, "it waited for a GPU that is in use"
    assert result["problems"] == []
    assert states(result, "gpu2") == {"GPU-a0": "in_use", "GPU-a1": "proven"}


def test_observing_creates_no_pod_and_reports_the_last_verification(lab: Lab) -> None:
    first = lab.verify()
    lab.cluster.created.clear()
    looked = lab.verify(verify=False)
    assert lab.cluster.created == [] and not looked["changed"]
    assert looked["report"]["totals"] == first["report"]["totals"]
    assert looked["report"]["network"]["pod_to_pod"] == first["report"]["network"]["pod_to_pod"]


def test_observing_reports_unverified_gpus_and_keeps_the_record(lab: Lab) -> None:
    assert set(states(lab.verify(verify=False), "gpu1").values()) == {"unproven"}
    assert lab.cluster.created == []
    lab.verify()
    lab.hosts[1]["driver"] = "590.1"
    looked = lab.verify(verify=False)
    assert set(states(looked, "gpu1").values()) == {"unproven"}
    assert set(states(looked, "gpu2").values()) == {"proven"}
    assert {device["reason"] for device in looked["report"]["hosts"]["gpu1"]["devices"]} == {
        "the host has changed since its verification"
    }
    lab.hosts[1]["driver"] = "580.1"
    assert lab.verify()["kept"]


def test_observing_reports_an_unreachable_host(lab: Lab) -> None:
    lab.verify()
    lab.hosts[2] = {"name": "gpu2", "state": "silent", "complaint": "it did not answer"}
    looked = lab.verify(verify=False)
    assert states(looked, "gpu2") == {"GPU-a0": "missing", "GPU-a1": "missing"}
    assert "it did not answer" in causes(looked, "gpu2")
