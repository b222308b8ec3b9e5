# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A file that a power failure left empty reads as interrupted, never as finished and never as absent."""

from __future__ import annotations

import itertools
import json
import os
from collections.abc import Iterable
from pathlib import Path
from types import SimpleNamespace

import pytest
from ansible_collections.gpulab.kubernetes.plugins.module_utils._kubeadm import init_decision as state
from ansible_collections.gpulab.kubernetes.plugins.module_utils._kubeadm.damage import (
    ADMIN,
    FILES,
    damaged_admin_files,
    damaged_files,
    missing_files,
    necessary,
    with_companions,
)
from ansible_collections.gpulab.kubernetes.plugins.module_utils._kubeadm.init_evidence import RECORD, gather
from ansible_collections.gpulab.kubernetes.plugins.module_utils._kubeadm.membership import membership
from ansible_collections.gpulab.kubernetes.plugins.module_utils._kubeadm.use import search_etcd
from apiserver import Authority

MISSING, EMPTY, WHOLE = "missing", "empty", "whole"
KUBECONFIG = "apiVersion: v1\nclusters:\n- cluster:\n    server: https://127.0.0.1:1\n  name: kubernetes\n"
LISTENS = (
    "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"
    "   0: 00000000:{port:04X} 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 4711 1\n"
)
PEM = "var/lib/kubelet/pki/kubelet-client-current.pem"
KUBELET = ("etc/kubernetes/kubelet.conf", "etc/kubernetes/pki/ca.crt", "var/lib/kubelet/config.yaml", PEM)
CONTROL_PLANE = (
    "etc/kubernetes/admin.conf",
    "etc/kubernetes/manifests/kube-apiserver.yaml",
    "etc/kubernetes/pki/ca.key",
)


def write(root: Path, name: str, text: str | bytes) -> Path:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


@pytest.mark.parametrize(
    ("data", "damaged"),
    [
        (b"", True),
        (b"\n \n", True),
        (b"\0" * 300, True),
        (b"kind: Pod\n" + b"\0" * 80, True),
        (b"x" * 4096, True),
        (b"x" * 4095 + b"\n", False),
        (b"x" * 4097, False),
        (b"kind: Pod\n", False),
        (b"edited by hand, without a line feed at its end", False),
    ],
)
@pytest.mark.parametrize("name", ["etc/kubernetes/manifests/etcd.yaml", *KUBELET, *CONTROL_PLANE])
def test_what_counts_as_damaged(tmp_path: Path, name: str, data: bytes, damaged: bool) -> None:
    for other in KUBELET[2:]:
        write(tmp_path, other, "whole: 1\n")
    write(tmp_path, name, data)
    expected = (f"/{name}",) if damaged else ()
    assert (*damaged_admin_files(str(tmp_path)), *damaged_files(str(tmp_path), True)) == expected
    # The other files of a worker are not judged.
    assert damaged_files(str(tmp_path), False) == (expected if name in KUBELET else ())


def test_the_files_of_a_cluster_are_those_of_kubeadm(tmp_path: Path) -> None:
    assert {*missing_files(str(tmp_path), True)} == {*necessary({*FILES} - {*ADMIN})}
    for name in FILES:
        write(tmp_path, name[1:], "")
    assert missing_files(str(tmp_path), True) == ()
    found = damaged_files(str(tmp_path), True)
    assert {*found, *damaged_admin_files(str(tmp_path))} == {*FILES} and not {*found} & {*ADMIN}
    pki = [path.removeprefix("/etc/kubernetes/pki/") for path in found if "/etc/kubernetes/pki/" in path]
    assert sorted(pki) == sorted(
        [
            *("ca.crt", "ca.key", "sa.key", "sa.pub", "front-proxy-ca.crt", "front-proxy-ca.key"),
            *("apiserver.crt", "apiserver.key", "apiserver-kubelet-client.crt", "apiserver-kubelet-client.key"),
            *("apiserver-etcd-client.crt", "apiserver-etcd-client.key", "front-proxy-client.crt"),
            *("front-proxy-client.key", "etcd/ca.crt", "etcd/ca.key", "etcd/server.crt", "etcd/server.key"),
            *("etcd/peer.crt", "etcd/peer.key", "etcd/healthcheck-client.crt", "etcd/healthcheck-client.key"),
        ]
    )


def test_a_certificate_is_made_again_with_its_key_and_the_kubelets_with_its_kubeconfig() -> None:
    pki = "/etc/kubernetes/pki"
    assert with_companions([f"{pki}/etcd/peer.key", f"{pki}/sa.pub"]) == (
        *(f"{pki}/etcd/peer.crt", f"{pki}/etcd/peer.key", f"{pki}/sa.pub"),
    )
    assert with_companions([f"/{PEM}"]) == ("/etc/kubernetes/kubelet.conf", f"/{PEM}")
    assert with_companions([]) == ()


def test_files_of_others_are_not_judged(tmp_path: Path) -> None:
    for name in ("cloud.conf", "manifests/mine.yaml", "pki/ca.srl", "pki/mine.key", "pki/users/jane.crt"):
        write(tmp_path, f"etc/kubernetes/{name}", "")
    write(tmp_path, "etc/kubernetes/pki/ca.der", b"0\0" * 2048)
    # kubeadm writes it, but the kubelet starts without flags.
    write(tmp_path, "var/lib/kubelet/kubeadm-flags.env", "")
    (tmp_path / "etc/kubernetes/admin.conf").mkdir()
    # On a disk that is attached only when a certificate is signed.
    (tmp_path / "etc/kubernetes/pki/ca.key").symlink_to("/media/key/ca.key")
    assert damaged_files(str(tmp_path), True) == damaged_admin_files(str(tmp_path)) == ()


def test_a_link_to_a_certificate_that_is_missing_is_damaged(tmp_path: Path) -> None:
    link = tmp_path / PEM
    link.parent.mkdir(parents=True)
    link.symlink_to("kubelet-client-2026-11-27-01-02-03.pem")
    assert damaged_files(str(tmp_path), False) == (f"/{PEM}",)


@pytest.mark.parametrize("runs", [False, True])
@pytest.mark.parametrize("names_certificate", [False, True])
def test_files_that_are_missing_next_to_kubelet_conf_are_damaged(
    tmp_path: Path, names_certificate: bool, runs: bool
) -> None:
    assert damaged_files(str(tmp_path), False) == ()
    write(tmp_path, KUBELET[0], f"client-certificate: /{PEM}\n" if names_certificate else "client-key-data: x\n")
    if runs:
        # It has started without them.
        write(tmp_path, "proc/net/tcp", LISTENS.format(port=10250))
    expected = ("/var/lib/kubelet/config.yaml", *([f"/{PEM}"] if names_certificate else []))
    assert damaged_files(str(tmp_path), False) == (() if runs else expected)


def test_files_of_another_etcd_are_not_missing(tmp_path: Path) -> None:
    assert not any("etcd" in path for path in missing_files(str(tmp_path), False))


@pytest.mark.parametrize("name", ["pki/ca.key", "pki/etcd/healthcheck-client.crt", "pki/etcd/healthcheck-client.key"])
def test_a_control_plane_starts_without_some_files(tmp_path: Path, name: str) -> None:
    """The key of an offline CA, for example, is empty on purpose."""
    write(tmp_path, "etc/kubernetes/manifests/kube-apiserver.yaml", "kind: Pod\n")
    write(tmp_path, f"etc/kubernetes/{name}", "")
    assert membership(str(tmp_path))["damaged"] == []
    assert damaged_files(str(tmp_path), True) == (f"/etc/kubernetes/{name}",)


def test_a_copied_admin_conf_does_not_make_a_worker_a_control_plane(tmp_path: Path) -> None:
    for name in (*KUBELET, "etc/kubernetes/admin.conf"):
        write(tmp_path, name, KUBECONFIG)
    write(tmp_path, "etc/kubernetes/scheduler.conf", "")
    assert membership(str(tmp_path))["damaged"] == []


def test_a_named_pipe_does_not_block(tmp_path: Path) -> None:
    for name in (*KUBELET, *CONTROL_PLANE):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        os.mkfifo(tmp_path / name)
    assert membership(str(tmp_path))["damaged"] == []


def combinations(root: Path, files: Iterable[str], text: str) -> Iterable[tuple[str, ...]]:
    """Put the files into each combination of states, and yield it."""
    names = list(files)
    for combination in itertools.product((MISSING, EMPTY, WHOLE), repeat=len(names)):
        for name, each in zip(names, combination, strict=True):
            if each == MISSING:
                (root / name).unlink(missing_ok=True)
            else:
                write(root, name, "" if each == EMPTY else text)
        yield combination


@pytest.mark.parametrize("etcd", [True, False])
def test_membership_of_every_combination(tmp_path: Path, etcd: bool) -> None:
    if etcd:
        write(tmp_path, "var/lib/etcd/member/snap/db", "")
    names = (*KUBELET[:1], *CONTROL_PLANE, *KUBELET[2:])
    finished = set()
    for kubelet, admin, api_server, ca_key, config, pem in combinations(tmp_path, names, KUBECONFIG):
        combination = (kubelet, admin, api_server, ca_key, config, pem)
        found = membership(str(tmp_path))
        control_plane = {admin, api_server, ca_key} != {MISSING}
        assert (found["role"] == "control_plane") == control_plane, combination
        assert found["role"] or kubelet == MISSING, "an empty file is a trace, too"
        assert found["begun"] or {*combination[:-1]} == {MISSING}, combination
        # A host starts without a whole admin.conf or key of the CA.
        decisive = (kubelet, api_server, EMPTY if config == MISSING != kubelet else config, pem)
        assert len(found["damaged"]) == decisive.count(EMPTY)
        if found["finished"]:
            finished.add("control_plane" if control_plane else "worker")
            assert EMPTY not in decisive and kubelet == config == WHOLE, combination
            assert not control_plane or (admin != MISSING, api_server, etcd) == (True, WHOLE, True), combination
        elif EMPTY not in decisive:
            assert kubelet == MISSING or control_plane, combination
    assert finished == ({"worker", "control_plane"} if etcd else {"worker"})


@pytest.mark.parametrize("port", [10250, 10248])
def test_a_node_whose_kubelet_runs_is_not_interrupted(tmp_path: Path, port: int) -> None:
    for name in KUBELET:
        write(tmp_path, name, KUBECONFIG)
    write(tmp_path, "var/lib/kubelet/config.yaml", "")
    assert not membership(str(tmp_path))["finished"]
    write(tmp_path, "proc/net/tcp", LISTENS.format(port=port))
    found = membership(str(tmp_path))
    assert (found["finished"], found["damaged"]) == (True, ["/var/lib/kubelet/config.yaml"])


def entry(key: str, tag: int = 0x0A, after: bytes = b"\x10\x07") -> bytes:
    """A key as etcd stores it in protobuf, with what follows it."""
    size = len(key)
    length = bytes([size]) if size < 128 else bytes([size & 0x7F | 0x80, size >> 7])
    return bytes([tag]) + length + key.encode() + after


PUBLISHED = entry("/registry/configmaps/kube-public/cluster-info")
OWN = entry("/registry/minions/cp1")
# In a condition of a transaction, the key is followed by the character 0 (the field mod_revision) and a number.
CONDITION = entry("/registry/minions/cp1", 0x1A, b"0a\x02")
ADDONS = entry("/registry/daemonsets/kube-system/kube-proxy") + entry("/registry/deployments/kube-system/coredns")
LONG = "n" * 63 + "." + "o" * 63 + "." + "p" * 63
# What Kubernetes 1.35 to 1.37 and kubeadm create.
KUBEADM = """
apiregistration.k8s.io/apiservices/v1. apiregistration.k8s.io/apiservices/v1.apps
apiregistration.k8s.io/apiservices/v1.rbac.authorization.k8s.io certificatesigningrequests/csr-x2x4z
clusterrolebindings/cluster-admin clusterrolebindings/kubeadm:get-nodes clusterrolebindings/system:basic-user
clusterroles/admin clusterroles/kubeadm:get-nodes clusterroles/system:controller:job-controller
clustertrustbundles/kubernetes.io:kube-apiserver-serving:7Zt4
configmaps/default/kube-root-ca.crt configmaps/kube-node-lease/kube-root-ca.crt configmaps/kube-system/kube-proxy
configmaps/kube-system/kube-apiserver-legacy-service-account-token-tracking configmaps/kube-system/kubeadm-config
controllerrevisions/kube-system/kube-proxy-7d4f csinodes/cp1 endpointslices/default/kubernetes
endpointslices/kube-system/kube-dns-x2x4z events/default/cp1.187a events/kube-system/coredns-5d78-x2x4z.187a
flowschemas/system-nodes flowschemas/kube-system-service-accounts ipaddresses/10.96.0.1
leases/kube-node-lease/cp1 leases/kube-system/apiserver-x2x4z leases/kube-system/kube-scheduler
masterleases/10.0.0.11 minions/cp1 namespaces/default namespaces/kube-node-lease peerserverleases/3f2
pods/kube-system/coredns-5d78c9869d-x2x4z pods/kube-system/etcd-cp1 pods/kube-system/kube-proxy-x2x4z
pods/kube-system/kube-controller-manager-cp1 priorityclasses/system-node-critical
prioritylevelconfigurations/workload-low ranges/servicenodeports replicasets/kube-system/coredns-5d78c9869d
rolebindings/kube-public/system:controller:bootstrap-signer rolebindings/kube-system/kubeadm:kubelet-config
roles/kube-system/extension-apiserver-authentication-reader secrets/kube-system/bootstrap-token-abcdef
serviceaccounts/default/default serviceaccounts/kube-system/job-controller servicecidrs/kubernetes
services/endpoints/default/kubernetes services/specs/kube-system/kube-dns
"""
USERS = """
apiextensions.k8s.io/customresourcedefinitions/jobs.example.com apiregistration.k8s.io/apiservices/v1.example.com
certificatesigningrequests/jane clusterrolebindings/jane clusterroles/reader
configmaps/default/data configmaps/kube-system/mine controllers/default/mine controllers/kube-system/mine
cronjobs/default/mine csinodes/gpu1 daemonsets/kube-flannel/kube-flannel-ds daemonsets/kube-system/mine
deployments/default/mine deployments/kube-system/coredns-mine endpointslices/default/mine-x2x4z events/train/x
example.com/jobs/default/train flowschemas/mine ingress/default/a jobs/kube-system/mine
leases/kube-node-lease/gpu1 leases/kube-system/gpulab-kubernetes minions/cp10 minions/gpu1 namespaces/team
networkpolicies/default/a persistentvolumeclaims/default/data persistentvolumes/pv1 pods/default/mine
pods/kube-system/etcd-backup pods/kube-system/mine podtemplates/default/a priorityclasses/mine
replicasets/default/coredns-5d78c9869d replicasets/kube-system/mine-5d78c9869d
resource.k8s.io/resourceclaims/default/gpu resourceclaims/default/gpu rolebindings/default/jane
secrets/default/model-key secrets/kube-system/mine serviceaccounts/default/ci services/specs/default/web
statefulsets/kube-system/coredns storageclasses/fast
"""
ETCD = [
    (b"\0" * 8192, state.UNREADABLE),
    (b"raft", state.ABSENT),
    (entry("/registry/namespaces/default"), state.BARREN),
    (OWN, state.BARREN),
    (PUBLISHED, state.UNUSED),
    (PUBLISHED + OWN + CONDITION + OWN + ADDONS, state.UNUSED),
    (
        PUBLISHED + entry(f"/registry/minions/{LONG}") + entry(f"/registry/minions/{LONG}", 0x1A, b"05\x02"),
        state.UNUSED,
    ),
    (PUBLISHED + OWN + entry("/registry/minions/gpu1"), state.ALIVE),
    # Never published, but used.
    (OWN + entry("/registry/minions/gpu1"), state.ALIVE),
    (entry("/registry/namespaces/default") + entry("/registry/namespaces/team"), state.ALIVE),
    # Published once, because the addons are installed later.
    *((OWN + entry(f"/registry/{key}"), state.ALIVE) for key in ("daemonsets/kube-system/kube-proxy",)),
    (OWN + entry("/registry/deployments/kube-system/coredns"), state.ALIVE),
    (OWN + entry("/registry/replicasets/kube-system/coredns-5d78c9869d"), state.ALIVE),
    # A run holds its lease before it completes an init.
    (OWN + entry("/registry/leases/kube-system/gpulab-kubernetes"), state.BARREN),
    # The API server's prefix is not kubeadm's.
    (entry("/k8s/namespaces/kube-system"), state.UNREADABLE),
    (entry("/mine/registry/configmaps/kube-public/cluster-info") + entry("/k8s/namespaces/kube-system"), "unreadable"),
    (entry("/registry/mine/configmaps/kube-public/cluster-info") + OWN, state.ALIVE),
    # The name of an image is not a key.
    (PUBLISHED + OWN + b"\x12\x2amirror.local/registry/kube-apiserver:v1.36.4", state.UNUSED),
    (PUBLISHED + entry("/registry/clusterrolebindings/jané"), state.ALIVE),
]


def etcd(root: Path, database: bytes | None, *logs: tuple[str, bytes]) -> Path:
    """Write etcd's files, and return its directory."""
    if database is not None:
        write(root, "member/snap/db", database)
    for name, data in logs:
        write(root, f"member/wal/{name}.wal", data)
    return root


FIRST_LOG, LATER_LOG = f"{'0' * 16}-{'0' * 16}", f"{5:016x}-{400000:016x}"


@pytest.mark.parametrize(("data", "expected"), ETCD)
@pytest.mark.parametrize("split", [False, True])
def test_what_etcd_contains(tmp_path: Path, data: bytes, expected: str, split: bool) -> None:
    """The log of a database that was not written yet has the newest entries."""
    place = data.find(OWN) if split else 0
    logs = [(LATER_LOG, data[place:])] if place > 0 else []
    assert search_etcd(etcd(tmp_path, data[:place] if logs else data, *logs)) == expected


def test_what_kubeadm_creates_is_not_use(tmp_path: Path) -> None:
    assert (
        search_etcd(etcd(tmp_path, PUBLISHED + b"".join(entry(f"/registry/{key}") for key in KUBEADM.split())))
        == "unused"
    )


@pytest.mark.parametrize("key", USERS.split())
def test_everything_else_is_use(tmp_path: Path, key: str) -> None:
    assert search_etcd(etcd(tmp_path, PUBLISHED + OWN + entry(f"/registry/{key}"))) == state.ALIVE


@pytest.mark.parametrize("database", [None, b"", b"\0" * 4096])
def test_only_a_log_that_has_everything_replaces_a_database(tmp_path: Path, database: bytes | None) -> None:
    """etcd removes old logs. What the rest of them does not show may have existed."""
    data = OWN + entry("/registry/leases/kube-node-lease/cp1")
    later = search_etcd(etcd(tmp_path, database, (LATER_LOG, data)))
    assert later == state.UNREADABLE
    assert search_etcd(etcd(tmp_path, database, (FIRST_LOG, b""))) == state.UNREADABLE
    assert search_etcd(etcd(tmp_path, database, (FIRST_LOG, data))) == state.BARREN


def test_etcd_without_files_is_absent(tmp_path: Path) -> None:
    (tmp_path / "member/wal").mkdir(parents=True)
    assert search_etcd(tmp_path) == state.ABSENT


@pytest.mark.parametrize("began", [True, False])
@pytest.mark.parametrize(("data", "etcd"), [(b"raft", "absent"), ETCD[2], ETCD[5], ETCD[7]])
def test_init_with_every_combination_of_files_and_a_silent_api(
    tmp_path: Path, authority: Authority, began: bool, data: bytes, etcd: str
) -> None:
    """Only what nobody has used is cleaned up, and nothing is initialized over files that are empty."""
    write(tmp_path, "var/lib/etcd/member/snap/db", data)
    if began:
        write(tmp_path, RECORD[1:], json.dumps({"etcd": "/var/lib/etcd"}))
    names = ("etc/kubernetes/kubelet.conf", *CONTROL_PLANE)
    module = SimpleNamespace(tmpdir=str(tmp_path))
    for combination in combinations(tmp_path, names, authority.kubeconfig("https://127.0.0.1:1")):
        found = gather(module, str(tmp_path), 0)
        action = state.decide(found).action
        if etcd == state.ALIVE or (etcd == state.UNUSED and not began):
            assert action == state.REFUSE, combination
        elif etcd in (state.UNUSED, state.BARREN):
            assert action == state.CLEAN, combination
        elif began:
            # Without a manifest of etcd, it seems to be on other hosts.
            assert action == (state.CLEAN if found.etcd_local else state.REFUSE), combination
        elif action == state.INIT:
            assert combination in [(MISSING,) * 3 + (key,) for key in (MISSING, WHOLE)]


@pytest.mark.parametrize(
    ("record", "expected"),
    [
        ({"etcd": "/data/etcd"}, state.ALIVE),
        ({"etcd": ""}, state.UNREADABLE),
        ({}, state.UNREADABLE),
        (None, state.UNREADABLE),
    ],
)
def test_etcd_is_searched_where_its_init_put_it(tmp_path: Path, record: dict[str, str] | None, expected: str) -> None:
    """The manifest that names the directory is empty after a power failure."""
    write(tmp_path, "etc/kubernetes/manifests/etcd.yaml", "")
    etcd(tmp_path / "data/etcd", PUBLISHED + OWN + entry("/registry/minions/gpu1"))
    if record is not None:
        write(tmp_path, RECORD[1:], json.dumps(record))
    found = gather(SimpleNamespace(tmpdir=str(tmp_path)), str(tmp_path), 0)
    assert found.etcd == expected
    assert state.decide(found).action == state.REFUSE


@pytest.mark.parametrize("certificate", [WHOLE, "dangling"])
@pytest.mark.parametrize("began", [True, False])
def test_a_disk_of_etcd_that_is_missing_is_not_an_init_that_never_finished(
    tmp_path: Path, certificate: str, began: bool
) -> None:
    """kubelet.conf is empty, so it does not show whether the init finished."""
    for name in (*CONTROL_PLANE, "etc/kubernetes/manifests/etcd.yaml", *KUBELET[1:3]):
        write(tmp_path, name, "    - --data-dir=/data/etcd\n")
    write(tmp_path, KUBELET[0], "")
    if certificate == WHOLE:
        write(tmp_path, PEM, "certificate\n")
    else:
        (tmp_path / PEM).parent.mkdir(parents=True)
        (tmp_path / PEM).symlink_to("kubelet-client-2026-11-27-01-02-03.pem")
    if began:
        write(tmp_path, RECORD[1:], "{}")
    found = gather(SimpleNamespace(tmpdir=str(tmp_path)), str(tmp_path), 0)
    assert (found.etcd, found.kubelet_certificate) == (state.ABSENT, True)
    assert state.decide(found).action == (state.CLEAN if began and certificate != WHOLE else state.REFUSE)
