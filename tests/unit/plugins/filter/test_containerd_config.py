# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import csv
import json
import os
from pathlib import Path
from typing import Any

import pytest
import tomllib
from ansible.errors import AnsibleFilterError
from ansible_collections.gpulab.kubernetes.plugins.filter.containerd_config import FilterModule
from hypothesis import given
from hypothesis import strategies as st

read = FilterModule().filters()["containerd_config"]

V4 = """
version = 4
imports = ['/etc/containerd/conf.d/50-nvidia.toml', '/etc/containerd/conf.d/*.toml']

[plugins.'io.containerd.cri.v1.images'.pinned_images]
sandbox = 'registry.k8s.io/pause:3.10.2'
[plugins.'io.containerd.cri.v1.images'.registry]
config_path = '/etc/containerd/certs.d'
[plugins.'io.containerd.cri.v1.runtime']
enable_cdi = true
[plugins.'io.containerd.cri.v1.runtime'.containerd]
default_runtime_name = 'nvidia'
[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc]
runtime_type = 'io.containerd.runc.v2'
options = {SystemdCgroup = true}
[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.nvidia]
runtime_type = 'io.containerd.runc.v2'
[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.nvidia.options]
BinaryName = '/usr/bin/nvidia-container-runtime'
SystemdCgroup = true
"""


def test_merged_configuration_of_a_gpu_host() -> None:
    result = read(V4)
    plugins = result.pop("plugins")
    assert plugins == tomllib.loads(V4)["plugins"]
    assert result == {
        "version": 4,
        "cri": True,
        "default_runtime": "nvidia",
        "runtimes": {
            "runc": {"type": "io.containerd.runc.v2", "binary": None, "systemd_cgroup": True},
            "nvidia": {
                "type": "io.containerd.runc.v2",
                "binary": "/usr/bin/nvidia-container-runtime",
                "systemd_cgroup": True,
            },
        },
        "sandbox_image": "registry.k8s.io/pause:3.10.2",
        "cdi": True,
        "registry_config_path": "/etc/containerd/certs.d",
        "imports": ["/etc/containerd/conf.d/50-nvidia.toml", "/etc/containerd/conf.d/*.toml"],
        "disabled_plugins": [],
        "conflicts": [],
    }


def test_version_2_has_one_table() -> None:
    result = read(
        """
        version = 2
        [plugins."io.containerd.grpc.v1.cri"]
          sandbox_image = "registry.k8s.io/pause:3.8"
          enable_cdi = false
          [plugins."io.containerd.grpc.v1.cri".registry]
            config_path = "/etc/containerd/certs.d"
        """
    )
    assert (result["sandbox_image"], result["registry_config_path"], result["cdi"]) == (
        "registry.k8s.io/pause:3.8",
        "/etc/containerd/certs.d",
        False,
    )


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("version = 4", 'version = 4\ndisabled_plugins = ["cri"]', "CRI plugin is switched off"),
        ("'nvidia'\n", "'gone'\n", "default runtime gone is not among the runtimes nvidia, runc"),
        ("options = {SystemdCgroup = true}", "", "not for runc"),
        ("runtime'\nSystemdCgroup = true", "runtime'", "not for nvidia"),
        ("enable_cdi = true", "enable_cdi = false", "CDI is switched off"),
    ],
)
def test_conflict(old: str, new: str, words: str) -> None:
    assert old in V4
    (conflict,) = read(V4.replace(old, new, 1))["conflicts"]
    assert words in conflict


def test_runtime_of_another_kind_may_manage_cgroups_its_way() -> None:
    kata = "[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.kata]\nruntime_type = 'io.containerd.kata.v2'\n"
    assert read(V4 + kata)["conflicts"] == []


def test_what_is_no_toml() -> None:
    with pytest.raises(AnsibleFilterError, match=r"Error while reading containerd's configuration: .*line 2"):
        read("version = 2\nimports =\n")


_TABLES = st.recursive(
    st.one_of(st.booleans(), st.integers(), st.text("ab", max_size=3), st.lists(st.text("ab"), max_size=2)),
    lambda inner: st.dictionaries(
        st.sampled_from(
            ["plugins", "io.containerd.cri.v1.runtime", "io.containerd.cri.v1.images", "cri", "containerd", "runtimes",
             "runc", "options", "pinned_images", "registry", "enable_cdi", "disabled_plugins", "imports", "version"]
        ),
        inner,
        max_size=5,
    ),
    max_leaves=15,
)  # fmt: skip


@given(st.dictionaries(st.sampled_from(["plugins", "version", "imports", "disabled_plugins"]), _TABLES, max_size=4))
def test_any_tables_have_a_result(tables: dict[str, Any]) -> None:
    read("".join(f"{name} = {inline(value)}\n" for name, value in tables.items()))


def inline(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f'"{name}" = {inline(one)}' for name, one in value.items()) + "}"
    return json.dumps(value)


CAPTURES = Path(os.environ.get("GPULAB_CAPTURES", Path(__file__).parents[4].parent / "shared/captures"))
INDEX = CAPTURES / "INDEX.tsv"


def captures() -> list[tuple[str, dict[str, Any]]]:
    """(file, what it says) for each captured containerd configuration, where they are at hand."""
    if not INDEX.exists():
        return []
    with INDEX.open(encoding="utf-8", newline="") as file:
        rows = [row for row in csv.reader(file, delimiter="\t", quoting=csv.QUOTE_NONE) if row]
    return [(row[0], json.loads(row[-1])) for row in rows if row[0].startswith("containerd/")]


@pytest.mark.skipif(not INDEX.exists(), reason="GPULAB_CAPTURES names no directory of captures")
@pytest.mark.parametrize(("file", "said"), captures())
def test_captured_configuration(file: str, said: dict[str, Any]) -> None:
    result = read((CAPTURES / file).read_text(encoding="utf-8"))
    assert result["version"] == said["effective_version"]
    assert result["disabled_plugins"] == sorted(said.get("disabled_plugins") or [])
    assert result["imports"] == (said.get("imports") or [])
    if "runtimes" not in said:
        assert result["runtimes"] == {}
        return
    assert result["default_runtime"] == said["default_runtime_name"]
    assert sorted(result["runtimes"]) == said["runtimes"]
    cgroups = {name: table["systemd_cgroup"] for name, table in result["runtimes"].items()}
    assert cgroups == said["systemd_cgroup"]
    binaries = {name: table["binary"] for name, table in result["runtimes"].items() if "nvidia" in name}
    assert binaries == said["nvidia_binary"]
    assert result["cdi"] == said["enable_cdi"]
    assert result["sandbox_image"] == said["sandbox_image"]
