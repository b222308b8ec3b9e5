# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Modules on the controller run in the process of their task, with the same results as in one of their own."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from support.programs import run_ansible

PLAYBOOK = """
- name: Run a module here, and in a process of its own
  hosts: all
  gather_facts: false
  tasks:
    - name: Write a file
      gpulab.kubernetes.managed_files:
        files: "{{ files }}"
        marker: ""
      register: result
      failed_when: false
    - name: Ask an API that is not there
      gpulab.kubernetes.cluster_state:
        kubeconfig: "{{ kubeconfig }}"
        states: [{name: nodes, module: wait_for_rollout, args: {namespace: kube-system, nodes: [gpu1]}}]
      register: asked
      failed_when: false
    - name: Keep the results
      ansible.builtin.copy:
        content: "{{ [result, asked] | to_json }}"
        dest: "{{ place }}/{{ inventory_hostname }}.json"
        mode: "0600"
      check_mode: false
"""
KUBECONFIG = {
    "apiVersion": "v1",
    "kind": "Config",
    "clusters": [{"name": "k", "cluster": {"server": "https://127.0.0.1:1"}}],
    "users": [{"name": "k", "user": {"client-certificate-data": "Q0VSVA==", "client-key-data": "S0VZ"}}],
    "contexts": [{"name": "k", "context": {"cluster": "k", "user": "k"}}],
    "current-context": "k",
}


def results(folder: Path, files: list[dict[str, Any]], *arguments: str) -> tuple[list[Any], list[Any]]:
    """Return what the tasks returned in this process, and in processes of their own."""
    (folder / "site.yml").write_text(PLAYBOOK)
    (folder / "kubeconfig").write_text(json.dumps(KUBECONFIG))
    # The same Python by another name is another one.
    other = folder / "python"
    other.unlink(missing_ok=True)
    other.write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    other.chmod(0o755)
    (folder / "hosts.ini").write_text(
        f"here ansible_connection=local ansible_python_interpreter={sys.executable}\n"
        f"own ansible_connection=local ansible_python_interpreter={other}\n"
    )
    given = {"files": files, "place": str(folder), "kubeconfig": str(folder / "kubeconfig")}
    status, output = run_ansible(folder, "-i", "hosts.ini", "site.yml", "-e", json.dumps(given), *arguments)
    assert status == 0, output
    assert "KEY" not in output
    here, own = (json.loads((folder / f"{name}.json").read_text()) for name in ("here", "own"))
    for result in (*here, *own):
        # That there is no traceback.
        for key in ("exception", "failed_when_suppressed_exception"):
            result.pop(key, None)
    return here, own


@pytest.mark.parametrize("arguments", [(), ("--diff",), ("--check", "--diff")])
def test_results(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    path = tmp_path / "file-{{ inventory_hostname }}"
    here, own = results(tmp_path, [{"path": str(path), "content": "text\n", "mode": "0640"}], *arguments)
    assert here[0]["changed"] is True
    assert json.loads(json.dumps(here).replace("file-here", "file-own")) == own
    written = tmp_path / "file-here"
    assert written.exists() is ("--check" not in arguments)
    again, _own = results(tmp_path, [{"path": str(path), "content": "text\n", "mode": "0640"}], *arguments)
    assert again[0]["changed"] is ("--check" in arguments)


def test_errors(tmp_path: Path) -> None:
    here, own = results(tmp_path, [{"path": "/dev/null/file", "content": "text\n"}])
    assert here == own and here[0]["msg"].startswith("Error while ")
    assert here[1]["msg"].startswith("nodes: Error while asking the API")


def test_no_key_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setenv("TMPDIR", str(scratch))
    results(tmp_path, [])
    left = [path for folder in (scratch, tmp_path / "tmp") for path in folder.rglob("*") if path.is_file()]
    assert [path for path in left if "KEY" in path.read_text(errors="replace")] == []
