# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import pytest
from ansible_collections.gpulab.kubernetes.plugins.module_utils._acceptance.problems import (
    REMEDIES,
    find_remedy,
    inconclusive,
    problem,
)
from ansible_collections.gpulab.kubernetes.plugins.module_utils._acceptance.run import PodProof
from ansible_collections.gpulab.kubernetes.plugins.module_utils._acceptance.target import Gpu, Host, Target
from ansible_collections.gpulab.kubernetes.plugins.module_utils._acceptance.verdict import host_entry


@pytest.mark.parametrize(
    ("kinds", "expected"),
    [
        ([], False),
        (["dns_not_reached"], True),
        (["image_not_pulled", "isolation_not_proven", "network_pod_failed"], True),
        (["dns_not_reached", "gpu_not_visible"], False),
        *(([kind], False) for kind in REMEDIES if kind.startswith(("gpu", "pod_", "driver")) and "network" not in kind),
    ],
)
def test_problems_without_a_gpu_say_nothing_about_the_driver(kinds: list[str], expected: bool) -> None:
    assert inconclusive([problem(kind, "gpu1", "words").entry() for kind in kinds]) is expected


def test_a_problem_of_an_unknown_kind_counts_as_a_gpu_problem() -> None:
    assert not inconclusive([{"host": "gpu1", "cause": "words"}])


@pytest.mark.parametrize(
    ("words", "remedy"),
    [
        ("cudaGetDeviceCount failed: system not yet initialized", "nvidia-fabricmanager"),
        ("CUDA error: CUDA_ERROR_SYSTEM_NOT_READY", "nvidia-fabricmanager"),
        ("CUDA failure: error code 802", "nvidia-fabricmanager"),
        (
            "E1 main.go: failed to create FS watcher: too many open files",
            "a larger fs.inotify.max_user_instances in host_sysctls",
        ),
        ("CUDA driver version is insufficient for CUDA runtime version", "nvidia_driver_version"),
        ("forward compatibility was attempted on non supported HW", "nvidia_driver_version"),
        ("no kernel image is available for execution on the device", "were not built for this GPU"),
        ("uncorrectable ECC error encountered", "--gpu-reset"),
        ("ERR_NVGPUCTRPERM - The user does not have permission", "performance counters"),
        (
            'failed to inject CDI devices: failed to stat CDI host device "/dev/nvidia-uvm": no such file or directory',
            "modprobe nvidia_uvm",
        ),
        ("exit status 1", ""),
        ("took 802 ms", ""),
    ],
)
def test_known_messages_of_a_pod_have_their_own_remedy(words: str, remedy: str) -> None:
    assert remedy in find_remedy(words)
    assert bool(find_remedy(words)) == bool(remedy)


def test_the_remedy_for_a_failed_pod_depends_on_its_message() -> None:
    gpus = (Gpu("GPU-0", "H100"),)
    conditions = [{"type": "Ready", "status": "True"}]
    status = {"allocatable": {"nvidia.com/gpu": "1"}, "capacity": {"nvidia.com/gpu": "1"}, "conditions": conditions}
    target = Target(Host("n", gpus, 1, physical=gpus), {"metadata": {"name": "n", "uid": "n"}, "status": status})
    for trouble, words in (
        ("exit 1: system not yet initialized", "nvidia-fabricmanager"),
        ("exit 1", "Fix the reported"),
    ):
        entry = host_entry(target, [PodProof("p", "n", "gpu", done=True, trouble=trouble)], "i")
        (do,) = {each["do"] for each in entry["problems"] if each["kind"] == "pod_failed"}
        assert words in do
