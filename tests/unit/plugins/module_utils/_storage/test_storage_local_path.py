# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.gpulab.kubernetes.plugins.filter.storage import FilterModule
from ansible_collections.gpulab.kubernetes.plugins.module_utils._storage.volumes import DEFAULT_CLASS

plan = FilterModule().filters()["local_path_plan"]
OURS = {"app.kubernetes.io/managed-by": "gpulab.kubernetes"}
RANCHER = "rancher.io/local-path"


def thing(kind: str, name: str, namespace: str = "", ours: bool = True) -> dict[str, Any]:
    metadata = {"name": name, "labels": OURS if ours else None, **({"namespace": namespace} if namespace else {})}
    return {"kind": kind, "metadata": metadata}


def storage_class(
    name: str, policy: str = "Retain", default: str = "", ours: bool = True, provisioner: str = RANCHER
) -> dict[str, Any]:
    found = {**thing("StorageClass", name, ours=ours), "reclaimPolicy": policy, "provisioner": provisioner}
    found["metadata"]["annotations"] = {DEFAULT_CLASS: default} if default else None
    return found


def wanted(default: str = "true") -> list[dict[str, Any]]:
    return [
        thing("Namespace", "lps"),
        thing("ConfigMap", "config", "lps"),
        thing("Deployment", "provisioner", "lps"),
        storage_class("local", default=default),
    ]


OTHER_NAMESPACE = thing("Namespace", "lps", ours=False)
OTHER_DEPLOYMENT = thing("Deployment", "provisioner", "lps", ours=False)
OTHER_CONFIG = thing("ConfigMap", "config", "lps", ours=False)
OTHER_CLASS = storage_class("local", ours=False)
USE = "Use the existing class, and remove local_path from cluster_storage, or remove it with the tool that created it"


@pytest.mark.parametrize(
    ("found", "default", "words"),
    [
        ([], "true", ""),
        (wanted(), "true", ""),
        ([storage_class("nfs", default="false", ours=False, provisioner="nfs")], "true", ""),
        ([storage_class("nfs", default="true", ours=False, provisioner="nfs")], "false", ""),
        (
            [storage_class("nfs", default="true", ours=False, provisioner="nfs")],
            "true",
            "StorageClass nfs is already the default of this cluster. Set local_path_default_class to false",
        ),
        ([storage_class("before", default="true")], "true", "StorageClass before is already the default"),
        ([storage_class("before")], "true", ""),
        ([storage_class("local", "Delete")], "true", "has the reclaim policy Delete instead of Retain"),
        (
            [storage_class("local", ours=False, provisioner="nfs")],
            "true",
            "StorageClass local was not created by this collection. Choose another local_path_class",
        ),
        ([OTHER_CLASS], "true", f"StorageClass local was not created by this collection. {USE}"),
        ([storage_class("fast", ours=False)], "false", f"StorageClass fast was not created by this collection. {USE}"),
        ([OTHER_NAMESPACE], "true", "Namespace lps was not created by this collection. Choose another local_path_name"),
        (
            [wanted()[0], OTHER_DEPLOYMENT],
            "true",
            f"Deployment lps/provisioner was not created by this collection. {USE}",
        ),
        ([wanted()[0], OTHER_CONFIG], "true", f"ConfigMap lps/config was not created by this collection. {USE}"),
        ([thing("Deployment", "provisioner", "elsewhere", ours=False)], "true", ""),
        (
            [OTHER_CLASS, OTHER_NAMESPACE, OTHER_CONFIG, OTHER_DEPLOYMENT],
            "true",
            "StorageClass local, Namespace lps, ConfigMap lps/config, Deployment lps/provisioner were not created by "
            f"this collection. {USE}",
        ),
    ],
)
def test_obstacles_to_the_class_are_reported(found: list[Any], default: str, words: str) -> None:
    said = plan(found, wanted(default))["obstacle"]
    assert words in said and bool(said) == bool(words)


def volume(name: str, phase: str) -> dict[str, Any]:
    spec = {"storageClassName": name, "claimRef": {"namespace": "default", "name": "train"}}
    return {**thing("PersistentVolume", "pvc-1", ours=False), "spec": spec, "status": {"phase": phase}}


ALL = ["StorageClass", "Deployment", "ConfigMap", "Namespace"]
OTHERS = [thing("Pod", "web", "lps", ours=False), thing("PersistentVolumeClaim", "db", "lps", ours=False)]
OWN_PODS = [thing("Pod", "provisioner-1", "lps"), thing("Pod", "helper-pod-create-pvc-1", "lps", ours=False)]


@pytest.mark.parametrize(
    ("found", "refused", "removed", "kept"),
    [
        ([], "", [], ""),
        (wanted(), "", ALL, ""),
        (wanted()[:2], "", ALL[2:], ""),
        ([*wanted(), *OWN_PODS], "", ALL, ""),
        ([*wanted(), volume("local", "Released"), volume("nfs", "Bound")], "", ALL, ""),
        (
            [*wanted(), volume("local", "Bound")],
            "claims have volumes of this class: default/train. Delete them",
            [],
            "",
        ),
        ([*wanted()[:3], OTHER_CLASS], "StorageClass local was not created by this collection", [], ""),
        ([wanted()[0], OTHER_DEPLOYMENT], "Deployment lps/provisioner was not created by this collection", [], ""),
        (
            [OTHER_NAMESPACE, OTHER_CONFIG, OTHER_DEPLOYMENT],
            "Deployment lps/provisioner, ConfigMap lps/config were not created by this collection",
            [],
            "",
        ),
        (
            [OTHER_NAMESPACE, *wanted()[1:]],
            "",
            ALL[:3],
            "The namespace lps stays: it was not created by this collection.",
        ),
        ([OTHER_NAMESPACE], "", [], "The namespace lps stays: it was not created by this collection."),
        (
            [
                *wanted(),
                thing("Pod", "web", "lps", ours=False),
                thing("PersistentVolumeClaim", "db", "lps", ours=False),
            ],
            "",
            ALL[:3],
            "stays: it contains objects that do not belong to the provisioner: PersistentVolumeClaim lps/db, "
            "Pod lps/web.",
        ),
        ([*wanted(), storage_class("fast", ours=False)], "", ALL, ""),
    ],
)
def test_only_objects_of_this_collection_are_removed(
    found: list[Any], refused: str, removed: list[str], kept: str
) -> None:
    result = plan(found, wanted())
    assert refused in result["refused"] and bool(result["refused"]) == bool(refused)
    assert [each["kind"] for each in result["removed"]] == removed
    assert kept in result["kept"] and bool(result["kept"]) == bool(kept)


def test_the_provisioner_has_its_security_fixes_and_health_checks() -> None:
    """v0.0.34 fixes CVE-2025-62878; the probe paths exist since v0.0.37."""
    roles = Path(__file__).resolve().parents[5] / "roles"
    table = yaml.safe_load((roles / "cluster/vars/main/versions.yml").read_text())["cluster_versions"]
    version = tuple(int(number) for number in re.findall(r"\d+", table["local_path_provisioner"]))
    assert version >= (0, 0, 37)
    template = (roles / "local_path/templates/provisioner.yml.j2").read_text()
    assert re.findall(r"path: (/\w+), port: health", template) == ["/health", "/health", "/ready"]
