# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The Python environment with fake programs; tests/integration/test_launch.py uses real ones."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpulab.kubernetes.plugins.module_utils._command import CommandNotFoundError, Result
from ansible_collections.gpulab.kubernetes.plugins.module_utils._errors import DomainError
from ansible_collections.gpulab.kubernetes.plugins.module_utils._host.python_environment import (
    _VERSION,
    PythonEnvironment,
    index,
)


class Programs:
    def __init__(self, answer: Result | None) -> None:
        self.answer, self.calls, self.environ = answer, [], {}  # type: ignore[var-annotated]

    def run(self, argv: Any, environ: Any = None) -> Result:
        self.calls.append(argv)
        self.environ = environ or {}
        if self.answer is None:
            raise CommandNotFoundError("no such program")
        return self.answer

    def check(self, argv: Any, doing: str) -> None:
        self.calls.append(argv)


@pytest.mark.parametrize(
    ("answer", "version"),
    [
        (None, ""),
        (Result((), 0, "0.31.0\n", ""), "0.31.0"),
        (Result((), 0, "\n", ""), ""),
        (Result((), 1, "", "x"), ""),
    ],
)
def test_a_broken_environment_has_no_version(answer: Result | None, version: str) -> None:
    assert PythonEnvironment(Programs(answer), "/opt/x").version("wandb") == version  # type: ignore[arg-type]


def test_the_package_is_installed_from_the_index_into_a_new_environment() -> None:
    programs = Programs(Result((), 0, "", ""))
    environ = {"PIP_INDEX_URL": "https://u:secret@example.org/simple"}
    PythonEnvironment(programs, "/opt/x").install("wandb", "0.31.0", environ)  # type: ignore[arg-type]
    made, installed = programs.calls
    assert made == ["/usr/bin/python3", "-m", "venv", "--clear", "/opt/x"]
    assert (installed[0], installed[-1], programs.environ) == ("/opt/x/bin/python", "wandb==0.31.0", environ)
    assert "secret" not in str(programs.calls) and "--only-binary=:all:" in installed


def test_only_requirements_with_hashes_are_installed(tmp_path: Path) -> None:
    programs = Programs(Result((), 0, "", ""))
    environment = PythonEnvironment(programs, str(tmp_path))  # type: ignore[arg-type]
    assert environment.requirements() == ""
    environment.install("wandb", "0.31.0", {}, "wandb==0.31.0 --hash=sha256:1\n")
    assert programs.calls[-1][-4:] == [
        "--only-binary=:all:",
        "--require-hashes",
        "--requirement",
        f"{tmp_path}/requirements.txt",
    ]
    assert environment.requirements() == "wandb==0.31.0 --hash=sha256:1\n"


@pytest.mark.parametrize(
    ("url", "trusted"),
    [("https://pypi.org/simple", None), ("http://u:p@mirror.example.org:8080/simple", "mirror.example.org:8080")],
)
def test_an_index_without_https_is_accepted_for_packages_with_hashes(url: str, trusted: str | None) -> None:
    assert (index(url, True)["PIP_INDEX_URL"], index(url, True).get("PIP_TRUSTED_HOST")) == (url, trusted)


@pytest.mark.parametrize("check", [False, True])
def test_an_index_without_https_is_refused_for_other_packages(tmp_path: Path, run_module: Any, check: bool) -> None:
    values = {
        "path": str(tmp_path / "venv"),
        "package": "wandb",
        "version": "1",
        "index_url": "http://u:pw@mirror/simple",
    }
    result = run_module("python_environment", values, check=check)
    assert "mirror is reached by http, so that anyone in between could replace the packages" in result["msg"]
    assert "pw@" not in result["msg"] and not (tmp_path / "venv").exists()


def test_pips_reason_is_part_of_the_error() -> None:
    said = "WARNING: Retrying\nERROR: No matching distribution found for wandb==0.31.0\nsomething else"
    with pytest.raises(
        DomainError,
        match=r"No matching distribution found.*Check whether this host can reach the Python package index, and",
    ) as caught:
        PythonEnvironment(Programs(Result(("pip",), 1, "", said)), "/opt/x").install("wandb", "0.31.0", {})  # type: ignore[arg-type]
    assert (caught.value.fields["cmd"], caught.value.fields["stderr"]) == (("pip",), said)


@pytest.mark.parametrize(("package", "found"), [("pytest", pytest.__version__), ("not-there", "")])
def test_the_version_is_read_with_the_environments_own_python(package: str, found: str) -> None:
    done = subprocess.run([sys.executable, "-c", _VERSION, package], capture_output=True, text=True, check=False)
    assert (done.stdout.strip(), done.returncode == 0) == (found, bool(found))
