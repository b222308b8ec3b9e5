# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read the state of a host's Docker Engine from the docker command."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from .._command import CommandNotFoundError, Runner
from .._files import under
from .._json import as_text, read_object

# Written by dockerd-rootless-setuptool.sh, below the user's home.
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
    """Parse the daemon's values in ``docker info --format '{{json .}}'``; they are empty if no daemon answers.

    Raise DomainError for other text.
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
    """Return name and image of the containers in ``docker ps --format '{{json .}}'``, one JSON object per line."""
    found = []
    # Labels may contain characters at which splitlines() would split.
    for line in text.split("\n"):
        if line.strip():
            value = read_object(line, "docker ps")
            found.append(f"{as_text(value.get('Names'))} ({as_text(value.get('Image'))})")
    return sorted(found)


def rootless(root: str, homes: Iterable[tuple[str, str]]) -> Iterator[dict[str, str]]:
    """Yield the users with a rootless Docker and the file that shows it. ``homes`` are (user, home directory)."""
    for user, home in homes:
        unit = under(root, f"{home}/{_ROOTLESS_UNIT}")
        # Root may be denied access to a home on NFS; such homes are skipped.
        with contextlib.suppress(OSError):
            if home not in ("", "/") and unit.exists():
                yield {"user": user, "file": f"{home}/{_ROOTLESS_UNIT}"}


def snap(root: str) -> bool:
    """Return whether Docker was installed as a snap."""
    return any(Path(under(root, "/var/lib/snapd/snaps")).glob("docker_*.snap"))


def engine(runner: Runner) -> Mapping[str, Any]:
    """Return the state of the engine. Raise DomainError if a running daemon can't be queried."""
    try:
        said = runner.run(["docker", "info", "--format", "{{json .}}"])
    except CommandNotFoundError:
        return _NOTHING
    info = read_info(said.stdout or "{}")
    if not info["version"]:
        return {**_NOTHING, "installed": True}
    listed = runner.check(["docker", "ps", "--no-trunc", "--format", "{{json .}}"], "listing Docker's containers")
    return {"installed": True, **info, "containers": read_containers(listed.stdout)}
