# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Preflight's rule about unmanaged drop-ins of containerd."""

from __future__ import annotations

from typing import Any

import pytest
from test_preflight_problems import CRI, check


def drop_in(text: str, name: str = "99-nvidia.toml") -> dict[str, Any]:
    return {"path": f"/etc/containerd/conf.d/{name}", "text": text, "imported": True}


NVIDIA = f"version = 3\n[{CRI}.runtimes.nvidia.options]\n"


@pytest.mark.parametrize(
    ("host", "text", "words"),
    [
        ("gpu1", "version = 3\nx =\n", ["(/etc/containerd/conf.d/99-nvidia.toml): Invalid", "does not start"]),
        (
            "gpu1",
            "version = 5\n",
            ["has version 5", "supports versions up to 4", "/etc/containerd/conf.d/99-nvidia.toml"],
        ),
        ("cp1", NVIDIA + "BinaryName = '/n'", ["not for nvidia", "/etc/containerd/conf.d/99-nvidia.toml"]),
        ("gpu1", NVIDIA + "BinaryName = '/opt/toolkit/n'", ["50-nvidia.toml", "'/opt/toolkit/n'"]),
        (
            "gpu1",
            f"version = 3\n[{CRI}]\ndefault_runtime_name = 'runc'",
            ["makes runc the default", "has already set it to nvidia"],
        ),
        ("cp1", f"version = 3\n[{CRI}]\ndefault_runtime_name = 'crun'", ["crun is not among the runtimes runc"]),
        ("cp1", "version = 3\ndisabled_plugins = ['io.containerd.cri.v1.runtime']", ["CRI plugin is disabled"]),
        ("cp1", "version = 3\nimports = ['gone.toml']", ["/gone.toml is imported but does not exist"]),
    ],
)
def test_conflicting_unmanaged_drop_in_is_reported(host: str, text: str, words: list[str]) -> None:
    gone = {"path": "/etc/containerd/conf.d/gone.toml", "text": None, "imported": True}
    found = [drop_in(text), *([gone] if "gone" in text else [])]
    problems = check({f"{host}.facts.containerd_drop_ins": found})
    assert [problem["host"] for problem in problems] == [host], problems
    said = " ".join(problems[0].values())
    assert all(word in said for word in words), said
    assert all(problems[0][field] for field in ("what", "where", "why", "do"))


KATA = f"[{CRI}.runtimes.kata]\nruntime_type = 'io.containerd.kata.v2'\nprivileged_without_host_devices = "


@pytest.mark.parametrize(
    ("host", "found"),
    [
        ("gpu1", [drop_in(NVIDIA + "SystemdCgroup = true\nBinaryName = '/usr/bin/nvidia-container-runtime'\n")]),
        ("gpu1", [drop_in(NVIDIA, "10-nvidia.toml")]),
        ("gpu1", [drop_in(f"version = 3\n[{CRI}]\ndefault_runtime_name = 'runc'", "10-early.toml")]),
        ("gpu1", [drop_in("rubbish of ours, which is written again", "50-nvidia.toml")]),
        ("cp1", [drop_in(f"version = 3\n[{CRI}.runtimes.runc.options]\nBinaryName = '/usr/local/sbin/runc'\n")]),
        ("cp1", [drop_in("version = 3\n" + KATA + "true"), drop_in("version = 3\n" + KATA + "false", "99-z.toml")]),
        (
            "cp1",
            [
                drop_in(
                    "version = 2\n[plugins.'io.containerd.grpc.v1.cri'.containerd]\ndefault_runtime_name = 'crun'\n"
                    "[plugins.'io.containerd.grpc.v1.cri'.containerd.runtimes.crun.options]\nSystemdCgroup = true\n"
                )
            ],
        ),
    ],
)
def test_compatible_unmanaged_drop_in_is_accepted(host: str, found: list[dict[str, Any]]) -> None:
    assert check({f"{host}.facts.containerd_drop_ins": found}) == []


def test_drop_ins_are_not_checked_without_managed_files() -> None:
    changes = {"cp1.settings.containerd_files": [], "cp1.facts.containerd_drop_ins": [drop_in("rubbish")]}
    assert check(changes) == []


OPERATORS = (
    f"version = 3\n[{CRI}.runtimes.nvidia.options]\nBinaryName = '/usr/local/nvidia/toolkit/nvidia-container-runtime'\n"
)


def test_drop_in_of_a_second_toolkit_is_reported() -> None:
    found = {"gpu1.facts.containerd_drop_ins": [drop_in(f"{OPERATORS}SystemdCgroup = true\n")]}
    (problem,) = check(found)
    assert problem["where"] == "/etc/containerd/conf.d/99-nvidia.toml"
    assert "toolkit.enabled=false" in problem["do"] and "nvidia_container_toolkit_source=operator" in problem["do"]
    base = check({**found, "gpu1.settings.containerd_files": []})
    assert base == []
