"""Tasks that use the API get their kubeconfig from the defaults of a module group, which none may lack."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from jinja2 import Environment, StrictUndefined

ROOT = Path(__file__).resolve().parents[2]
API = yaml.safe_load((ROOT / "meta/runtime.yml").read_text())["action_groups"]["api"]
GROUP = {name if "." in name else f"gpulab.kubernetes.{name}" for name in API}
PARTS = ("pre_tasks", "tasks", "post_tasks", "handlers", "block", "rescue", "always")
CALLS = {f"ansible.builtin.{how}_{what}" for how in ("include", "import") for what in ("tasks", "role")}
JINJA = Environment(undefined=StrictUndefined, autoescape=False)
Task = tuple[Path, str, str]
PATIENCE = {"retries": "{{ cluster_api_retries }}", "delay": "{{ cluster_api_retry_delay }}"}


def load(path: Path) -> list[dict[str, Any]]:
    return (yaml.safe_load(path.read_text()) if path.exists() else None) or []


def tasks(entries: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yield each task of a file, including those in blocks."""
    for entry in entries:
        yield entry
        for part in PARTS:
            yield from tasks(entry.get(part) or [])


FILES = [*ROOT.glob("roles/*/tasks/*.yml"), *ROOT.glob("roles/*/handlers/*.yml"), *ROOT.glob("playbooks/**/*.yml")]
# Yield each task with all keys and values that may be a module name.
WRITTEN = [
    (path, task.get("name", ""), word) for path in FILES for task in tasks(load(path)) for word in task if "." in word
]


def walk(path: Path, entries: Any, above: dict[str, Any], known: dict[str, Any]) -> Iterator[tuple[Task, str, str]]:
    """Yield each task of the group that a play reaches, with its kubeconfig and the host on which it runs."""
    for entry in entries or []:
        defaults = {**above.get("module_defaults", {}), **entry.get("module_defaults", {})}
        below = {**above, **entry, "module_defaults": defaults}
        variables = {**known, **entry.get("vars", {})}
        for module in GROUP & entry.keys():
            arguments = {**defaults.get("group/gpulab.kubernetes.api", {}), **(entry[module] or {})}
            yield (path, entry["name"], module), arguments.get("kubeconfig", ""), below.get("delegate_to", "")
        for part in PARTS:
            yield from walk(path, entry.get(part), below, variables)
        roles = [{"name": role["role"]} for role in entry.get("roles", [])]
        for word in entry.keys() & CALLS:
            call = {"file": entry[word]} if isinstance(entry[word], str) else entry[word]
            # Keywords of an include only apply to itself, except for its `apply`.
            below = {**above, **call.get("apply", {})} if "include" in word else below
            roles += [call] if "name" in call else []
            if "file" in call:
                yield from walk(path.parent / call["file"], load(path.parent / call["file"]), below, variables)
        for role in roles:
            name = JINJA.from_string(JINJA.from_string(role["name"]).render(variables)).render(variables)
            entry_point = JINJA.from_string(role.get("tasks_from", "main")).render(variables)
            target = ROOT / "roles" / name.removeprefix("gpulab.kubernetes.") / "tasks" / f"{entry_point}.yml"
            yield from walk(target, load(target), below, variables)


def test_the_group_contains_all_modules_that_need_a_kubeconfig() -> None:
    needed = {word for _path, _name, word in WRITTEN if word.startswith("kubernetes.core.")}
    for path in (ROOT / "plugins/modules").glob("*.py"):
        texts = [node for node in ast.parse(path.read_text()).body if isinstance(node, ast.Assign)]
        [text] = [node.value for node in texts if ast.unparse(node.targets[0]) == "DOCUMENTATION"]
        module = yaml.safe_load(ast.literal_eval(text))
        option = (module.get("options") or {}).get("kubeconfig", {})
        if option.get("required") or "gpulab.kubernetes.api" in module.get("extends_documentation_fragment", []):
            needed.add(f"gpulab.kubernetes.{path.stem}")
    assert needed == GROUP and len(API) == len(GROUP)


def test_every_task_that_uses_the_api_has_a_kubeconfig() -> None:
    reached = [
        found
        for network in ("flannel", "external")
        for path in ROOT.glob("playbooks/*.yml")
        for found in walk(path, load(path), {}, {"cluster_network_plugin": network})
    ]
    kept = ("{{ cluster_api_kubeconfig }}", "{{ cluster_api_delegate }}")
    assert [(task, *found) for task, *found in reached if tuple(found) != kept] == []
    assert {task for task, *_found in reached} == {task for task in WRITTEN if task[2] in GROUP}


def delegated(entries: list[dict[str, Any]], above: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield each task that runs on another machine than its host, with its ansible_become."""
    for entry in entries:
        known = {**above, **entry, "vars": {**above.get("vars", {}), **(entry.get("vars") or {})}}
        if known.keys() & {"delegate_to"} and not entry.keys() & {*PARTS, *CALLS}:
            yield f"{entry['name']}: {known['delegate_to']}", known["vars"].get("ansible_become")
        for part in PARTS:
            yield from delegated(entry.get(part) or [], known)


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_no_task_becomes_root_on_the_controller(path: Path) -> None:
    """An inventory's ansible_become applies to the controller, too, and overrides the keyword become, but not vars."""
    here = ("localhost", "{{ cluster_api_delegate }}")
    found = [(task, become) for task, become in delegated(load(path), {}) if task.endswith(here)]
    assert [task for task, become in found if become is not False] == []


CHANGE_NODES = {"node_maintenance", "gpu_isolation", "gpu_sharing"}
UNNAMED = (
    "node_maintenance",
    "roles/node_change/tasks/node.yml",
    "{{ cluster_node_identity if node_change_has_host | default(true) else omit }}",
)
OPEN = {"open", "with_api", "connect"}
# These read the nodes anyway, and node_pools or node_removal_info checks them; the report and what prepares a reset
# change nothing, and after a control plane has been added, site.yml goes on.
CHECK_THEMSELVES = {"site.yml", "plan.yml", "remove_node.yml", "report.yml", "ask_cluster.yml", "add_control_plane.yml"}


def test_every_task_that_changes_a_node_names_its_host() -> None:
    found = [
        (module, path.relative_to(ROOT), entry["name"], entry[f"gpulab.kubernetes.{module}"])
        for path in FILES
        for entry in tasks(load(path))
        for module in CHANGE_NODES
        if f"gpulab.kubernetes.{module}" in entry
    ]
    assert {module for module, *_task in found} == CHANGE_NODES
    unnamed = [task for task in found if task[3].get("identity") != "{{ cluster_node_identity }}"]
    # Only a node that the inventory does not name has no host.
    assert [(module, str(path), options["identity"]) for module, path, _name, options in unnamed] == [UNNAMED]
    switched = [
        str(path.relative_to(ROOT))
        for path in FILES
        if any("node_change_has_host" in (entry.get("vars") or {}) for entry in tasks(load(path)))
    ]
    assert switched == ["roles/remove_node/tasks/leave.yml"]
    pools = yaml.safe_load((ROOT / "roles/node_pools/vars/main.yml").read_text())["node_pools_node"]
    assert pools["identity"] == "{{ cluster_node_identity }}"


def test_every_playbook_that_uses_the_api_checks_which_host_each_node_belongs_to() -> None:
    unchecked = {
        path.name
        for path in ROOT.glob("playbooks/**/*.yml")
        for entry in tasks(load(path))
        for word in entry.keys() & CALLS
        if isinstance(entry[word], dict)
        and entry[word].get("name") == "gpulab.kubernetes.cluster_api"
        and entry[word].get("tasks_from") in OPEN
        and (entry[word]["tasks_from"] == "connect" or not entry.get("vars", {}).get("cluster_api_checks_nodes", True))
    }
    assert unchecked == CHECK_THEMSELVES
    site = (ROOT / "playbooks/tasks/cluster.yml").read_text()
    assert site.index("gpulab.kubernetes.node_pools") < site.index("gpulab.kubernetes.nvidia_driver_installer")


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_tasks_of_kubernetes_core_wait_for_an_unavailable_api(path: Path) -> None:
    for task in tasks(load(path)):
        if any(word.startswith("kubernetes.core.") for word in task):
            until = task.get("until") or [""]
            first = until if isinstance(until, str) else until[0]
            assert first == f"{task.get('register')} is not gpulab.kubernetes.api_unavailable", task["name"]
            assert {key: task.get(key) for key in PATIENCE} == PATIENCE, task["name"]
            # A task that waits for its own change uses the time limit of that change.
            assert "kubernetes.core.k8s_info" not in task or task.get("timeout") == "{{ cluster_api_time_limit }}"
