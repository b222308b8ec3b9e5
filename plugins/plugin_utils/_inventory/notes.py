# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Possible mistakes in an inventory, shown as notes without stopping the run."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from ...module_utils._problem import Problem
from .._progress.text import names

# The connection variables that are checked here.
CONNECTION = ("ansible_host", "ansible_ssh_host", "ansible_ssh_private_key_file", "ansible_private_key_file")
_MOST_HOSTS = 5


def connections(host: str, values: Mapping[str, Any]) -> Iterator[Problem]:
    """Yield values that ssh may still accept; ``values`` are the known ones of CONNECTION."""
    for name in CONNECTION[:2]:
        user, at, address = str(values.get(name, "")).partition("@")
        if at:
            yield Problem(
                "ansible_host_user",
                f"{name} is {user}@{address}, which is a user and an address",
                name,
                "Ansible copies files with programs that may not accept this",
                f"Write ansible_user={user} ansible_host={address}",
                host,
            )
    for name in CONNECTION[2:]:
        path = str(values.get(name) or "")
        if path and not _exists(path):
            yield Problem(
                "key_file_missing",
                f"{name} is {path}, and there is no such file",
                name,
                "ssh would use other keys instead, of its agent or in ~/.ssh",
                "Correct the path, or remove the variable",
                host,
            )


def _exists(path: str) -> bool:
    try:
        return Path(path).expanduser().exists()
    except (OSError, RuntimeError):
        # The file may exist in a directory that only another user can read.
        return True


def texts(problems: Iterable[Problem]) -> list[str]:
    """Return each problem as one text that names all its hosts."""
    hosts: dict[Problem, list[str]] = {}
    for problem in problems:
        hosts.setdefault(replace(problem, host=""), []).append(problem.host)
    found = []
    for problem, having in hosts.items():
        sentences = " ".join(f"{part}." for part in (problem.what, problem.why, problem.do) if part)
        title = names(list(filter(None, dict.fromkeys(having))), _MOST_HOSTS)
        found.append(f"{title}: {sentences}" if title else sentences)
    return found
