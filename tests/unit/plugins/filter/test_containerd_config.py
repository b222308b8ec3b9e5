# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.gpulab.kubernetes.plugins.filter.containerd import FilterModule

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


def test_merged_configuration_of_a_gpu_host_is_read() -> None:
    assert read(V4) == {
        "version": 4,
        "root": None,
        "state": None,
        "cri": True,
        "cri_table": "io.containerd.cri.v1.runtime",
        "default_runtime": "nvidia",
        "runtimes": {
            "runc": {"handler": "runc", "type": "io.containerd.runc.v2", "binary": None, "systemd_cgroup": True},
            "nvidia": {
                "handler": "nvidia",
                "type": "io.containerd.runc.v2",
                "binary": "/usr/bin/nvidia-container-runtime",
                "systemd_cgroup": True,
            },
        },
        "sandbox_image": "registry.k8s.io/pause:3.10.2",
        "cdi": True,
        "enable_cdi": True,
        "registry_config_path": "/etc/containerd/certs.d",
        "imports": ["/etc/containerd/conf.d/50-nvidia.toml", "/etc/containerd/conf.d/*.toml"],
        "disabled_plugins": [],
        "conflicts": [],
    }


def test_version_2_is_read_from_its_cri_table() -> None:
    result = read(
        """
        version = 2
        root = "/data/containerd"
        [plugins."io.containerd.grpc.v1.cri"]
          sandbox_image = "registry.k8s.io/pause:3.8"
          enable_cdi = false
          [plugins."io.containerd.grpc.v1.cri".registry]
            config_path = "/etc/containerd/certs.d"
        """
    )
    assert (result["sandbox_image"], result["registry_config_path"], result["cdi"], result["root"]) == (
        "registry.k8s.io/pause:3.8",
        "/etc/containerd/certs.d",
        False,
        "/data/containerd",
    )
    assert result["cri_table"] == "io.containerd.grpc.v1.cri"


V1 = """
[plugins.cri]
systemd_cgroup = true
sandbox_image = "k8s.gcr.io/pause:3.1"
[plugins.cri.containerd.default_runtime]
runtime_type = "io.containerd.runtime.v1.linux"
runtime_engine = "/usr/bin/nvidia-container-runtime"
[plugins.cri.containerd.untrusted_workload_runtime]
runtime_type = "io.containerd.runc.v2"
options = {BinaryName = "/opt/runsc", SystemdCgroup = true}
[plugins.cri.containerd.runtimes.old]
runtime_type = "io.containerd.runtime.v1.linux"
[plugins.cri.containerd.runtimes.older]
runtime_type = "io.containerd.runtime.v1.linux"
options = {Runtime = "/usr/bin/nvidia-container-runtime"}
[plugins.linux]
runtime = "nvidia-container-runtime"
"""


def test_version_1_has_a_default_and_an_untrusted_runtime() -> None:
    result = read(V1)
    assert (result["version"], result["cri_table"], result["default_runtime"]) == (1, "cri", "default")
    assert result["sandbox_image"] == "k8s.gcr.io/pause:3.1"
    found = {name: (one["binary"], one["systemd_cgroup"]) for name, one in result["runtimes"].items()}
    assert found == {
        "default": ("/usr/bin/nvidia-container-runtime", True),
        "untrusted": ("/opt/runsc", True),
        "old": ("nvidia-container-runtime", True),
        "older": ("/usr/bin/nvidia-container-runtime", None),
    }
    assert result["conflicts"] == []
    assert set(read(V1, "2.3.6")["runtimes"]) == {"old", "older"}, "containerd 2 forgot the tables beside runtimes"


def test_tables_of_another_version_are_ignored() -> None:
    text = "version = {}\n[plugins.'io.containerd.grpc.v1.cri'.containerd]\ndefault_runtime_name = 'runc'\n"
    for version, default in ((2, "runc"), (3, "runc"), (4, None)):
        assert read(text.format(version))["default_runtime"] == default
    assert kinds(text.format(4)) == ["table_ignored"]
    assert kinds(text.format(3)) == []
    assert kinds(text.format(3), "2.2.1") == ["table_ignored"]
    assert read(text.format(3), "2.2.1")["default_runtime"] is None
    assert read(text.format(2), "2.2.1")["default_runtime"] == "runc"


def test_newer_table_overrides_the_older_one_in_the_same_file() -> None:
    older, newer = "[plugins.'io.containerd.grpc.v1.cri']\n", "[plugins.'io.containerd.cri.v1.runtime']\n"
    text = f"version = 2\n{older}enable_cdi = true\n{newer}enable_cdi = false\n"
    assert read(text)["enable_cdi"] is False
    assert read(text, "1.7.28")["enable_cdi"] is True


@pytest.mark.parametrize(
    ("text", "release", "cdi"),
    [
        ("", "", None),
        ("version = 2", "", None),
        ("version = 2", "1.6.20", False),
        ("version = 2", "1.7.28", False),
        ("version = 2", "2.0.5", True),
        ("version = 3", "", True),
        (V4.replace("enable_cdi = true", "enable_cdi = false"), "2.3.6", False),
        ("version = 2\n[plugins.'io.containerd.grpc.v1.cri']\nenable_cdi = true", "1.7.24~ds1", True),
    ],
)
def test_cdi_is_enabled_by_default_since_containerd_2(text: str, release: str, cdi: bool | None) -> None:
    assert read(text, release)["cdi"] is cdi


@pytest.mark.parametrize(
    ("old", "new", "kind", "words"),
    [
        ("version = 4", 'version = 4\ndisabled_plugins = ["cri"]', "cri_disabled", "CRI plugin is disabled"),
        ("'nvidia'\n", "'gone'\n", "default_runtime_missing", "default runtime gone is not among the runtimes nvidia"),
        ("options = {SystemdCgroup = true}", "", "systemd_cgroup", "not for runc"),
        ("runtime'\nSystemdCgroup = true", "runtime'", "systemd_cgroup", "not for nvidia"),
        ("enable_cdi = true", "enable_cdi = false", "cdi_disabled", "CDI is disabled"),
        (
            "certs.d'\n",
            "certs.d'\nmirrors = {'docker.io' = {endpoint = ['http://m']}}\n",
            "registry_mirrors",
            "does not start with both",
        ),
        ("enable_cdi", "systemd_cgroup = true\nenable_cdi", "systemd_cgroup_of_v1", "options.SystemdCgroup"),
        ("options = {", "runtime_engine = '/usr/bin/crun'\noptions = {", "runtime_engine", "runtime_engine of runc"),
    ],
)
def test_each_conflict_is_reported_with_its_file(old: str, new: str, kind: str, words: str) -> None:
    assert old in V4
    (conflict,) = read(V4.replace(old, new, 1))["conflicts"]
    assert words in conflict.pop("text")
    assert conflict == {"kind": kind, "level": "problem", "files": [""]}


def kinds(files: Any, release: str = "") -> list[str]:
    return [conflict["kind"] for conflict in read(files, release)["conflicts"]]


def test_other_runtime_types_need_no_systemd_cgroup() -> None:
    kata = "[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.kata]\nruntime_type = 'io.containerd.kata.v2'\n"
    assert read(V4 + kata)["conflicts"] == []


def test_deprecated_mirrors_are_not_a_conflict() -> None:
    assert (
        kinds("version = 2\n[plugins.'io.containerd.grpc.v1.cri'.registry.mirrors.'docker.io']\nendpoint = []\n") == []
    )


def test_runc_exists_without_being_configured() -> None:
    runtime = "version = 3\n[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.nvidia.options]\n"
    assert kinds(runtime + "SystemdCgroup = true") == []


# --- several files


def table(version: int, **options: str) -> str:
    """Return a configuration with one runtime, which is nvidia by default."""
    name, default = options.pop("name", "nvidia"), options.pop("default", "")
    cri = "io.containerd.cri.v1.runtime" if version > 2 else "io.containerd.grpc.v1.cri"
    lines = [f"version = {version}", f"[plugins.'{cri}'.containerd]"]
    lines += [f"default_runtime_name = '{default}'"] if default else []
    lines += [f"[plugins.'{cri}'.containerd.runtimes.{name}]", "runtime_type = 'io.containerd.runc.v2'"]
    lines += [f"[plugins.'{cri}'.containerd.runtimes.{name}.options]"]
    return "\n".join(lines + [f"{key} = {value}" for key, value in options.items()]) + "\n"


def files(*texts: str | None, imported: bool = True) -> list[dict[str, Any]]:
    paths = ["/etc/containerd/config.toml", *(f"/etc/containerd/conf.d/{n}0.toml" for n in range(1, len(texts)))]
    return [
        {"path": path, "text": text, "imported": imported or not number}
        for number, (path, text) in enumerate(zip(paths, texts, strict=True))
    ]


TRUE = {"SystemdCgroup": "true"}


@pytest.mark.parametrize("release", ["", "2.0.5", "2.3.6"])
def test_drop_in_is_merged_into_the_base_by_key(release: str) -> None:
    base, drop_in = table(3, name="runc", **TRUE), table(3, default="nvidia", BinaryName="'/n'", **TRUE)
    late = table(3, BinaryName="'/other'")
    result = read(files(base, drop_in, late), release)
    assert result["default_runtime"] == "nvidia"
    assert {name: one["binary"] for name, one in result["runtimes"].items()} == {"runc": None, "nvidia": "/other"}
    assert all(one["systemd_cgroup"] for one in result["runtimes"].values())
    (conflict,) = result["conflicts"]
    assert (conflict["kind"], conflict["level"]) == ("runtime_twice", "problem")
    assert conflict["files"] == ["/etc/containerd/conf.d/10.toml", "/etc/containerd/conf.d/20.toml"]
    assert "options.BinaryName is '/n', then '/other'" in conflict["text"]


def test_before_containerd_2_a_drop_in_replaces_the_whole_table() -> None:
    base, drop_in = table(2, name="runc", default="runc", **TRUE), table(2, **TRUE)
    assert set(read(files(base, drop_in), "1.7.28")["runtimes"]) == {"nvidia"}
    assert set(read(files(base, drop_in), "2.0.5")["runtimes"]) == {"nvidia", "runc"}


MIRROR = """version = 2
[plugins."io.containerd.grpc.v1.cri".registry.mirrors."docker.io"]
  endpoint = ["https://mirror.example.org"]
"""


def test_replaced_table_is_a_conflict_before_containerd_2() -> None:
    both = files(table(2, default="nvidia", **TRUE), MIRROR)
    result = read(both, "1.7.27")
    (conflict,) = [each for each in result["conflicts"] if each["kind"] == "table_replaced"]
    assert (conflict["level"], conflict["files"]) == ("problem", [both[1]["path"], both[0]["path"]])
    assert "replaces the whole table io.containerd.grpc.v1.cri of" in conflict["text"]
    assert "containerd.default_runtime_name" in conflict["text"] and "no longer take effect" in conflict["text"]
    assert result["runtimes"] == {}
    between = files(both[0]["text"], "version = 2\n[plugins.x]\na = 1\n", MIRROR)
    assert kinds(between, "1.6.33").count("table_replaced") == 1
    assert "table_replaced" not in kinds(both, "2.0.5") + kinds(both)


@pytest.mark.parametrize(
    ("drop_in", "lost"),
    [
        # The drop-in repeats all settings, or concerns another plugin.
        (table(2, default="nvidia", **TRUE) + "\n[metrics]\naddress = 'x'\n", False),
        ("version = 2\n[plugins.'io.containerd.monitor.v1.cgroups']\nno_prometheus = true\n", False),
        ("version = 2\n", False),
        (table(2, name="other", default="nvidia", **TRUE), True),
    ],
)
def test_drop_in_that_removes_no_setting_is_not_a_conflict(drop_in: str, lost: bool) -> None:
    assert ("table_replaced" in kinds(files(table(2, default="nvidia", **TRUE), drop_in), "1.7.27")) is lost


@pytest.mark.parametrize(
    ("release", "runtimes", "found"),
    [
        ("", {"runc", "nvidia"}, []),
        ("2.3.6", {"runc", "nvidia"}, []),
        ("2.2.1", {"runc"}, ["table_ignored"]),
    ],
)
def test_drop_in_of_a_lower_version_is_ignored_by_some_releases(
    release: str, runtimes: set[str], found: list[str]
) -> None:
    both = files(table(3, name="runc", **TRUE), table(2, **TRUE))
    assert set(read(both, release)["runtimes"]) == runtimes
    assert kinds(both, release) == found


@pytest.mark.parametrize(
    ("release", "runtimes", "found"),
    [
        ("", {"runc", "nvidia"}, []),
        ("2.4.0", {"runc", "nvidia"}, []),
        ("2.3.6-1~debian.13~trixie", {"runc", "nvidia"}, []),
        ("2.3.5", {"runc", "nvidia"}, []),
        ("v2.3.4", {"runc", "nvidia"}, ["version_above_base"]),
        ("2.3.2-1~ubuntu.24.04~noble", {"runc", "nvidia"}, ["version_above_base"]),
        ("2.3.0", {"runc", "nvidia"}, ["version_above_base"]),
        ("2.3.0-rc.0", {"runc", "nvidia"}, ["version_above_base"]),
        ("2.2.1", {"nvidia"}, ["version_above_base"]),
        ("1.7.28", {"runc"}, ["version_unsupported", "table_ignored"]),
    ],
)
def test_drop_in_of_a_higher_version_is_a_conflict_for_some_releases(
    release: str, runtimes: set[str], found: list[str]
) -> None:
    both = files(table(2, name="runc", **TRUE), table(3, **TRUE))
    result = read(both, release)
    assert set(result["runtimes"]) == runtimes
    assert [conflict["kind"] for conflict in result["conflicts"]] == found
    if release.lstrip("v").startswith("2.3") and found:
        assert "2.3.0 to 2.3.4 does not start with it" in result["conflicts"][0]["text"]


def test_runtime_with_equal_definitions_in_two_files_is_a_note() -> None:
    (conflict,) = read(files(table(3, **TRUE), table(3, **TRUE)))["conflicts"]
    assert (conflict["kind"], conflict["level"]) == ("runtime_twice", "note")


def test_drop_in_that_is_not_imported_is_ignored() -> None:
    result = read(files(table(3, name="runc", **TRUE), table(3, **TRUE), imported=False))
    assert set(result["runtimes"]) == {"runc"}
    (conflict,) = result["conflicts"]
    assert (conflict["kind"], conflict["files"]) == ("drop_ins_not_imported", ["/etc/containerd/conf.d/10.toml"])


def test_runtime_without_systemd_cgroup_is_reported_with_its_file() -> None:
    (conflict,) = read(files(table(3, name="runc", **TRUE), table(3, BinaryName="'/n'")))["conflicts"]
    assert (conflict["kind"], conflict["files"]) == ("systemd_cgroup", ["/etc/containerd/conf.d/10.toml"])


def test_missing_import_is_a_conflict() -> None:
    assert kinds(files(table(3, name="runc", **TRUE), None)) == ["import_missing"]


def test_no_configuration_files_have_no_conflicts() -> None:
    result = read([])
    assert (result["version"], result["runtimes"], result["conflicts"]) == (1, {}, [])
