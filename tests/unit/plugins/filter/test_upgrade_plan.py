# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The plan of an upgrade of Kubernetes, from the facts of hosts as the role sets them."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.gpulab.kubernetes.plugins.filter.upgrade import upgrade_images, upgrade_plan, upgrade_processes
from ansible_collections.gpulab.kubernetes.plugins.plugin_utils._upgrade.text import lines
from hypothesis import given
from hypothesis import strategies as st

ROOT = Path(__file__).resolve().parents[4]
TABLE = yaml.safe_load((ROOT / "roles/cluster/vars/main/versions.yml").read_text())["cluster_versions"]["kubernetes"]
FROM, TO = "1.36.5", "1.37.2"
SETTINGS = {"wanted": TO, "table": TABLE, "policy": "defer", "serial": "1", "backup": True}
TRAINING: dict[str, Any] = {"namespace": "team", "name": "train-0", "uid": "u1", "empty_dirs": ["cache"]}
PODS: list[dict[str, Any]] = [
    {**TRAINING, "node": "gpu1", "controller": "Job train"},
    {"namespace": "web", "name": "shop-1", "uid": "u2", "node": "gpu1", "controller": "ReplicaSet shop"},
    {"namespace": "web", "name": "alone", "uid": "u3", "node": "gpu2", "controller": "", "empty_dirs": []},
]


def node(name: str, version: str = FROM, ready: bool = True) -> dict[str, Any]:
    return {
        "name": name,
        "kubelet": f"v{version}",
        "ready": ready,
        "upgrading": False,
        "control_plane": name.startswith("cp"),
    }


def cluster(*planes: str) -> dict[str, Any]:
    """Return the hosts of a cluster with these control planes and two workers, one of which trains."""
    text = f"kind: ClusterConfiguration\nkubernetesVersion: v{FROM}\n"
    found: dict[str, Any] = {}
    for name in [*planes, "gpu1", "gpu2"]:
        plane = name in planes
        components = {"kube-apiserver": f"v{FROM}", "etcd": "3.6.8-0"} if plane else {}
        read = {"components": components, "flags": ["node-ip"], "free": 2**20, "etcd_data": 2**10}
        preflight = {"node_name": name, "cluster": {"finished": True}}
        packages = {"kubelet": f"{FROM}-1.1", "cri-tools": "1.36.0-1.1", "containerd.io": "2.3.6-1~debian.12~bookworm"}
        preflight["installed"] = packages
        preflight["control_plane"] = {"texts": {"ClusterConfiguration": text}, "version": f"v{FROM}"} if plane else {}
        read |= {"interrupted": "", "settings": {}}
        found[name] = {"preflight_host": preflight, "kubernetes_upgrade_found": {"host": read}}
    members = [{"name": name, "id": name, "health": "healthy"} for name in planes]
    api = {"error": "", "nodes": [node(name) for name in found], "pods": PODS, "groups": ["apps"], "old_objects": []}
    api |= {"coredns": "v1.14.2", "kube_proxy": f"v{FROM}"}
    found[planes[0]]["kubernetes_upgrade_found"] |= {"cluster": api, "etcd": members, "etcd_error": ""}
    found["gpu1"]["kubernetes_upgrade_pods"] = {"pods": [TRAINING]}
    return found


def make(hosts: dict[str, Any], planes: tuple[str, ...] = ("cp1",), **settings: Any) -> dict[str, Any]:
    return upgrade_plan(list(hosts), hosts, planes, planes[0], {**SETTINGS, **settings})


def api(hosts: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = hosts["cp1"]["kubernetes_upgrade_found"]["cluster"]
    return found


def read(hosts: dict[str, Any], name: str) -> dict[str, Any]:
    found: dict[str, Any] = hosts[name]["kubernetes_upgrade_found"]["host"]
    return found


def steps(plan: dict[str, Any]) -> dict[str, tuple[str, str]]:
    return {name: (entry["step"], entry["action"]) for name, entry in plan["hosts"].items()}


def upgraded(hosts: dict[str, Any], *names: str, applied: bool = True) -> None:
    """Set these hosts to the new version."""
    for name in names:
        hosts[name]["preflight_host"]["installed"] |= {"kubelet": f"{TO}-1.1", "cri-tools": "1.37.0-1.1"}
        if read(hosts, name)["components"]:
            read(hosts, name)["components"] = {"kube-apiserver": f"v{TO}", "etcd": "3.7.0-0"}
    for each in api(hosts)["nodes"]:
        if each["name"] in names:
            each["kubelet"] = f"v{TO}"
    for variables in hosts.values():
        found = variables["preflight_host"]["control_plane"]
        if found and applied:
            found["texts"]["ClusterConfiguration"] = found["texts"]["ClusterConfiguration"].replace(FROM, TO)


def test_the_first_control_plane_applies_and_the_others_follow() -> None:
    plan = make(cluster("cp1", "cp2", "cp3"), ("cp1", "cp2", "cp3"))
    assert (plan["from"], plan["to"], plan["refusals"]) == (FROM, TO, [])
    assert steps(plan) == {
        "cp1": ("upgrade_first", "apply"),
        "cp2": ("upgrade", "node"),
        "cp3": ("upgrade", "node"),
        "gpu1": ("upgrade", ""),
        "gpu2": ("upgrade", ""),
    }
    assert plan["order"] == {"control_planes": ["cp1", "cp2", "cp3"], "workers": ["gpu1", "gpu2"]}
    before = {"kubernetes": FROM, "etcd": "3.6.8-0", "kubelet": FROM, "cri-tools": "1.36.0"}
    assert plan["hosts"]["cp1"]["from"] == before
    assert plan["hosts"]["cp1"]["to"] == {"kubernetes": TO, "etcd": "3.7.0-0", "kubelet": TO, "cri-tools": "1.37.0"}
    assert plan["cluster"]["CoreDNS"] == {"from": "v1.14.2", "to": "v1.14.6"}
    assert (plan["gap_seconds"], make(cluster("cp1"))["gap_seconds"] > 0) == (0, True)


@pytest.mark.parametrize(
    ("done", "applied", "left"),
    [
        ((), True, {"cp1": "node", "cp2": "node"}),
        (("cp1",), True, {"cp1": "", "cp2": "node"}),
        (("cp1",), False, {"cp1": "apply", "cp2": "node"}),
        (("cp1", "cp2"), True, {"cp1": "", "cp2": ""}),
    ],
)
def test_an_interrupted_upgrade_is_continued_at_its_step(
    done: tuple[str, ...], applied: bool, left: dict[str, str]
) -> None:
    hosts = cluster("cp1", "cp2")
    upgraded(hosts, *done, applied=applied)
    plan = make(hosts, ("cp1", "cp2"))
    assert {name: entry["action"] for name, entry in plan["hosts"].items() if name in left} == left


def test_the_step_in_which_a_control_plane_was_interrupted_is_repeated() -> None:
    hosts = cluster("cp1", "cp2")
    upgraded(hosts, "cp1", "cp2")
    read(hosts, "cp1").update(interrupted="upgrade", settings={"action": "apply", "version": f"v{TO}"})
    assert steps(make(hosts, ("cp1", "cp2")))["cp1"] == ("upgrade_first", "apply")
    read(hosts, "cp1").update(settings={"action": "node"})
    assert steps(make(hosts, ("cp1", "cp2")))["cp1"] == ("upgrade", "node")


def test_a_finished_cluster_has_nothing_to_do() -> None:
    hosts = cluster("cp1")
    upgraded(hosts, "cp1", "gpu1", "gpu2")
    plan = make(hosts, policy="refuse")
    assert (plan["pending"], plan["refusals"], set(steps(plan).values())) == (False, [], {("none", "")})
    assert lines(plan) == [f"Kubernetes {TO} is on all hosts of this run."]


def test_a_kubelet_that_was_installed_but_did_not_restart_is_pending() -> None:
    hosts = cluster("cp1")
    upgraded(hosts, "cp1", "gpu1", "gpu2")
    api(hosts)["nodes"][1]["kubelet"] = f"v{FROM}"
    assert steps(make(hosts))["gpu1"] == ("upgrade", "")


def test_a_node_that_was_left_cordoned_is_finished_by_the_next_run() -> None:
    hosts = cluster("cp1")
    upgraded(hosts, "cp1", "gpu1", "gpu2")
    api(hosts)["nodes"][1]["upgrading"] = True
    plan = make(hosts)
    assert (steps(plan)["gpu1"], plan["order"]["workers"]) == (("upgrade", ""), ["gpu1"])


def test_jobs_and_evicted_pods_are_named_with_controller_and_namespace() -> None:
    gpu1 = make(cluster("cp1"), policy="drain")["hosts"]["gpu1"]
    assert gpu1["jobs"] == ["team/train-0 (Job train; its emptyDir is lost: cache)"]
    assert gpu1["evicted"] == [*gpu1["jobs"], "web/shop-1 (ReplicaSet shop)"]
    # A node that is deferred keeps its other pods, too.
    assert make(cluster("cp1"))["hosts"]["gpu1"]["evicted"] == []
    gpu2 = make(cluster("cp1"))["hosts"]["gpu2"]
    assert gpu2["evicted"] == ["web/alone (no controller: it is not evicted, and the node is deferred)"]


USERS = [
    {"name": "python", "pid": 7, "pod": "web/shop-1", "unit": ""},
    {"name": "python", "pid": 8, "pod": "team/train-0", "unit": ""},
    {"name": "python", "pid": 10, "pod": "u2", "unit": ""},
    {"name": "nvidia-device-p", "pid": 11, "pod": "gpulab-device-plugin/nvidia-device-plugin-x", "unit": ""},
    {"name": "nvidia-smi", "pid": 9, "pod": "", "unit": "x.service"},
]


def test_processes_of_evicted_pods_that_did_not_ask_for_their_gpu_are_jobs() -> None:
    """The device plugin and other DaemonSets stay, and so do processes of the host."""
    hosts = cluster("cp1")
    hosts["gpu1"]["kubernetes_upgrade_users"] = {"users": USERS}
    assert make(hosts)["hosts"]["gpu1"]["jobs"][1:] == ["python 7 (pod web/shop-1)", "python 10 (pod u2)"]


def test_a_node_is_asked_for_such_processes_again_before_it_changes() -> None:
    owner = {"kind": "DaemonSet", "name": "nvidia-device-plugin", "controller": True}
    plugin = {"namespace": "gpulab-device-plugin", "name": "nvidia-device-plugin-x", "ownerReferences": [owner]}
    pods: list[dict[str, Any]] = [{"metadata": {**each, "ownerReferences": []}} for each in PODS]
    pods.append({"metadata": plugin})
    found = upgrade_processes(USERS, [TRAINING], pods)
    assert [each["pid"] for each in found] == [7, 10]


def test_the_default_policy_refuses_before_anything_changes() -> None:
    (reason,) = make(cluster("cp1"), policy="refuse")["refusals"]
    assert "gpu1: team/train-0 (Job train" in reason and "cluster_disruption_policy=defer" in reason
    hosts = cluster("cp1")
    del hosts["gpu1"]["kubernetes_upgrade_pods"]
    assert make(hosts, policy="refuse")["refusals"] == []


@pytest.mark.parametrize(
    ("wanted", "words"),
    [
        ("1.99.0", "is not in the table of versions, which has 1.35.8"),
        ("1.35.8", "can't be downgraded to 1.35.8: etcd keeps what the newer version wrote. Set"),
        ("1.36.4", "Set cluster_kubernetes_version to 1.36.5"),
    ],
)
def test_versions_that_are_refused(wanted: str, words: str) -> None:
    (reason,) = make(cluster("cp1"), wanted=wanted)["refusals"]
    assert words in reason


def test_a_skipped_minor_is_refused_with_the_one_in_between() -> None:
    hosts = cluster("cp1")
    found = hosts["cp1"]["preflight_host"]["control_plane"]["texts"]
    found["ClusterConfiguration"] = found["ClusterConfiguration"].replace(FROM, "1.35.8")
    (reason,) = make(hosts)["refusals"]
    assert "skips a minor" in reason and "first to 1.36.5: -e cluster_kubernetes_version=1.36.5" in reason
    found["ClusterConfiguration"] = found["ClusterConfiguration"].replace("1.35.8", "1.30.1")
    (reason,) = make(hosts)["refusals"]
    assert "runs Kubernetes 1.30.1, which is not in the table" in reason


def broken(hosts: dict[str, Any], kind: str) -> None:
    changes: dict[str, Any] = {
        "silent": lambda: api(hosts).update(error="no answer"),
        "silent preview": lambda: (
            api(hosts).update(error="no answer"),
            read(hosts, "cp1").update(interrupted="upgrade"),
        ),
        "skew": lambda: api(hosts)["nodes"].append(node("old", "1.33.2")),
        "newer": lambda: api(hosts)["nodes"].append(node("new", "1.38.0")),
        "unknown": lambda: api(hosts)["nodes"].append({**node("odd"), "kubelet": ""}),
        "not ready": lambda: api(hosts)["nodes"][0].update(ready=False),
        "member": lambda: hosts["cp1"]["kubernetes_upgrade_found"]["etcd"][0].update(health="unhealthy"),
        "two members": lambda: hosts["cp1"]["kubernetes_upgrade_found"]["etcd"].append(
            {"name": "cp2", "id": "2", "health": "healthy"}
        ),
        "etcd": lambda: hosts["cp1"]["kubernetes_upgrade_found"].update(etcd_error="no quorum"),
        "objects": lambda: api(hosts).update(old_objects=["workloads/team/a"]),
        "flag": lambda: read(hosts, "gpu1").update(flags=["boot_id_file"]),
        "disk": lambda: read(hosts, "cp1").update(free=2**10),
        "runtime": lambda: hosts["gpu2"]["preflight_host"]["installed"].update({"containerd.io": "2.1.5-1"}),
        "renewal": lambda: read(hosts, "cp1").update(interrupted="renewal"),
        "other": lambda: read(hosts, "cp1").update(interrupted="upgrade", settings={"version": "v1.37.1"}),
        "edit": lambda: hosts["cp1"].update(
            kubernetes_upgrade_compared={"lost": ["kube-scheduler: --v 4 -> (not set)"]}
        ),
        "api": lambda: configure(
            hosts, "apiServer: {extraArgs: [{name: runtime-config, value: scheduling.k8s.io/v1alpha2=true}]}"
        ),
        "gate": lambda: configure(
            hosts, "scheduler: {extraArgs: [{name: feature-gates, value: 'A=true,GangScheduling=true'}]}"
        ),
        "gate of a host": lambda: read(hosts, "gpu2").update(gates=["SidecarContainers"]),
        "kubelet gate": lambda: texts(hosts).update(KubeletConfiguration="featureGates: {SidecarContainers: true}"),
    }
    changes[kind]()


def texts(hosts: dict[str, Any]) -> dict[str, str]:
    found: dict[str, str] = hosts["cp1"]["preflight_host"]["control_plane"]["texts"]
    return found


def configure(hosts: dict[str, Any], text: str) -> None:
    """Add this to the cluster's configuration."""
    texts(hosts)["ClusterConfiguration"] += f"{text}\n"


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("silent", "The API can't be read: no answer. Check it with kubectl"),
        ("silent preview", "The upgrade of cp1 was interrupted: run this without --check, which continues it"),
        ("skew", "The kubelet of old is 1.33.2, and may be at most 3 minors older"),
        ("newer", "The kubelet of new is 1.38.0, newer than"),
        ("unknown", "The version of the kubelet of odd is unknown"),
        ("not ready", "The control plane cp1 is not ready"),
        ("member", "The member cp1 of etcd is unhealthy"),
        ("two members", "cp1: A cluster of two members stops when either of them stops. Add a third member"),
        ("etcd", "etcd can't be read: no quorum. Check it with"),
        ("objects", "1 object of scheduling.k8s.io/v1alpha2"),
        ("flag", "gpu1: the kubelet of 1.37.2 does not start with --boot_id_file"),
        ("disk", "1024 MiB are free for /etc/kubernetes/tmp, and kubeadm's copy of etcd needs 1280 MiB"),
        ("runtime", "gpu2: containerd 2.1.5 is older than 2.2.0"),
        ("renewal", "cp1: a change of the control plane was interrupted"),
        (
            "other",
            "cp1: its upgrade to 1.37.1 was interrupted. Complete it first: gpulab.kubernetes.upgrade_cluster -e "
            "cluster_kubernetes_version=1.37.1",
        ),
        ("edit", "settings that only its manifests have: kube-scheduler: --v 4 -> (not set). Add them"),
        ("api", "The API server has scheduling.k8s.io/v1alpha2 in --runtime-config"),
        ("gate", "kube-scheduler 1.37.2 does not know these feature gates: GangScheduling. Remove them from"),
        ("gate of a host", "gpu2: kubelet 1.37.2 does not know these feature gates: SidecarContainers. Remove them"),
        ("kubelet gate", "kubelet 1.37.2 does not know these feature gates: SidecarContainers"),
    ],
)
def test_what_must_be_repaired_first(kind: str, words: str) -> None:
    hosts = cluster("cp1")
    broken(hosts, kind)
    (reason,) = make(hosts)["refusals"]
    assert words in reason
    assert f"REFUSED: {reason}" in lines(make(hosts))


@pytest.mark.parametrize("kind", ["objects", "flag", "api", "gate", "gate of a host", "kubelet gate"])
def test_what_only_the_next_minor_refuses_is_allowed_before(kind: str) -> None:
    hosts = cluster("cp1")
    broken(hosts, kind)
    assert make(hosts, wanted=FROM)["refusals"] == []


def test_all_control_planes_take_part() -> None:
    hosts = cluster("cp1", "cp2")
    del hosts["cp2"]
    (reason,) = make(hosts, ("cp1", "cp2"))["refusals"]
    assert "leaves out cp2: an upgrade needs all control planes" in reason
    # One that the inventory does not have.
    hosts = cluster("cp1")
    api(hosts)["nodes"].append(node("cp9"))
    assert "leaves out cp9" in make(hosts)["refusals"][0]


def test_an_upgrade_begins_with_a_backup() -> None:
    (reason,) = make(cluster("cp1"), backup=False)["refusals"]
    assert "backup_enabled is false" in reason
    hosts = cluster("cp1")
    configure(hosts, "etcd: {external: {endpoints: ['https://192.0.2.9:2379']}}")
    plan = make(hosts, backup=False)
    assert (plan["refusals"], plan["backup"]) == ([], False)
    assert "etcd is external: it is neither upgraded nor backed up" in plan["notes"][0]


def test_a_node_that_an_interrupted_upgrade_has_left_unready_is_upgraded() -> None:
    hosts = cluster("cp1")
    api(hosts)["nodes"][0].update(ready=False, upgrading=True)
    assert make(hosts)["refusals"] == []
    api(hosts)["nodes"][0].update(upgrading=False)
    read(hosts, "cp1").update(interrupted="upgrade")
    # Its backup is from before it began, and etcd may be newer than the tools for another one.
    assert (make(hosts)["refusals"], make(hosts)["backup"], make(cluster("cp1"))["backup"]) == ([], False, True)


def test_kubeadms_check_is_ignored_if_no_node_can_run_it() -> None:
    hosts = cluster("cp1")
    api(hosts)["accepts_check"] = True
    assert (make(hosts)["ignored_checks"], make(hosts)["notes"]) == ([], [])
    api(hosts)["accepts_check"] = False
    plan = make(hosts)
    assert (plan["ignored_checks"], plan["refusals"]) == (["CreateJob"], [])
    assert "no node can run the Job with which kubeadm checks the cluster" in plan["notes"][0]


def test_notes_name_queues_and_nodes_that_are_not_in_the_run() -> None:
    hosts = cluster("cp1")
    api(hosts)["groups"] = ["apps", "kueue.x-k8s.io", "scheduling.volcano.sh"]
    api(hosts)["nodes"].append(node("gpu9", "1.35.8"))
    texts(hosts)["KubeProxyConfiguration"] = "mode: ipvs\n"
    notes = "\n".join(make(hosts)["notes"])
    for words in ("Kueue admits", "Volcano admits", "ipvs", "not in this run: gpu9 (1.35.8)"):
        assert words in notes


def test_a_worker_that_is_not_ready_is_skipped() -> None:
    hosts = cluster("cp1")
    api(hosts)["nodes"][2]["ready"] = False
    plan = make(hosts)
    assert (steps(plan)["gpu2"], plan["order"]["workers"], plan["refusals"]) == (("leave", ""), ["gpu1"], [])
    # In its upgrade, a run was interrupted, which may be the reason.
    api(hosts)["nodes"][2]["upgrading"] = True
    assert make(hosts)["order"]["workers"] == ["gpu1", "gpu2"]


def test_a_pinned_or_newer_etcd_stays() -> None:
    hosts = cluster("cp1")
    configure(hosts, "etcd: {local: {imageTag: 3.6.8-0}}")
    assert make(hosts)["hosts"]["cp1"]["to"]["etcd"] == "3.6.8-0"
    hosts = cluster("cp1")
    read(hosts, "cp1")["components"]["etcd"] = "3.7.9-0"
    assert make(hosts)["hosts"]["cp1"]["to"]["etcd"] == "3.7.9-0"


def test_the_digest_is_that_of_what_is_approved_and_not_of_the_jobs() -> None:
    first, busy = make(cluster("cp1")), cluster("cp1")
    busy["gpu2"]["kubernetes_upgrade_pods"] = {"pods": [{**TRAINING, "uid": "u9"}]}
    read(busy, "cp1")["free"] = 2**19
    assert make(busy)["digest"] == first["digest"]
    others = [make(cluster("cp1"), policy="drain"), make(cluster("cp1"), serial="2"), make(cluster("cp1"), wanted=FROM)]
    more = cluster("cp1")
    more["gpu3"] = more["gpu2"]
    others.append(make(more))
    assert first["digest"] not in {each["digest"] for each in others}


def test_an_approved_upgrade_can_be_continued() -> None:
    hosts = cluster("cp1")
    first = make(hosts)["digest"]
    upgraded(hosts, "cp1", "gpu2")
    assert make(hosts)["digest"] == first


def test_the_text_says_what_changes_and_what_it_disturbs() -> None:
    hosts = cluster("cp1")
    hosts["gpu1"]["plan_pending"] = {"containerd": ["service (restart)"]}
    text = "\n".join(lines(make(hosts)))
    for words in (
        f"Kubernetes {FROM} -> {TO}",
        "Control planes, one at a time (the API does not answer for up to 45 s): cp1",
        "  CoreDNS v1.14.2 -> v1.14.6",
        "Then workers, 1 at a time (nodes whose GPUs are in use are deferred to a later run): gpu1, gpu2",
        "cp1, first",
        "  etcd 3.6.8-0 -> 3.7.0-0 (undone only by a restore)",
        f"  kubelet {FROM} -> {TO}",
        "  uses its GPUs: team/train-0 (Job train",
        "gpu1: pending, with gpulab.kubernetes.site: containerd (service (restart))",
    ):
        assert words in text


def test_images_are_those_of_the_table() -> None:
    hosts = cluster("cp1")
    assert upgrade_images(hosts, "cp1", TABLE, TO, False) == [
        "registry.k8s.io/kube-proxy:v1.37.2",
        "registry.k8s.io/coredns/coredns:v1.14.6",
        "registry.k8s.io/pause:3.10.2",
    ]
    assert upgrade_images(hosts, "cp1", TABLE, "1.99.0", True) == []
    # Where the configuration of the cluster says, as kubeadm does.
    configure(hosts, "imageRepository: mirror.lan/k8s")
    configure(hosts, "etcd: {local: {imageRepository: other.lan, imageTag: 3.6.8-0}}\ndns: {imageTag: v1.15.0}")
    assert upgrade_images(hosts, "cp1", TABLE, TO, True) == [
        *(f"mirror.lan/k8s/kube-{name}:v1.37.2" for name in ("apiserver", "controller-manager", "scheduler")),
        "other.lan/etcd:3.6.8-0",
        "mirror.lan/k8s/kube-proxy:v1.37.2",
        "mirror.lan/k8s/coredns:v1.15.0",
        "mirror.lan/k8s/pause:3.10.2",
    ]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda each: st.lists(each, max_size=3) | st.dictionaries(st.text(max_size=8), each, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(st.sampled_from(["error", "nodes", "pods", "groups", "old_objects", "coredns"]), JSON), JSON)
def test_readings_of_any_form_give_a_plan(answer: dict[str, Any], text: Any) -> None:
    """What comes back from hosts and the API is not trusted."""
    hosts = copy.deepcopy(cluster("cp1"))
    hosts["cp1"]["kubernetes_upgrade_found"]["cluster"] = answer
    read(hosts, "gpu1").update(components=text, flags=text, free=text, interrupted=text, settings=text)
    hosts["gpu1"]["kubernetes_upgrade_pods"] = text
    assert lines(make(hosts))
