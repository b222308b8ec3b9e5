# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

UID = "1b4e28ba-2fa1-11d2-883f-0016d3cca427"
# Of crictl 1.36.
PODS = {
    "items": [
        {
            "id": "a",
            "metadata": {"name": "train-x7k2p", "uid": UID, "namespace": "research", "attempt": 0},
            "state": "SANDBOX_READY",
            "labels": {"batch.kubernetes.io/job-name": "train", "io.kubernetes.pod.uid": UID, "team": "a"},
            "annotations": {"kubernetes.io/config.source": "api"},
        },
        {
            "metadata": {"name": "etcd-cp1", "uid": "0123", "namespace": "kube-system"},
            "annotations": {"kubernetes.io/config.source": "file"},
        },
    ]
}
ENTRY = {"PodUID": UID, "ResourceName": "nvidia.com/gpu", "DeviceIDs": {"0": ["GPU-1"], "1": ["GPU-2"]}}


@pytest.fixture
def kubelet(tmp_path: Path) -> Path:
    path = tmp_path / "kubelet"
    (path / "device-plugins").mkdir(parents=True)
    record = {"Data": {"PodDeviceEntries": [ENTRY]}}
    (path / "device-plugins/kubelet_internal_checkpoint").write_text(json.dumps(record))
    return path


def test_pods_have_owner_labels_and_gpus(kubelet: Path, programs: Any, run_module: Any) -> None:
    programs.add("crictl", f"cat <<'END'\n{json.dumps(PODS)}\nEND")
    train = {"uid": UID, "namespace": "research", "name": "train-x7k2p", "static": False, "gpus": 2}
    etcd = {"uid": "0123", "namespace": "kube-system", "name": "etcd-cp1", "static": True, "gpus": 0}
    assert run_module("node_pods_info", {"kubelet_root": str(kubelet)})["pods"] == [
        {**train, "labels": {"batch.kubernetes.io/job-name": "train"}},
        {**etcd, "labels": {}},
    ]


def test_host_that_is_not_a_node_has_no_pods(tmp_path: Path, programs: Any, run_module: Any) -> None:
    programs.add("crictl", "exit 1")
    assert run_module("node_pods_info", {"kubelet_root": str(tmp_path / "missing")})["pods"] == []


@pytest.mark.parametrize(("program", "words"), [("echo nonsense", "not valid JSON"), ("exit 1", "reading the pods")])
def test_runtime_that_does_not_answer_is_an_error(
    kubelet: Path, programs: Any, run_module: Any, program: str, words: str
) -> None:
    programs.add("crictl", program)
    result = run_module("node_pods_info", {"kubelet_root": str(kubelet)})
    assert result["failed"] and words in result["msg"]
