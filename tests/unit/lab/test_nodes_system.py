"""Requirements on the machine below, and what nodes see of its kernel."""

from __future__ import annotations

import os
import resource
from pathlib import Path

import pytest

from lab import depot
from lab.nodes import system
from lab.nodes.errors import LabError


def test_without_root_there_is_one_error_with_a_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setattr(system, "missing_packages", lambda: ["podman", "runc"])
    with pytest.raises(LabError) as caught:
        system.require()
    for words in ("the lab needs root", "rootless Podman can't", "sudo -E make lab", "use a virtual machine"):
        assert words in str(caught.value)
    assert "apt-get install --yes podman runc" in str(caught.value)


def test_missing_programs_are_named_by_their_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(system, "_PACKAGES", {"there": "there-tool", "absent": "absent-tool", "file": "/no/such/file"})
    monkeypatch.setattr(depot, "HOST_PACKAGES", [])
    (tmp_path / "there-tool").write_text("#!/bin/sh\n")
    (tmp_path / "there-tool").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert system.missing_packages() == ["absent", "file"]


def test_limits_never_exceed_those_of_the_caller(monkeypatch: pytest.MonkeyPatch) -> None:
    hard = {resource.RLIMIT_NOFILE: 20000, resource.RLIMIT_NPROC: resource.RLIM_INFINITY}
    monkeypatch.setattr(resource, "getrlimit", lambda kind: (0, hard[kind]))
    monkeypatch.setattr(system, "_may_raise_limits", lambda: False)
    assert system.limits() == ["--ulimit=nofile=20000:20000", "--ulimit=nproc=1048576:1048576"]
    hard[resource.RLIMIT_NPROC] = 96365
    # Podman first lowers its own limit to 32768.
    assert system.limits()[1] == "--ulimit=nproc=32768:32768"
    monkeypatch.setattr(system, "_may_raise_limits", lambda: True)
    assert system.limits() == ["--ulimit=nofile=1048576:1048576", "--ulimit=nproc=1048576:1048576"]


def test_modules_of_a_node_are_unique_paths_without_gpu_drivers() -> None:
    places = system.modules_builtin().splitlines()
    names = [Path(place).stem.replace("-", "_") for place in places]
    assert all(place.startswith("kernel/") and place.endswith(".ko") for place in places)
    assert len(names) == len(set(names))
    assert {"overlay", "nf_conntrack"} <= set(names) and {"ip_tables", "nf_tables"} & set(names)
    assert not [name for name in names if name.startswith(("nvidia", "nouveau"))]
