# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.gpulab.kubernetes.plugins.module_utils._wandb.agents import orphaned

OF_JOB = {"job-name": "launch-1", "wandb.ai/monitor": "true"}
JOB = [{"kind": "Job", "name": "launch-1", "controller": True}]


@pytest.mark.parametrize(
    ("labels", "owners", "phase", "wanted"),
    [
        (OF_JOB, JOB, "Running", False),
        (OF_JOB, [], "Running", True),
        (OF_JOB, None, "Pending", True),
        (OF_JOB, None, "Succeeded", False),
        # A custom resource, whose pods have other owners.
        ({"wandb.ai/monitor": "true"}, None, "Running", False),
        (OF_JOB, [{"kind": "Node", "name": "gpu1"}], "Running", True),
    ],
)
def test_a_pod_whose_job_was_deleted_is_found(labels: Any, owners: Any, phase: str, wanted: bool) -> None:
    pod = {"metadata": {"name": "p", "labels": labels, "ownerReferences": owners}, "status": {"phase": phase}}
    assert orphaned(pod) is wanted
