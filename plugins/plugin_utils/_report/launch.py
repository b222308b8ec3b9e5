# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""W&B Launch in the report: data to keep, text to show, and what to do. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ...module_utils._problem import Problem
from .read import dictionaries, dictionary, number, text, texts

_RUN = "ansible-playbook gpulab.kubernetes.wandb_launch -i INVENTORY (wandb_launch_docker for a host with Docker)"
_DONE = ("Succeeded", "Failed")


def kept(seen: Mapping[str, Any]) -> dict[str, Any]:
    """Return the data to keep of failure, queues, agents, jobs and hosts (see the role wandb_launch)."""
    if not seen:
        return {}
    hosts = dictionaries(seen.get("hosts"))
    agents, jobs = (
        [each for one in (seen, *hosts) for each in dictionaries(one.get(key))] for key in ("agents", "jobs")
    )
    found = {
        "failure": text(seen.get("failure")),
        "queues": dictionary(seen.get("queues")),
        "agents": agents + [_unread(host) for host in hosts if "agents" not in host],
        "jobs": [job for job in jobs if job.get("phase") not in _DONE],
    }
    return {**found, "words": _words(found)}


def _unread(host: Mapping[str, Any]) -> dict[str, Any]:
    """Return the agent of a Docker host that did not answer, or whose module failed."""
    trouble = f"its host could not be read: {text(host.get('msg'))}"
    return {"name": "", "namespace": text(dictionary(host.get("item")).get("host")), "alive": False, "trouble": trouble}


def _words(launch: Mapping[str, Any]) -> list[str]:
    """Return a line for each queue, one for the agents and one for the jobs."""
    lines = []
    for name, states in dictionary(launch.get("queues")).items():
        amounts = [f"{count} {state}" for state, count in dictionary(states).items()]
        lines.append(f"queue {name}: {', '.join(amounts) or 'empty'}")
    agents, jobs = dictionaries(launch.get("agents")), dictionaries(launch.get("jobs"))
    alive = sum(agent.get("alive") is True for agent in agents)
    running = [job for job in jobs if job.get("phase") == "Running"]
    gpus = sum(number(job.get("gpus")) or 0 for job in running)
    lines.append(f"agents: {alive} of {len(agents)} alive")
    lines.append(f"jobs: {len(running)} running on {gpus} GPUs, {len(jobs) - len(running)} not running yet")
    return lines


def problems(launch: Mapping[str, Any]) -> Iterator[tuple[bool, Problem]]:
    """Yield whether a problem is an error rather than a warning, and the problem."""
    if text(launch.get("failure")):
        what = f"W&B Launch could not be read: {text(launch['failure'])}"
        yield True, _problem("launch_unread", what, "Follow the advice in the message, and run the report again.")
    for agent in dictionaries(launch.get("agents")):
        where = "/".join(filter(None, (text(agent.get("namespace")), text(agent.get("name")))))
        if agent.get("alive") is not True:
            log = " / ".join(texts(agent.get("log")))
            what = f"the launch agent {where} is not alive: {text(agent.get('trouble'))}"
            what += f"; it said: {log}" if log else ""
            yield True, _problem("launch_agent_down", what, f"Set up its queues, key and agent: {_RUN}.")
        if build := texts(agent.get("build")):
            what = f"the launch agent {where} could not build an image: {' / '.join(build)}"
            remedy = "Correct the job's Dockerfile or requirements, and launch it again."
            yield False, _problem("launch_build_failed", what, remedy)
    for name, states in dictionary(launch.get("queues")).items():
        if states is None:
            yield True, _problem("launch_queue_missing", f"W&B has no queue {name}", f"Create it: {_RUN}.")
    for job in dictionaries(launch.get("jobs")):
        name, namespace = text(job.get("name")), text(job.get("namespace"))
        if job.get("orphaned") is True:
            gpus = number(job.get("gpus"))
            what = f"the job {namespace}/{name} of W&B Launch was stopped, but its pod keeps {gpus} GPUs"
            command = f"kubectl delete pod --namespace={namespace} --selector=job-name={name}"
            yield False, _problem("launch_job_orphaned", what, f"If it is not needed, delete it: {command}.")
        elif text(job.get("trouble")):
            what = f"the job {namespace}/{name} of W&B Launch does not run: "
            trouble = text(job.get("trouble"))
            yield False, _problem("launch_job_waits", what + trouble, _remedy(trouble))


def _remedy(trouble: str) -> str:
    if "Insufficient nvidia.com/gpu" in trouble:
        return (
            "The job runs when GPUs become free. A job that requests more GPUs than any node has never runs: delete "
            "it at W&B."
        )
    if "pulled" in trouble:
        return (
            "Correct the image, or make sure that the nodes can pull it. The agent does not stop the job: delete the "
            "Job; W&B then marks the run as failed."
        )
    return "Check its pod: kubectl describe pod, kubectl logs."


def _problem(kind: str, what: str, do: str) -> Problem:
    return Problem(kind, what, "", "", do)
