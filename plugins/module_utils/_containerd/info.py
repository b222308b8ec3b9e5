# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read containerd's version, configuration and state from containerd and systemd."""

from __future__ import annotations

import re
from typing import Any

from .._command import Runner
from .files import config_files, masked, masked_error

# "containerd github.com/containerd/containerd/v2 v2.3.6 9a1b2c..."; packages of distributions omit the v.
_VERSION = re.compile(r"\bv?(\d{1,9}\.\d{1,9}\.\d{1,9}(?:[-+~][\w.+~-]{1,99})?)(?=\s|\Z)")


def parse_version(text: str) -> str:
    """Return the version in the output of ``containerd --version``, empty if there is none."""
    match = _VERSION.search(text)
    return match.group(1) if match else ""


def parse_unit(text: str) -> tuple[bool, str]:
    """Return (running, active since) from ``systemctl show``."""
    values = dict(line.partition("=")[::2] for line in text.splitlines())
    running = values.get("ActiveState") == "active"
    return running, values.get("ActiveEnterTimestamp", "") if running else ""


def read_containerd(runner: Runner, executable: str, config: str, drop_ins: str, unit: str) -> dict[str, Any]:
    """Return the result of the module containerd_info.

    Raise CommandError if ``--version`` fails, DomainError if a file can't be read.
    """
    answer: dict[str, Any] = {"version": "", "config_dump": "", "config_error": ""}
    if runner.find(executable) is not None:
        said = runner.check([executable, "--version"], "asking containerd for its version")
        dump = runner.run([executable, "--config", config, "config", "dump"])
        answer["version"] = parse_version(said.stdout)
        if dump.rc == 0:
            answer["config_dump"] = masked(dump.stdout)
        else:
            answer["config_error"] = masked_error(dump.message)
    answer["files"] = config_files("/", config, drop_ins)
    answer["running"], answer["active_since"] = False, ""
    if runner.find("systemctl") is not None:
        shown = runner.run(["systemctl", "show", unit, "--property=ActiveState,ActiveEnterTimestamp"])
        answer["running"], answer["active_since"] = parse_unit(shown.stdout)
    return answer
