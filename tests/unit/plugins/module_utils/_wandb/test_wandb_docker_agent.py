# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.gpulab.kubernetes.plugins.module_utils._wandb.docker_agent import agent, failed_build, job

UNIT = "wandb-launch-agent"
RUNS = {"ActiveState": "active", "SubState": "running", "NRestarts": "0", "ExecMainStartTimestampMonotonic": "90000000"}
# The format of wandb 0.31.0.
POLLS = "wandb: launch: agent x1y2z3 polling on queues gpu, running 0 out of a maximum of 1 jobs"
REFUSED = ["wandb: Starting launch agent ✨", "wandb: ERROR Not all of requested queues (gpu) found"]


@pytest.mark.parametrize(
    ("values", "lines", "now", "trouble"),
    [
        (RUNS, [REFUSED[0], POLLS], 95.0, ""),
        (RUNS, REFUSED[:1], 95.0, "it has not reached W&B yet"),
        # The journal may have lost its beginning.
        (RUNS, [], 151.0, ""),
        ({**RUNS, "NRestarts": "2"}, [POLLS], 95.0, ""),
        (
            {**RUNS, "ActiveState": "activating", "SubState": "auto-restart", "NRestarts": "3"},
            REFUSED,
            200.0,
            "it keeps exiting (3 restarts)",
        ),
        (
            {"ActiveState": "inactive", "SubState": "dead", "Result": "success"},
            [],
            9.0,
            "its unit is inactive (success",
        ),
        ({"ActiveState": "failed", "SubState": "failed", "Result": "exit-code"}, [], 9.0, "is failed (exit-code)"),
    ],
)
def test_an_agent_is_running_once_it_polls(values: dict[str, str], lines: list[str], now: float, trouble: str) -> None:
    found = agent(values, lines, UNIT, "gpubox", now)
    assert (found["name"], found["namespace"], found["alive"]) == (UNIT, "gpubox", not trouble)
    assert trouble in found["trouble"] and bool(found["trouble"]) == bool(trouble)
    assert found["log"] == (lines if trouble else [])


BUILD = ["launch: build: job:1 failed. The last lines of its output:", "launch: build: ERROR: no such file"]
FAILED = [line.removeprefix("launch: build: ") for line in BUILD]


@pytest.mark.parametrize(
    ("lines", "build"),
    [
        ([POLLS], []),
        ([POLLS, *BUILD, POLLS], FAILED),
        ([*BUILD, POLLS, *BUILD[:1], "launch: build: other"], [FAILED[0], "other"]),
        ([*BUILD, "launch: loaded job:2 into the cluster"], []),
    ],
)
def test_the_last_failed_build_is_read(lines: list[str], build: list[str]) -> None:
    assert failed_build(lines) == build
    assert agent(RUNS, lines, UNIT, "gpubox", 200.0)["build"] == build


def container(requests: Any, *environment: str) -> dict[str, Any]:
    return {
        "Name": "/quiet_curie",
        "Config": {"Env": ["PATH=/bin", *environment]},
        "HostConfig": {"DeviceRequests": requests},
    }


def request(count: int, *devices: str) -> list[dict[str, Any]]:
    return [{"Driver": "", "Count": count, "DeviceIDs": list(devices) or None, "Capabilities": [["gpu"]]}]


@pytest.mark.parametrize(
    ("requests", "gpus"), [(request(2), 2), (request(-1), 4), (request(0, "GPU-a", "GPU-b"), 2), (None, 0), ([], 0)]
)
def test_a_job_and_its_gpus_are_identified_by_its_environment(requests: Any, gpus: int) -> None:
    found = job(container(requests, "WANDB_LAUNCH=True", "WANDB_API_KEY=secret"), "gpubox", 4)
    assert found and (found["name"], found["gpus"], found["phase"]) == ("quiet_curie", gpus, "Running")
    assert "secret" not in str(found)
    named = job(container(requests, "WANDB_LAUNCH=True", "WANDB_NAME=hello"), "gpubox", 4)
    assert named and named["name"] == "hello"
    assert job(container(requests, "WANDB_NAME=hello"), "gpubox", 4) is None
