# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from dataclasses import replace

import pytest
from ansible_collections.gpulab.kubernetes.plugins.module_utils._backup.configuration import endpoint_host
from ansible_collections.gpulab.kubernetes.plugins.module_utils._backup.manifest import Manifest, Part
from ansible_collections.gpulab.kubernetes.plugins.module_utils._backup.refusals import (
    ACCEPTABLE,
    Target,
    refusals,
)

KEYS = ("pki/ca.key", "pki/front-proxy-ca.key", "pki/etcd/ca.key")
SIGNING = {name: Part("0" * 64, 1) for name in KEYS}
RECORD = {"record/cluster.json": Part("0" * 64, 1), **SIGNING}
CA, OTHER_CA = "sha256:" + "a" * 64, "sha256:" + "b" * 64
MANIFEST = Manifest("lab", CA, "cp1", "1.36.4", "3.6.8", "0.3.0", 310, 306, "2026-11-28T14:00:03Z", RECORD)
RIGHT = Target(
    cluster="lab",
    kubernetes="1.36.5",
    nodes={"gpu1": [CA], "gpu2": []},
    endpoints=["api.lab.internal"],
    addresses=["192.0.2.11", "api.lab.internal"],
    control_planes=["cp1"],
)


@pytest.mark.parametrize(
    ("endpoint", "host"),
    [
        ("API.lab.internal:6443", "api.lab.internal"),
        ("192.0.2.11", "192.0.2.11"),
        ("[2001:DB8::1]:6443", "2001:db8::1"),
        ("2001:db8::0:1", "2001:db8::1"),
        ("", ""),
    ],
)
def test_hosts_are_compared_in_one_form(endpoint: str, host: str) -> None:
    assert endpoint_host(endpoint) == host


def test_archive_of_this_cluster_is_not_refused() -> None:
    assert refusals(MANIFEST, RIGHT) == []


@pytest.mark.parametrize(
    ("kind", "target", "sentence"),
    [
        (
            "cluster_name",
            replace(RIGHT, cluster="other"),
            "The archive is of the cluster lab, and this one is other: if only the inventory was renamed, set "
            "cluster_name to lab (-e restore_accept=cluster_name accepts this).",
        ),
        (
            "kubernetes_version",
            replace(RIGHT, kubernetes="v1.37.1"),
            "The archive is of Kubernetes 1.36.4, and v1.37.1 would be installed: set cluster_kubernetes_version to a "
            "version of the same minor (-e restore_accept=kubernetes_version accepts this).",
        ),
        (
            "ca",
            replace(RIGHT, nodes={"gpu1": [OTHER_CA], "gpu2": [], "gpu3": [OTHER_CA, CA]}),
            "The archive has another CA than gpu1, so the kubelets there would not return to the restored cluster "
            "(-e restore_accept=ca accepts this).",
        ),
        (
            "endpoint",
            replace(RIGHT, endpoints=["api.lab.internal", "192.0.2.99", ""]),
            "The nodes reach the API at 192.0.2.99, which is neither an address of this host nor the API's name: give "
            "the host this address, or set cluster_name or cluster_api_name as they were (-e restore_accept=endpoint "
            "accepts this).",
        ),
        (
            "ca",
            replace(RIGHT, own=[OTHER_CA]),
            "The archive has another CA than this host, whose cluster would end (-e restore_accept=ca accepts this).",
        ),
        (
            "control_planes",
            replace(RIGHT, control_planes=["cp1", "cp2"]),
            "The inventory has several control planes (cp1, cp2): leave only the one that is restored in it, and join "
            "the others again afterwards.",
        ),
    ],
)
def test_refusal(kind: str, target: Target, sentence: str) -> None:
    (found,) = refusals(MANIFEST, target)
    assert (found.kind, str(found)) == (kind, sentence)
    # Each is accepted by its own name alone.
    others = [each for each in ACCEPTABLE if each != kind]
    assert refusals(MANIFEST, target, others) == [found]
    assert refusals(MANIFEST, target, [kind]) == ([] if found.acceptable else [found])


def test_archive_of_an_earlier_release_has_no_name_to_compare() -> None:
    assert refusals(replace(MANIFEST, cluster="kubernetes", parts=SIGNING), RIGHT) == []


@pytest.mark.parametrize("key", KEYS)
def test_archive_without_a_key_of_a_ca_can_not_be_restored(key: str) -> None:
    left = {name: part for name, part in RECORD.items() if name != key}
    (found,) = refusals(replace(MANIFEST, parts=left), RIGHT, ACCEPTABLE)
    assert found.kind == "keys" and f"The archive lacks {key}" in found.why


def test_all_refusals_are_returned_together() -> None:
    target = Target("other", "1.37.1", {"gpu1": [OTHER_CA]}, [OTHER_CA], ["192.0.2.99"], ["192.0.2.11"], ["cp1", "cp2"])
    kinds = ["cluster_name", "kubernetes_version", "ca", "ca", "endpoint", "control_planes"]
    assert [each.kind for each in refusals(MANIFEST, target)] == kinds
