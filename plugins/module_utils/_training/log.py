# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Parse the log of a training's pod: new lines, cause of failure, summary. Pure functions."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

SUMMARY = "TORCH_DDP_SUMMARY "
_ATTEMPT = re.compile(r"^launch: pod \d+, attempt \d+: ")
# Output of torchrun after the script's last lines.
_TORCHRUN = re.compile(r"torch[./]distributed[./]elastic|^launch: |^=+$|^-+$|^WARNING:torch\.distributed")
_CAUSES = (
    (re.compile(r"Watchdog caught collective operation timeout|NCCL.*[Tt]imed? ?out"), "NCCL timeout"),
    (re.compile(r"Timed out waiting \d+ms for (?:recv|send) operation"), "gloo timeout"),
    (re.compile(r"CUDA out of memory|CUDA error: out of memory"), "out of GPU memory"),
    (re.compile(r"ncclSystemError|ncclRemoteError|NCCL WARN .*(?:onnect|ocket)"), "NCCL lost its connection"),
    (re.compile(r"CUDA driver version is insufficient"), "the driver is too old for the image's CUDA"),
    (re.compile(r"^(?:[A-Za-z_][\w.]*(?:Error|Exception|Interrupt)|python3?: can't open file)\b"), ""),
)


def news(text: str, after: str) -> tuple[list[str], str]:
    """Return the lines after the timestamp ``after`` and the newest timestamp of a log with timestamps.

    The kubelet's timestamps are RFC 3339 with nine digits of a second, so they can be compared as strings.
    """
    lines, newest = [], after
    # Progress bars write carriage returns, which do not end a line.
    for line in text.split("\n"):
        stamp, _space, words = line.partition(" ")
        if stamp > after:
            lines.append(words)
            newest = max(newest, stamp)
    return lines, newest


def summary(text: str) -> dict[str, Any]:
    """Return the last summary of the script, empty if there is no valid one."""
    for line in reversed(text.splitlines()):
        if line.startswith(SUMMARY):
            try:
                found = json.loads(line[len(SUMMARY) :])
            except (ValueError, RecursionError):
                return {}
            return found if isinstance(found, dict) else {}
    return {}


def last_attempt(text: str) -> list[str]:
    """Return the script's lines since its last start."""
    lines = text.splitlines()
    begin = max((number + 1 for number, line in enumerate(lines) if _ATTEMPT.match(line)), default=0)
    return [line.rstrip() for line in lines[begin:] if line.strip()]


def last_words(text: str, count: int = 15) -> list[str]:
    """Return the script's last lines before torchrun's messages about its end."""
    lines = last_attempt(text)
    end = next((number for number, line in enumerate(lines) if "torch.distributed.elastic.multiprocessing" in line), -1)
    told = [line for line in (lines[:end] if end > 0 else lines) if not _TORCHRUN.search(line)]
    return told[-count:] or lines[-count:]


def cause(lines: Sequence[str]) -> str:
    """Return the line that shows why a script failed, with the name of the cause if known; empty if there is none."""
    for pattern, name in _CAUSES:
        for line in reversed(lines):
            if pattern.search(line.strip()):
                return f"{name}: {line.strip()}" if name else line.strip()
    return ""
