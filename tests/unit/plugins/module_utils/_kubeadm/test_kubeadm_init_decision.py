# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpulab.kubernetes.plugins.module_utils._kubeadm import init_decision as state
from ansible_collections.gpulab.kubernetes.plugins.module_utils._kubeadm.damage import (
    ADMIN,
    FILES,
    KUBELET_CERTIFICATE,
    KUBELET_CONF,
    SIGNERS,
)
from ansible_collections.gpulab.kubernetes.plugins.module_utils._kubeadm.init_decision import (
    ABSENT,
    ALIVE,
    BARREN,
    CLEAN,
    FINISHED,
    INIT,
    REFUSE,
    REFUSED,
    RESUME,
    SILENT,
    UNASKED,
    UNREADABLE,
    UNUSED,
    Evidence,
    decide,
)
from ansible_collections.gpulab.kubernetes.plugins.module_utils._kubeadm.use import OBJECTS, search_etcd
from hypothesis import given
from hypothesis import strategies as st

# Evidence on a control plane after the phase kubelet-start, and after the last phase.
BEGUN: dict[str, Any] = {
    "admin_conf": True,
    "kubelet_conf": True,
    "ca_key": True,
    "manifests": ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler"),
}
DONE: dict[str, Any] = {**BEGUN, "kubelet_final": True, "kubelet_certificate": True, "etcd": ALIVE}

# Power failure at the end of an init: etcd's data are whole.
DAMAGED = ("/etc/kubernetes/scheduler.conf",)
CUT: dict[str, Any] = {**BEGUN, "api": SILENT, "etcd": UNUSED, "damaged": DAMAGED}

FINAL: dict[str, Any] = {"kubelet_final": True, "damaged": (*DAMAGED, KUBELET_CERTIFICATE)}
# kubelet.conf is empty, so whether it was final is unknown.
UNKNOWN: dict[str, Any] = {**BEGUN, "api": SILENT, "kubelet_certificate": True, "damaged": (KUBELET_CONF,)}
CERTIFICATE: dict[str, Any] = {"damaged": (KUBELET_CONF, KUBELET_CERTIFICATE)}
MOVED: dict[str, Any] = {"began": True, "etcd": UNUSED, "missing": (KUBELET_CONF, "/etc/kubernetes/pki/apiserver.crt")}
ANSWERS: dict[str, Any] = {**DONE, "api": ALIVE, "began": True, "damaged": DAMAGED}

TABLE = [
    ("bare host", {}, INIT),
    ("CA brought along by its owner", {"ca_key": True}, INIT),
    ("worker", {"kubelet_conf": True, "kubelet_final": True, "kubelet_certificate": True}, REFUSE),
    ("worker with a copy of admin.conf", {"kubelet_conf": True, "admin_conf": True}, REFUSE),
    ("worker whose join was interrupted", {"bootstrap_conf": True}, REFUSE),
    ("machine of an administrator", {"admin_conf": True}, REFUSE),
    ("finished and well", {**DONE, "api": ALIVE}, FINISHED),
    ("finished and well, admin.conf taken away", {**DONE, "admin_conf": False, "api": ALIVE}, FINISHED),
    ("finished, its record lies about", {**DONE, "api": ALIVE, "began": True}, FINISHED),
    ("finished, somebody removed kube-proxy and coredns", {**DONE, "api": ALIVE, "complete": False}, FINISHED),
    ("finished, no local etcd", {**DONE, "api": ALIVE, "etcd": ABSENT, "etcd_local": False}, FINISHED),
    ("interrupted before the addons", {**DONE, "api": ALIVE, "began": True, "complete": False}, RESUME),
    ("interrupted before it was published", {**BEGUN, "api": BARREN, "began": True}, CLEAN),
    ("interrupted by hand before it was published", {**BEGUN, "api": BARREN}, CLEAN),
    ("the same, but the kubelet was set up after that", {**BEGUN, "api": BARREN, "kubelet_final": True}, REFUSE),
    ("emptied by its owner", {**BEGUN, "api": BARREN, "etcd": ALIVE, "began": True}, REFUSE),
    ("finished, API down", {**DONE, "api": SILENT}, REFUSE),
    ("finished, API down, record lies about", {**DONE, "api": SILENT, "began": True}, REFUSE),
    ("finished, certificates expired", {**DONE, "api": REFUSED}, REFUSE),
    ("interrupted, yet somebody else answers", {**BEGUN, "api": REFUSED, "began": True}, REFUSE),
    ("finished, API down, etcd unreadable", {**DONE, "api": SILENT, "etcd": UNREADABLE, "began": True}, REFUSE),
    ("finished, disk of etcd not mounted", {**DONE, "api": SILENT, "etcd": ABSENT}, REFUSE),
    ("the same with a record", {**DONE, "api": SILENT, "etcd": ABSENT, "began": True}, REFUSE),
    ("finished, manifests moved away for repair", {**DONE, "api": SILENT, "manifests": ()}, REFUSE),
    ("the same without admin.conf", {**DONE, "api": UNASKED, "manifests": (), "admin_conf": False}, REFUSE),
    ("etcd elsewhere, API down", {**BEGUN, "api": SILENT, "etcd_local": False, "began": True}, REFUSE),
    ("interrupted in certs", {"ca_key": True, "began": True}, CLEAN),
    ("interrupted in kubeconfig", {"ca_key": True, "admin_conf": True, "began": True, "api": SILENT}, CLEAN),
    ("interrupted in kubeconfig by hand", {"ca_key": True, "admin_conf": True, "api": SILENT}, CLEAN),
    ("interrupted in control-plane", {**BEGUN, "api": SILENT, "began": True}, CLEAN),
    ("interrupted in control-plane by hand", {**BEGUN, "api": SILENT}, CLEAN),
    (
        "interrupted while etcd's image was pulled",
        {**BEGUN, "api": SILENT, "began": True, "kubelet_certificate": True},
        CLEAN,
    ),
    ("the same by hand, which nobody can tell", {**BEGUN, "api": SILENT, "kubelet_certificate": True}, REFUSE),
    ("interrupted in wait-control-plane, host rebooted", {**BEGUN, "api": SILENT, "etcd": BARREN}, CLEAN),
    ("the same, but the kubelet was set up completely", {**DONE, "api": SILENT, "etcd": BARREN}, REFUSE),
    ("the same with a record", {**DONE, "api": SILENT, "etcd": BARREN, "began": True}, REFUSE),
    ("disk of etcd not mounted, kubelet.conf is empty", UNKNOWN, REFUSE),
    ("the same with a record", {**UNKNOWN, "began": True}, REFUSE),
    ("the same, the certificate is damaged, too", {**UNKNOWN, **CERTIFICATE, "began": True}, CLEAN),
    ("the same without a record", {**UNKNOWN, **CERTIFICATE}, REFUSE),
    ("interrupted in preflight", {"began": True}, CLEAN),
    ("power failure after it was published", {**CUT, "began": True}, CLEAN),
    ("the same by hand", CUT, REFUSE),
    ("the same, a worker has joined", {**CUT, "etcd": ALIVE, "began": True}, REFUSE),
    ("the same, etcd unreadable", {**CUT, "etcd": UNREADABLE, "began": True}, REFUSE),
    ("published and whole, API down", {**CUT, "damaged": (), "began": True}, REFUSE),
    ("published, another server answers", {**CUT, "api": REFUSED, "began": True}, REFUSE),
    ("emptied after it was published", {**CUT, "api": BARREN, "began": True}, REFUSE),
    ("power failure at the end, the kubelet's certificate is damaged", {**CUT, **FINAL, "began": True}, CLEAN),
    ("power failure at the end, it is whole", {**CUT, **FINAL, "damaged": DAMAGED, "began": True}, REFUSE),
    ("cleanup interrupted", {**MOVED, "api": UNASKED}, CLEAN),
    ("cleanup interrupted, a worker has joined", {**MOVED, "api": UNASKED, "etcd": ALIVE}, REFUSE),
    ("files moved aside, then a power failure", {**MOVED, **DONE, "etcd": UNUSED, "api": SILENT}, REFUSE),
    ("power failure at the end, etcd's disk is missing", {**CUT, **FINAL, "etcd": ABSENT, "began": True}, REFUSE),
    ("power failure, and the API answers", {**ANSWERS, "used": False}, RESUME),
    ("power failure, and the API shows use", ANSWERS, FINISHED),
    ("power failure, only admin.conf is damaged", {**ANSWERS, "used": False, "damaged": ADMIN}, RESUME),
    ("files moved aside, then killed", {**ANSWERS, **MOVED, "damaged": (), "used": False}, RESUME),
    ("files moved aside, then killed and used", {**ANSWERS, **MOVED, "damaged": ()}, FINISHED),
    ("no addons, and damaged files", {**ANSWERS, "used": False, "complete": False}, RESUME),
    ("no addons, and the CA's key is damaged", {**ANSWERS, "complete": False, "damaged": SIGNERS[1:2]}, REFUSE),
    ("no addons, damaged files, and use", {**ANSWERS, "complete": False}, REFUSE),
    ("power failure, the CA is damaged", {**ANSWERS, "used": False, "damaged": (*DAMAGED, *SIGNERS[:1])}, FINISHED),
    ("finished and well, a file was emptied", {**DONE, "api": ALIVE, "damaged": DAMAGED}, FINISHED),
    ("finished, API down, a file was emptied", {**DONE, "api": SILENT, "damaged": DAMAGED}, REFUSE),
    ("CA that existed before, but empty", {"ca_key": True, "damaged": ("/etc/kubernetes/pki/ca.key",)}, REFUSE),
    ("files of a kubelet, empty", {"damaged": ("/var/lib/kubelet/config.yaml",)}, INIT),
]


@pytest.mark.parametrize(("name", "found", "action"), TABLE, ids=[row[0] for row in TABLE])
def test_each_state_of_a_host_has_its_decision(name: str, found: dict[str, Any], action: str) -> None:
    verdict = decide(Evidence(**found))
    assert verdict.action == action, verdict
    assert verdict.reason or found.get("api") == REFUSED
    assert bool(verdict.advice) == (action == REFUSE)


EVIDENCE = st.builds(
    Evidence,
    admin_conf=st.booleans(),
    kubelet_conf=st.booleans(),
    bootstrap_conf=st.booleans(),
    kubelet_final=st.booleans(),
    kubelet_certificate=st.booleans(),
    manifests=st.sampled_from([(), ("etcd",), BEGUN["manifests"]]),
    ca_key=st.booleans(),
    began=st.booleans(),
    etcd=st.sampled_from([ABSENT, BARREN, UNUSED, ALIVE, UNREADABLE, UNASKED]),
    etcd_local=st.booleans(),
    api=st.sampled_from([UNASKED, SILENT, REFUSED, BARREN, ALIVE]),
    complete=st.booleans(),
    used=st.booleans(),
    damaged=st.sampled_from([(), DAMAGED, SIGNERS[:1], ADMIN, (KUBELET_CERTIFICATE,), FILES]),
    missing=st.sampled_from([(), DAMAGED, SIGNERS[:1], FILES]),
)


@given(EVIDENCE)
def test_a_cluster_that_has_ever_been_populated_is_never_deleted(found: Evidence) -> None:
    action = decide(found).action
    assert action in (INIT, FINISHED, RESUME, CLEAN, REFUSE)
    if found.api in (ALIVE, REFUSED) or found.etcd == ALIVE:
        assert action != CLEAN
        assert action != INIT or not found.control_plane
    if found.etcd == UNUSED and action == CLEAN:
        assert found.began and found.incomplete
        assert not found.kubelet_final or KUBELET_CERTIFICATE in found.incomplete
    if action == CLEAN and (found.etcd == BARREN or found.api == BARREN):
        assert not found.kubelet_final
    if action == RESUME and found.complete:
        assert found.began and found.incomplete and not found.used
    if action == INIT:
        assert not found.manifests
        assert found.etcd == ABSENT


@given(EVIDENCE)
def test_a_record_alone_never_overrules_the_refusal_for_a_populated_cluster(found: Evidence) -> None:
    if found.etcd in (ALIVE, UNREADABLE) or (found.kubelet_final and KUBELET_CERTIFICATE not in found.incomplete):
        with_record = Evidence(**{**vars(found), "began": True})
        if decide(found).action == REFUSE and found.control_plane:
            assert decide(with_record).action == REFUSE
    assert state.decide(found) == decide(found)


@given(EVIDENCE, st.sampled_from(sorted(OBJECTS)), st.sampled_from(["", "default/", "kube-system/", "team/"]))
def test_a_cluster_that_was_used_is_never_initialized_again(found: Evidence, resource: str, namespace: str) -> None:
    """One node, whatever else the host shows: its API may not answer, a record may exist, files may be damaged."""
    keys = ["configmaps/kube-public/cluster-info", "minions/cp1", f"{resource}/{namespace}mine"]
    if (resource, namespace) == ("serviceaccounts", "kube-system/"):
        keys.append("secrets/kube-system/mine")
    with tempfile.TemporaryDirectory() as directory:
        data = Path(directory, "member/snap/db")
        data.parent.mkdir(parents=True)
        data.write_text("".join(f"\n{chr(len(key) + 10)}/registry/{key}\0" for key in keys))
        found = replace(found, etcd=search_etcd(Path(directory)))
    assert found.etcd == ALIVE
    assert decide(found).action not in (INIT, CLEAN)


@pytest.mark.parametrize(
    ("damaged", "steps"),
    [
        (
            ("/etc/kubernetes/scheduler.conf", "/etc/kubernetes/pki/etcd/peer.key"),
            [
                "mkdir -p /root/damaged",
                "mv --backup=numbered --target-directory=/root/damaged /etc/kubernetes/pki/etcd/peer.crt "
                "/etc/kubernetes/pki/etcd/peer.key /etc/kubernetes/scheduler.conf",
                "kubeadm init phase certs all --config FILE",
                "kubeadm init phase kubeconfig all --config FILE",
                "systemctl restart kubelet",
            ],
        ),
        (
            ("/etc/kubernetes/manifests/etcd.yaml", "/etc/kubernetes/manifests/kube-apiserver.yaml"),
            [
                "mkdir -p /root/damaged",
                "mv --backup=numbered --target-directory=/root/damaged /etc/kubernetes/manifests/etcd.yaml "
                "/etc/kubernetes/manifests/kube-apiserver.yaml",
                "kubeadm init phase etcd local --config FILE",
                "kubeadm init phase control-plane all --config FILE",
                "systemctl restart kubelet",
            ],
        ),
    ],
)
def test_a_repair_consists_of_commands(damaged: tuple[str, ...], steps: list[str]) -> None:
    advice = state.repair([*damaged, "/tmp/x; rm -rf /"])
    assert advice.endswith(": " + "; ".join(steps))


def test_missing_files_are_made_again_but_not_moved() -> None:
    advice = state.repair((), ["/etc/kubernetes/pki/apiserver.crt", "/etc/kubernetes/pki/apiserver.key"])
    assert "Restore /etc/kubernetes/pki/apiserver.crt, /etc/kubernetes/pki/apiserver.key from a backup" in advice
    assert advice.endswith(": kubeadm init phase certs all --config FILE; systemctl restart kubelet")
    assert state.repair(()) == ""


def test_missing_files_are_named_if_the_api_does_not_answer() -> None:
    verdict = decide(Evidence(**{**MOVED, **DONE, "etcd": UNUSED, "api": SILENT}))
    assert "/etc/kubernetes/pki/apiserver.crt" in verdict.advice and "kubeadm init phase certs all" in verdict.advice


def test_what_has_signed_others_is_only_restored() -> None:
    advice = state.repair(SIGNERS)
    assert "from a backup" in advice and "/etc/kubernetes/pki/sa.key" in advice and "mv" not in advice
