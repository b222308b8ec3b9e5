"""Podman, as the lab uses it: everything that it makes carries the label of its lab."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from lab.depot import tools

LABEL = "gpulab.lab"
# Podman calls such a container running, and can neither stop nor start it, only remove it.
KILLED = "killed"


def run(*arguments: object, doing: str, stdin: bytes | None = None) -> str:
    """Run podman and return what it printed. Raises DepotError with what it said."""
    return tools.run(["podman", *runtime(), *arguments], doing=doing, log="podman", stdin=stdin)


def execute(container: str, argv: Sequence[str], *, doing: str) -> str:
    """Run a command as root in a container and return what it printed. Raises DepotError."""
    return run("exec", container, *argv, doing=doing)


def answers(container: str, *argv: str) -> tuple[int, str]:
    """Run a command in a container that may fail, and return its status and output."""
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
    """Whether the machine below has the unified hierarchy alone."""
    return Path("/sys/fs/cgroup/cgroup.controllers").is_file()


def runtime() -> list[str]:
    """crun refuses hybrid cgroups, so runc is asked for on every version 1; version 2 takes what podman prefers."""
    return [] if cgroup_v2() else ["--runtime=runc"]


def containers(lab: str) -> dict[str, str]:
    """Return the containers of a lab by name, each with its state: one of Podman's, or KILLED."""
    listed = run("ps", "--all", f"--filter=label={LABEL}={lab}", "--format=json", doing="listing containers")
    return {entry["Names"][0]: _state(entry) for entry in json.loads(listed or "[]")}


def _state(entry: Mapping[str, Any]) -> str:
    state: str = entry["State"]
    return KILLED if tools.killed(state, entry["Id"], entry["Pid"]) else state


def volumes(lab: str) -> list[str]:
    """Return the names of the volumes of a lab."""
    return run("volume", "ls", f"--filter=label={LABEL}={lab}", "--format={{.Name}}", doing="listing volumes").split()


def networks(lab: str = "") -> dict[str, list[str]]:
    """Return networks with their subnets: those of a lab, or all of them."""
    wanted = [f"--filter=label={LABEL}={lab}"] if lab else []
    listed = json.loads(run("network", "ls", *wanted, "--format=json", doing="listing networks") or "[]")
    return {entry["name"]: [s["subnet"] for s in entry.get("subnets") or []] for entry in listed}


def images() -> list[str]:
    """Return the names of all images."""
    return run("images", "--format={{.Repository}}:{{.Tag}}", doing="listing images").split()
