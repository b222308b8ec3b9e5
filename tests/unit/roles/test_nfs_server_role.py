# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The server exports exactly what its file contains. A stand-in for systemctl writes the server's table.

All cases are tested by one play, in which each case is a host with its own directory.
"""

from __future__ import annotations

import os
from typing import Any, NamedTuple

import pytest
from stubbed_site import Site

PLAYBOOK = """
- name: Export
  hosts: workers
  gather_facts: false
  environment:
    CASE: "{{ cases }}/{{ inventory_hostname }}"
  roles:
    - gpulab.kubernetes.nfs_server
"""
SYSTEMCTL = """#!/bin/sh
case "$1" in
  show) printf 'LoadState=loaded\\nActiveState=active\\nSubState=exited\\n' ;;
  reload) echo reload >>"$CASE/log"; cp "$CASE/reloaded" "$CASE/etab" ;;
esac
"""
RIGHT = "{path}\t192.0.2.1(rw,sync,secure,root_squash,anonuid=65534,anongid=65534)\n"
WIDER = RIGHT + "{path}\t192.0.2.0/24(rw,sync,secure,root_squash,anonuid=65534,anongid=65534)\n"
ROOT = RIGHT.replace("root_squash", "no_root_squash")


class Case(NamedTuple):
    """Exports of the server before and after a reload, and the expected results."""

    state: str
    before: str
    after: str
    reloads: int
    complaint: str


CASES = {
    "right": Case("present", RIGHT, RIGHT, 0, ""),
    "wider": Case("present", WIDER, RIGHT, 1, ""),
    "root": Case("present", ROOT, RIGHT, 1, ""),
    "missing": Case("present", "", RIGHT, 1, ""),
    "still-wider": Case(
        "present", WIDER, WIDER, 1, "the directory is exported to 192.0.2.0/24, which the file does not have"
    ),
    "not-reloaded": Case("present", RIGHT, ROOT, 0, ""),
    "still-root": Case("present", ROOT, ROOT, 1, "the directory is exported to 192.0.2.1 with no_root_squash"),
    "still-missing": Case("present", "", "", 1, "the directory is not exported to 192.0.2.1"),
    "none": Case("absent", "", "", 0, ""),
    "withdrawn": Case("absent", RIGHT, "", 1, ""),
    "still-there": Case("absent", RIGHT, RIGHT, 1, "should be none, but the directory is exported to 192.0.2.1, which"),
}


@pytest.fixture(scope="module")
def events(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """Return the events of the play, and a log event for each host with the reloads of its server."""
    place = tmp_path_factory.mktemp("nfs_server")
    cases = place / "cases"
    for name, case in CASES.items():
        path = cases / name / "exported"
        path.mkdir(parents=True)
        for file, text in {"log": "", "etab": case.before, "reloaded": case.after}.items():
            (cases / name / file).write_text(text.format(path=path))
    program = place / "bin/systemctl"
    program.parent.mkdir()
    program.write_text(SYSTEMCTL)
    program.chmod(0o755)
    site = Site(place, list(CASES))
    site.answer("managed_service", {"state": "active", "actions": [], "restart": False})
    site.answer(
        "file_system_info",
        {"device": "/dev/a", "type": "ext4", "mount": "/", "free_mib": 1, "size_mib": 2, "quotas": []},
    )
    settings = {
        "cases": str(cases),
        "states": {name: case.state for name, case in CASES.items()},
        "nfs_server_state": "{{ states[inventory_hostname] }}",
        "nfs_server_path": "{{ cases }}/{{ inventory_hostname }}/exported",
        "nfs_server_clients": ["192.0.2.1"],
        "_nfs_server_table": "{{ cases }}/{{ inventory_hostname }}/etab",
        "ansible_become": False,
    }
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
        site.play(PLAYBOOK, settings)
    logs = [{"event": "log", "host": name, "text": (cases / name / "log").read_text()} for name in CASES]
    return [*site.events(), *logs]


@pytest.mark.parametrize("host", CASES)
def test_server_exports_match_its_file(events: list[dict[str, Any]], host: str) -> None:
    case, own = CASES[host], [event for event in events if event.get("host") == host]
    failed = [" ".join(event["message"].split()) for event in own if event.get("status") in ("failed", "unreachable")]
    assert len(failed) == bool(case.complaint) and all(case.complaint in message for message in failed), failed
    assert [event["text"] for event in own if event["event"] == "log"] == ["reload\n" * case.reloads]
    asked = {event["module"]: event["args"] for event in own if event["event"] == "call"}
    files = asked["managed_files"]
    # The pending reload is recorded, so that it isn't lost if the run is killed before it.
    assert (files["files"][0]["service"], files["files"][0]["reload"]) == ("nfs-server", True)
    assert asked["managed_service"]["name"] == "nfs-server"
