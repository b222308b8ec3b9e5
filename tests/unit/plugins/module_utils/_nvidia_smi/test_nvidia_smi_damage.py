# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Damage to any output format is detected, and additional output of wrappers is ignored."""

from __future__ import annotations

from typing import Any

import pytest
import smi_tables
import smi_texts as smi
from ansible_collections.gpulab.kubernetes.plugins.module_utils._command import Result
from ansible_collections.gpulab.kubernetes.plugins.module_utils._nvidia_smi.facts import NvidiaSmi


def facts(text: str, rc: int = 0) -> dict[str, Any]:
    program = NvidiaSmi(lambda arguments: Result(tuple(arguments), rc, text, ""))
    return program.facts(["gpus", "mig", "processes", "topology"])


@pytest.mark.parametrize(
    "damaged",
    [
        "1, GPU-1, Tesla T4, 00000000:2",
        "x, GPU-1, Tesla T4, 00000000:20:00.0, 15360 MiB",
        "1, GPU-1, Tesla T4, 0000000, 15360 MiB",
        "1, GPU-1, Tesla T4, 00000000:20:00.0, 1536x MiB",
    ],
)
def test_damaged_rows_are_never_ok(damaged: str) -> None:
    rows = ["0, GPU-0, Tesla T4, 00000000:10:00.0, 15360 MiB", damaged, ""]
    found = facts("\n".join(["index, uuid, name, pci.bus_id, memory.total [MiB]", *rows]))
    assert found["state"] == "degraded"


LAST = smi_tables.many(4).rindex("|   3  NVIDIA")


@pytest.mark.parametrize(
    "text",
    [
        smi_tables.many(4)[:LAST] + smi_tables.many(4)[LAST:].replace("49140MiB", "49x40MiB"),
        smi_tables.many(4)[:LAST] + smi_tables.many(4)[LAST:].replace("|   3  N", "|   x  N"),
        smi_tables.many(4)[:LAST] + smi_tables.many(4)[LAST:].replace("N/A |", "N/A  "),
        smi_tables.MIG_SHARED.replace("|  0    2   0   2  |", "|  0    2   0   x  |"),
        smi_tables.MIG_SHARED.replace("9856MiB", "98x6MiB"),
        smi.listed().replace("GPU 3:", "XPU 3:"),
        smi.listed().replace(")\nGPU 3:", ")GPU 3:"),
        smi.listed()[:-3],
        smi.logged().replace("Driver Version", "Drivex Version").replace("KMD Version   ", "KMX Version   "),
        smi.logged().replace("Attached GPUs                             : 4", "Attached GPUs : x4"),
        smi.xml().replace("<attached_gpus>4<", "<attached_gpus>4 8<"),
        smi.xml().replace("<total>15360 MiB<", "<total>1536x MiB<"),
    ],
)
def test_damaged_lines_are_never_ok(text: str) -> None:
    assert facts(text)["state"] == "degraded"


AROUND = [
    ("\ufeff", ""),
    ("\x1b]0;window title\x07\x1b(B\x1b[m\x1b[1;32m", "\x1b[0m"),
    ("ERROR: ld.so: object '/opt/x.so' from LD_PRELOAD cannot be preloaded: ignored.\n", ""),
    ("==========\n== CUDA ==\n==========\n\nCUDA Version 12.4.1\n\nContainer image, with terms.\n\n", "\n\ndone\n"),
    ("Welcome to gpu7, GPU 0000:10:00.0 is yours\n", ""),
    ("bash: /root/.bashrc: Permission denied\n", ""),
]
FORMS = [
    smi.xml(),
    smi.csv("index,uuid,name,memory.total,pci.bus_id,temperature.gpu"),
    smi.listed(),
    smi_tables.many(4),
    smi.logged(),
]


@pytest.mark.parametrize(("before", "after"), AROUND)
@pytest.mark.parametrize("text", FORMS, ids=["xml", "csv", "list", "table", "text"])
def test_output_of_wrappers_is_ignored(text: str, before: str, after: str) -> None:
    found = facts(before + text.replace("\n", "\r\n") + after)
    assert (found["state"], found["count"]) == ("ok", 4)
    assert [gpu["index"] for gpu in found["gpus"]] == [0, 1, 2, 3]


@pytest.mark.parametrize("text", FORMS, ids=["xml", "csv", "list", "table", "text"])
@pytest.mark.parametrize("rc", [2, 6, 14, 139, 255])
def test_valid_output_with_an_error_status_is_not_ok(text: str, rc: int) -> None:
    found = facts(text, rc)
    assert (found["state"], found["rc"], found["count"]) == ("crashed" if rc == 139 else "degraded", rc, 4)
