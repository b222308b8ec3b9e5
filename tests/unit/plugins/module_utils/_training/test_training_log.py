# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import json
from typing import Any

import pytest
from ansible_collections.gpulab.kubernetes.plugins.module_utils._training import log
from hypothesis import given
from hypothesis import strategies as st

TEXTS = st.text(max_size=60).filter(lambda text: "\n" not in text)
# PyTorch 1.13 with two processes, one of which fails.
FAILED = """\
launch: pod 0, attempt 1: python3 -m torch.distributed.run train.py
epoch 1/5 loss 0.5
launch: pod 0 failed with exit status 1
launch: pod 0, attempt 2: python3 -m torch.distributed.run train.py
4 processes on 2 nodes, gloo, cpu
Traceback (most recent call last):
  File "/etc/torch-ddp/train.py", line 3, in <module>
    raise ValueError("no data")
ValueError: no data
ERROR:torch.distributed.elastic.multiprocessing.api:failed (exitcode: 1) local_rank: 0 (pid: 9) of binary: python3
Traceback (most recent call last):
  File "/usr/lib/python3/dist-packages/torch/distributed/run.py", line 766, in <module>
torch.distributed.elastic.multiprocessing.errors.ChildFailedError:
============================================================
launch: pod 0 failed with exit status 1
"""


def stamp(number: int) -> str:
    return f"2026-11-22T02:00:00.{number:09d}Z"


@given(st.lists(TEXTS, max_size=20), st.data())
def test_lines_are_never_printed_twice(lines: list[str], data: st.DataObject) -> None:
    """However often and with whatever overlap the log is read, every line is printed once and in order."""
    whole = [f"{stamp(number)} {line}" for number, line in enumerate(lines, 1)]
    told: list[str] = []
    newest = ""
    read = 0
    while read < len(whole):
        read = data.draw(st.integers(read + 1, len(whole)))
        overlap = data.draw(st.integers(0, read - 1)) if len(told) else 0
        lines_now, newest = log.news("\n".join(whole[min(overlap, len(told)) : read]), newest)
        told += lines_now
    assert told == lines


@given(st.text())
def test_any_log_can_be_read(text: str) -> None:
    log.news(text, "")
    assert isinstance(log.summary(text), dict)
    assert len(log.last_words(text)) <= 15
    assert isinstance(log.cause(log.last_words(text)), str)


@given(st.dictionaries(st.text(), st.integers() | st.text() | st.none()), st.lists(TEXTS))
def test_a_summary_is_found_anywhere_in_the_log(summary: dict[str, Any], around: list[str]) -> None:
    around = [line for line in around if log.SUMMARY not in line]
    text = "\n".join([f"{log.SUMMARY}{{}}", *around, log.SUMMARY + json.dumps(summary), *around])
    assert log.summary(text) == summary


@pytest.mark.parametrize("end", ["{", "[1]", "", "[" * 100_000])
def test_an_invalid_summary_is_ignored(end: str) -> None:
    assert log.summary(f"TORCH_DDP_SUMMARY {end}") == log.summary("nothing") == {}


def test_the_last_lines_are_those_of_the_script_in_its_last_attempt() -> None:
    words = log.last_words(FAILED)
    assert words[0] == "4 processes on 2 nodes, gloo, cpu"
    assert words[-1] == "ValueError: no data"
    assert log.cause(words) == "ValueError: no data"


def test_without_output_of_the_script_torchruns_last_lines_are_returned() -> None:
    assert log.last_words("launch: pod 0, attempt 1: x\nERROR:torch.distributed.elastic: no\n") == [
        "ERROR:torch.distributed.elastic: no"
    ]


@pytest.mark.parametrize(
    ("line", "want"),
    [
        ("[Rank 1] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=7)", "NCCL timeout: [Rank 1]"),
        ("RuntimeError: NCCL communicator was aborted: timed out", "NCCL timeout: RuntimeError"),
        ("RuntimeError: [transport/tcp/unbound_buffer.cc:84] Timed out waiting 1800000ms for recv operation", "gloo"),
        ("torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB", "out of GPU memory: torch.cuda"),
        ("RuntimeError: CUDA driver version is insufficient for CUDA runtime version", "the driver is too old"),
        ("torch.distributed.DistBackendError: NCCL error: ncclRemoteError: remote process exited", "NCCL lost"),
        ("ModuleNotFoundError: No module named 'transformers'", "ModuleNotFoundError: No module named"),
        ("python3: can't open file '/workspace/train.py': [Errno 2] No such file", "python3: can't open file"),
        ("epoch 3 loss 0.1", ""),
    ],
)
def test_known_causes_are_named(line: str, want: str) -> None:
    found = log.cause(["epoch 1", line, "more"])
    assert found.startswith(want) if want else not found
