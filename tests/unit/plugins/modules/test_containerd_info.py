# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpulab.kubernetes.plugins.filter.containerd import containerd_config
from ansible_collections.gpulab.kubernetes.plugins.module_utils._containerd.info import parse_unit, parse_version

CONTAINERD = """
case "$*" in
  --version) echo "containerd github.com/containerd/containerd/v2 v2.3.6 5f8a1e0c" ;;
  "--config /x.toml config dump") {dump} ;;
  *) echo "unexpected: $*" >&2; exit 2 ;;
esac"""
SYSTEMCTL = """
[ "$1 $2" = "show containerd.service" ] || exit 1
echo ActiveState={state}
echo "ActiveEnterTimestamp=Sat 2026-11-21 03:14:15 UTC"
"""


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("containerd github.com/containerd/containerd/v2 v2.3.6 5f8a1e0c1d\n", "2.3.6"),
        ("containerd containerd.io 1.7.28 b98a3aace656320842a23f4a392a33f46af97866\n", "1.7.28"),
        ("containerd github.com/containerd/containerd 1.7.24~ds1 1.7.24~ds1-6+deb13u1\n", "1.7.24~ds1"),
        ("containerd github.com/containerd/containerd 2.2.1-0ubuntu1~24.04.3 \n", "2.2.1-0ubuntu1~24.04.3"),
        ("containerd github.com/containerd/containerd/v2 v2.4.0-beta.0 abc\n", "2.4.0-beta.0"),
        ("", ""),
        ("something else", ""),
    ],
)
def test_the_version_is_parsed(text: str, version: str) -> None:
    assert parse_version(text) == version


@pytest.mark.parametrize("text", ["1.2.3-" * 100_000 + "!", "9" * 500_000, "1." * 300_000, "v" * 500_000])
def test_a_version_in_garbage_is_searched_in_linear_time(text: str) -> None:
    begun = time.process_time()
    assert parse_version(text) == ""
    assert time.process_time() - begun < 5


def test_an_inactive_unit_has_no_start_time() -> None:
    assert parse_unit("ActiveState=failed\nActiveEnterTimestamp=Sat 2026-11-21 03:14:15 UTC\n") == (False, "")
    assert parse_unit("") == (False, "")


@pytest.fixture
def read(run_module: Any, programs: Any) -> Any:
    programs.add("systemctl", SYSTEMCTL.format(state="active"))
    return lambda **options: run_module("containerd_info", {"config": "/x.toml", **options}, check=True)


def test_a_running_containerd_is_read(read: Any, programs: Any) -> None:
    programs.add("containerd", CONTAINERD.format(dump="echo 'version = 4'"))
    result = read()
    assert not result["changed"] and not result["failed"]
    assert (result["version"], result["config_dump"], result["config_error"]) == ("2.3.6", "version = 4\n", "")
    assert result["running"] and result["active_since"] == "Sat 2026-11-21 03:14:15 UTC"


def test_files_are_returned_with_masked_secrets_and_precedence(read: Any, programs: Any, tmp_path: Path) -> None:
    cri = "plugins.'io.containerd.grpc.v1.cri'"
    base, drop_in = tmp_path / "config.toml", tmp_path / "conf.d/99-nvidia.toml"
    drop_in.parent.mkdir()
    base.write_text(f"version = 2\n[{cri}.containerd.runtimes.runc.options]\nSystemdCgroup = true\n")
    drop_in.write_text(f"version = 2\n[{cri}.containerd.runtimes.nvidia.options]\nBinaryName = '/n'\n")
    programs.add("containerd", "echo 'containerd containerd.io 1.7.28 abc'")
    options = {"config": str(base), "drop_ins": str(tmp_path / "conf.d/*.toml")}
    result = read(**options)
    assert [file["imported"] for file in result["files"]] == [True, False]
    found = containerd_config(result["files"], result["version"])
    assert [conflict["kind"] for conflict in found["conflicts"]] == ["drop_ins_not_imported"]

    base.write_text("imports = ['conf.d/*']\n" + base.read_text())
    found = containerd_config(read(**options)["files"], "2.3.6")
    assert [conflict["kind"] for conflict in found["conflicts"]] == ["systemd_cgroup"]


def test_passwords_are_not_returned(read: Any, programs: Any, tmp_path: Path) -> None:
    secret = "[plugins.cri.registry.configs.'r'.auth]\npassword = 'hunter2'\n"
    (tmp_path / "config.toml").write_text(secret)
    programs.add("containerd", f'[ "$1" = --version ] && echo containerd 2.3.6 || cat {tmp_path}/config.toml')
    result = read(config=str(tmp_path / "config.toml"))
    assert "password" in result["config_dump"] and "password" in result["files"][0]["text"]
    assert "hunter2" not in str(result)


def test_a_configuration_that_containerd_refuses_is_reported(read: Any, programs: Any) -> None:
    words = "expected containerd config version equal to or less than `3`, got `4`"
    programs.add("containerd", CONTAINERD.format(dump=f"echo 'containerd: {words}' >&2; exit 1"))
    result = read()
    assert not result["failed"] and result["config_dump"] == "" and words in result["config_error"]


def test_a_host_without_containerd_has_no_version(run_module: Any, programs: Any) -> None:
    programs.add("systemctl", SYSTEMCTL.format(state="inactive"))
    result = run_module("containerd_info", {"executable": "no-such-containerd"})
    assert not result["failed"]
    assert (result["version"], result["config_dump"], result["running"], result["active_since"]) == ("", "", False, "")


def test_a_containerd_that_cannot_be_executed_is_an_error(read: Any, programs: Any) -> None:
    programs.add("containerd", "echo 'cannot execute: required file not found' >&2; exit 126")
    result = read()
    assert result["failed"] and "asking containerd for its version: cannot execute" in result["msg"]
