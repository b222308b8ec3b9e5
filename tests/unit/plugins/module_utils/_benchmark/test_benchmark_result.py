# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The guide's example, with made-up figures, is the actual output for these figures."""

from __future__ import annotations

import textwrap
from pathlib import Path

from ansible_collections.gpulab.kubernetes.plugins.module_utils._benchmark.figures import Gpu, Measurement, Reading
from ansible_collections.gpulab.kubernetes.plugins.module_utils._benchmark.result import result, summary
from ansible_collections.gpulab.kubernetes.plugins.module_utils._benchmark.targets import LeftOut

GUIDE = Path(__file__).resolve().parents[5] / "docs" / "gpu-benchmark.md"
WIDE = {"pcie_generation": 4, "pcie_generation_max": 4, "pcie_width": 16, "pcie_width_max": 16}
# Made up: memory GB/s, bf16 TFLOP/s, fp32 TFLOP/s, host to device GB/s, and values read under load.
MADE_UP = (
    (1510, 251, 18.9, 24.6, WIDE),
    (1508, 249, 18.8, 12.3, {**WIDE, "pcie_width": 8}),
    (1211, 198, 14.9, 24.5, {**WIDE, "throttle_reasons": 0x20, "temperature_c": 92}),
    (1512, 250, 18.9, 24.6, WIDE),
)


def example() -> list[str]:
    measured = []
    for index, (memory, bf16, fp32, host, facts) in enumerate(MADE_UP):
        gpu = Gpu("gpu1", f"GPU-{index}", index, "Example GPU", 40960)
        figures = {
            "memory_bytes_per_s": memory * 1e9,
            "bf16_flop_per_s": bf16 * 1e12,
            "fp32_flop_per_s": fp32 * 1e12,
            "host_to_device_bytes_per_s": host * 1e9,
        }
        measured.append(Measurement(gpu, Reading(gpu.uuid, 1, "cuda", "2.9.1", figures, facts)))
    left_out = [LeftOut(Gpu("gpu2", "GPU-9", 0, "Example GPU", 40960), "in use by team/notebook")]
    return summary(result(measured, [], left_out, ["gpu1", "gpu2"], "2026-11-21T04:00:00Z"))


def test_the_guide_shows_the_actual_output_for_its_made_up_figures() -> None:
    guide = GUIDE.read_text()
    before, _found, block = guide.partition("```text\ngpu1 GPU 0 (Example GPU)")
    assert "made up" in before.rsplit("\n\n", 2)[-2]
    shown = ("gpu1 GPU 0 (Example GPU)" + block.partition("```")[0]).splitlines()
    assert shown == example(), "\n".join(example())


def test_the_terminal_shows_one_line_per_gpu_then_the_warnings() -> None:
    lines = example()
    assert [line.partition(" (")[0] for line in lines[:4]] == [f"gpu1 GPU {index}" for index in range(4)]
    assert all(line.startswith("Warning: gpu1 GPU ") for line in lines[5:]) and len(lines) == 7
    assert textwrap.shorten(lines[4], 80) == "gpu2 GPU 0: left out, in use by team/notebook"
