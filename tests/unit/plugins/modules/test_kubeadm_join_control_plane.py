# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Join of a control plane next to others, by kubeadm_join."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.gpulab.kubernetes.plugins.module_utils._kubeadm import join_decision as state
from ansible_collections.gpulab.kubernetes.plugins.module_utils._kubeadm.damage import SIGNERS
from ansible_collections.gpulab.kubernetes.plugins.module_utils._kubeadm.membership import membership
from apiserver import ApiServer, Authority, rotated_kubeconfig
from fake_host import FakeHost

NODE = "/api/v1/nodes/cp2"
MARKED = {"kind": "Node", "metadata": {"labels": {"node-role.kubernetes.io/control-plane": ""}}}
SECRET = "private-key-of-the-cluster"
ETCD = "var/lib/etcd/member/snap/db"
# Changes the files of a host like kubeadm join; at the point named in the file "stop" it hangs.
KUBEADM = """
import json, pathlib, sys, time

root = pathlib.Path({root!r})
etc, kubelet = root / "etc/kubernetes", root / "var/lib/kubelet"
with (root / "log").open("a") as log:
    log.write(" ".join(["kubeadm", *sys.argv[1:]]) + "\\n")
if sys.argv[1] == "reset":
    sys.exit()
(root / "config").write_text(pathlib.Path(sys.argv[sys.argv.index("--config") + 1]).read_text())
modes = {str(path.relative_to(etc)): oct(path.stat().st_mode & 0o777) for path in etc.rglob("*") if path.is_file()}
(root / "modes").write_text(json.dumps(modes))
if (root / "var/lib/etcd/member").exists() or (etc / "manifests").exists():
    sys.exit("error: [ERROR DirAvailable--var-lib-etcd]: /var/lib/etcd is not empty")

def hang(point):
    stop = root / "stop"
    if stop.exists() and stop.read_text() == point:
        (root / "stopped").touch()
        while stop.exists():
            time.sleep(0.05)

def put(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)

hang("preflight")
put(etc / "pki/apiserver.crt", "x\\n")
put(etc / "admin.conf", "kind: Config\\n")
put(etc / "manifests/kube-apiserver.yaml", "kind: Pod\\n")
hang("manifests")
put(kubelet / "config.yaml", "kind: KubeletConfiguration\\n")
put(kubelet / "pki/kubelet-client-current.pem", (root / "seed/client.pem").read_text())
put(etc / "kubelet.conf", (root / "seed/kubelet.conf").read_text())
hang("kubelet")
put(etc / "manifests/etcd.yaml", "kind: Pod\\n")
put(root / "{etcd}", "data of the member\\n")
hang("etcd")
"""


class Host(FakeHost):  # type: ignore[misc]
    def __init__(self, root: Path, programs: Any, run: Any, api: ApiServer, authority: Authority) -> None:
        super().__init__(root, programs, run)
        self.api, self.authority, self.etc = api, authority, root / "etc/kubernetes"
        seed = root / "seed"
        seed.mkdir(parents=True)
        (seed / "client.pem").write_text("".join(authority.issue("system:node:cp2")))
        (seed / "kubelet.conf").write_text(rotated_kubeconfig(api.url, authority.pem))
        body = KUBEADM.replace("{root!r}", repr(str(root))).replace("{etcd}", ETCD)
        self.kubeadm = programs.python("kubeadm", body)
        programs.add("systemctl", f'echo "systemctl $*" >> {root}/log')
        programs.add("sync", f'echo "sync $*" >> {root}/synced')
        programs.add("crictl", "echo '{\"containers\": []}'")
        api.answers[NODE] = (200, {"kind": "Node"})
        self.pki = dict.fromkeys(SIGNERS, f"{SECRET}\n") | {"/etc/kubernetes/pki/ca.crt": authority.pem}

    def args(self, **changes: Any) -> dict[str, Any]:
        config = "kind: JoinConfiguration\nnodeRegistration: {criSocket: unix:///run/x.sock}\n"
        given = {"control_plane": True, "config": config, "ca_cert_hashes": [self.authority.hash], "pki": self.pki}
        return {**given, "api_timeout": 0, "timeout": 30, "root": str(self.root), **changes}

    def run(self, check: bool = False, **changes: Any) -> dict[str, Any]:
        result: dict[str, Any] = self._run("kubeadm_join", self.args(**changes), check=check)
        assert SECRET not in json.dumps(result)
        return result

    def interrupt(self, point: str) -> None:
        self._interrupt("kubeadm_join", self.args(), self.kubeadm, point, True)

    @property
    def record(self) -> Path:
        path: Path = self.root / "var/lib/gpulab/kubeadm-join.json"
        return path

    def aside(self) -> set[str]:
        places = (self.root / "var/lib/gpulab").glob("aside-*")
        return {str(path.relative_to(place)) for place in places for path in place.rglob("*") if path.is_file()}


@pytest.fixture
def host(tmp_path: Path, programs: Any, run_module: Any, api: ApiServer, authority: Authority) -> Host:
    return Host(tmp_path / "root", programs, run_module, api, authority)


def test_a_control_plane_joins_with_the_keys_of_the_others(host: Host) -> None:
    predicted = host.run(check=True, pki={})
    assert (predicted["changed"], predicted["joined"], predicted["resumed"]) == (True, False, False)
    assert host.log == [] and not host.etc.exists()
    result = host.run()
    assert (result["changed"], result["joined"], result["node_name"]) == (True, True, "cp2")
    modes = json.loads((host.root / "modes").read_text())
    assert modes["pki/ca.key"] == modes["pki/etcd/ca.key"] == modes["pki/sa.key"] == "0o600"
    assert {f"/etc/kubernetes/{name}" for name in modes} == {*SIGNERS}
    assert not host.record.exists() and (host.root / "synced").exists()
    host.api.answers[NODE] = (200, MARKED)
    again = host.run(pki={})
    assert (again["changed"], again["joined"]) == (False, True)


def test_a_configuration_of_its_own_makes_a_control_plane(host: Host) -> None:
    joined = {"api_endpoint": {"host": "10.0.0.10", "port": 6443}, "token": "abcdef.0123456789abcdef"}
    host._run("kubeadm_join", {**host.args(), "config": None, **joined})
    assert yaml.safe_load((host.root / "config").read_text())["controlPlane"] == {}


@pytest.mark.parametrize(("lost", "added"), [("/etc/kubernetes/pki/sa.key", {}), ("", {"/root/.profile": "x"})])
def test_only_the_keys_of_the_cluster_are_written(host: Host, lost: str, added: dict[str, str]) -> None:
    result = host.run(pki={**{path: text for path, text in host.pki.items() if path != lost}, **added})
    assert result["failed"] and (lost or "/root/.profile") in result["msg"]
    assert not host.etc.exists() and not host.record.exists() and not (host.root / "root").exists()


@pytest.mark.parametrize("point", ["preflight", "manifests", "kubelet", "etcd"])
@pytest.mark.parametrize("power", [True, False])
def test_an_interrupted_join_is_begun_again(host: Host, point: str, power: bool) -> None:
    host.interrupt(point)
    if not power:
        for path in [each for each in host.etc.rglob("*") if each.is_file()]:
            path.write_text("")
    left = {str(path.relative_to(host.root)) for path in host.etc.rglob("*") if path.is_file()}
    predicted = host.run(check=True, pki={})
    assert (predicted["resumed"], predicted["joined"]) == (True, False), predicted
    result = host.run()
    assert (result["changed"], result["joined"], result["resumed"]) == (True, True, True), result
    # Nothing is deleted, the data of etcd least of all.
    assert left <= host.aside() and (point != "etcd" or ETCD in host.aside())
    assert not host.record.exists()


def test_a_join_that_was_interrupted_after_its_last_step_is_complete(host: Host) -> None:
    host.interrupt("etcd")
    host.api.answers[NODE] = (200, MARKED)
    result = host.run(pki={})
    assert (result["joined"], result["resumed"]) == (True, False)
    assert host.aside() == set() and not host.record.exists()


def test_preflight_sees_a_control_plane_only_when_its_join_has_finished(host: Host) -> None:
    host.interrupt("etcd")
    found = membership(str(host.root))
    assert (found["role"], found["begun"], found["joining"], found["finished"]) == ("control_plane", True, True, False)
    host.run()
    found = membership(str(host.root))
    assert (found["role"], found["joining"], found["finished"]) == ("control_plane", False, True)
    # The record of a join to another cluster.
    host.record.write_text(json.dumps({"ca_cert_hashes": ["sha256:" + "0" * 64], "control_plane": True}))
    assert membership(str(host.root))["finished"]


def test_a_finished_control_plane_is_never_moved(host: Host) -> None:
    host.run()
    for path in (host.etc / "manifests/etcd.yaml", host.etc / "kubelet.conf"):
        path.write_text("")
    result = host.run()
    assert result["failed"] and "not a working control plane" in result["msg"] and host.aside() == set()


def test_the_record_of_a_join_to_another_cluster_means_nothing(host: Host) -> None:
    """The host was reset, and became the control plane of another cluster."""
    host.interrupt("etcd")
    host.record.write_text(json.dumps({"ca_cert_hashes": ["sha256:" + "0" * 64], "control_plane": True}))
    result = host.run()
    assert result["failed"] and host.aside() == set()


CA, HASH, ANOTHER = "sha256:1", ("sha256:1",), ("sha256:2",)
FILES = {"control_plane": True, "admin_conf": True, "kubelet_conf": True, "ca_cert_hashes": HASH}


@pytest.mark.parametrize(
    ("found", "action", "words"),
    [
        ({}, state.JOIN, ""),
        ({"leftovers": ("/etc/kubernetes/pki/ca.crt",)}, state.CLEAN, "interrupted"),
        ({**FILES, "marked": True, "api": state.KNOWN}, state.JOINED, "is the control plane"),
        ({**FILES, "marked": True, "api": state.KNOWN, "joining": True}, state.JOINED, "is the control plane"),
        ({**FILES, "api": state.KNOWN, "joining": True}, state.CLEAN, "interrupted"),
        # It may have finished.
        ({**FILES, "api": state.SILENT, "joining": True}, state.REFUSE, "could not be determined"),
        ({**FILES, "admin_conf": False, "api": state.SILENT, "joining": True}, state.CLEAN, "interrupted"),
        # Without the record, nothing of it is touched.
        ({**FILES, "api": state.KNOWN}, state.REFUSE, "not a working control plane"),
        ({**FILES, "api": state.SILENT}, state.REFUSE, "not a working control plane"),
        ({**FILES, "damaged": ("/x",), "marked": True}, state.REFUSE, "/x"),
        ({"admin_conf": True}, state.REFUSE, "parts of a control plane"),
        ({"kubelet_conf": True, "ca_cert_hashes": HASH, "api": state.KNOWN}, state.REFUSE, "is a worker"),
        ({**FILES, "ca_cert_hashes": ANOTHER, "joining": True}, state.REFUSE, "another cluster"),
        ({"joining": True, "restoring": True}, state.REFUSE, "restore"),
    ],
)
def test_decisions(found: dict[str, Any], action: str, words: str) -> None:
    verdict = state.decide_control_plane(state.Evidence(**found), [CA])
    assert verdict.action == action and words in verdict.reason
    assert bool(verdict.advice) == (action == state.REFUSE)
