# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read a launch agent that is a systemd unit, and the containers of its jobs, from systemd and Docker."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Mapping
from typing import Any

from .._command import CommandNotFoundError, Runner
from .._json import as_text

_PROPERTIES = "LoadState,ActiveState,SubState,Result,NRestarts,InvocationID,ExecMainStartTimestampMonotonic"
# Printed by wandb/sdk/launch/agent/agent.py when W&B knows the agent and all of its queues.
_REGISTERED = re.compile(r"launch: agent \S+ polling on queues")
# An agent that W&B rejects exits within seconds. The journal of an older agent may not contain its start.
_SETTLED_S = 60
_LINES = 3
# Printed by roles/wandb_launch/files/agent/launch_agent.py for a failed build and for a loaded image.
_BUILD, _BUILT = "launch: build: ", "launch: loaded "
# Set for each job by wandb/sdk/launch/_project_spec.py.
_JOB = "WANDB_LAUNCH=True"


def read(runner: Runner, unit: str, host: str, gpus: int, jobs: bool = True) -> dict[str, Any]:
    """Return the agent, if the unit exists, and its jobs, with the same fields as agents on a cluster.

    ``gpus`` is the number of the host's GPUs, for jobs that request all of them. Without ``jobs`` no containers are
    read.
    """
    shown = runner.check(["systemctl", "show", f"--property={_PROPERTIES}", unit], f"reading the state of {unit}")
    values = dict(line.partition("=")[::2] for line in shown.stdout.splitlines())
    if values.get("LoadState") == "not-found":
        return {"agents": [], "jobs": []}
    lines = _journal(runner, unit, values.get("InvocationID", ""))
    found = agent(values, lines, unit, host, time.monotonic())
    return {"agents": [found], "jobs": _jobs(runner, host, gpus) if jobs else []}


def agent(values: Mapping[str, str], lines: list[str], unit: str, host: str, now: float) -> dict[str, Any]:
    """Return the agent from the unit's properties, its journal's ``lines`` and the monotonic time in seconds."""
    runs = (values.get("ActiveState"), values.get("SubState")) == ("active", "running")
    age = now - int(values.get("ExecMainStartTimestampMonotonic") or 0) / 1e6
    alive = runs and (age > _SETTLED_S or any(map(_REGISTERED.search, lines)))
    trouble = "" if alive else "it has not reached W&B yet"
    if not runs:
        restarts, state = int(values.get("NRestarts") or 0), f"{values.get('ActiveState')} ({values.get('Result')})"
        trouble = f"it keeps exiting ({restarts} restarts)" if restarts else f"its unit is {state}"
    return {
        "name": unit,
        "namespace": host,
        "alive": alive,
        "pod": "",
        "trouble": trouble,
        "log": [] if alive else lines[-_LINES:],
        "build": failed_build(lines),
    }


def failed_build(lines: list[str]) -> list[str]:
    """Return the last lines of the last failed build, with a first line that names the image.

    The result is empty if a successful build followed.
    """
    found: list[str] = []
    previous = False
    for line in lines:
        said = line.startswith(_BUILD)
        if said or line.startswith(_BUILT):
            found = ([*found, line] if previous else [line]) if said else []
        previous = said
    return [line.removeprefix(_BUILD) for line in found]


def job(container: Mapping[str, Any], host: str, gpus: int) -> dict[str, Any] | None:
    """Return the job of a container that ``docker inspect`` describes, None if it is not a job's."""
    config, options = container.get("Config") or {}, container.get("HostConfig") or {}
    environment = config.get("Env") or []
    if _JOB not in environment:
        return None
    named = [each.partition("=")[2] for each in environment if each.startswith("WANDB_NAME=")]
    requests = [each for each in options.get("DeviceRequests") or [] if "gpu" in str(each.get("Capabilities"))]
    wanted = sum(len(each.get("DeviceIDs") or ()) or int(each.get("Count") or 0) for each in requests)
    return {
        "name": next(iter(named), "") or as_text(container.get("Name")).lstrip("/"),
        "namespace": host,
        "phase": "Running",
        "node": host,
        "gpus": wanted if wanted >= 0 else gpus,
        "trouble": "",
    }


def _journal(runner: Runner, unit: str, invocation: str) -> list[str]:
    this = [f"_SYSTEMD_INVOCATION_ID={invocation}"] if invocation else ["--unit", unit]
    argv = ["journalctl", "--lines=200", "--output=cat", "--no-pager", "--quiet", *this]
    return [line for line in runner.run(argv).stdout.splitlines() if line.strip()]


def _jobs(runner: Runner, host: str, gpus: int) -> list[dict[str, Any]]:
    try:
        names = runner.run(["docker", "ps", "--quiet"]).stdout.split()
    except CommandNotFoundError:
        return []
    # A container that ends in between causes an error message in addition to the answer.
    said = runner.run(["docker", "inspect", *names]).stdout if names else "[]"
    found = [job(container, host, gpus) for container in json.loads(said or "[]")]
    return [each for each in found if each]
