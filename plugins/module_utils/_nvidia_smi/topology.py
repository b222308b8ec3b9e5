# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Parse ``nvidia-smi topo -m``."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from .values import Reading, word


def read_topology(text: str) -> Reading:
    """Parse ``nvidia-smi topo -m``: the connections of GPUs and NICs, and the CPUs near them."""
    reading = Reading("topology", complete="Legend:" in text)
    rows = _topology_rows(text)
    header = next(rows, [])[1:]
    columns = {"cpu_affinity": "CPU Affinity", "numa_affinity": "NUMA Affinity", "gpu_numa_id": "GPU NUMA ID"}
    # Older drivers print the kernel's names of network devices.
    devices = list(itertools.takewhile(lambda name: name and name not in columns.values(), header))
    matrix, extra = {}, {}
    for row in rows:
        matrix[row[0]] = {name: word(cell) for name, cell in zip(devices, row[1:])}
        rest = row[1 + len(devices) :]
        while len(rest) > len(header) - len(devices) and "" in rest[:-1]:
            # The last column is separated by two tabs, but only in rows.
            del rest[len(rest) - 2 - rest[-2::-1].index("")]
        extra[row[0]] = dict(zip(header[len(devices) :], rest))
    complete = bool(devices) and set(devices) == set(matrix)
    if complete:
        gpus = [name for name in devices if name.startswith("GPU")]
        reading.topology = {"gpus": gpus, "nics": [name for name in devices if name not in gpus], "matrix": matrix}
        for key, title in columns.items():
            reading.topology[key] = {gpu: word(extra[gpu].get(title)) for gpu in gpus}
    return reading


def _topology_rows(text: str) -> Iterator[list[str]]:
    """Yield the header and its rows; columns are separated by tabs, with an optional tab at the end."""
    begun = False
    for line in text.split("\n"):
        cells = [cell.strip() for cell in line.split("\t")]
        if not begun and len(cells) > 1 and not cells[0] and cells[1] == "GPU0":
            begun = True
            yield cells
        elif begun and not cells[0]:
            return
        elif begun:
            yield cells
