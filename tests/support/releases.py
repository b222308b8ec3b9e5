"""Earlier releases of the collection, built from their commits in this checkout's history."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from support.hosts import ROOT


def commit(version: str) -> str:
    """Return the commit of a release: that of its tag, or else the commit that set its version in galaxy.yml.

    Raises LookupError if the history has neither, for example in a shallow clone.
    """
    tag = subprocess.run(
        ["git", "rev-parse", "--quiet", "--verify", f"v{version}^{{commit}}"],
        cwd=ROOT,
        check=False,
        capture_output=True,
        text=True,
    )
    if tag.returncode == 0:
        return tag.stdout.strip()
    line = f"^version: {re.escape(version)}$"
    found = _run("git", "log", "--format=%H", "--reverse", f"-G{line}", "--", "galaxy.yml").split()
    if not found:
        raise LookupError(f"The history of {ROOT} has no release {version}: run git fetch --unshallow --tags.")
    return found[0]


def install(version: str, directory: Path) -> Path:
    """Build and install a release without its dependencies; return the path for ANSIBLE_COLLECTIONS_PATH."""
    source, collections = directory / "source", directory / "collections"
    source.mkdir(parents=True)
    archive = directory / "source.tar"
    _run("git", "archive", f"--output={archive}", commit(version))
    _run("tar", "--extract", f"--file={archive}", f"--directory={source}")
    galaxy = str(Path(sys.executable).with_name("ansible-galaxy"))
    _run(galaxy, "collection", "build", "--output-path", str(directory), str(source))
    (built,) = directory.glob("gpulab-kubernetes-*.tar.gz")
    # The checkout may have the same version, which would count as installed.
    _run(galaxy, "collection", "install", "--force", "--no-deps", "--collections-path", str(collections), str(built))
    return collections


def _run(*command: str) -> str:
    env = {name: value for name, value in os.environ.items() if not name.startswith("ANSIBLE_")}
    return subprocess.run(command, cwd=ROOT, env=env, check=True, capture_output=True, text=True).stdout
