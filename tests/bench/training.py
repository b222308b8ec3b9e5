"""Measure the speedup of two training nodes over one, and the all-reduce bandwidth, on a running lab."""

from __future__ import annotations

import json
import statistics
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from support.lab import Lab, lab_command
from support.play import play

# Enough work per step that averaging the gradients does not dominate.
ARGUMENTS = ["--epochs", "4", "--width", "256", "--batch", "1024"]
ROUNDS = 3


def train(lab: Lab, nodes: int, number: int) -> dict[str, Any]:
    path = lab.directory / f"training-{nodes}-{number}.json"
    settings = {
        "torch_ddp_name": f"bench-{nodes}-{number}",
        "torch_ddp_nodes": nodes,
        "torch_ddp_gpus_per_node": 1,
        "torch_ddp_args": ARGUMENTS,
        "torch_ddp_resume": False,
        "torch_ddp_summary": str(path),
    }
    play(lab.path, "-e", json.dumps(settings), playbook="playbooks/train.yml").expect_success()
    read: dict[str, Any] = json.loads(path.read_text())
    return read


def measure(lab: Lab) -> dict[str, object]:
    """Return samples/s of one and two nodes (medians), their ratio, and GB/s by backend and size."""
    lab_command("build", "--with", "torch")
    runs = {nodes: [train(lab, nodes, number) for number in range(ROUNDS)] for nodes in (1, 2)}
    speed = {nodes: statistics.median(run["samples_per_s"] for run in found) for nodes, found in runs.items()}
    bandwidth: dict[str, dict[str, float]] = {}
    for size in (each["mib"] for each in runs[2][0]["all_reduce"]):
        rates = [e["bus_gb_per_s"] for run in runs[2] for e in run["all_reduce"] if e["mib"] == size]
        bandwidth.setdefault(runs[2][0]["backend"], {})[f"{size} MiB"] = round(statistics.median(rates), 3)
    return {
        "samples_per_s": {f"nodes_{nodes}": round(value) for nodes, value in speed.items()},
        "two_nodes_to_one": round(speed[2] / speed[1], 2),
        "all_reduce_bus_gb_per_s": bandwidth,
    }
