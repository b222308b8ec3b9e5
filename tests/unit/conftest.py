# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Make the collection importable under its full name, and run modules as processes."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from support.fork_server import ForkServer

# No deadline, because busy machines are slow. `pytest --hypothesis-profile long` runs many more examples.
settings.register_profile("usual", deadline=None, max_examples=300)
settings.register_profile("few", deadline=None, max_examples=30)
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

_MODULES = "ansible_collections.gpulab.kubernetes.plugins.modules."
_SERVER = f"""{_IMPORTABLE}
sys.path[:0] = {[str(Path(__file__).with_name("fixtures")), str(Path(__file__).parents[1])]!r}
import module_server
"""


class FakePrograms:
    """A directory of executables that comes first in PATH of the modules under test."""

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
    """Runs a module of this collection in a process of its own, as on a host."""

    def __init__(self, server: ForkServer, programs: FakePrograms, directory: Path) -> None:
        self.server = server
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
        """Return the module's result, with ``failed`` always set. A traceback fails the test."""
        returncode, stdout, stderr = self.server.run(
            _MODULES + module,
            self._text(args, check, diff),
            directory=self.directory,
            environ=self._environ(environ, path),
            timeout=timeout,
        )
        assert "Traceback" not in stderr + stdout, stderr + stdout
        result: dict[str, Any] = json.loads(stdout)
        result.setdefault("failed", False)
        assert returncode == (1 if result["failed"] else 0)
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
        process = subprocess.Popen(
            [sys.executable, "-c", f"{_SERVER}module_server.run({_MODULES + module!r}, sys.stdin.read())"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=self.directory,
            env=self._environ(environ, path),
        )
        assert process.stdin
        process.stdin.write(self._text(args, check, diff))
        process.stdin.close()
        process.stdin = None
        return process

    def _text(self, args: Mapping[str, Any], check: bool, diff: bool) -> str:
        given = {
            "_ansible_check_mode": check,
            "_ansible_diff": diff,
            "_ansible_remote_tmp": str(self.directory),
            "_ansible_tmpdir": str(self.directory),
        }
        return json.dumps({"ANSIBLE_MODULE_ARGS": {**args, **given}})

    def _environ(self, environ: Mapping[str, str] | None, path: str | None) -> dict[str, str]:
        search = path if path is not None else f"{self.programs.directory}{os.pathsep}{os.environ['PATH']}"
        return {**os.environ, **(environ or {}), "PATH": search}


@pytest.fixture(scope="session")
def module_server() -> Iterator[ForkServer]:
    server = ForkServer([sys.executable, "-c", f"{_SERVER}module_server.serve()"])
    yield server
    server.close()


@pytest.fixture
def programs(tmp_path: Path) -> FakePrograms:
    return FakePrograms(tmp_path / "fake-bin")


@pytest.fixture
def run_module(module_server: ForkServer, programs: FakePrograms, tmp_path: Path) -> Callable[..., dict[str, Any]]:
    scratch = tmp_path / "module-tmp"
    scratch.mkdir()
    return ModuleRunner(module_server, programs, scratch)
