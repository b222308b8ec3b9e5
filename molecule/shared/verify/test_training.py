"""What a cluster is for: a training over two nodes."""

from __future__ import annotations

import json
from pathlib import Path

from support.cluster import Cluster
from support.hosts import Inventory
from support.play import play


def test_two_nodes_with_two_processes_each_train(inventory: Inventory, cluster: Cluster, ephemeral: Path) -> None:
    arguments = json.dumps({"torch_ddp_args": ["--epochs", "2", "--all-reduce-mib", "1"], "torch_ddp_resume": False})
    run = play(inventory.path, "-e", arguments, playbook="playbooks/train.yml").expect_success()
    assert "torch-ddp-0 | epoch 2/2 step 64 loss" in run.output
    summary = json.loads((ephemeral / "gpulab-training-report.json").read_text())
    assert (summary["nodes"], summary["processes"], summary["steps"]) == (2, 4, 64)
    assert summary["loss"][0] > summary["loss"][1]
    assert summary["ranks_equal"]
    left = cluster.kubectl("get", "all,configmaps", "--selector", "app.kubernetes.io/part-of=training", "-o", "name")
    assert left.split() == []
