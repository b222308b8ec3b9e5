"""Run Podman for the lab: everything that it creates has the label of its lab."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from lab.depot import tools

LABEL = "gpulab.lab"
# Podman reports such a container as running, and can't stop or start it, only remove it.
KILLED = "killed"


def run(*arguments: object, doing: str, stdin: bytes | None = None) -> str:
    """Run podman and return its output. Raises DepotError with its error message."""
    return tools.run(["podman", *runtime(), *arguments], doing=doing, log="podman", stdin=stdin)


def execute(container: str, argv: Sequence[str], *, doing: str) -> str:
    """Run a command as root in a container and return its output. Raises DepotError."""
    return run("exec", container, *argv, doing=doing)


def answers(container: str, *argv: str) -> tuple[int, str]:
    """Run a command that may fail in a container, and return its status and output."""
    done = subprocess.run(
        ["podman", *runtime(), "exec", container, *argv],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout.strip()


def cgroup_v2() -> bool:
    """Return whether the host only has the unified cgroup hierarchy."""
    return Path("/sys/fs/cgroup/cgroup.controllers").is_file()


def runtime() -> list[str]:
    """Return the option for runc on cgroup v1, because crun refuses hybrid cgroups; none on version 2."""
    return [] if cgroup_v2() else ["--runtime=runc"]


def containers(lab: str) -> dict[str, str]:
    """Return the containers of a lab by name with their state: one of Podman's, or KILLED."""
    listed = run("ps", "--all", f"--filter=label={LABEL}={lab}", "--format=json", doing="listing containers")
    return {entry["Names"][0]: _state(entry) for entry in json.loads(listed or "[]")}


def _state(entry: Mapping[str, Any]) -> str:
    state: str = entry["State"]
    return KILLED if tools.killed(state, entry["Id"], entry["Pid"]) else state


def volumes(lab: str) -> list[str]:
    """Return the names of a lab's volumes."""
    return run("volume", "ls", f"--filter=label={LABEL}={lab}", "--format={{.Name}}", doing="listing volumes").split()


def networks(lab: str = "") -> dict[str, list[str]]:
    """Return networks with their subnets: a lab's, or all of them."""
    wanted = [f"--filter=label={LABEL}={lab}"] if lab else []
    listed = json.loads(run("network", "ls", *wanted, "--format=json", doing="listing networks") or "[]")
    return {entry["name"]: [s["subnet"] for s in entry.get("subnets") or []] for entry in listed}


def images() -> list[str]:
    """Return the names of all images."""
    return run("images", "--format={{.Repository}}:{{.Tag}}", doing="listing images").split()
