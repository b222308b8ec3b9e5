# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Makes the collection importable under its full name, and runs modules for real."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

# A busy machine is no failure; `pytest --hypothesis-profile long` looks much further.
settings.register_profile("usual", deadline=None, max_examples=300)
settings.register_profile("long", deadline=None, max_examples=100_000)
settings.load_profile("usual")

REPOSITORY = Path(__file__).resolve().parents[2]
_COLLECTIONS = REPOSITORY / "collections"

# The "ansible" package installs ansible_collections as a regular package, which hides namespace portions.
_IMPORTABLE = f"""
import sys
sys.path.insert(0, {str(_COLLECTIONS)!r})
try:
    import ansible_collections
    ansible_collections.__path__.insert(0, {str(_COLLECTIONS / "ansible_collections")!r})
except (ImportError, AttributeError):
    pass
"""
exec(_IMPORTABLE)

_LAUNCHER = (
    _IMPORTABLE
    + """
import runpy
from ansible.module_utils import basic
basic._ANSIBLE_ARGS = sys.stdin.buffer.read()
basic._ANSIBLE_PROFILE = "legacy"
sys.stdin = open("/dev/null")
name = "ansible_collections.gpulab.kubernetes.plugins.modules." + sys.argv.pop(1)
runpy.run_module(name, run_name="__main__", alter_sys=True)
"""
)


class FakePrograms:
    """A directory of executables that stands first in PATH of the modules under test."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self.directory = directory

    def add(self, name: str, body: str, interpreter: str = "/bin/sh") -> Path:
        path = self.directory / name
        path.write_text(f"#!{interpreter}\n{body}\n", encoding="utf-8")
        path.chmod(path.stat().st_mode | stat.S_IXUSR | stat.S_IXGRP | stat.S_IXOTH)
        return path

    def python(self, name: str, body: str) -> Path:
        return self.add(name, body, sys.executable)


class ModuleRunner:
    """Runs a module of this collection in a process of its own, as a host would."""

    def __init__(self, programs: FakePrograms, directory: Path) -> None:
        self.programs = programs
        self.directory = directory

    def __call__(
        self,
        module: str,
        args: Mapping[str, Any],
        *,
        check: bool = False,
        diff: bool = True,
        environ: Mapping[str, str] | None = None,
        path: str | None = None,
        timeout: float = 60,
    ) -> dict[str, Any]:
        """The module's result; ``failed`` is always there. A traceback fails the test."""
        process = self.start(module, args, check=check, diff=diff, environ=environ, path=path)
        try:
            stdout, stderr = process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            process.kill()
            raise
        assert "Traceback" not in stderr + stdout, stderr + stdout
        result: dict[str, Any] = json.loads(stdout)
        result.setdefault("failed", False)
        assert process.returncode == (1 if result["failed"] else 0)
        return result

    def start(
        self,
        module: str,
        args: Mapping[str, Any],
        *,
        check: bool = False,
        diff: bool = True,
        environ: Mapping[str, str] | None = None,
        path: str | None = None,
    ) -> subprocess.Popen[str]:
        """Only start the module, for tests that interrupt it."""
        text = json.dumps(
            {
                "ANSIBLE_MODULE_ARGS": {
                    **args,
                    "_ansible_check_mode": check,
                    "_ansible_diff": diff,
                    "_ansible_remote_tmp": str(self.directory),
                    "_ansible_tmpdir": str(self.directory),
                }
            }
        )
        search = path if path is not None else f"{self.programs.directory}{os.pathsep}{os.environ['PATH']}"
        process = subprocess.Popen(
            [sys.executable, "-c", _LAUNCHER, module],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=self.directory,
            env={**os.environ, **(environ or {}), "PATH": search},
        )
        assert process.stdin
        process.stdin.write(text)
        process.stdin.close()
        process.stdin = None
        return process


@pytest.fixture
def programs(tmp_path: Path) -> FakePrograms:
    return FakePrograms(tmp_path / "fake-bin")


@pytest.fixture
def run_module(programs: FakePrograms, tmp_path: Path) -> Callable[..., dict[str, Any]]:
    scratch = tmp_path / "module-tmp"
    scratch.mkdir()
    return ModuleRunner(programs, scratch)
