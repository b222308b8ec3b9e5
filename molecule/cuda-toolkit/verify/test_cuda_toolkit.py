"""A machine with a driver and two CUDA toolkits: no cluster."""

from __future__ import annotations

from typing import Any

import pytest


@pytest.mark.parametrize(
    ("home", "release"), [("cuda-12.9", "V12.9.86"), ("cuda-13.0", "V13.0.88"), ("cuda", "V12.9.86")]
)
def test_each_toolkit_has_a_compiler_of_its_release(machine: Any, home: str, release: str) -> None:
    assert release in machine.check_output(f"/usr/local/{home}/bin/nvcc --version")


def test_a_login_shell_finds_the_default_toolkit(machine: Any) -> None:
    assert "V12.9.86" in machine.check_output("bash -lc 'nvcc --version'")


def test_the_toolkits_are_held(machine: Any) -> None:
    assert {"cuda-toolkit-12-9", "cuda-toolkit-13-0"} <= set(machine.check_output("apt-mark showhold").split())
