"""The lab of a test: created from a spec, and removed with the test."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from support.hosts import ROOT, Inventory

PREFIX = os.environ.get("GPULAB_TEST_PREFIX", "it")


@dataclass(frozen=True)
class Lab:
    """A running lab; its inventory has its own directory, so that reports are not mixed up."""

    name: str
    directory: Path

    @property
    def path(self) -> Path:
        return self.directory / "lab.ini"

    @property
    def report(self) -> Path:
        return self.directory / "gpulab-report.json"

    def edited(self, pattern: str, replacement: str) -> Path:
        """Return an edited copy of the inventory."""
        path = self.directory / "edited.ini"
        text, count = re.subn(pattern, replacement, self.path.read_text(), flags=re.MULTILINE)
        assert count, f"nothing matches {pattern}"
        path.write_text(text)
        path.chmod(0o600)
        return path

    def inventory(self) -> Inventory:
        return Inventory.read(self.path)

    def fault(self, node: str, kind: str, *arguments: str) -> None:
        """Inject a fault into a node's simulated GPUs, or clear faults with the kind "clear"."""
        lab_command("fault", "--name", self.name, node, kind, *arguments)


def lab_command(*arguments: str, timeout: float = 2400) -> str:
    """Run `python -m lab` and return its output."""
    done = subprocess.run(
        [sys.executable, "-m", "lab", *arguments],
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=timeout,
    )
    assert done.returncode == 0, f"python -m lab {' '.join(arguments)} ended with {done.returncode}\n{done.stdout}"
    return done.stdout


@contextmanager
def reserved(name: str) -> Iterator[tuple[str, Path]]:
    """Yield a name and an empty directory for a lab that the caller creates.

    With KEEP_LAB in the environment, the lab is kept for inspection.
    """
    full = f"{PREFIX}-{name}"
    directory = ROOT / ".cache" / "labs" / full
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    try:
        yield full, directory
    finally:
        if "KEEP_LAB" not in os.environ:
            lab_command("down", "--name", full)


@contextmanager
def running(name: str, spec: Path) -> Iterator[Lab]:
    """Run a lab, created from a spec, during the block."""
    with reserved(name) as (full, directory):
        lab = Lab(full, directory)
        lab_command("up", "--name", full, "--spec", str(spec), "--inventory", str(lab.path))
        yield lab
