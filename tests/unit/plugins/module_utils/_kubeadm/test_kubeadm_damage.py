# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A file that a power failure left empty reads as interrupted, never as finished and never as absent."""

from __future__ import annotations

import itertools
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
    with_companions,
)
from ansible_collections.gpulab.kubernetes.plugins.module_utils._kubeadm.init_evidence import RECORD, gather
from ansible_collections.gpulab.kubernetes.plugins.module_utils._kubeadm.membership import membership
from ansible_collections.gpulab.kubernetes.plugins.module_utils._kubeadm.use import PREFIX, search_etcd
from apiserver import Authority

MISSING, EMPTY, WHOLE = "missing", "empty", "whole"
KUBECONFIG = "apiVersion: v1\nclusters:\n- cluster:\n    server: https://127.0.0.1:1\n  name: kubernetes\n"
KUBELET_LISTENS = (
    "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"
    "   0: 00000000:280A 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 4711 1\n"
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
    write(tmp_path, name, data)
    expected = (f"/{name}",) if damaged else ()
    assert (*damaged_admin_files(str(tmp_path)), *damaged_files(str(tmp_path), True)) == expected
    # The other files of a worker are not judged.
    assert damaged_files(str(tmp_path), False) == (expected if name in KUBELET else ())


def test_the_files_of_a_cluster_are_those_of_kubeadm(tmp_path: Path) -> None:
    for name in FILES:
        write(tmp_path, name[1:], "")
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
        # An empty admin.conf can be written again, and does not make a node unfinished.
        decisive = (kubelet, api_server, ca_key, config, pem)
        assert len(found["damaged"]) == decisive.count(EMPTY)
        if found["finished"]:
            finished.add("control_plane" if control_plane else "worker")
            assert EMPTY not in decisive and kubelet == WHOLE, combination
            assert not control_plane or (admin != MISSING, api_server, etcd) == (True, WHOLE, True), combination
        elif EMPTY not in decisive:
            assert kubelet == MISSING or control_plane, combination
    assert finished == ({"worker", "control_plane"} if etcd else {"worker"})


def test_a_node_whose_kubelet_runs_is_not_interrupted(tmp_path: Path) -> None:
    for name in KUBELET:
        write(tmp_path, name, KUBECONFIG)
    write(tmp_path, "var/lib/kubelet/config.yaml", "")
    assert not membership(str(tmp_path))["finished"]
    write(tmp_path, "proc/net/tcp", KUBELET_LISTENS)
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
ETCD = [
    (b"", state.ABSENT),
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
    (PUBLISHED + OWN + entry("/registry/minions/cp10"), state.ALIVE),
    (PUBLISHED + OWN + ADDONS + entry("/registry/daemonsets/kube-flannel/kube-flannel-ds"), state.ALIVE),
    (PUBLISHED + OWN + entry("/registry/deployments/default/mine"), state.ALIVE),
    (entry("/registry/statefulsets/kube-system/coredns"), state.ALIVE),
    *(
        (PUBLISHED + OWN + ADDONS + entry(f"/registry/{key}"), expected)
        for key, expected in {
            "replicasets/kube-system/coredns-5d78c9869d": state.UNUSED,
            "pods/kube-system/coredns-5d78c9869d-x2x4z": state.UNUSED,
            "namespaces/kube-node-lease": state.UNUSED,
            "services/specs/default/kubernetes": state.UNUSED,
            "apiregistration.k8s.io/apiservices/v1.apps": state.UNUSED,
            "masterleases/10.0.0.11": state.UNUSED,
            "replicasets/kube-system/mine-5d78c9869d": state.ALIVE,
            "replicasets/default/coredns-5d78c9869d": state.ALIVE,
            "jobs/kube-system/mine": state.ALIVE,
            "cronjobs/default/mine": state.ALIVE,
            "persistentvolumes/pv1": state.ALIVE,
            "persistentvolumeclaims/default/data": state.ALIVE,
            "pods/default/mine": state.ALIVE,
            "namespaces/team": state.ALIVE,
            "apiextensions.k8s.io/customresourcedefinitions/jobs.example.com": state.ALIVE,
        }.items()
    ),
    # Never published, but used.
    (OWN + entry("/registry/minions/gpu1"), state.ALIVE),
    (entry("/registry/namespaces/default") + entry("/registry/namespaces/team"), state.ALIVE),
    # The API server's prefix is not kubeadm's.
    (entry("/k8s/configmaps/kube-public/cluster-info"), state.ALIVE),
    (entry("/mine/registry/configmaps/kube-public/cluster-info") + OWN, state.ALIVE),
    # Without the length, whatever looks like a key counts as one.
    (PUBLISHED + b"/registry/minions/cp1\0/registry/minions/cp10a\0", state.ALIVE),
]


@pytest.mark.parametrize(("data", "expected"), ETCD)
@pytest.mark.parametrize("split", [False, True])
def test_what_etcd_contains(tmp_path: Path, data: bytes, expected: str, split: bool) -> None:
    """The log of a database that was not written yet has the newest entries."""
    place = data.find(entry("/registry/minions/cp1")) if split else 0
    parts = [part for part in (data[:place], data[place:]) if part]
    assert search_etcd([write(tmp_path, str(number), part) for number, part in enumerate(parts)]) == expected


@pytest.mark.parametrize(
    "prefix", [f"--etcd-prefix={PREFIX}", "--etcd-prefix=/k8s", "- name: etcd-prefix\n  value: /k8s"]
)
@pytest.mark.parametrize(
    ("data", "own", "custom"),
    [
        (entry("/k8s/namespaces/default"), state.ABSENT, state.BARREN),
        (entry("/k8s/namespaces/team"), state.ABSENT, state.ALIVE),
        (entry("/k8s/configmaps/kube-public/cluster-info"), state.ALIVE, state.ALIVE),
        (PUBLISHED, state.UNUSED, state.ALIVE),
    ],
)
def test_a_published_cluster_with_another_prefix_counts_as_used(
    tmp_path: Path, prefix: str, data: bytes, own: str, custom: str
) -> None:
    manifest, config = ("", f"extraArgs:\n{prefix}\n") if "name" in prefix else (f"    - {prefix}\n", "")
    write(tmp_path, "etc/kubernetes/manifests/kube-apiserver.yaml", manifest)
    write(tmp_path, "var/lib/etcd/member/snap/db", data)
    found = gather(SimpleNamespace(tmpdir=str(tmp_path)), str(tmp_path), 0, config)
    assert found.etcd == (own if PREFIX in prefix else custom)


@pytest.mark.parametrize("began", [True, False])
@pytest.mark.parametrize(("data", "etcd"), [ETCD[0], ETCD[2], ETCD[5], ETCD[7]])
def test_init_with_every_combination_of_files_and_a_silent_api(
    tmp_path: Path, authority: Authority, began: bool, data: bytes, etcd: str
) -> None:
    """Only what nobody has used is cleaned up, and nothing is initialized over files that are empty."""
    write(tmp_path, "var/lib/etcd/member/snap/db", data)
    if began:
        write(tmp_path, RECORD[1:], "{}")
    names = ("etc/kubernetes/kubelet.conf", *CONTROL_PLANE)
    module = SimpleNamespace(tmpdir=str(tmp_path))
    for combination in combinations(tmp_path, names, authority.kubeconfig("https://127.0.0.1:1")):
        found = gather(module, str(tmp_path), 0)
        action = state.decide(found).action
        if etcd == state.ALIVE or (etcd == state.UNUSED and not (began and EMPTY in combination)):
            assert action == state.REFUSE, combination
        elif etcd in (state.UNUSED, state.BARREN):
            assert action == state.CLEAN, combination
        elif began:
            # Without a manifest of etcd, it seems to be on other hosts.
            assert action == (state.CLEAN if found.etcd_local else state.REFUSE), combination
        elif action == state.INIT:
            assert combination in [(MISSING,) * 3 + (key,) for key in (MISSING, WHOLE)]


def test_etcd_is_searched_where_the_configuration_says(tmp_path: Path) -> None:
    """The manifest that names the directory is empty after a power failure."""
    write(tmp_path, "etc/kubernetes/manifests/etcd.yaml", "")
    write(tmp_path, "data/etcd/member/snap/db", PUBLISHED + OWN + entry("/registry/minions/gpu1"))
    module = SimpleNamespace(tmpdir=str(tmp_path))
    config = "etcd:\n  local:\n    dataDir: /data/etcd\n"
    assert gather(module, str(tmp_path), 0, config).etcd == state.ALIVE
