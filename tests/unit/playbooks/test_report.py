# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reports without an answer from the control plane; the worker is this machine, which is only read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from support.programs import run_ansible

REPOSITORY = Path(__file__).resolve().parents[3]
INVENTORY = """
[control_plane]
cp1 ansible_connection=ssh ansible_host=127.0.0.1 ansible_port=1
[workers]
here ansible_connection=local ansible_become=false ansible_python_interpreter={{ansible_playbook_python}}
"""
EARLIER: dict[str, Any] = {
    "hosts": {
        "cp1": {
            "inventory_name": "cp1",
            "devices": [{"uuid": "GPU-1", "name": "Tesla T4", "state": "proven"}],
            "gpus": {},
            "problems": [],
        }
    },
    "totals": {"gpus": 1, "proven": 1, "in_use": 0},
    "phases": [{"name": "Make the cluster", "seconds": 70.0}],
    "problems": [],
}


def run(
    folder: Path, *arguments: str, playbook: Path = REPOSITORY / "playbooks" / "report.yml", fails: bool = False
) -> str:
    (folder / "hosts.ini").write_text(INVENTORY)
    given = (str(playbook), "-i", "hosts.ini", *arguments)
    status, said = run_ansible(folder, *given, ANSIBLE_SHOW_CUSTOM_STATS="true", PWD=str(folder))
    assert bool(status) == fails and "Traceback" not in said, said
    return said


def test_unreachable_hosts_are_part_of_the_report(tmp_path: Path) -> None:
    written = tmp_path / "gpulab-report.json"
    written.write_text(json.dumps(EARLIER))
    metrics = tmp_path / "gpulab.prom"
    wanted = ("-e", f"report_metrics={metrics}", "-e", "report_junit=ci/gpulab.xml")
    said = run(tmp_path, *wanted)
    found = json.loads(written.read_text())
    assert found["hosts"]["cp1"]["reachable"] is False
    assert found["hosts"]["cp1"]["devices"][0]["state"] == "proven"
    assert "Connection refused" in found["hosts"]["cp1"]["failure"]
    assert [host["reachable"] for name, host in found["hosts"].items() if name != "cp1"] == [True]
    assert found["phases"] == EARLIER["phases"]
    assert [each["kind"] for each in found["actions"]][:2] == ["unreachable", "api"]
    assert "cp1: Failed to connect to the host" in said and "changed=1" not in said
    assert ',node="cp1"} 0\n' in metrics.read_text()
    assert metrics.stat().st_mode & 0o777 == 0o644
    page = (tmp_path / "gpulab-report.html").read_text()
    assert 'data-gpu="unknown"' in page
    assert "<pre><code>ansible cp1 -m ping -i hosts.ini</code></pre>" in page
    evidence = tmp_path / "ci" / "gpulab.xml"
    assert 'message="its host could not be reached' in evidence.read_text()
    before = evidence.stat().st_mtime_ns, evidence.read_text()
    run(tmp_path, *wanted)
    assert (evidence.stat().st_mtime_ns, evidence.read_text()) == before


def test_errors_fail_the_run_after_the_report_is_written(tmp_path: Path) -> None:
    (tmp_path / "gpulab-report.json").write_text(json.dumps(EARLIER))
    said = " ".join(run(tmp_path, "-e", "report_fail_on=error", fails=True).split())
    found = json.loads((tmp_path / "gpulab-report.json").read_text())["actions"]
    errors = [each for each in found if each["severity"] == "error"]
    assert f"{len(errors)} problems (report_fail_on is error): cp1: Failed to connect" in said
    # Custom stats, which AWX shows as artifacts.
    assert f"gpulab_report: errors: {len(errors)} gpus: 1 in_use: 0 proven: 1 warnings: " in said


def test_check_mode_writes_nothing(tmp_path: Path) -> None:
    run(
        tmp_path,
        "--check",
        "-e",
        f"report_metrics={tmp_path}/gpulab.prom",
        "-e",
        "report_junit=gpulab.xml",
    )
    assert not list(tmp_path.glob("gpulab*"))


@pytest.mark.parametrize("text", ["{broken", "[]", '{"hosts": 1}'])
def test_unreadable_earlier_report_is_replaced(tmp_path: Path, text: str) -> None:
    written = tmp_path / "gpulab-report.json"
    written.write_text(text)
    said = run(tmp_path)
    assert f"{written} can't be read as a report, so it is replaced." in " ".join(said.split())
    assert len(json.loads(written.read_text())["hosts"]) == 2


def test_reachable_hosts_are_reported_without_a_cluster(tmp_path: Path) -> None:
    """If a task with run_once fails, the play continues for all hosts."""
    (tmp_path / "all.ini").write_text(
        INVENTORY.replace("cp1 ansible_connection=ssh", "cp1 ansible_become=false ansible_connection=local")
    )
    written = tmp_path / "gpulab-report.json"
    said = run(tmp_path, "-i", "all.ini")
    assert "/etc/kubernetes/admin.conf" in said
    assert json.loads(written.read_text())["actions"][0]["kind"] == "api"


PARTS = """
- name: Gather
  hosts: all
  gather_facts: false
  tasks:
    - name: Take the role's constants
      ansible.builtin.include_vars:
        file: {vars}
    - name: Let one host answer
      ansible.builtin.set_fact:
        acceptance_seen: {{host: {{name: node-1, state: read}}}}
      when: inventory_hostname == "here"
    - name: Write them down
      ansible.builtin.copy:
        content: "{{{{ _acceptance_nodes | to_json }}}}"
        dest: "{{{{ playbook_dir }}}}/nodes.json"
        mode: "0600"
      when: inventory_hostname == "here"
"""


def test_unreachable_host_is_looked_up_by_its_name(tmp_path: Path) -> None:
    """The host stays in the play, because report.yml ignores unreachable hosts."""
    (tmp_path / "play.yml").write_text(PARTS.format(vars=REPOSITORY / "roles" / "acceptance" / "vars" / "main.yml"))
    run(tmp_path, playbook=tmp_path / "play.yml")
    asked = json.loads((tmp_path / "nodes.json").read_text())
    assert [(node["name"], node["state"]) for node in asked] == [("node-1", "read"), ("cp1", "silent")]


def test_page_is_only_made_from_an_existing_report(tmp_path: Path) -> None:
    said = " ".join(run(tmp_path, "-e", f"report_source={tmp_path}/none.json", fails=True).split())
    assert f"Error while reading the report {tmp_path}/none.json: there is no such file." in said
    (tmp_path / "some.json").write_text(json.dumps(EARLIER))
    run(tmp_path, "-e", f"report_source={tmp_path}/some.json")
    assert not list(tmp_path.glob("*.xml"))
    # By the old names.
    run(tmp_path, "-e", f"acceptance_report_source={tmp_path}/some.json", "-e", "acceptance_report_junit=some.xml")
    assert 'tests="1"' in (tmp_path / "some.xml").read_text()
    assert "GPU-1" in (tmp_path / "some.html").read_text()
