"""A machine with a driver and two CUDA toolkits: no cluster."""

from __future__ import annotations

from typing import Any

import pytest


@pytest.mark.parametrize(
    ("home", "release"), [("cuda-13.1", "V13.1.115"), ("cuda-13.2", "V13.2.78"), ("cuda", "V13.1.115")]
)
def test_each_toolkit_has_a_compiler_of_its_release(machine: Any, home: str, release: str) -> None:
    assert release in machine.check_output(f"/usr/local/{home}/bin/nvcc --version")


def test_a_login_shell_finds_the_default_toolkit(machine: Any) -> None:
    assert "V13.1.115" in machine.check_output("bash -lc 'nvcc --version'")


def test_the_toolkits_are_held(machine: Any) -> None:
    assert {"cuda-toolkit-13-1", "cuda-toolkit-13-2"} <= set(machine.check_output("apt-mark showhold").split())
