# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Preflight's rules for hosts that Ansible can't read, or whose Python is too new for it."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ...module_utils._problem import Problem
from ...module_utils._versions import compare_versions
from .access import CAUSES, PYTHON, UNREACHABLE, UNREADABLE
from .model import Cluster, Facts, Reading

__all__ = ["PYTHON", "core_for_python", "failure"]

# The newest supported Python on hosts, by release of ansible-core (its support matrix). Later releases are not checked.
_NEWEST_PYTHON = {"2.19": "3.13", "2.20": "3.14", "2.21": "3.14"}
_IN_PYTHON = re.compile(r"python(3\.\d+)")
_PREFIX = re.compile(r"\A(?:(?:Task|Action|Module) failed: )+")
# Terminal escape sequences, and the frame that SSH draws around a warning.
_UNPRINTABLE = re.compile(r"\x1b(?:\[[0-9;?]*[A-Za-z]|\][^\x07\x1b]*(?:\x07|\x1b\\)?)?|[\x00-\x1f\x7f-\x9f]|@{5,}")
# Ansible's own text, followed by the output of a program.
_FRAME = re.compile(r"\b(via ssh|over ssh|escalation prompt|(?:stderr|stdout) output|Error was): ")
_DEBUG = re.compile(r"\s{0,9}debug[123]: ")
# The number of characters to read at the start and the end: the decisive message of a long output is usually the last.
_FIRST, _LAST = 2000, 6000
# Exit statuses of programs that the kernel killed because memory ran out: by way of a shell, and directly.
_KILLED = (137, -9)


def failure(reading: Reading, cluster: Cluster) -> Iterator[Problem]:
    """Report why a host was not read, from messages of Ansible and of the programs that it runs."""
    raw = _messages(reading.failure)
    said = " ".join(_UNPRINTABLE.sub(" ", raw).split()) or "no reason given"
    core, unreachable = str(cluster.settings["ansible_core"]), bool(reading.failure.get("unreachable"))
    newest, seen = _NEWEST_PYTHON.get(".".join(core.split(".")[:2])), _IN_PYTHON.search(said)
    if newest and seen and compare_versions(seen[1], newest) > 0:
        yield _too_old_for(reading, core, newest, seen[1])
        return
    for cause in CAUSES:
        match = cause.find(raw, unreachable)
        if match:
            yield reading.problem(
                cause.kind,
                f"{cause.what}: {said}",
                cause.filled(cause.where, match, reading.host),
                cause.why,
                cause.filled(cause.do, match, reading.host),
            )
            return
    if unreachable:
        yield reading.problem(
            "host_unreachable",
            f"{UNREACHABLE}: {said}",
            "ansible_host, ansible_user, ansible_port, SSH keys",
            "Nothing can be done on it",
            f"Try: ansible {reading.host} -i INVENTORY -b -m ansible.builtin.ping",
        )
        return
    yield reading.problem(
        "host_unreadable",
        f"{UNREADABLE}: {said}",
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


def _messages(result: Facts) -> str:
    """Return the lines of all messages, and the exit status if it shows the cause, with control characters."""
    words = [_PREFIX.sub("", str(result.get(key) or "")) for key in ("msg", "module_stderr", "module_stdout")]
    status = f"(exit status {result['rc']})" if result.get("rc") in _KILLED else ""
    text = "\n/\n".join(dict.fromkeys(filter(None, map(_lines, (*words, status)))))
    return text if len(text) <= _FIRST + _LAST else f"{text[:_FIRST]}\n...\n{text[-_LAST:]}"


def _lines(text: str) -> str:
    """Return the lines of a text without SSH's debug lines."""
    lines = (" ".join(line.split()) for line in _FRAME.sub(r"\1:\n", text).splitlines() if not _DEBUG.match(line))
    return "\n".join(filter(None, lines))


def _too_old_for(reading: Reading, core: str, newest: str, python: str) -> Problem:
    return reading.problem(
        "python_too_new",
        f"The host's Python is {python}, but ansible-core {core} on the controller supports Python only up to {newest}",
        "ansible-core on the controller, ansible_python_interpreter",
        "Ansible's modules fail with errors that don't show this cause",
        f"Install an ansible-core that supports Python {python} on the controller, or set "
        "ansible_python_interpreter to an older Python on the host",
    )
