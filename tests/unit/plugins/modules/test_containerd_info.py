# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.gpulab.kubernetes.plugins.module_utils._containerd import parse_unit, parse_version

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
def test_version(text: str, version: str) -> None:
    assert parse_version(text) == version


def test_unit_that_is_not_active_has_no_time() -> None:
    assert parse_unit("ActiveState=failed\nActiveEnterTimestamp=Sat 2026-11-21 03:14:15 UTC\n") == (False, "")
    assert parse_unit("") == (False, "")


@pytest.fixture
def read(run_module: Any, programs: Any) -> Any:
    programs.add("systemctl", SYSTEMCTL.format(state="active"))
    return lambda: run_module("containerd_info", {"config": "/x.toml"}, check=True)


def test_running_containerd(read: Any, programs: Any) -> None:
    programs.add("containerd", CONTAINERD.format(dump="echo 'version = 4'"))
    result = read()
    assert not result["changed"] and not result["failed"]
    assert (result["version"], result["config_dump"], result["config_error"]) == ("2.3.6", "version = 4\n", "")
    assert result["running"] and result["active_since"] == "Sat 2026-11-21 03:14:15 UTC"


def test_configuration_that_containerd_refuses(read: Any, programs: Any) -> None:
    words = "expected containerd config version equal to or less than `3`, got `4`"
    programs.add("containerd", CONTAINERD.format(dump=f"echo 'containerd: {words}' >&2; exit 1"))
    result = read()
    assert not result["failed"] and result["config_dump"] == "" and words in result["config_error"]


def test_host_without_containerd(run_module: Any, programs: Any) -> None:
    programs.add("systemctl", SYSTEMCTL.format(state="inactive"))
    result = run_module("containerd_info", {"executable": "no-such-containerd"})
    assert not result["failed"]
    assert (result["version"], result["config_dump"], result["running"], result["active_since"]) == ("", "", False, "")


def test_containerd_that_does_not_run(read: Any, programs: Any) -> None:
    programs.add("containerd", "echo 'cannot execute: required file not found' >&2; exit 126")
    result = read()
    assert result["failed"] and "asking containerd for its version: cannot execute" in result["msg"]
