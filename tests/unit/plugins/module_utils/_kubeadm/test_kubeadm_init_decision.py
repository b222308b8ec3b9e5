# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.gpulab.kubernetes.plugins.module_utils._kubeadm import init_decision as state
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
    ("interrupted in preflight", {"began": True}, CLEAN),
    ("power failure after it was published", {**CUT, "began": True}, CLEAN),
    ("the same by hand", CUT, REFUSE),
    ("the same, a worker has joined", {**CUT, "etcd": ALIVE, "began": True}, REFUSE),
    ("the same, etcd unreadable", {**CUT, "etcd": UNREADABLE, "began": True}, REFUSE),
    ("published and whole, API down", {**CUT, "damaged": (), "began": True}, REFUSE),
    ("published, another server answers", {**CUT, "api": REFUSED, "began": True}, REFUSE),
    ("emptied after it was published", {**CUT, "api": BARREN, "began": True}, REFUSE),
    ("power failure, and the API answers", {**DONE, "api": ALIVE, "began": True, "damaged": DAMAGED}, RESUME),
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
    damaged=st.sampled_from([(), DAMAGED, ("/etc/kubernetes/pki/ca.crt",)]),
)


@given(EVIDENCE)
def test_a_cluster_that_has_ever_been_populated_is_never_deleted(found: Evidence) -> None:
    action = decide(found).action
    assert action in (INIT, FINISHED, RESUME, CLEAN, REFUSE)
    if found.api in (ALIVE, REFUSED) or found.etcd == ALIVE:
        assert action != CLEAN
        assert action != INIT or not found.control_plane
    if found.etcd == UNUSED and action == CLEAN:
        assert found.began and found.damaged
    if action == INIT:
        assert not found.manifests
        assert found.etcd == ABSENT


@given(EVIDENCE)
def test_a_record_alone_never_overrules_the_refusal_for_a_populated_cluster(found: Evidence) -> None:
    if found.etcd in (ALIVE, UNREADABLE) or found.kubelet_final:
        with_record = Evidence(**{**vars(found), "began": True})
        if decide(found).action == REFUSE and found.control_plane:
            assert decide(with_record).action == REFUSE
    assert state.decide(found) == decide(found)
