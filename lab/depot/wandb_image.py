"""The image of W&B's launch agent for a lab: wandb from PyPI on Debian's Python, with what runs jobs on Kubernetes.

W&B's own image can't be had everywhere. This one has another name, and is also what the test's jobs run in.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from lab.depot import tools
from lab.depot.debian_image import DebianImage
from lab.depot.oci import Settings

REFERENCE = "ghcr.io/gpulab/wandb-launch-agent:0.31.0"
_SUITE = "bookworm"
_PYTHON = "3.11"
_PACKAGES = ("python3", "ca-certificates")
# The extra `launch` has more, for clouds that no lab has.
_MODULES = (
    "wandb==0.31.0",
    "kubernetes-asyncio==36.1.0",
    "azure-containerregistry==1.2.0",
    "azure-identity==1.27.0",
    "azure-storage-blob==12.31.1",
)
_USER, _HOME = 1000, "home/launch_agent"
_START = "#!/usr/bin/python3\nfrom wandb.cli.cli import cli\n\ncli()\n"
_SETTINGS = Settings(
    entrypoint=("wandb", "launch-agent"),
    user=f"{_USER}:{_USER}",
    environment={"HOME": f"/{_HOME}", "PYTHONUNBUFFERED": "1"},
    labels={
        "org.opencontainers.image.title": "wandb-launch-agent",
        "org.opencontainers.image.description": "wandb from PyPI, not W&B's own image of its agent, for a lab.",
    },
)


def build() -> None:
    """Make the image and store it, unless the registry has it, made from the same. Raises DepotError."""
    IMAGE.build()


def _install(root: Path) -> None:
    """Put wandb, its command and its user's home into a root filesystem."""
    argv = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-compile"]
    argv += ["--target", str(root / "usr" / "lib" / "python3" / "dist-packages"), "--only-binary=:all:"]
    argv += ["--implementation=cp", f"--python-version={_PYTHON}"]
    argv += [f"--platform=manylinux{tag}_x86_64" for tag in ("_2_28", "_2_17", "2014")]
    tools.run([*argv, *_MODULES], doing="installing wandb into an image", log="pip")
    program = root / "usr" / "bin" / "wandb"
    program.write_text(_START)
    program.chmod(0o755)
    home = root / _HOME
    home.mkdir(parents=True)
    shutil.chown(home, _USER, _USER)


IMAGE = DebianImage(REFERENCE, "wandb", _SUITE, _PACKAGES, _SETTINGS, Path(__file__).resolve(), _install)
