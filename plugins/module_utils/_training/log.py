# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reads the log of a training's pod: what is new, why it failed, its summary. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

SUMMARY = "TORCH_DDP_SUMMARY "
_ATTEMPT = re.compile(r"^launch: pod \d+, attempt \d+: ")
# What torchrun says after the script's own last words.
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
    """(lines newer than the timestamp ``after``, the newest timestamp), of a log with timestamps.

    Timestamps are those of kubelet, RFC 3339 with nine digits of a second, so that texts compare as times.
    """
    lines, newest = [], after
    # A progress bar writes carriage returns, which end no line here.
    for line in text.split("\n"):
        stamp, _space, words = line.partition(" ")
        if stamp > after:
            lines.append(words)
            newest = max(newest, stamp)
    return lines, newest


def summary(text: str) -> dict[str, Any]:
    """What the script's last summary says, empty when there is none that can be read."""
    for line in reversed(text.splitlines()):
        if line.startswith(SUMMARY):
            try:
                found = json.loads(line[len(SUMMARY) :])
            except ValueError:
                return {}
            return found if isinstance(found, dict) else {}
    return {}


def last_attempt(text: str) -> list[str]:
    """The script's own lines since it was last started."""
    lines = text.splitlines()
    begin = max((number + 1 for number, line in enumerate(lines) if _ATTEMPT.match(line)), default=0)
    return [line.rstrip() for line in lines[begin:] if line.strip()]


def last_words(text: str, count: int = 15) -> list[str]:
    """The last lines that the script said, before torchrun's account of its end."""
    lines = last_attempt(text)
    end = next((number for number, line in enumerate(lines) if "torch.distributed.elastic.multiprocessing" in line), -1)
    told = [line for line in (lines[:end] if end > 0 else lines) if not _TORCHRUN.search(line)]
    return told[-count:] or lines[-count:]


def cause(lines: Sequence[str]) -> str:
    """The line that tells why a script failed, with its name where it has one; empty when none does."""
    for pattern, name in _CAUSES:
        for line in reversed(lines):
            if pattern.search(line.strip()):
                return f"{name}: {line.strip()}" if name else line.strip()
    return ""
