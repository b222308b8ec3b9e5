"""Optional parts, which only some tests and guides need: `python -m lab build --with NAME`."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module

from lab.nodes.errors import LabError

# Modules with a function `build()` that does nothing if its results exist.
PARTS = {
    "torch": "lab.depot.torch_image",
    "docker": "lab.depot.docker",
    "minikube": "lab.depot.minikube",
    "kicbase": "lab.depot.kicbase",
    "ee": "lab.ee",
    "etcd": "lab.depot.etcd_tools",
    "operator": "lab.depot.operator_image",
    "local-path": "lab.depot.local_path_image",
    "wandb": "lab.depot.wandb_image",
    "wandb-job": "lab.depot.launch_job_image",
    "dra": "lab.depot.dra_driver",
    "dcgm": "lab.depot.dcgm_exporter_image",
    "rclone": "lab.depot.rclone",
    "installer": "lab.gpusim.installer_image",
}


def check(names: Sequence[str]) -> None:
    """Raise LabError for an unknown part."""
    unknown = [name for name in names if name not in PARTS]
    if unknown:
        raise LabError(f"Error while reading --with {unknown[0]}: there is no such part, only: {', '.join(PARTS)}.")


def build(names: Sequence[str]) -> None:
    """Build these parts, one after the other. Raises LabError or DepotError."""
    check(names)
    for name in dict.fromkeys(names):
        import_module(PARTS[name]).build()
