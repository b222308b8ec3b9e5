# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Modules on the controller run in their task's process, with the same results as in a process of their own."""

from __future__ import annotations

import base64
import json
import re
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml
from ansible import constants
from ansible.errors import AnsibleError
from ansible.plugins.action import ActionBase
from ansible_collections.gpulab.kubernetes.plugins.plugin_utils import _local_module
from support.programs import run_ansible

ROOT = Path(__file__).resolve().parents[4]
PEM = base64.b64encode(b"-----BEGIN X-----").decode()
KUBECONFIG = {
    "apiVersion": "v1",
    "kind": "Config",
    "clusters": [{"name": "k", "cluster": {"server": "https://127.0.0.1:1"}}],
    "users": [{"name": "k", "user": {"client-certificate-data": PEM, "client-key-data": PEM}}],
    "contexts": [{"name": "k", "context": {"cluster": "k", "user": "k"}}],
    "current-context": "k",
}


def write_file(path: Path | str) -> dict[str, Any]:
    files = [{"path": str(path), "content": "text\n", "mode": "0640"}]
    return {"gpulab.kubernetes.managed_files": {"files": files, "marker": ""}}


def ask_api(kubeconfig: Path) -> dict[str, Any]:
    """Return a task that queries an API that is known to be down, so that it gives up soon."""
    kubeconfig.write_text(json.dumps(KUBECONFIG))
    Path(f"{kubeconfig}.patience").write_text("down")
    question = {"name": "nodes", "module": "wait_for_rollout", "args": {"namespace": "kube-system", "nodes": ["gpu1"]}}
    return {"gpulab.kubernetes.cluster_state": {"kubeconfig": str(kubeconfig), "states": [question]}}


def results(folder: Path, tasks: list[dict[str, Any]], *arguments: str) -> tuple[list[Any], list[Any]]:
    """Return the results of the tasks in this process, and in processes of their own."""
    registered = [f"result{number}" for number in range(len(tasks))]
    run = [{**task, "register": name, "failed_when": False} for task, name in zip(tasks, registered)]
    content, kept = "{{ [" + ", ".join(registered) + "] | to_json }}", f"{folder}/{{{{ inventory_hostname }}}}.json"
    keep = {"ansible.builtin.copy": {"content": content, "dest": kept, "mode": "0600"}, "check_mode": False}
    play = {"name": "Run modules", "hosts": "all", "gather_facts": False, "tasks": [*run, keep]}
    (folder / "site.yml").write_text(json.dumps([play]))
    # The same Python under another name counts as another interpreter.
    other = folder / "python"
    other.unlink(missing_ok=True)
    other.write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    other.chmod(0o755)
    (folder / "hosts.ini").write_text(
        f"here ansible_connection=local ansible_python_interpreter={sys.executable}\n"
        f"own ansible_connection=local ansible_python_interpreter={other}\n"
    )
    status, output = run_ansible(folder, "-i", "hosts.ini", "site.yml", *arguments)
    assert status == 0, output
    assert "KEY" not in output
    here, own = (json.loads((folder / f"{name}.json").read_text()) for name in ("here", "own"))
    for result in (*here, *own):
        # There is no traceback.
        for key in ("exception", "failed_when_suppressed_exception"):
            result.pop(key, None)
    return here, own


@pytest.mark.parametrize("arguments", [(), ("--diff",), ("--check", "--diff")])
def test_results_are_the_same_in_both_processes(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    task = write_file(tmp_path / "file-{{ inventory_hostname }}")
    here, own = results(tmp_path, [task, task, ask_api(tmp_path / "kubeconfig")], *arguments)
    assert json.loads(json.dumps(here).replace("file-here", "file-own")) == own
    check = "--check" in arguments
    assert [result["changed"] for result in here[:2]] == [True, check]
    assert (tmp_path / "file-here").exists() is not check


@pytest.mark.parametrize("prefix", ["gpulab.kubernetes.", ""])
def test_all_routed_modules_run_in_one_action_plugin(tmp_path: Path, prefix: str) -> None:
    routing = yaml.safe_load((ROOT / "meta/runtime.yml").read_text())["plugin_routing"]["modules"]
    names = sorted(name for name, route in routing.items() if "action_plugin" in route)
    assert {routing[name]["action_plugin"] for name in names} == {"gpulab.kubernetes.cluster_state"}
    assert "managed_files" in names and "node_pools" in names
    api = yaml.safe_load((ROOT / "meta/runtime.yml").read_text())["action_groups"]["api"]
    given: dict[str, Any] = {"managed_files": {"files": []}}
    tasks: list[dict[str, Any]] = [{prefix + name: given.get(name, {}), "ignore_errors": True} for name in names]
    defaults = {"group/gpulab.kubernetes.api": {"kubeconfig": "/nothing"}}
    play = {"hosts": "all", "gather_facts": False, "collections": ["gpulab.kubernetes"], "module_defaults": defaults}
    (tmp_path / "site.yml").write_text(json.dumps([{**play, "tasks": tasks}]))
    (tmp_path / "hosts.ini").write_text(f"here ansible_connection=local ansible_python_interpreter={sys.executable}\n")
    status, output = run_ansible(tmp_path, "-i", "hosts.ini", "site.yml", "-vvv")
    assert status == 0 and "Using module file" not in output, output
    # Only modules in the group get its defaults. One of them needs no other argument.
    missing = re.findall(r"^    msg: 'missing required arguments: (.*)'", output, re.MULTILINE)
    assert len(missing) == len([name for name in names if name in api]) - 1
    assert "kubeconfig" not in ", ".join(missing) and "Unsupported" not in output, output


def test_errors_are_the_same_in_both_processes(tmp_path: Path) -> None:
    here, own = results(tmp_path, [write_file("/dev/null/file"), ask_api(tmp_path / "kubeconfig")])
    assert here == own and here[0]["msg"].startswith("Error while ")
    assert here[1]["msg"].startswith("nodes: Error while asking the API")


def test_a_full_disk_on_the_controller_is_a_clear_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ActionBase, "run", lambda *_given: {})
    monkeypatch.setattr(_local_module.LocalModule, "is_here", lambda *_given: True)
    monkeypatch.setattr(_local_module.LocalModule, "_update_module_args", lambda *_given: None)
    monkeypatch.setattr(constants, "DEFAULT_LOCAL_TMP", str(tmp_path / "gone"))
    action = _local_module.LocalModule.__new__(_local_module.LocalModule)
    action._task = SimpleNamespace(args={}, action="gpulab.kubernetes.managed_files")
    with pytest.raises(AnsibleError, match=f"Error while accessing {tmp_path}/gone/.*: No such file or directory"):
        action.run()


def test_no_temporary_key_file_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setenv("TMPDIR", str(scratch))
    results(tmp_path, [ask_api(tmp_path / "kubeconfig")])
    left = [path for folder in (scratch, tmp_path / "tmp") for path in folder.rglob("*") if path.is_file()]
    assert [path for path in left if "KEY" in path.read_text(errors="replace")] == []
