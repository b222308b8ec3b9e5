# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from typing import Any

from ansible_collections.gpulab.kubernetes.plugins.filter.containerd import FilterModule
from hypothesis import given
from hypothesis import strategies as some

state = FilterModule().filters()["containerd_state"]

BASE = "/etc/containerd/config.toml"
OURS = "/etc/containerd/conf.d/50-nvidia.toml"
CRI = "plugins.'io.containerd.cri.v1.runtime'.containerd"
RUNTIME = f"[{CRI}.runtimes.{{}}]\nruntime_type = 'io.containerd.runc.v2'\noptions = {{{{SystemdCgroup = {{}}}}}}\n"


def runtime(name: str, systemd: str = "true") -> str:
    return RUNTIME.format(name, systemd).replace("{{", "{").replace("}}", "}")


def file(path: str, text: str | None, imported: bool = True) -> dict[str, Any]:
    return {"path": path, "text": text, "imported": imported}


GOOD = [
    file(BASE, "version = 4\nimports = ['/etc/containerd/conf.d/*.toml']\n" + runtime("runc")),
    file(OURS, f"version = 4\n[{CRI}]\ndefault_runtime_name = 'nvidia'\n" + runtime("nvidia")),
]


def test_managed_gpu_host_has_no_conflicts() -> None:
    assert state(GOOD, "2.3.6-1~debian.12~bookworm", [BASE, OURS]) == {
        "default_runtime": "nvidia",
        "cdi": True,
        "systemd_cgroup": {"runc": True, "nvidia": True},
        "conflicts": [],
    }


def test_missing_configuration_has_no_state() -> None:
    assert state([], "2.3.6") == {}


def test_default_runtime_is_runc_if_none_is_configured() -> None:
    assert state([file(BASE, "version = 4\n")])["default_runtime"] == "runc"


def test_unmanaged_runtime_without_systemd_cgroup_is_a_problem() -> None:
    other = file("/etc/containerd/conf.d/99-mine.toml", "version = 4\n" + runtime("mine", "false"))
    (conflict,) = state([*GOOD, other], "2.3.6", [BASE, OURS])["conflicts"]
    assert (conflict["kind"], conflict["level"]) == ("systemd_cgroup", "problem")
    assert conflict["files"] == ["/etc/containerd/conf.d/99-mine.toml"]


def test_only_overridden_managed_runtimes_are_duplicate_problems() -> None:
    kata = f"version = 4\n[{CRI}.runtimes.kata]\nruntime_type = 'io.containerd.kata.v2'\nsnapshotter = "
    theirs = [
        file("/etc/containerd/conf.d/a.toml", f"{kata}'a'\n"),
        file("/etc/containerd/conf.d/b.toml", f"{kata}'b'"),
    ]
    (conflict,) = state([*GOOD, *theirs], "2.3.6", [BASE, OURS])["conflicts"]
    assert (conflict["kind"], conflict["level"]) == ("runtime_twice", "note")
    taken = file(
        "/etc/containerd/conf.d/99-mine.toml",
        f"version = 4\n[{CRI}.runtimes.nvidia]\nruntime_type = 'io.containerd.mine.v2'\n",
    )
    found = state([*GOOD, taken], "2.3.6", [BASE, OURS])["conflicts"]
    assert ("runtime_twice", "problem") in [(each["kind"], each["level"]) for each in found]


def test_unreadable_configuration_is_a_conflict_with_its_file() -> None:
    found = state([file(BASE, "version = 4\n[plugins\n")], "2.3.6")
    (conflict,) = found["conflicts"]
    assert (conflict["kind"], conflict["level"], conflict["files"]) == ("unreadable", "problem", [BASE])
    assert found["default_runtime"] is None and found["cdi"] is None
    assert state(GOOD, "no version")["conflicts"][0]["kind"] == "unreadable"


@given(some.lists(some.text() | some.none(), min_size=1, max_size=3), some.text(max_size=8))
def test_any_files_have_a_state(texts: list[str | None], release: str) -> None:
    found = state([file(f"/etc/{number}.toml", text) for number, text in enumerate(texts)], release)
    assert set(found) == {"default_runtime", "cdi", "systemd_cgroup", "conflicts"}
    if found["default_runtime"] is None:
        assert [each["kind"] for each in found["conflicts"]] == ["unreadable"]
