# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A virtual environment with one Python package of an exact version and its dependencies."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlsplit

from .._command import CommandError, Runner
from .._errors import DomainError

_PYTHON = "/usr/bin/python3"
# pip writes RECORD last, so an interrupted installation has none.
_VERSION = """
import sys
from importlib.metadata import distribution
found = distribution(sys.argv[1])
print(found.version if found.read_text("RECORD") else "")
"""


def index(url: str, hashed: bool) -> dict[str, str]:
    """Return pip's environment variables for a package index, including permission for ``http:``.

    Raise DomainError for ``http:`` unless the packages are ``hashed``.
    """
    parts = urlsplit(url)
    if parts.scheme == "http" and not hashed:
        raise DomainError(
            f"Error while choosing a Python package index: {parts.hostname} is reached by http, so that anyone in "
            "between could replace the packages. Use an https address, or set requirements with hashes."
        )
    trusted = {"PIP_TRUSTED_HOST": parts.netloc.rpartition("@")[2]} if parts.scheme == "http" else {}
    return {"PIP_INDEX_URL": url, **trusted}


class PythonEnvironment:
    """The environment in ``directory``, which contains nothing else."""

    def __init__(self, runner: Runner, directory: str) -> None:
        self._runner = runner
        self._directory = directory
        self._python = f"{directory}/bin/python"
        self._requirements = Path(directory, "requirements.txt")

    def version(self, package: str) -> str:
        """Return the installed version; empty if there is none or the environment does not work."""
        try:
            done = self._runner.run([self._python, "-c", _VERSION, package])
        except CommandError:
            return ""
        return done.stdout.strip() if done.rc == 0 else ""

    def requirements(self) -> str:
        """Return the installed requirements, empty if there are none."""
        try:
            return self._requirements.read_text()
        except OSError:
            return ""

    def install(self, package: str, version: str, environ: Mapping[str, str], requirements: str = "") -> None:
        """Create the environment again with this package. Raise DomainError.

        Nothing from another Python release or an interrupted run remains. ``requirements`` are lines with hashes for
        the package and all its dependencies; nothing else is installed then.
        """
        self._runner.check([_PYTHON, "-m", "venv", "--clear", self._directory], f"creating {self._directory}")
        argv = [self._python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-cache-dir"]
        # Building a package would run its code as root.
        argv.append("--only-binary=:all:")
        if requirements:
            self._requirements.write_text(requirements)
            wanted = ["--require-hashes", "--requirement", str(self._requirements)]
        else:
            wanted = [f"{package}=={version}"]
        done = self._runner.run([*argv, *wanted], environ=environ)
        if done.rc != 0:
            lines = done.message.splitlines()
            words = [line for line in lines if line.startswith("ERROR")] or lines
            raise DomainError(
                f"Error while installing {package} {version} into {self._directory}: {words[-1]}. Check whether this "
                "host can reach the Python package index, and whether the index has this version.",
                **done.fields(),
            )
