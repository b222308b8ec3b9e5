# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import json
from pathlib import Path

from support.programs import run_ansible

REPOSITORY = Path(__file__).resolve().parents[3]
PLAY = """
- name: {name}
  hosts: all
  gather_facts: false
  tasks:
    - name: Note the time
      ansible.builtin.import_tasks: {file}
    - name: Keep what was noted
      ansible.builtin.copy:
        content: "{{{{ hostvars['localhost']['report_phases'] | to_json }}}}"
        dest: "{{{{ place }}}}/{number}"
        mode: "0600"
"""


def test_phase_keeps_the_time_of_its_first_note(tmp_path: Path) -> None:
    file = REPOSITORY / "playbooks/tasks/note_time.yml"
    names = ["Prepare the hosts", "Verify the GPUs", "Prepare the hosts"]
    plays = [PLAY.format(name=name, file=file, number=number) for number, name in enumerate(names)]
    (tmp_path / "site.yml").write_text("".join(plays))
    (tmp_path / "hosts.ini").write_text(
        "here ansible_connection=local ansible_python_interpreter={{ansible_playbook_python}}\n"
    )
    given = json.dumps({"place": str(tmp_path)})
    status, output = run_ansible(tmp_path, "-i", "hosts.ini", "site.yml", "-e", given)
    assert status == 0, output
    first, second, third = (json.loads((tmp_path / str(number)).read_text()) for number in range(3))
    assert list(first) == ["Prepare the hosts"] and first["Prepare the hosts"] > 0
    assert second["Verify the GPUs"] >= second["Prepare the hosts"] == first["Prepare the hosts"]
    assert third == second
