# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

SHOW = "LoadState=loaded\nActiveState=inactive\nUnitFileState=static\nNeedDaemonReload=no\n"
# Acts as systemctl: each start writes the next state.
SYSTEMCTL = """
import pathlib, sys
root = pathlib.Path({root!r})
with (root / "log").open("a") as log:
    log.write(" ".join(sys.argv[1:]) + "\\n")
if sys.argv[1] == "show":
    print((root / "show").read_text())
elif sys.argv[1] == "start":
    states = sorted(root.glob("state-*"))
    if states:
        target = root / "var/lib/gpulab/backup.json"
        target.parent.mkdir(parents=True, exist_ok=True)
        states[0].rename(target)
    if (root / "failed").exists():
        sys.exit("Job for gpulab-backup.service failed.")
"""
EARLIER, LATER = "2020-01-01T00:00:00Z", "2100-01-01T00:00:00Z"


def state(time: str, taken: str, error: str = "") -> dict[str, Any]:
    good = {"taken": taken, "archive": f"/backups/{taken}", "revision": 42, "keys": 3, "size": 1000}
    good |= {"recipients": ["age1x"], "places": {"nas:gpulab": ""}}
    return {"attempt": {"time": time, "step": "drill" if error else "", "error": error}, "good": good}


@pytest.fixture
def take(tmp_path: Path, run_module: Callable[..., dict[str, Any]], programs: Any) -> Callable[..., dict[str, Any]]:
    def run(*states: dict[str, Any], failed: bool = False, show: str = SHOW, **options: Any) -> dict[str, Any]:
        (tmp_path / "show").write_text(show)
        for place, each in enumerate(states):
            (tmp_path / f"state-{place}").write_text(json.dumps(each))
        if failed:
            (tmp_path / "failed").touch()
        programs.python("systemctl", SYSTEMCTL.format(root=str(tmp_path)))
        return run_module("cluster_backup", {"root": str(tmp_path), **options})

    return run


def test_a_new_backup_is_described(take: Callable[..., dict[str, Any]], tmp_path: Path) -> None:
    result = take(state(LATER, LATER))
    assert result["changed"] and result["archive"] == f"/backups/{LATER}"
    assert (result["revision"], result["recipients"], result["places"]) == (42, ["age1x"], ["nas:gpulab"])
    assert result["key_count"] == 3 and "keys" not in result
    assert "start gpulab-backup.service" in (tmp_path / "log").read_text()


def test_after_one_that_had_begun_earlier_another_one_is_taken(take: Callable[..., dict[str, Any]]) -> None:
    assert take(state(LATER, EARLIER), state(LATER, LATER))["archive"] == f"/backups/{LATER}"


def test_without_a_newer_backup_the_module_fails(take: Callable[..., dict[str, Any]]) -> None:
    result = take(state(LATER, EARLIER), state(LATER, EARLIER))
    assert "has ended without a new backup" in result["msg"]


def test_the_error_of_the_backup_is_that_of_the_module(take: Callable[..., dict[str, Any]]) -> None:
    result = take(state(LATER, EARLIER, "revision 1 instead of 2"), failed=True)
    assert result["msg"] == "Error while backing up the cluster (drill): revision 1 instead of 2"


def test_without_an_error_of_the_backup_that_of_systemd_is_shown(take: Callable[..., dict[str, Any]]) -> None:
    result = take(state(EARLIER, EARLIER, "an earlier one"), failed=True)
    assert "systemctl start gpulab-backup.service: Job for gpulab-backup.service failed" in result["msg"]


def test_a_host_without_etcd_is_an_error(take: Callable[..., dict[str, Any]]) -> None:
    assert "this host has no etcd" in take()["msg"]
    assert "this host has no etcd" in take(state(EARLIER, EARLIER))["msg"]


def test_changed_units_are_read_again(take: Callable[..., dict[str, Any]], tmp_path: Path) -> None:
    take(state(LATER, LATER), show=SHOW.replace("NeedDaemonReload=no", "NeedDaemonReload=yes"))
    log = (tmp_path / "log").read_text()
    assert log.index("daemon-reload") < log.index("start gpulab-backup.service")
