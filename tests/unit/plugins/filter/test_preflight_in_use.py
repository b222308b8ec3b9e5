# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Settings of a running cluster that the inventory can't change any more."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.gpulab.kubernetes.plugins.filter.preflight import preflight_notes, preflight_report
from ansible_collections.gpulab.kubernetes.plugins.plugin_utils._preflight.differences import differences
from hypothesis import given
from hypothesis import strategies as st
from test_preflight_problems import REPOSITORY, changed, check

CLUSTER = """\
apiVersion: kubeadm.k8s.io/v1beta4
apiServer:
  extraArgs: [{name: audit-log-path, value: /var/log/audit.log}]
controlPlaneEndpoint: 192.168.7.11:6443
imageRepository: registry.k8s.io
kubernetesVersion: v1.36.4
networking: {dnsDomain: cluster.local, podSubnet: 10.244.0.0/16, serviceSubnet: 10.96.0.0/12}
"""
KUBELET = (
    "cgroupDriver: systemd\nfailSwapOn: false\nmaxPods: 110\nsyncFrequency: 0s\nevictionHard: {nodefs.available: 5%}\n"
)
FLANNEL = '{"Network": "10.244.0.0/16", "EnableNFTables": false, "Backend": {"Type": "vxlan"}}'
FOUND: dict[str, Any] = {
    "action": "finished",
    "reason": "",
    "advice": "",
    "api": "alive",
    "version": "v1.36.4",
    "texts": {
        "ClusterConfiguration": CLUSTER,
        "KubeletConfiguration": KUBELET,
        "KubeProxyConfiguration": "mode: iptables\n",
        "flannel": FLANNEL,
    },
    "daemonsets": ["kube-flannel-ds", "kube-proxy", "nvidia-device-plugin"],
    "gpu_managers": ["device_plugin"],
    "error": "",
}
MEMBER = {"begun": True, "finished": True, "ca_hashes": ["sha256:a"], "server": "https://192.168.7.11:6443"}


def in_use(found: Any = None, texts: Any = None, **rest: Any) -> dict[str, Any]:
    """Return changes that turn three bare machines into a running cluster; its API also reports ``found``."""
    told = {**FOUND, **(found or {}), "texts": {**FOUND["texts"], **(texts or {})}}
    changes: dict[str, Any] = {"cp1.facts.control_plane": told}
    for host in ("cp1", "gpu1", "gpu2"):
        role = "control_plane" if host == "cp1" else "worker"
        socket = "unix:///var/run/containerd/containerd.sock"
        member = {**MEMBER, "role": role, "node_name": host, "container_runtime": socket}
        changes |= {f"{host}.facts.cluster": member, f"{host}.facts.installed": {"kubelet": "1.36.4-1.1"}}
    return changes | rest


def kinds(problems: list[dict[str, Any]]) -> list[str]:
    return [problem["kind"] for problem in problems]


def test_matching_cluster_has_no_problems() -> None:
    declared = {"failSwapOn": False, "maxPods": "110", "syncFrequency": 0, "resolvConf": "/etc/resolv.conf"}
    assert check(in_use(), kubelet_configuration=declared) == []
    assert check(in_use(), gpu_manager="gpu_operator", gpu_manager_changing=True) == []


@pytest.mark.parametrize(
    ("settings", "kind", "answers"),
    [
        (
            {"cluster_service_network": "10.200.0.0/16"},
            "cluster_setting_settled",
            {"cluster_service_network": "10.96.0.0/12"},
        ),
        ({"cluster_dns_domain": "gpu.lan"}, "cluster_setting_settled", {"cluster_dns_domain": "cluster.local"}),
        (
            {"cluster_api_endpoint": "k8s.example.com:6443"},
            "cluster_setting_settled",
            {"cluster_api_endpoint": "192.168.7.11:6443"},
        ),
        (
            {"image_repository": "mirror.example.com"},
            "image_repository_differs",
            {"kubeadm_image_repository": "registry.k8s.io"},
        ),
        ({"flannel_backend": "host-gw"}, "flannel_backend_differs", {"flannel_backend": "vxlan"}),
        ({"gpu_manager": "gpu_operator"}, "gpu_manager_differs", {"cluster_gpu_manager": "device_plugin"}),
        ({"kubelet_configuration": {"clusterDomain": "gpu.lan"}}, "cluster_configuration_differs", None),
        ({"kube_proxy_configuration": {"mode": "nftables"}}, "cluster_configuration_differs", None),
        ({"cluster_configuration": {"clusterName": "gpu"}}, "cluster_configuration_differs", None),
        ({"cluster_configuration": {"etcd": {"local": {"dataDir": "/e"}}}}, "cluster_configuration_differs", None),
    ],
)
def test_changed_setting_of_a_running_cluster_is_refused(
    settings: dict[str, Any], kind: str, answers: dict[str, str] | None
) -> None:
    """The change is reported once, with the cluster's value as the answer, which the report shows."""
    (problem,) = check(in_use(), **settings)
    assert (problem["kind"], problem.get("answers")) == (kind, answers)
    for name, value in (answers or {}).items():
        assert f"set:   {name}: {value}" in preflight_report([problem])


@pytest.mark.parametrize(
    "settings",
    [
        {"kubelet_configuration": {"maxPods": 50}},
        {"cluster_configuration": {"apiServer": {"certSANs": ["k8s"], "extraArgs": [{"name": "v", "value": "4"}]}}},
        {"cluster_configuration": {"etcd": {"local": {"imageTag": "3.6.11-0"}}}},
    ],
)
def test_settings_that_site_changes_in_a_running_cluster_are_accepted(settings: dict[str, Any]) -> None:
    assert check(in_use(), **settings) == []


def test_settings_of_an_etcd_that_the_cluster_does_not_use_are_refused() -> None:
    text = f"{CLUSTER}etcd: {{external: {{endpoints: ['https://etcd:2379']}}}}\n"
    wanted = {"etcd": {"local": {"imageTag": "3.6.11-0"}}}
    (problem,) = check(in_use(texts={"ClusterConfiguration": text}), cluster_configuration=wanted)
    assert problem["kind"] == "cluster_configuration_differs"
    report = " ".join(preflight_report([problem]).split())
    assert "The cluster uses external etcd (etcd.external)" in report
    assert "kubeadm-config" not in report


def test_changed_pod_network_is_refused_for_cluster_and_flannel() -> None:
    problems = check(in_use(), cluster_pod_network="10.50.0.0/16")
    assert kinds(problems) == ["cluster_setting_settled", "flannel_network_differs"]
    assert {tuple(problem["answers"].items()) for problem in problems} == {(("cluster_pod_network", "10.244.0.0/16"),)}


def test_equivalent_values_are_accepted() -> None:
    texts = {"ClusterConfiguration": CLUSTER.replace("192.168.7.11:6443", "K8S.Example.com")}
    assert check(in_use(texts=texts), cluster_api_endpoint="k8s.example.com:6443") == []
    assert check(in_use(), cluster_configuration={"apiServer": {}}) == []
    two_families = CLUSTER.replace("10.244.0.0/16", '"10.244.0.0/16,fd00:10:244::/56"')
    assert check(in_use(texts={"ClusterConfiguration": two_families})) == []


@pytest.mark.parametrize("missing", [*FOUND["texts"], "all"])
def test_missing_configuration_document_is_accepted(missing: str) -> None:
    """kube-proxy may be disabled, and the pod network may be missing after an interruption."""
    texts = dict.fromkeys(FOUND["texts"], "") if missing == "all" else {missing: ""}
    assert check(in_use(texts=texts), kube_proxy_configuration={}, kubelet_configuration={}) == []


@pytest.mark.parametrize("text", ["- a\n", "x: [", "5", "\x00", "networking: 7\nBackend: []\n"])
def test_invalid_configuration_documents_are_ignored(text: str) -> None:
    assert check(in_use(texts=dict.fromkeys(FOUND["texts"], text))) == []


def test_a_control_plane_that_was_not_upgraded_is_refused() -> None:
    """Except by the playbooks that complete or give up the upgrade, and while the API does not answer."""
    tags = {"components": {"kube-apiserver": "v1.36.4"}}
    assert check(in_use(tags)) == []
    mixed = in_use({**tags, "version": "v1.37.1"}, {"ClusterConfiguration": CLUSTER.replace("1.36.4", "1.37.1")})
    (problem,) = check(mixed)
    assert problem["kind"] == "upgrade_unfinished"
    assert "the cluster has 1.37.1, and its API servers have cp1 1.36.4" in problem["what"]
    assert check(mixed, kubernetes_upgrading=True) == []
    assert check(mixed, restores=True) == []


def test_cluster_version_outside_the_table_has_no_answer() -> None:
    (problem,) = check(in_use({"version": "v1.34.1"}, **{"gpu1.facts.installed": {"kubelet": "1.34.1-1.1"}}))
    assert (problem["kind"], problem.get("answers")) == ("cluster_version_unknown", None)


@pytest.mark.parametrize(("wanted", "advice"), [("1.37.1", "upgrade_cluster"), ("1.35.8", "Set cluster_kubernetes")])
def test_cluster_keeps_its_version_whatever_the_inventory_says(wanted: str, advice: str) -> None:
    """The repository of the inventory's version is not used, so it need not exist."""
    unread = {"gpu1.facts.repositories": [{**REPOSITORY, "error": "404"}]}
    assert check({**in_use(), **unread}, kubernetes_version=wanted) == []
    assert kinds(check({**in_use(), **unread})) == ["repository_unreadable"]
    assert kinds(check({**in_use(), **unread}, kubernetes_version=wanted, kubernetes_upgrading=True)) == [
        "repository_unreadable"
    ]
    (told,) = preflight_notes(*changed(in_use(), kubernetes_version=wanted))
    assert f"The cluster runs Kubernetes 1.36.4, but cluster_kubernetes_version is {wanted}" in told
    assert advice in told and "1.36.4." in told
    assert preflight_notes(*changed(in_use(), kubernetes_version=wanted, kubernetes_upgrading=True)) == []


def test_the_version_of_the_configuration_counts_while_the_api_server_has_a_newer_one() -> None:
    (told,) = preflight_notes(*changed(in_use({"version": "v1.37.1"}), kubernetes_version="1.37.1"))
    assert "The cluster runs Kubernetes 1.36.4" in told


@pytest.mark.parametrize("kubelet", ["1.34.1-1.1", "1.37.1-1.1"])
def test_node_with_another_kubelet_version_is_reported(kubelet: str) -> None:
    """One is not in the table, the other is newer than the cluster."""
    (problem,) = check(in_use(**{"gpu2.facts.installed": {"kubelet": kubelet}}))
    assert (problem["kind"], problem["host"], "answers" in problem) == ("kubelet_version_differs", "gpu2", False)
    # An older one of the table is upgraded.
    assert check(in_use(**{"gpu2.facts.installed": {"kubelet": "1.35.8-1.1"}})) == []
    # A bare host may have any version, because the run installs its packages.
    assert check({"gpu2.facts.installed": {"kubelet": "1.35.8-1.1"}}) == []


@pytest.mark.parametrize(
    ("older", "answers"),
    [(["gpu1"], None), (["cp1", "gpu1", "gpu2"], {"cluster_kubernetes_version": "1.35.8"})],
    ids=["versions differ", "all older"],
)
def test_kubelet_versions_are_compared_without_an_api(older: list[str], answers: dict[str, str] | None) -> None:
    silent = {"action": "refuse", "api": "silent", "reason": "no answer", "version": "", "texts": {}}
    changes = in_use(silent, **{f"{host}.facts.installed": {"kubelet": "1.35.8-1.1"} for host in older})
    changes["cp1.facts.control_plane"]["texts"] = {}
    found = [(problem["kind"], problem.get("answers")) for problem in check(changes)]
    assert found == [("kubelet_version_differs", answers)] * len(older)


@pytest.mark.parametrize(
    ("found", "kind"),
    [
        ({"action": "refuse", "api": "refused", "reason": "another CA", "advice": "Look."}, "control_plane_refused"),
        ({"action": "refuse", "api": "unasked", "reason": "no admin.conf", "advice": "Look."}, "control_plane_refused"),
        ({"error": "500", "version": "", "gpu_managers": [], "daemonsets": []}, "cluster_unreadable"),
        ({"daemonsets": ["calico-node"]}, "network_plugin_differs"),
    ],
)
def test_broken_control_plane_is_reported(found: dict[str, Any], kind: str) -> None:
    assert kinds(check(in_use(found))) == [kind]


@pytest.mark.parametrize(
    ("host", "advice"), [("gpu1", "its cluster again"), ("cp1", "Restore /etc/kubernetes/kubelet.conf, ")]
)
def test_a_running_node_that_cannot_start_again(host: str, advice: str) -> None:
    damaged = {f"{host}.facts.cluster.damaged": ["/etc/kubernetes/kubelet.conf"]}
    (problem,) = check({**in_use(), **damaged})
    assert (problem["kind"], problem["host"]) == ("kubeadm_files_damaged", host)
    assert "/etc/kubernetes/kubelet.conf" in problem["what"] and advice in problem["do"]


def test_a_node_that_joins_again_is_uncordoned_afterwards() -> None:
    (problem,) = check({**in_use(), "gpu1.facts.cluster.damaged": ["/etc/kubernetes/kubelet.conf"]})
    drain, rest = problem["do"].split("run this again")
    assert "kubectl drain --ignore-daemonsets gpu1`" in drain and "kubectl uncordon gpu1`" in rest


@pytest.mark.parametrize(
    ("api", "damaged", "restorable", "expected"),
    [
        ("alive", ["scheduler.conf"], [], ["kubeadm_files_damaged"]),
        ("alive", ["scheduler.conf"], ["scheduler.conf"], []),
        ("alive", ["scheduler.conf", "kubelet.conf"], ["scheduler.conf"], ["kubeadm_files_damaged"]),
        ("silent", ["pki/apiserver.crt"], [], ["control_plane_refused"]),
        ("silent", ["pki/apiserver.crt"], ["admin.conf", "pki/apiserver.crt"], []),
        ("silent", ["pki/apiserver.crt", "pki/sa.key"], ["pki/apiserver.crt"], ["control_plane_refused"]),
        # With an admin.conf that is cut off.
        ("refused", [], [], ["control_plane_refused"]),
        ("refused", [], ["admin.conf"], []),
        ("barren", [], ["admin.conf"], ["control_plane_refused"]),
    ],
)
def test_files_that_the_end_of_an_interrupted_change_restores_are_no_problem(
    api: str, damaged: list[str], restorable: list[str], expected: list[str]
) -> None:
    refused = {} if api == "alive" else {"action": "refuse", "reason": "it is silent", "version": ""}
    found = in_use({"api": api, "restorable": [f"/etc/kubernetes/{name}" for name in restorable], **refused})
    found["cp1.facts.cluster.damaged"] = [f"/etc/kubernetes/{name}" for name in damaged]
    problems = check(found)
    assert kinds(problems) == expected
    assert not problems or not restorable or "scheduler.conf" not in problems[0]["what"] + problems[0]["do"]


def test_a_running_node_whose_cluster_is_unknown_does_not_join_again() -> None:
    files = {"damaged": ["/etc/kubernetes/kubelet.conf", "/etc/kubernetes/pki/ca.crt"], "ca_hashes": []}
    (problem,) = check({**in_use(), **{f"gpu1.facts.cluster.{name}": value for name, value in files.items()}})
    assert problem["do"].startswith("Restore /etc/kubernetes/pki/ca.crt from another node")


@pytest.mark.parametrize("action", ["resume", "clean"])
def test_a_control_plane_that_this_run_completes_has_no_problem(action: str) -> None:
    damaged = {"cp1.facts.cluster.damaged": ["/etc/kubernetes/scheduler.conf"]}
    assert "kubeadm_files_damaged" not in kinds(check({**in_use({"action": action}), **damaged}))


def test_a_host_that_is_completed_after_a_power_cut_has_no_problem() -> None:
    interrupted = {"gpu1.facts.cluster.damaged": ["/etc/kubernetes/kubelet.conf"], "gpu1.facts.cluster.finished": False}
    assert check({**in_use(), **interrupted}) == []


@pytest.mark.parametrize("finished", [True, False])
def test_a_damaged_control_plane_that_is_refused_is_one_problem_before_anything_changes(finished: bool) -> None:
    refused = {"action": "refuse", "api": "silent", "reason": "files are empty", "advice": "Restore.", "version": ""}
    cluster = {"cp1.facts.cluster.damaged": ["/etc/kubernetes/admin.conf"], "cp1.facts.cluster.finished": finished}
    assert kinds(check({**in_use(refused), **cluster})) == ["control_plane_refused"]


def test_unmanaged_pod_network_can_be_kept_as_external() -> None:
    found = in_use({"daemonsets": ["calico-node", "kube-proxy"]}, texts={"flannel": ""})
    (problem,) = check(found)
    assert problem["answers"] == {"cluster_network_plugin": "external"}
    assert check(found, network_plugin="external") == []


@pytest.mark.parametrize("text", [KUBELET.replace("systemd", "cgroupfs")])
def test_different_cgroup_driver_is_reported(text: str) -> None:
    assert kinds(check(in_use(texts={"KubeletConfiguration": text}))) == ["cgroup_driver_differs"]


def test_interrupted_change_of_the_gpu_manager_is_accepted() -> None:
    found = in_use({"gpu_managers": ["device_plugin", "gpu_operator"]})
    assert check(found) == [] and check(found, gpu_manager="gpu_operator") == []


@pytest.mark.parametrize("settings", [{}, {"gpu_manager": "gpu_operator", "gpu_manager_changing": True}])
def test_gpus_offered_by_dra_and_a_plugin_are_refused(settings: dict[str, Any]) -> None:
    twice = {"nodes": ["gpu1"], "classes": {"gpu.nvidia.com": "nvidia.com/gpu"}}
    [problem] = check(in_use({"gpus_twice": twice}), **settings)
    assert problem["kind"] == "gpus_offered_twice" and "gpu1" in problem["what"]
    assert check(in_use({"gpus_twice": {}}), **settings) == []


def test_changed_node_name_is_refused() -> None:
    (problem,) = check(in_use(**{"gpu1.settings.node_name": "gpu-a"}))
    assert (problem["kind"], problem["host"]) == ("node_name_differs", "gpu1")
    assert problem["answers"] == {"cluster_node_name": "gpu1"}


@pytest.mark.parametrize(
    ("socket", "expected"),
    [
        ("unix:///var/run/containerd/containerd.sock", []),
        ("unix:///run/containerd/containerd.sock", []),
        ("/run/containerd/containerd.sock", []),
        ("", []),
        ("unix:///var/run/crio/crio.sock", ["container_runtime_differs"]),
        ("unix:///var/run/cri-dockerd.sock", ["container_runtime_differs"]),
    ],
)
def test_other_container_runtime_of_a_node_is_refused(socket: str, expected: list[str]) -> None:
    changes = in_use()
    changes["gpu1.facts.cluster"]["container_runtime"] = socket
    # Older releases of Kubernetes don't record the container runtime.
    changes["gpu1.facts.cluster"] = {key: value for key, value in changes["gpu1.facts.cluster"].items() if value != ""}
    assert kinds(check(changes)) == expected


@pytest.mark.parametrize(
    ("wanted", "there", "paths"),
    [
        ({"a": "10m"}, {"a": "10m0s"}, []),
        ({"a": "1h30m"}, {"a": "90m"}, []),
        ({"a": "1024Mi"}, {"a": "1Gi"}, []),
        ({"a": "500m"}, {"a": "0.5"}, []),
        ({"a": "110"}, {"a": 110}, []),
        ({"a": True}, {"a": "true"}, []),
        ({"a": [{"name": "x", "value": "1"}]}, {"a": [{"name": "x", "value": "1"}]}, []),
        ({"a": [1, 2]}, {"a": [2, 1]}, ["a"]),
        ({"a": {"b": 1, "c": 2}}, {"a": {"b": 1}}, ["a.c"]),
        ({"a": {"b": 1}}, {}, ["a.b"]),
        ({"a": {}, "b": "", "c": None, "d": [], "e": 0, "f": False}, {}, []),
        ({"failSwapOn": False}, {}, ["failSwapOn"]),
        ({"a": 1}, {"a": {"b": 1}}, ["a"]),
        ({"a": {"b": 1}}, {"a": 1}, ["a"]),
        ({"a": "5%"}, {"a": "10%"}, ["a"]),
        ({"a": False}, {"a": True}, ["a"]),
    ],
)
def test_equivalent_values_are_not_differences(wanted: Any, there: Any, paths: list[str]) -> None:
    assert [path for path, _want, _there in differences(wanted, there)] == paths


_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)


@given(_VALUES, _VALUES)
def test_any_values_can_be_compared(wanted: Any, there: Any) -> None:
    list(differences(wanted, there))
    assert not list(differences(there, there))


@pytest.mark.parametrize(
    ("wanted", "text", "damaged", "noted"),
    [
        ({"maxPods": 50}, "", [], True),
        ({"maxPods": 50}, "a: &a {x: 1}\nb: *a\n", [], True),
        ({"maxPods": 50}, KUBELET, [], False),
        # Nothing is pending, or the damage is a problem of its own.
        ({"maxPods": 110}, "", [], False),
        ({"maxPods": 50}, "", ["/var/lib/kubelet/config.yaml"], False),
    ],
)
def test_node_that_can_not_get_the_settings_of_kubelets_is_noted(
    wanted: dict[str, Any], text: str, damaged: list[str], noted: bool
) -> None:
    changes = in_use()
    for host in ("cp1", "gpu1", "gpu2"):
        changes[f"{host}.facts.cluster"] |= {"kubelet_configuration": KUBELET}
    changes["gpu1.facts.cluster"] |= {"kubelet_configuration": text, "damaged": damaged}
    notes = preflight_notes(*changed(changes, kubelet_configuration=wanted))
    words = "gpu1: The node does not get the settings of kubeadm_kubelet_configuration"
    assert [note.partition(": /var")[0] for note in notes] == [words] * noted
