"""The image of examples/launch/image-job for a lab: its program on the image of the launch agent, which has wandb."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from lab import paths, progress
from lab.depot import cache, registry, wandb_image

REFERENCE = "ghcr.io/gpulab/image-job:1"
_PROGRAM = paths.REPOSITORY / "examples" / "launch" / "image-job" / "generate.py"
_CONTAINERFILE = """\
FROM {base}
USER 0
ENV HOME=/root WANDB_ARTIFACT_DIR=/tmp/artifacts
WORKDIR /tmp
COPY generate.py /generate.py
ENTRYPOINT ["python", "/generate.py"]
"""


def build() -> None:
    """Make the image and store it, unless the registry has it, made from the same. Raises DepotError."""
    wandb_image.build()
    key = cache.digest(REFERENCE, wandb_image.key(), cache.tree_digest(_PROGRAM, Path(__file__).resolve()))
    stamp = paths.registry() / "made" / "launch-job-image.key"
    if registry.holds(REFERENCE) and stamp.is_file() and stamp.read_text() == key:
        return
    with cache.lock("depot"), registry.writable() as target, progress.step(f"Image {REFERENCE}"):
        with tempfile.TemporaryDirectory(prefix="gpulab-job-") as work:
            shutil.copy(_PROGRAM, work)
            base = f"{target.address}/{wandb_image.REFERENCE}"
            Path(work, "Containerfile").write_text(_CONTAINERFILE.format(base=base))
            wandb_image.build_and_push(target, REFERENCE, Path(work))
        cache.replace_text(stamp, key)
