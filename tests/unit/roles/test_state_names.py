# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The tasks of a role select existing states of its list, and together apply all of them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
import yaml
from ansible_collections.gpulab.kubernetes.plugins.module_utils._states.several import select
from stubbed_site import REPOSITORY

MODULE = "gpulab.kubernetes.host_state"
ROLES = {path.parents[1].name: yaml.safe_load(path.read_text()) for path in REPOSITORY.glob("roles/*/vars/main.yml")}
VARIABLES = {name: value for variables in ROLES.values() for name, value in variables.items()}
# Lists of states by role, without the role plan, which has the states of all roles.
LISTS = {
    role: variables[name]
    for role, variables in ROLES.items()
    for name in (f"{role}_states", f"_{role}_states")
    if name in variables and role != "plan"
}
# By role, states that are not applied by host_state, but by a task with the state's module.
DIRECTLY = {
    "acceptance": ["host"],
    "containerd": ["service"],
    "gpu_sharing": ["parts"],
    "kubeadm": ["kubelet", "control plane", "worker"],
}


def options_in(value: Any) -> Iterator[dict[str, Any]]:
    """Yield the options of each task that applies states, including tasks in blocks."""
    if isinstance(value, list):
        for each in value:
            yield from options_in(each)
    elif isinstance(value, dict):
        if MODULE in value:
            yield value[MODULE]
        for part in ("block", "rescue", "always"):
            yield from options_in(value.get(part))


def entries(value: Any) -> list[dict[str, Any]]:
    """Return the states of a list, resolving variables in it."""
    if isinstance(value, str):
        return [entry for name in re.findall(r"\w+_states?\b", value) for entry in entries(VARIABLES[name])]
    return [value] if isinstance(value, dict) else [entry for each in value for entry in entries(each)]


def names(value: Any) -> list[str] | None:
    """Return the names of a list, or of the lists in an expression."""
    return re.findall(r"(?<![\w\]])\['(\w+)'\]", value) if isinstance(value, str) else value


@pytest.mark.parametrize("role", LISTS)
def test_tasks_of_a_role_apply_all_of_its_states(role: str) -> None:
    applied = [
        state["name"]
        for path in REPOSITORY.glob(f"roles/{role}/tasks/*.yml")
        for options in options_in(yaml.safe_load(path.read_text()))
        for state in select(entries(options["states"]), names(options.get("only")), names(options.get("except")))
    ]
    planned = [entry["name"] for entry in entries(LISTS[role])]
    assert [name for name in planned if name not in applied] == DIRECTLY.get(role, [])


# Arguments that only the task has, because check mode doesn't join a node.
TO_ACT = {"config", "discovery"}


def tasks_in(value: Any) -> Iterator[dict[str, Any]]:
    """Yield each task, including tasks in blocks."""
    for entry in value:
        yield entry
        for part in ("block", "rescue", "always"):
            yield from tasks_in(entry.get(part) or [])


def acts(role: str, module: str, service: str = "") -> list[dict[str, Any]]:
    """Return the options of the role's tasks that run a module, directly or through the role host for a service."""
    found = []
    for path in REPOSITORY.glob(f"roles/{role}/tasks/*.yml"):
        for task in tasks_in(yaml.safe_load(path.read_text()) or []):
            if service and task.get("vars", {}).get("host_service") == service:
                known = {f"{{{{ {name} }}}}": value for name, value in task["vars"].items()}
                known["{{ host_service_when_missing | default(omit) }}"] = task["vars"]["host_service_when_missing"]
                found += [{key: known[text] for key, text in each.items()} for each in acts("host", module)]
            elif f"gpulab.kubernetes.{module}" in task:
                found.append(task[f"gpulab.kubernetes.{module}"])
    return found


@pytest.mark.parametrize(
    ("role", "name"), [(role, name) for role, states in DIRECTLY.items() for name in states if role != "gpu_sharing"]
)
def test_state_has_the_arguments_of_the_task_that_applies_it(role: str, name: str) -> None:
    [entry] = [entry for entry in entries(LISTS[role]) if entry["name"] == name]
    arguments = entry["args"]
    if isinstance(arguments, str):
        [variable] = re.findall(r"\w+", arguments)
        arguments = {key: f"{{{{ {variable}.{key} }}}}" for key in VARIABLES[variable]}
    applied = acts(role, entry["module"], name if name == "kubelet" else "")
    # Control planes join by tasks of their own, which are not the state of a worker.
    found = [options for options in applied if options.get("control_plane") == arguments.get("control_plane")]
    assert found
    for options in found:
        # Only check mode uses when_missing, to predict the start of a unit that isn't installed yet.
        for either in (arguments, options):
            either.pop("when_missing", None)
        more = {key: value for key, value in options.items() if key in TO_ACT and key not in arguments}
        assert {**arguments, **more} == options


def test_lists_of_states_are_found() -> None:
    assert {*DIRECTLY, "docker", "host", "minikube", "nvidia_driver"} <= set(LISTS)
