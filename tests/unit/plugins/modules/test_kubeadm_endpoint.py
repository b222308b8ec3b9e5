# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The endpoint of a running cluster changes part by part; each part can be repeated after an interruption."""

from __future__ import annotations

import datetime
import re
import signal
import stat
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpulab.kubernetes.plugins.module_utils._errors import DomainError
from ansible_collections.gpulab.kubernetes.plugins.module_utils._kubeadm import endpoint_cluster
from ansible_collections.gpulab.kubernetes.plugins.module_utils._kubeadm.endpoint_cluster import (
    await_rollout,
    rollout_missing,
)
from ansible_collections.gpulab.kubernetes.plugins.module_utils._kubeadm.endpoint_text import with_endpoint
from apiserver import ApiServer, Authority, rotated_kubeconfig

MAPS = {
    "/api/v1/namespaces/kube-system/configmaps/kube-proxy": "kubeconfig.conf",
    "/api/v1/namespaces/kube-public/configmaps/cluster-info": "kubeconfig",
    "/api/v1/namespaces/kube-system/configmaps/kubeadm-config": "ClusterConfiguration",
}
ENDPOINT = "controlPlaneEndpoint: api.lab.internal:6443"
PROXY = "/apis/apps/v1/namespaces/kube-system/daemonsets/kube-proxy"
LEASE = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/gpu1"
SYSTEMCTL = """
case "$1" in
  show) echo LoadState=loaded; echo ActiveState=active; echo UnitFileState=enabled; echo "InvocationID=$(cat {run})" ;;
  *) echo "$@" >>{log}; {before}; echo "$(cat {run})1" >{run}; {after} ;;
esac
"""
NODES = "/api/v1/nodes"


def node(name: str, ready: str = "True") -> dict[str, Any]:
    conditions = [{"type": "MemoryPressure", "status": "False"}, {"type": "Ready", "status": ready}]
    return {"metadata": {"name": name}, "status": {"conditions": conditions}}


class Host:
    """A node whose API server answers at 127.0.0.1, its former endpoint, and at localhost, the new one."""

    def __init__(self, root: Path, programs: Any, run: Any, api: ApiServer, authority: Authority) -> None:
        self.root, self._programs, self._run, self.api = root, programs, run, api
        self.log = root / "systemctl.log"
        self.port = api.url.rpartition(":")[2]
        self.former, self.new = f"127.0.0.1:{self.port}", f"localhost:{self.port}"
        self.write("invocation", "7\n")
        self.add_systemctl()
        programs.add("journalctl", "echo 'kubelet: no route to host'")
        client = "".join(authority.issue("system:node:gpu1"))
        self.write("var/lib/kubelet/pki/kubelet-client-current.pem", client)
        self.kubelet = self.write("etc/kubernetes/kubelet.conf", rotated_kubeconfig(api.url, authority.pem))
        api.answers["/readyz"] = (200, {})
        self.renew(datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(minutes=5))

    def write(self, path: str, text: str) -> Path:
        place = self.root / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text)
        return place

    def renew(self, when: datetime.datetime) -> None:
        self.api.answers[LEASE] = (200, {"spec": {"renewTime": when.strftime("%Y-%m-%dT%H:%M:%S.000000Z")}})

    def add_systemctl(self, before: str = ":", after: str = ":") -> None:
        run = self.root / "invocation"
        self._programs.add("systemctl", SYSTEMCTL.format(log=self.log, run=run, before=before, after=after))

    def _arguments(self, part: str, options: dict[str, Any]) -> dict[str, Any]:
        own = {"root": str(self.root), "run_dir": str(self.root / "run"), "timeout": 1, "nodes": ["cp1", "gpu1"]}
        return {"part": part, "endpoint": self.new, "replaces": [self.former], **own, **options}

    def change(self, part: str, check: bool = False, **options: Any) -> dict[str, Any]:
        result: dict[str, Any] = self._run("kubeadm_endpoint", self._arguments(part, options), check=check)
        return result

    def kill(self, moment: str, restart: int = 1) -> None:
        """Change the kubelet in a run that is killed ``before`` or ``after`` this restart of the kubelet."""
        self.add_systemctl(**{moment: f"[ $(wc -l <{self.log}) != {restart} ] || {{ kill -KILL $PPID; exit; }}"})
        process = self._run.start("kubeadm_endpoint", self._arguments("kubelet", {}))
        process.communicate(timeout=60)
        assert process.returncode == -signal.SIGKILL
        self.add_systemctl()

    @property
    def calls(self) -> list[str]:
        return self.log.read_text().splitlines() if self.log.exists() else []


@pytest.fixture
def host(tmp_path: Path, programs: Any, run_module: Any, api: ApiServer, authority: Authority) -> Host:
    return Host(tmp_path / "root", programs, run_module, api, authority)


def test_kubelet_gets_the_endpoint_only_after_it_has_answered(host: Host) -> None:
    before = host.kubelet.read_text()
    host.kubelet.chmod(0o600)
    lines = [f"kubelet.conf: https://{host.former} -> https://{host.new}", "kubelet: restarted; pods continue to run"]
    predicted = host.change("kubelet", check=True)
    assert predicted["changes"] == lines and host.kubelet.read_text() == before and host.calls == []
    assert "client-key" not in str(predicted["diff"])
    assert host.change("kubelet")["changes"] == lines
    assert host.kubelet.read_text() == before.replace(host.former, host.new)
    assert stat.S_IMODE(host.kubelet.stat().st_mode) == 0o600
    assert host.calls == ["restart kubelet.service"]
    assert ("system:node:gpu1", "/readyz") in host.api.asked
    assert not host.change("kubelet")["changed"] and len(host.calls) == 1


def test_kubelet_keeps_its_endpoint_if_the_new_one_does_not_answer(host: Host) -> None:
    before = host.kubelet.read_text()
    result = host.change("kubelet", endpoint="localhost:1")
    assert result["failed"] and "The file was not changed, and the former endpoint is still valid" in result["msg"]
    assert host.kubelet.read_text() == before and host.calls == []


def test_kubelet_restarts_if_an_earlier_run_was_killed_before_that(host: Host) -> None:
    host.kill("before")
    assert host.new in host.kubelet.read_text()
    predicted = host.change("kubelet", check=True)["changes"]
    assert host.change("kubelet")["changes"] == predicted == ["kubelet: restarted; pods continue to run"]
    assert host.calls == ["restart kubelet.service"] * 2
    assert not host.change("kubelet")["changed"] and len(host.calls) == 2


def test_kubelet_is_checked_if_an_earlier_run_was_killed_after_its_restart(host: Host) -> None:
    host.kill("after")
    renewed = host.api.answers[LEASE]
    host.renew(datetime.datetime(2020, 1, 1))
    assert not host.change("kubelet", check=True)["changed"]
    for _time in range(2):
        result = host.change("kubelet")
        assert result["failed"] and "it renewed the lease of its node gpu1 last at 2020-01-01" in result["msg"]
    host.api.answers[LEASE] = renewed
    assert not host.change("kubelet")["changed"]
    host.renew(datetime.datetime(2020, 1, 1))
    assert not host.change("kubelet")["changed"] and host.calls == ["restart kubelet.service"]


def test_kubelet_restarts_if_a_run_was_killed_while_it_put_back_the_endpoint(host: Host) -> None:
    before = host.kubelet.read_text()
    host.renew(datetime.datetime(2020, 1, 1))
    host.kill("before", restart=2)
    assert host.kubelet.read_text() == before
    record = (host.root / "run/restart/kubelet.service").read_text()
    assert record == (host.root / "invocation").read_text().strip()


def test_kubelet_that_does_not_renew_its_lease_is_an_error(host: Host) -> None:
    host.renew(datetime.datetime(2020, 1, 1))
    before = host.kubelet.read_text()
    result = host.change("kubelet")
    assert result["failed"] and "it renewed the lease of its node gpu1 last at 2020-01-01T00:00:00" in result["msg"]
    assert "no route to host" in result["msg"]
    assert "The former endpoint was put back" in result["msg"]
    assert host.kubelet.read_text() == before and host.calls == ["restart kubelet.service"] * 2


@pytest.mark.parametrize("check", [False, True])
def test_kubelet_whose_node_is_unknown_is_not_changed(host: Host, check: bool) -> None:
    before = host.kubelet.read_text()
    host.write("var/lib/kubelet/pki/kubelet-client-current.pem", "")
    result = host.change("kubelet", check=check)
    assert result["failed"] and "the name of its node is not in" in result["msg"]
    assert host.kubelet.read_text() == before and host.calls == []


def test_kubelet_of_a_control_plane_keeps_its_own_address(host: Host) -> None:
    host.write("etc/kubernetes/manifests/kube-apiserver.yaml", "")
    assert not host.change("kubelet")["changed"]


def test_administrators_kubeconfigs_are_changed_as_far_as_they_exist(host: Host, authority: Authority) -> None:
    assert not host.change("kubeconfigs")["changed"]
    files = [
        host.write(f"etc/kubernetes/{name}.conf", authority.kubeconfig(host.api.url)) for name in ("admin", "other")
    ]
    assert host.change("kubeconfigs")["changed"]
    assert [host.new in file.read_text() for file in files] == [True, False]
    host.write("etc/kubernetes/super-admin.conf", authority.kubeconfig("https://192.0.2.9:6443"))
    result = host.change("kubeconfigs")
    assert result["failed"] and "super-admin.conf: its endpoint is 'https://192.0.2.9:6443'" in result["msg"]


@pytest.fixture
def cluster(host: Host, authority: Authority) -> Host:
    """Return a control plane whose cluster stores what is written to it, and rolls out DaemonSets immediately."""
    host.write("etc/kubernetes/admin.conf", authority.kubeconfig(host.api.url))
    host.api.answers[NODES] = (200, {"items": [node("cp1"), node("gpu1")]})
    former = f"clusters:\n- cluster:\n    server: https://{host.former}\n"
    for path, key in MAPS.items():
        text = f"controlPlaneEndpoint: {host.former}\nkind: x\n" if key == "ClusterConfiguration" else former
        host.api.answers[path] = (200, {"metadata": {"resourceVersion": "7"}, "data": {key: text, "other": "kept"}})
    status = {"desiredNumberScheduled": 2, "updatedNumberScheduled": 2, "numberAvailable": 2, "observedGeneration": 1}
    daemonset = {"metadata": {"generation": 1}, "spec": {"template": {"spec": {}}}, "status": status}
    host.api.answers[PROXY] = (200, daemonset)

    def store(_method: str, path: str, body: Any) -> None:
        host.api.answers[path] = (200, body)

    host.api.after_write = store
    return host


def test_cluster_is_changed_last_where_later_runs_look(cluster: Host) -> None:
    predicted = cluster.change("cluster", check=True)
    assert cluster.api.written == []
    result = cluster.change("cluster")
    assert result["changes"] == predicted["changes"] and len(result["changes"]) == 4
    written = [path for _method, path, _body in cluster.api.written]
    maps = list(MAPS)
    assert written == [maps[0], PROXY, *maps[1:]]
    for path, key in MAPS.items():
        data = cluster.api.answers[path][1]["data"]
        assert cluster.new in data[key] and cluster.former not in data[key] and data["other"] == "kept"
    assert not cluster.change("cluster")["changed"]


@pytest.mark.parametrize("done", range(1, 4))
def test_change_of_the_cluster_is_completed_after_an_interruption(cluster: Host, done: int) -> None:
    store, places = cluster.api.after_write, [*list(MAPS)[:1], PROXY, *list(MAPS)[1:]]

    def refuse(method: str, path: str, body: Any) -> None:
        if places.index(path) < done:
            store(method, path, body)
        else:
            cluster.api.answers[f"PUT {path}"] = (409, {"message": "changed meanwhile"})

    cluster.api.after_write = refuse
    result = cluster.change("cluster")
    assert result["failed"] and "Run this again" in result["msg"]
    cluster.api.after_write = store
    for path in places:
        cluster.api.answers.pop(f"PUT {path}", None)
    assert len(cluster.change("cluster")["changes"]) == 4 - done
    assert not cluster.change("cluster")["changed"]


def test_cluster_without_kube_proxy_has_nothing_to_restart(cluster: Host) -> None:
    del cluster.api.answers[PROXY], cluster.api.answers[next(iter(MAPS))]
    assert len(cluster.change("cluster")["changes"]) == 2


def test_unknown_endpoint_in_the_cluster_is_not_replaced(cluster: Host) -> None:
    path = list(MAPS)[1]
    cluster.api.answers[path] = (200, {"data": {"kubeconfig": "    server: https://192.0.2.9:6443\n"}})
    result = cluster.change("cluster")
    assert result["failed"] and "ConfigMap cluster-info in kube-public" in result["msg"]
    assert "kubectl -n kube-public edit configmap cluster-info" in result["msg"]
    assert cluster.api.written == []


@pytest.mark.parametrize(
    ("nodes", "words"),
    [
        (
            [node("cp1"), node("gpu1"), node("gpu9")],
            "these nodes have no host in the inventory, and would not know the name: gpu9",
        ),
        ([node("cp1"), node("gpu1", "False")], "these nodes are not ready: gpu1"),
        ([node("cp1", "Unknown"), node("gpu1", "Unknown")], "these nodes are not ready: cp1, gpu1"),
        ([node("cp1"), {"metadata": {"name": "gpu1"}}], "these nodes are not ready: gpu1"),
        ([node("gpu1")], ""),
    ],
)
@pytest.mark.parametrize(("part", "check"), [("check", False), ("check", True), ("cluster", False), ("cluster", True)])
def test_node_that_would_not_find_the_endpoint_is_refused(
    cluster: Host, nodes: list[Any], words: str, part: str, check: bool
) -> None:
    cluster.api.answers[NODES] = (200, {"items": nodes})
    result = cluster.change(part, check=check)
    assert bool(result.get("failed")) == bool(words) and words in result.get("msg", "")
    assert bool(cluster.api.written) == (part == "cluster" and not check and not words)


@pytest.mark.parametrize("check", [False, True])
def test_objects_are_checked_before_the_first_step(cluster: Host, check: bool) -> None:
    assert cluster.change("check", check=check)["changed"] is False
    path = list(MAPS)[2]
    cluster.api.answers[path] = (200, {"data": {"ClusterConfiguration": "controlPlaneEndpoint: 192.0.2.9:6443\n"}})
    result = cluster.change("check", check=check)
    assert result["failed"] and "ConfigMap kubeadm-config in kube-system" in result["msg"]


def test_secrets_next_to_the_endpoint_are_not_shown(cluster: Host) -> None:
    path = list(MAPS)[2]
    text = f"apiServer:\n  extraEnvs:\n  - value: geheim\ncontrolPlaneEndpoint: {cluster.former}\n"
    cluster.api.answers[path] = (200, {"data": {"ClusterConfiguration": text}})
    (shown,) = [entry for entry in cluster.change("cluster")["diff"] if entry["before_header"] == path]
    assert shown["before"] == f"controlPlaneEndpoint: {cluster.former}\n"
    assert shown["after"] == f"controlPlaneEndpoint: {cluster.new}\n"


def test_object_that_others_change_meanwhile_is_read_again(cluster: Host) -> None:
    store, places = cluster.api.after_write, [*list(MAPS)[:1], PROXY, *list(MAPS)[1:]]
    refused: set[str] = set()

    def refuse_once(method: str, path: str, body: Any) -> None:
        cluster.api.answers.pop(f"PUT {path}", None)
        if path in refused:
            store(method, path, body)
            return
        refused.add(path)
        cluster.api.answers[f"PUT {path}"] = (409, {"message": "changed meanwhile"})
        if path != PROXY:
            cluster.api.answers[path][1]["data"]["other"] = "changed"

    cluster.api.after_write = refuse_once
    assert len(cluster.change("cluster", timeout=5)["changes"]) == 4
    assert refused == set(places)
    assert all(cluster.api.answers[path][1]["data"]["other"] == "changed" for path in MAPS)


HTTPS = {"name": "HTTPS_PROXY", "value": "http://p"}
HTTP = {"name": "http_proxy", "value": "http://p"}
EXTERNAL = {"name": "NO_PROXY", "valueFrom": {"configMapKeyRef": {"name": "proxies", "key": "no"}}}


@pytest.mark.parametrize(
    ("environment", "changed"),
    [
        ([HTTPS, {"name": "NO_PROXY", "value": "10.0.0.0/8"}], {"NO_PROXY": "10.0.0.0/8,localhost"}),
        ([HTTP, {"name": "no_proxy", "value": "10.0.0.0/8"}], {"no_proxy": "10.0.0.0/8,localhost"}),
        ([HTTPS, {"name": "NO_PROXY", "value": "x, localhost"}], {}),
        (
            [HTTPS, {"name": "NO_PROXY", "value": "a"}, {"name": "no_proxy", "value": "b,localhost"}],
            {"NO_PROXY": "a,localhost"},
        ),
        ([HTTPS, {"name": "NO_PROXY"}], {"NO_PROXY": "localhost"}),
        ([HTTPS], {"NO_PROXY": "localhost"}),
        ([HTTP], {"NO_PROXY": "localhost"}),
        ([HTTPS, EXTERNAL], {}),
        ([{**EXTERNAL, "name": "HTTPS_PROXY"}], {"NO_PROXY": "localhost"}),
        ([{"name": "NODE_NAME", "valueFrom": {}}], {}),
        ([{"name": "HTTPS_PROXY", "value": ""}, {"name": "NO_PROXY", "value": "a"}], {}),
        ([{"name": "NO_PROXY", "value": "10.0.0.0/8"}], {}),
        (None, {}),
    ],
)
def test_kube_proxy_reaches_the_name_without_a_proxy(
    cluster: Host, environment: list[dict[str, Any]] | None, changed: dict[str, str]
) -> None:
    spec = cluster.api.answers[PROXY][1]["spec"]["template"]["spec"]
    container = {"name": "kube-proxy"} if environment is None else {"name": "kube-proxy", "env": environment}
    spec["containers"] = [container, {"name": "other"}]
    cluster.change("cluster")
    (written,) = [body for _method, path, body in cluster.api.written if path == PROXY]
    kept = [each for each in environment or () if each["name"] not in changed]
    found = written["spec"]["template"]["spec"]["containers"][0].get("env", [])
    assert [each for each in found if each["name"] not in changed] == kept
    assert {each["name"]: each["value"] for each in found if each["name"] in changed} == changed
    assert not cluster.change("cluster")["changed"]


class Clock:
    """Time that passes only while the code under test sleeps."""

    def __init__(self) -> None:
        self.now = 0.0

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


@pytest.mark.parametrize(("seconds_per_node", "fails"), [(200, False), (400, True)])
def test_rollout_may_take_long_if_it_proceeds(
    monkeypatch: pytest.MonkeyPatch, seconds_per_node: int, fails: bool
) -> None:
    clock, wanted = Clock(), 20
    monkeypatch.setattr(endpoint_cluster, "time", clock)

    def read() -> dict[str, Any]:
        done = min(wanted, int(clock.now // seconds_per_node))
        counts = dict.fromkeys(("updatedNumberScheduled", "numberAvailable"), done)
        status = {"observedGeneration": 2, "desiredNumberScheduled": wanted, **counts}
        return {"metadata": {"generation": 2}, "status": status}

    if fails:
        with pytest.raises(DomainError, match="0 of 20 nodes have a new pod"):
            await_rollout(read, 300)
    else:
        await_rollout(read, 300)


@pytest.mark.parametrize(
    ("text", "changed"),
    [
        ("controlPlaneEndpoint: 10.0.0.1:6443\n", "controlPlaneEndpoint: api.lab.internal:6443\n"),
        ('controlPlaneEndpoint: "10.0.0.1"\n', "controlPlaneEndpoint: api.lab.internal:6443\n"),
        ("    server: https://10.0.0.1:6443", "    server: https://api.lab.internal:6443"),
        ("- server: 'https://10.0.0.1:6443/'", "- server: https://api.lab.internal:6443"),
        ("server: https://api.lab.internal:6443\n", "server: https://api.lab.internal:6443\n"),
        ("server: https://10.0.0.1:6443 # by hand\n", "server: https://api.lab.internal:6443 # by hand\n"),
        ("server: https://10.0.0.2:6443 # by hand\n", None),
        ("a: b\nkind: ClusterConfiguration\n", f"a: b\n{ENDPOINT}\nkind: ClusterConfiguration\n"),
        ('controlPlaneEndpoint: ""\nkind: ClusterConfiguration\n', f"{ENDPOINT}\nkind: ClusterConfiguration\n"),
        ("server: https://10.0.0.2:6443\n", None),
        ("kind: x\n", None),
    ],
)
def test_only_a_known_endpoint_is_replaced(text: str, changed: str | None) -> None:
    if changed is None:
        with pytest.raises(DomainError, match=re.compile("endpoint")):
            with_endpoint(text, "api.lab.internal:6443", ["10.0.0.1:6443"])
    else:
        assert with_endpoint(text, "api.lab.internal:6443", ["10.0.0.1:6443"]) == changed


@pytest.mark.parametrize(
    ("status", "missing"),
    [
        ({"observedGeneration": 1, "desiredNumberScheduled": 2}, "its controller has not seen the change yet"),
        ({"observedGeneration": 2, "desiredNumberScheduled": 2, "updatedNumberScheduled": 2}, "0 of 2 nodes"),
        ({"observedGeneration": 2, "desiredNumberScheduled": 0}, ""),
        ({}, "its controller"),
    ],
)
def test_rollout_is_complete_when_all_pods_are_new_and_available(status: dict[str, Any], missing: str) -> None:
    found = rollout_missing({"metadata": {"generation": 2}, "status": status})
    assert missing in found and bool(missing) == bool(found)
