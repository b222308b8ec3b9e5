# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Parse the short formats of nvidia-smi: ``-L`` and ``--version``."""

from __future__ import annotations

import re

from .faults import faults
from .values import MOST_GPUS, Reading, empty_gpu, empty_mig, is_failure, short_lines, version, word

_GPU = re.compile(r"\s{0,20}GPU (\d{1,4}): (.*) \(UUID: (.*)\)\s*")
_MIG = re.compile(r"\s+MIG (\S+)\s+Device\s+(\d{1,4}): \(UUID: (\S+)\)\s*")
_OLD_MIG_UUID = re.compile(r"MIG-GPU-[0-9a-f-]+/(\d+)/(\d+)")
_PART = re.compile(r"GPU \d+: |MIG \S+ |.*\(UUID: ")
_LABELLED = re.compile(r"(DRIVER|KMD|CUDA|CUDA UMD) version\s*:\s*([\d.]+|ERR!)\s*", re.IGNORECASE)

_LIST_LINE = re.compile(r"^[ \t]{0,20}GPU \d{1,4}: .*\(UUID: ", re.MULTILINE)


def is_list(text: str) -> bool:
    return _LIST_LINE.search(text) is not None


def read_list(text: str) -> Reading:
    """Parse ``nvidia-smi -L``: GPUs, each followed by its MIG devices."""
    reading = Reading("list", complete=True)
    for line in short_lines(text):
        if len(reading.gpus) > MOST_GPUS:
            break
        gpu, mig = _GPU.fullmatch(line), _MIG.fullmatch(line)
        if gpu and "(UUID:" not in gpu[2]:
            problems = faults([("name", gpu[2]), ("uuid", gpu[3])])
            reading.gpus.append(empty_gpu(index=int(gpu[1]), name=word(gpu[2]), uuid=word(gpu[3]), problems=problems))
        elif mig and reading.gpus:
            old = _OLD_MIG_UUID.fullmatch(mig[3])
            gi, ci = (int(old[1]), int(old[2])) if old else (None, None)
            device = empty_mig(index=int(mig[2]), profile=mig[1], uuid=mig[3], gi=gi, ci=ci)
            reading.gpus[-1]["mig"]["devices"].append(device)
        elif line.strip():
            reading.messages.append(line.strip())
    # A line with only some parts of the format is damaged.
    reading.complete = not any(_PART.match(line) for line in reading.messages)
    return reading


def read_version(text: str) -> Reading:
    """Parse ``nvidia-smi --version``, which prints only versions."""
    reading = Reading("version", complete=True)
    for line in short_lines(text):
        match = _LABELLED.fullmatch(line)
        if match and match[1].upper() in ("DRIVER", "KMD"):
            reading.driver_version = version(match[2])
        elif match:
            reading.cuda_version = version(match[2])
            reading.cuda_failed |= is_failure(match[2])
        elif line.strip():
            reading.messages.append(line.strip())
    return reading
