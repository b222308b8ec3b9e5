# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs the playbook against this machine under several names; it only reads."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[3]
PLAYBOOK = """
- name: Check
  ansible.builtin.import_playbook: gpulab.kubernetes.preflight

- name: Change something
  hosts: all
  gather_facts: false
  tasks:
    - name: Leave a trace
      ansible.builtin.file:
        path: "{trace}/{{{{ inventory_hostname }}}}"
        state: touch
        mode: "0600"
"""
HERE = "ansible_connection=local ansible_become=false ansible_python_interpreter={{ansible_playbook_python}}"
GONE = "ansible_connection=ssh ansible_host=127.0.0.1 ansible_port=1"
Run = Callable[..., tuple[int, str, list[str]]]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Exit status, output, and the hosts on which the play after preflight ran."""
    trace = tmp_path / "trace"
    trace.mkdir()
    (tmp_path / "site.yml").write_text(PLAYBOOK.format(trace=trace))

    def call(inventory: str, *arguments: str) -> tuple[int, str, list[str]]:
        (tmp_path / "hosts.ini").write_text(inventory)
        command = [str(Path(sys.executable).parent / "ansible-playbook"), "-i", "hosts.ini", "site.yml", *arguments]
        environ = {
            **os.environ,
            "ANSIBLE_CONFIG": str(REPOSITORY / "ansible.cfg"),
            "ANSIBLE_COLLECTIONS_PATH": str(REPOSITORY / "collections"),
            "ANSIBLE_LOCAL_TEMP": str(tmp_path),
            "ANSIBLE_NOCOLOR": "1",
        }
        result = subprocess.run(
            command, cwd=tmp_path, env=environ, capture_output=True, text=True, check=False, timeout=120
        )
        traces = sorted(path.name for path in trace.iterdir())
        return result.returncode, result.stdout + result.stderr, traces

    return call


def test_inventory_without_the_groups_is_an_error(run: Run) -> None:
    for inventory, arguments in (
        (f"[all]\nlonely {HERE}\n", ()),
        ("", ()),
        (f"lonely {HERE}\n[control_plane]\ncp1 {HERE}\n", ("--limit", "lonely")),
    ):
        status, output, traces = run(inventory, *arguments)
        assert status != 0 and traces == [], output
        assert "control_plane or workers" in output


def test_every_problem_at_once_and_nothing_afterwards(run: Run) -> None:
    inventory = f"[control_plane]\ncp1 {HERE}\ncp2 {GONE}\n[workers]\ngpu1 {HERE} cluster_expected_gpus=77\n"
    status, output, traces = run(
        inventory, "-e", "kubeadm_repository_url=file:///none", "-e", "cluster_kubernetes_version=0.1.2"
    )
    assert status != 0 and traces == [], output
    for words in (
        "control_plane must hold exactly one host, it has 2 (cp1, cp2)",
        "cluster_kubernetes_version is 0.1.2",
        "Hosts cp1, gpu1 have the same node name",
        "The host can't be reached: ",
        "77 GPUs are expected",
    ):
        assert words in output
    assert "Traceback" not in output and "is undefined" not in output


def test_control_plane_that_limit_leaves_out_is_compared(run: Run) -> None:
    status, output, traces = run(f"[control_plane]\ncp1 {HERE}\n[workers]\ngpu1 {HERE}\n", "--limit", "gpu1")
    assert status != 0 and traces == [], output
    assert "Hosts gpu1, cp1 have the same node name" in output
    assert "/etc/containerd" not in output, "our own files fit together"


def test_containerd_settings_that_do_not_fit_are_found_before_they_are_written(run: Run) -> None:
    settings = {"containerd_cri_settings": {"enable_cdi": False, "containerd": {"default_runtime_name": "gone"}}}
    _status, output, _traces = run(f"[control_plane]\ncp1 {HERE}\n", "-e", json.dumps(settings))
    for words in ("default runtime gone is not among the runtimes runc", "CDI is switched off"):
        assert words in output
    assert "/etc/containerd/config.toml" in output


def test_groups_have_the_names_that_one_gives_them(run: Run) -> None:
    names = ("-e", "cluster_control_plane_group=masters", "-e", "cluster_workers_group=nodes")
    status, output, _traces = run(f"[masters]\none {HERE}\ntwo {HERE}\n", *names)
    assert status != 0
    assert "masters must hold exactly one host, it has 2 (one, two)" in output
