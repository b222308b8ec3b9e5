# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from apiserver import ApiServer, Authority
from control_plane_host import ControlPlaneHost, healthy_port

NODE = {
    "metadata": {"name": "gpu1"},
    "spec": {"unschedulable": True},
    "status": {"nodeInfo": {"kubeletVersion": "v1.36.5"}, "conditions": [{"type": "Ready", "status": "True"}]},
}


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    with healthy_port() as found:
        yield found


@pytest.fixture
def host(
    tmp_path: Path, programs: Any, run_module: Any, api: ApiServer, authority: Authority, port: int
) -> ControlPlaneHost:
    made = ControlPlaneHost(tmp_path / "host", programs, run_module, api, authority, port)
    made.install()
    return made


def read(host: ControlPlaneHost, **options: Any) -> dict[str, Any]:
    result: dict[str, Any] = host._run("kubeadm_upgrade_info", {"root": str(host.root), **options})
    assert not result["failed"]
    return result


def pod(name: str, **more: Any) -> dict[str, Any]:
    meta = {"namespace": "team", "name": name, "uid": f"uid-{name}", **more.pop("metadata", {})}
    return {"metadata": meta, "spec": {"nodeName": "gpu1", **more.pop("spec", {})}, **more}


def owned(kind: str) -> dict[str, Any]:
    return {"ownerReferences": [{"kind": kind, "name": "train", "controller": True}]}


def answer(host: ControlPlaneHost, **answers: Any) -> None:
    """Answer everything that is asked; a list of pods comes in two parts."""
    empty: dict[str, Any] = {"items": []}
    owner = {"spec": {"template": {"spec": {"containers": [{"image": "mirror:5000/coredns:v1.14.2@sha256:0"}]}}}}
    pods = [
        pod("train", metadata=owned("Job"), spec={"volumes": [{"name": "cache", "emptyDir": {}}, {"name": "nfs"}]}),
        pod("plugin", metadata=owned("DaemonSet")),
        pod("static", metadata={"annotations": {"kubernetes.io/config.mirror": "x"}}),
        pod("done", status={"phase": "Succeeded"}),
        pod("waits", spec={"nodeName": ""}),
    ]
    found: dict[str, Any] = {
        "/apis": {"groups": [{"name": "kueue.x-k8s.io"}, {"name": "apps"}]},
        "/api/v1/nodes?limit=100": {"items": [NODE]},
        "/api/v1/pods?limit=100": {"items": pods, "metadata": {"continue": "more"}},
        "/api/v1/pods?limit=100&continue=more": {"items": [pod("alone")]},
        "/apis/apps/v1/namespaces/kube-system/deployments/coredns": owner,
        "/apis/scheduling.k8s.io/v1alpha2": {"resources": [{"name": "workloads"}, {"name": "workloads/status"}]},
        "/apis/scheduling.k8s.io/v1alpha2/workloads?limit=100": {"items": [pod("gang")]},
        **answers,
    }
    host.api.answers.update({path: (200, body) for path, body in found.items()})
    host.api.answers["/apis/apps/v1/namespaces/kube-system/daemonsets/kube-proxy"] = (404, empty)


def test_the_host_is_read(host: ControlPlaneHost) -> None:
    flags = host.root / "var/lib/kubelet/kubeadm-flags.env"
    flags.parent.mkdir(parents=True)
    flags.write_text('KUBELET_KUBEADM_ARGS="--node-ip=192.0.2.1 --boot_id_file=/x -v=2"\n')
    (host.root / "etc/default").mkdir()
    (host.root / "etc/default/kubelet").write_text('KUBELET_EXTRA_ARGS="--max-pods=50"\n')
    data = host.root / "var/lib/etcd/member/snap"
    data.mkdir(parents=True)
    (data / "db").write_bytes(b"x" * 1000)
    found = read(host)["host"]
    assert found["components"]["kube-apiserver"] == "v1.36.5"
    assert found["flags"] == ["boot_id_file", "max-pods", "node-ip"]
    assert (found["etcd_data"], found["free"] > 0) == (1, True)
    assert found["interrupted"] == ""


def test_the_cluster_is_read(host: ControlPlaneHost) -> None:
    answer(host)
    result = read(host, cluster=True)
    found = result["cluster"]
    (node,) = found["nodes"]
    assert (node["name"], node["kubelet"], node["ready"], node["upgrading"]) == ("gpu1", "v1.36.5", True, False)
    assert [(each["name"], each["controller"], each["empty_dirs"]) for each in found["pods"]] == [
        ("train", "Job train", ["cache"]),
        ("alone", "", []),
    ]
    assert (found["groups"], found["old_objects"]) == (["apps", "kueue.x-k8s.io"], ["workloads/team/gang"])
    assert (found["coredns"], found["kube_proxy"], found["error"]) == ("v1.14.2", "", "")
    assert [(each["name"], each["health"]) for each in result["etcd"]] == [("cp1", "healthy")]


CORDONED = {"unschedulable": True}


def taint(key: str, effect: str = "NoSchedule") -> dict[str, Any]:
    return {"taints": [{"key": key, "effect": effect}]}


@pytest.mark.parametrize(
    ("specs", "accepts"),
    [
        ([taint("node-role.kubernetes.io/control-plane"), CORDONED], True),
        ([taint("nvidia.com/gpu", "PreferNoSchedule")], True),
        ([taint("nvidia.com/gpu"), {}], True),
        ([taint("nvidia.com/gpu"), CORDONED], False),
        ([taint("node-role.kubernetes.io/control-plane", "NoExecute")], False),
        ([taint("node.kubernetes.io/unreachable", "NoExecute")], False),
    ],
)
def test_taints_decide_whether_kubeadms_check_can_run(
    host: ControlPlaneHost, specs: list[dict[str, Any]], accepts: bool
) -> None:
    answer(host, **{"/api/v1/nodes?limit=100": {"items": [{**NODE, "spec": spec} for spec in specs]}})
    assert read(host, cluster=True)["cluster"]["accepts_check"] is accepts


def test_an_api_that_does_not_answer_is_an_error_of_the_cluster(host: ControlPlaneHost) -> None:
    answer(host)
    host.api.answers["/api/v1/nodes?limit=100"] = (500, {"message": "etcd is slow"})
    assert "etcd is slow" in read(host, cluster=True)["cluster"]["error"]
    host.api.answers["/api/v1/nodes?limit=100"] = (200, {"kind": "Status"})
    assert "something that is not a list, or is too large" in read(host, cluster=True)["cluster"]["error"]
    for path in host.etc.glob("*admin.conf"):
        path.unlink()
    assert "no kubeconfig" in read(host, cluster=True)["cluster"]["error"]


def test_a_worker_has_no_control_plane(host: ControlPlaneHost) -> None:
    for path in host.manifests.iterdir():
        path.unlink()
    found = read(host)
    assert (found["host"]["components"], found["etcd"], "cluster" in found) == ({}, [], False)
