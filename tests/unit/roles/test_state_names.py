# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The tasks of a role select states that its list has, and together they apply each of them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
import yaml
from ansible_collections.gpulab.kubernetes.plugins.module_utils._states.several import select
from stubbed_site import REPOSITORY

MODULE = "gpulab.kubernetes.host_state"
# States that their roles apply with the state's own module, after a check that lies between.
DIRECTLY = {"containerd_states": ["service"], "_kubeadm_host_states": ["kubelet"]}


def options_in(value: Any) -> Iterator[dict[str, Any]]:
    """Yield the options of each task that applies states, also within blocks."""
    if isinstance(value, list):
        for each in value:
            yield from options_in(each)
    elif isinstance(value, dict):
        if MODULE in value:
            yield value[MODULE]
        for part in ("block", "rescue", "always"):
            yield from options_in(value.get(part))


def names(value: Any, variables: dict[str, Any]) -> list[str] | None:
    """Return the names in a list, in a variable, or in the lists of an expression."""
    if isinstance(value, str):
        variable = re.fullmatch(r"{{ (\w+) }}", value)
        return variables[variable[1]] if variable else re.findall(r"(?<![\w\]])\['(\w+)'\]", value)
    return value


def entries(value: Any, variables: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the states of a list that may consist of others."""
    if isinstance(value, str):
        return [entry for name in re.findall(r"\w+_states?\b", value) for entry in entries(variables[name], variables)]
    return [value] if isinstance(value, dict) else [entry for each in value for entry in entries(each, variables)]


def selections() -> Iterator[Any]:
    for role in sorted(path.parents[1] for path in REPOSITORY.glob("roles/*/vars/main.yml")):
        variables = yaml.safe_load((role / "vars/main.yml").read_text())
        lists: dict[str, list[dict[str, Any]]] = {}
        for path in sorted(role.glob("tasks/*.yml")):
            for options in options_in(yaml.safe_load(path.read_text())):
                variable = re.fullmatch(r"{{ (\w+) }}", str(options["states"]))
                # The role minikube also applies a state of another role.
                if variable and role.name != "minikube":
                    lists.setdefault(variable[1], []).append(options)
        for name, tasks in lists.items():
            yield pytest.param(name, tasks, variables, id=name)


@pytest.mark.parametrize(("name", "tasks", "variables"), list(selections()))
def test_tasks_of_a_role_apply_each_of_its_states(
    name: str, tasks: list[dict[str, Any]], variables: dict[str, Any]
) -> None:
    states = entries(variables[name], variables)
    selected = [
        state["name"]
        for options in tasks
        for state in select(states, *(names(options.get(option), variables) for option in ("only", "except")))
    ]
    assert {state["name"] for state in states} - set(selected) == set(DIRECTLY.get(name, []))


def test_selections_are_found() -> None:
    assert len(list(selections())) > 6
