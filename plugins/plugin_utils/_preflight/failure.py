# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Preflight about hosts that Ansible can't read, and whose Python is too new for it."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ...module_utils._apt.dpkg import compare_versions
from ...module_utils._problem import Problem
from .model import Cluster, Facts, Reading

PYTHON = "3.9"
# The newest Python on hosts, by release of ansible-core (its support matrix). Later releases are not judged.
_NEWEST_PYTHON = {"2.19": "3.13", "2.20": "3.14", "2.21": "3.14"}
_IN_PYTHON = re.compile(r"python(3\.\d+)")
_PREFIX = re.compile(r"\A(?:(?:Task|Action|Module) failed: )+")
_FAILURES = (
    (
        "become_refused",
        re.compile(r"sudo|become password|a password is required|\bsu: "),
        "Ansible can't become root",
        "Root is required to install packages and services",
        "Allow the user to use sudo without a password, or provide the password (--ask-become-pass, "
        "ansible_become_password)",
    ),
    (
        "python_missing",
        re.compile(
            r"minimum of Python|[Nn]o python interpreter|python\S*: (?:not found|No such)|interpreter .*not found"
        ),
        "Ansible finds no Python that it can use",
        f"Ansible's modules need Python {PYTHON} or newer on the host",
        "Install Python (apt-get install python3), or set ansible_python_interpreter to its path",
    ),
    (
        "program_ip_missing",
        re.compile(r"there is no program ip\b"),
        "The host's network can't be read",
        "This collection and kubeadm read addresses and routes with the program ip",
        "Install it (apt-get install iproute2)",
    ),
)


def failure(reading: Reading, cluster: Cluster) -> Iterator[Problem]:
    """What kept a host from being read, in Ansible's words."""
    said = _said(reading.failure)
    core = str(cluster.settings["ansible_core"])
    newest, seen = _NEWEST_PYTHON.get(".".join(core.split(".")[:2])), _IN_PYTHON.search(said)
    if newest and seen and compare_versions(seen[1], newest) > 0:
        yield _too_old_for(reading, core, newest, seen[1])
        return
    if reading.failure.get("unreachable"):
        yield reading.problem(
            "host_unreachable",
            f"The host can't be reached: {said}",
            "ansible_host, ansible_user, ansible_port, SSH keys",
            "Nothing can be done on it",
            f"Try: ansible {reading.host} -i INVENTORY -m ansible.builtin.ping",
        )
        return
    for kind, pattern, what, why, do in _FAILURES:
        if pattern.search(said):
            yield reading.problem(kind, f"{what}: {said}", "host", why, do)
            return
    yield reading.problem(
        "host_unreadable",
        f"The host can't be read: {said}",
        "host",
        "No facts about this host could be read",
        f"Try: ansible {reading.host} -i INVENTORY -b -m gpulab.kubernetes.preflight_info",
    )


def core_for_python(reading: Reading, cluster: Cluster) -> Iterator[Problem]:
    core = str(cluster.settings["ansible_core"])
    newest = _NEWEST_PYTHON.get(".".join(core.split(".")[:2]))
    python = ".".join(str(reading.facts["python"]).split(".")[:2])
    if newest and compare_versions(python, newest) > 0:
        yield _too_old_for(reading, core, newest, python)


def _said(result: Facts) -> str:
    words = [_PREFIX.sub("", str(result.get(key) or "")) for key in ("msg", "module_stderr", "module_stdout")]
    return " / ".join(dict.fromkeys(" ".join(text.split()) for text in words if text)) or "no reason given"


def _too_old_for(reading: Reading, core: str, newest: str, python: str) -> Problem:
    return reading.problem(
        "python_too_new",
        f"The host's Python is {python}, but ansible-core {core} on the controller supports Python only up to {newest}",
        "ansible-core on the controller, ansible_python_interpreter",
        "Ansible's modules fail with errors that don't show this cause",
        "Install ansible-core 2.20 or newer on the controller, or set ansible_python_interpreter to an older Python "
        "on the host",
    )
