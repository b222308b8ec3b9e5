# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the Docker Engine of a host is and runs, as its command line says it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from .._command import CommandNotFoundError, Runner
from .._files import under
from .._json import as_text, read_object

# What dockerd-rootless-setuptool.sh writes, below the user's home.
_ROOTLESS_UNIT = ".config/systemd/user/docker.service"
_NOTHING: dict[str, Any] = {
    "installed": False,
    "version": "",
    "live_restore": False,
    "data_root": "",
    "containers": [],
    "plugins": [],
}


def read_info(text: str) -> dict[str, Any]:
    """What C(docker info --format '{{json .}}') says of the daemon; nothing of it where no daemon answers.

    Raises DomainError for what is no such answer.
    """
    values = read_object(text, "docker info")
    return {
        "version": as_text(values.get("ServerVersion")),
        "live_restore": values.get("LiveRestoreEnabled") is True,
        "data_root": as_text(values.get("DockerRootDir")),
        "plugins": _plugins(values.get("ClientInfo")),
    }


def _plugins(client: Any) -> list[str]:
    found = client.get("Plugins") if isinstance(client, Mapping) else None
    plugins = found if isinstance(found, list) else []
    return sorted(as_text(each.get("Name")) for each in plugins if isinstance(each, Mapping))


def read_containers(text: str) -> list[str]:
    """Name and image of the containers in C(docker ps --format '{{json .}}'), one JSON object in each line."""
    found = []
    # Labels may hold what Python takes for the end of a line.
    for line in text.split("\n"):
        if line.strip():
            value = read_object(line, "docker ps")
            found.append(f"{as_text(value.get('Names'))} ({as_text(value.get('Image'))})")
    return sorted(found)


def rootless(root: str, homes: Iterable[tuple[str, str]]) -> Iterator[dict[str, str]]:
    """The users that have a Docker of their own, and the file that says so. ``homes`` are (user, home directory)."""
    for user, home in homes:
        unit = under(root, f"{home}/{_ROOTLESS_UNIT}")
        # Root may not look into a home on NFS; what can't be seen there is not known.
        with contextlib.suppress(OSError):
            if home not in ("", "/") and unit.exists():
                yield {"user": user, "file": f"{home}/{_ROOTLESS_UNIT}"}


def snap(root: str) -> bool:
    """Whether Docker was installed as a snap."""
    return any(Path(under(root, "/var/lib/snapd/snaps")).glob("docker_*.snap"))


def engine(runner: Runner) -> Mapping[str, Any]:
    """Raises DomainError where a daemon that runs can't be asked."""
    try:
        said = runner.run(["docker", "info", "--format", "{{json .}}"])
    except CommandNotFoundError:
        return _NOTHING
    info = read_info(said.stdout or "{}")
    if not info["version"]:
        return {**_NOTHING, "installed": True}
    listed = runner.check(["docker", "ps", "--no-trunc", "--format", "{{json .}}"], "listing Docker's containers")
    return {"installed": True, **info, "containers": read_containers(listed.stdout)}
