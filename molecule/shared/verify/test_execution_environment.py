"""The playbooks run in the execution environment, too: one of them as AWX would run it."""

from __future__ import annotations

from pathlib import Path

from support.awx_job import launch
from support.hosts import Inventory
from support.lab import lab_command


def test_the_template_verify_proves_every_gpu_from_inside_of_the_image(inventory: Inventory, ephemeral: Path) -> None:
    lab_command("build", "--with", "ee")
    job = launch("gpulab verify", inventory, ephemeral / "ee").expect_success()
    assert job.report()["totals"]["proven"] == sum(inventory.expected_gpus().values())
    assert job.report()["kept"] is False
