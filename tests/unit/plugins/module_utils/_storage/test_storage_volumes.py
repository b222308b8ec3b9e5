# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.gpulab.kubernetes.plugins.module_utils._cluster.quantities import quantity
from ansible_collections.gpulab.kubernetes.plugins.module_utils._storage import volumes
from ansible_collections.gpulab.kubernetes.plugins.module_utils._storage.nfs_volume import Wanted

OURS = {"app.kubernetes.io/managed-by": "gpulab.kubernetes"}
VOLUME, CLAIM = Wanted("default", "cache", "192.0.2.10", "/srv/gpulab", "100Gi").manifests()
TEAM, TEAM_A = (
    Wanted(namespace, claim, "192.0.2.10", "/srv/gpulab", "100Gi").manifests()[0]
    for namespace, claim in (("team", "a-cache"), ("team-a", "cache"))
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("100Gi", 100 * 2**30),
        ("1.5Ti", 1.5 * 2**40),
        ("2T", 2 * 10**12),
        ("7", 7),
        ("0", 0),
        ("100 Gi", None),
        ("100GB", None),
        ("-1Gi", None),
        ("", None),
        (None, None),
        ("1e3", None),
    ],
)
def test_amounts_are_parsed(text: Any, expected: float | None) -> None:
    assert quantity(text) == expected


def found(body: dict[str, Any], *, labels: dict[str, str] | None = None, phase: str = "Bound", **spec: Any) -> Any:
    metadata = {**body["metadata"], "labels": OURS if labels is None else labels}
    return {**body, "metadata": metadata, "spec": {**body["spec"], **spec}, "status": {"phase": phase}}


@pytest.mark.parametrize(
    ("there", "wanted", "words"),
    [
        (None, VOLUME, ""),
        (found(VOLUME), VOLUME, ""),
        (found(CLAIM), CLAIM, ""),
        (found(VOLUME, phase="Available"), VOLUME, ""),
        (found(VOLUME, capacity={"storage": "102400Mi"}), VOLUME, ""),
        (found(VOLUME, persistentVolumeReclaimPolicy="Recycle", mountOptions=[]), VOLUME, ""),
        (found(VOLUME, labels={}), VOLUME, "PersistentVolume default-cache was not created by this collection"),
        (found(CLAIM, labels={}), CLAIM, "PersistentVolumeClaim cache was not created by this collection"),
        (
            found(VOLUME, nfs={"server": "192.0.2.11", "path": "/srv/gpulab"}),
            VOLUME,
            "has the source 192.0.2.11:/srv/gpulab instead of 192.0.2.10:/srv/gpulab, but Kubernetes can't change",
        ),
        (found(VOLUME, nfs=None), VOLUME, "has the source None:None"),
        (found(VOLUME, capacity={"storage": "1Gi"}), VOLUME, "has the capacity 1Gi instead of 100Gi"),
        (found(CLAIM, resources={"requests": {"storage": "1Gi"}}), CLAIM, "has the capacity 1Gi instead of 100Gi"),
        (found(CLAIM, volumeName="pvc-1"), CLAIM, "has the volume pvc-1 instead of default-cache"),
        (found(VOLUME, claimRef=None), VOLUME, ""),
        (
            found(TEAM),
            TEAM_A,
            "PersistentVolume team-a-cache belongs to the claim team/a-cache. Choose another nfs_cache_claim.",
        ),
        (found(VOLUME, phase="Released"), VOLUME, "is Released because its claim was deleted"),
        (found(VOLUME, phase="Failed"), VOLUME, "is Failed"),
    ],
)
def test_obstacles_to_a_volume_are_reported(there: Any, wanted: dict[str, Any], words: str) -> None:
    said = volumes.obstacle(there, wanted)
    assert words in said and bool(said) == bool(words)


def pod(name: str, claim: str | None, phase: str = "Running") -> dict[str, Any]:
    sources = [{"name": "v", "persistentVolumeClaim": {"claimName": claim}}] if claim else [{"name": "e"}]
    return {"metadata": {"name": name}, "spec": {"volumes": sources}, "status": {"phase": phase}}


def test_pods_that_have_ended_do_not_use_a_claim() -> None:
    pods = [pod("b", "cache"), pod("a", "cache", "Pending"), pod("c", "cache", "Succeeded"), pod("d", "other")]
    assert volumes.users([*pods, pod("e", None), {"metadata": {"name": "f"}, "spec": {}}], "cache") == ["a", "b"]


def test_only_bound_volumes_of_the_class_count() -> None:
    def volume(name: str, phase: str, claim: str = "train") -> dict[str, Any]:
        reference = {"namespace": "default", "name": claim} if claim else None
        return {"spec": {"storageClassName": name, "claimRef": reference}, "status": {"phase": phase}}

    there = [volume("local", "Bound"), volume("local", "Released", "old"), volume("nfs", "Bound", "other")]
    assert volumes.claims_of_class([*there, volume("local", "Available", "")], "local") == ["default/train"]


def test_the_default_mount_options_leave_the_minor_version_to_the_server() -> None:
    """Mounts don't fall back to another minor version. Volumes with the former default can be changed to this one."""
    roles = Path(__file__).resolve().parents[5] / "roles"
    options = yaml.safe_load((roles / "nfs_cache/defaults/main.yml").read_text())["nfs_cache_mount_options"]
    assert [option for option in options if re.match(r"(nfs)?vers=|minorversion", option)] == ["nfsvers=4"]
    wanted = {**VOLUME, "spec": {**VOLUME["spec"], "mountOptions": options}}
    assert volumes.obstacle(found(VOLUME, mountOptions=["nfsvers=4.2", "hard", "noatime"]), wanted) == ""
