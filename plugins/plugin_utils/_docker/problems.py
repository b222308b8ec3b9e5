# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What keeps a host from getting Docker as it is declared, before anything is changed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

# dockerd refuses to start with a setting that its unit gives it as an option, too.
_OPTIONS = ("containerd", "hosts")


def problems(
    found: Mapping[str, Any],
    version: str,
    table: Mapping[str, Any],
    system: str,
    gpus: str,
    default_runtime: str,
    settings: Mapping[str, Any],
) -> Iterator[str]:
    """Sentences, each with what to do. ``found`` is what M(gpulab.kubernetes.docker_info) returned."""
    for one in found["rootless"]:
        yield (
            f"User {one['user']} has a rootless Docker ({one['file']}), and two of them on one host are taken for each "
            "other: remove it as that user (dockerd-rootless-setuptool.sh uninstall), or leave this host out."
        )
    if found["snap"]:
        yield "Docker is a snap, with settings elsewhere: remove it (snap remove docker), or leave this host out."
    if version not in table:
        yield f"Docker {version} is not in the table of versions: set docker_version to {' or '.join(table)}."
    elif system not in table[version]["packages"]:
        there = ", ".join(table[version]["packages"])
        yield f"Docker {version} is not known for {system}, only for {there}: set docker_version to another one."
    if default_runtime == "nvidia" and gpus != "runtime":
        yield "docker_default_runtime is nvidia, a runtime that there is with docker_gpus=runtime only: set that, too."
    for name in _OPTIONS:
        if name in settings:
            yield (
                f"docker_daemon_settings holds {name}, which Docker's systemd unit gives as an option, and with both "
                "Docker does not start: take it out, or change the unit by a drop-in of your own."
            )
