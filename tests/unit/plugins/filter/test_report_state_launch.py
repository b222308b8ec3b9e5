# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""State of W&B Launch in the report, and the actions that follow from it."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.gpulab.kubernetes.plugins.filter.report import FilterModule

state = FilterModule().filters()["report_state"]
REPORT: dict[str, Any] = {"hosts": {}, "totals": {"gpus": 0, "proven": 0, "in_use": 0}, "problems": []}
AGENT = {"name": "launch-agent", "namespace": "wandb", "alive": True, "pod": "", "trouble": "", "log": []}
JOB = {"name": "launch-p-1", "namespace": "default", "phase": "Running", "node": "gpu1", "gpus": 2, "trouble": ""}
WELL = {"queues": {"gpu": {"pending": 2, "claimed": 1}, "cpu": {}}, "agents": [AGENT], "jobs": [JOB]}


def report(**launch: Any) -> dict[str, Any]:
    found: dict[str, Any] = state(REPORT, {}, {"launch": {**WELL, **launch}})
    return found


def test_pending_and_running_jobs_and_live_agents_are_counted() -> None:
    found = report(jobs=[JOB, {**JOB, "phase": "Pending", "gpus": 1}, {**JOB, "phase": "Succeeded"}])
    assert found["launch"]["words"] == [
        "queue gpu: 2 pending, 1 claimed",
        "queue cpu: empty",
        "agents: 1 of 1 alive",
        "jobs: 1 running on 2 GPUs, 1 not running yet",
    ]
    assert found["actions"] == []


@pytest.mark.parametrize(
    ("launch", "severity", "problem", "what", "do"),
    [
        (
            {"failure": "the key has expired"},
            "error",
            "launch_unread",
            "the key has expired",
            "Follow the advice in the message",
        ),
        ({"queues": {"gpu": None}}, "error", "launch_queue_missing", "W&B has no queue gpu", "wandb_launch -i"),
        (
            {"agents": [{**AGENT, "alive": False, "trouble": "CrashLoopBackOff", "log": ["not all queues found"]}]},
            "error",
            "launch_agent_down",
            "wandb/launch-agent is not alive: CrashLoopBackOff; it said: not all queues found",
            "Set up its queues, key and agent",
        ),
        (
            {"agents": [{**AGENT, "build": ["job:1 failed", "ERROR: no such file"]}]},
            "warning",
            "launch_build_failed",
            "wandb/launch-agent could not build an image: job:1 failed / ERROR: no such file",
            "Correct the job's Dockerfile",
        ),
        (
            {"jobs": [{**JOB, "orphaned": True}]},
            "warning",
            "launch_job_orphaned",
            "the job default/launch-p-1 of W&B Launch was stopped, but its pod keeps 2 GPUs",
            "kubectl delete pod --namespace=default --selector=job-name=launch-p-1",
        ),
        (
            {"jobs": [{**JOB, "trouble": "Unschedulable: 1 Insufficient nvidia.com/gpu"}]},
            "warning",
            "launch_job_waits",
            "the job default/launch-p-1 of W&B Launch does not run: Unschedulable",
            "runs when GPUs become free",
        ),
        (
            {"jobs": [{**JOB, "trouble": "ErrImagePull: image x can't be pulled"}]},
            "warning",
            "launch_job_waits",
            "image x can't be pulled",
            "Correct the image",
        ),
        (
            {"jobs": [{**JOB, "trouble": "FailedMount: no claim"}]},
            "warning",
            "launch_job_waits",
            "no claim",
            "kubectl describe pod",
        ),
    ],
)
def test_each_problem_of_launch_is_an_action(
    launch: dict[str, Any], severity: str, problem: str, what: str, do: str
) -> None:
    (action,) = report(**launch)["actions"]
    assert (action["severity"], action["problem"], action["kind"]) == (severity, problem, "launch")
    assert what in action["what"]
    assert do in action["do"]


def test_agents_and_jobs_of_docker_hosts_are_counted() -> None:
    box = {"item": {"host": "box"}, "agents": [{**AGENT, "namespace": "box"}], "jobs": [{**JOB, "namespace": "box"}]}
    gone = {"item": {"host": "gone"}, "unreachable": True, "msg": "no route to host"}
    found = report(hosts=[box, gone, {"item": {"host": "none"}, "agents": [], "jobs": []}])
    assert found["launch"]["words"][2:] == ["agents: 2 of 3 alive", "jobs: 2 running on 4 GPUs, 0 not running yet"]
    (action,) = found["actions"]
    assert "the launch agent gone is not alive: its host could not be read: no route to host" in action["what"]


def test_report_without_launch_has_no_launch_section() -> None:
    assert state(REPORT, {}, {})["launch"] == {}
