"""The image of examples/launch/image-job for a lab: its program on the image of the launch agent, which has wandb."""

from __future__ import annotations

import tempfile
from pathlib import Path

from lab import paths, progress
from lab.depot import cache, debian_image, oci, registry, wandb_image
from lab.depot.oci import Settings

REFERENCE = "ghcr.io/gpulab/image-job:1"
_PROGRAM = paths.REPOSITORY / "examples" / "launch" / "image-job" / "generate.py"
_SETTINGS = Settings(
    entrypoint=("python3", "/generate.py"),
    user="",
    environment={"HOME": "/root", "PYTHONUNBUFFERED": "1", "WANDB_ARTIFACT_DIR": "/tmp/artifacts"},
    labels={
        "org.opencontainers.image.title": "image-job",
        "org.opencontainers.image.description": "Draws patterns in the place of a diffusion model, for a lab.",
    },
)


def build() -> None:
    """Make the image and store it, unless the registry has it, made from the same. Raises DepotError."""
    agent = wandb_image.IMAGE
    agent.build()
    key = cache.digest(agent.key, _SETTINGS, cache.tree_digest(_PROGRAM, Path(__file__).resolve()))
    stamp = paths.registry() / "made" / "launch-job-image.key"
    if registry.holds(REFERENCE) and stamp.is_file() and stamp.read_text() == key:
        return
    with cache.lock("depot"), registry.writable() as target, progress.step(f"Image {REFERENCE}"):
        below = debian_image.layer(f"image-{agent.name}", agent.suite, agent.packages, agent.key, agent.finish)
        with tempfile.TemporaryDirectory(dir=paths.registry(), prefix=".image-") as work:
            own = oci.files_layer(Path(work, "layer"), {"/generate.py": _PROGRAM})
            target.push(REFERENCE, [below, own], _SETTINGS)
        cache.replace_text(stamp, key)
