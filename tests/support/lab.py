"""A lab of one test: made from a spec, removed with it."""

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
    """A running lab; its inventory lies in a directory of its own, so that reports don't mix."""

    name: str
    directory: Path

    @property
    def path(self) -> Path:
        return self.directory / "lab.ini"

    @property
    def report(self) -> Path:
        return self.directory / "gpulab-report.json"

    def edited(self, pattern: str, replacement: str) -> Path:
        """Return a copy of the inventory with an edit."""
        path = self.directory / "edited.ini"
        text, count = re.subn(pattern, replacement, self.path.read_text(), flags=re.MULTILINE)
        assert count, f"nothing matches {pattern}"
        path.write_text(text)
        path.chmod(0o600)
        return path

    def inventory(self) -> Inventory:
        return Inventory.read(self.path)

    def fault(self, node: str, kind: str, *arguments: str) -> None:
        """Switch a fault of a node's simulated GPUs on (or off, with the kind that says so)."""
        lab_command("fault", "--name", self.name, node, kind, *arguments)


def lab_command(*arguments: str, timeout: float = 2400) -> str:
    """Run `python -m lab` and return what it printed."""
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
    """Have the name of a lab and an empty directory for the length of a block; who makes the lab is left open.

    With KEEP_LAB in the environment it is left for a look at it.
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
    """Have a lab, made from a spec, for the length of a block."""
    with reserved(name) as (full, directory):
        lab = Lab(full, directory)
        lab_command("up", "--name", full, "--spec", str(spec), "--inventory", str(lab.path))
        yield lab
