"""Every task that adds a source or installs packages uses the shared settings."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.gpulab.kubernetes.plugins.module_utils._apt.key import read_pins

ROOT = Path(__file__).resolve().parents[2]
TABLE: dict[str, Any] = yaml.safe_load((ROOT / "roles/cluster/vars/main/versions.yml").read_text())
MODULES = ("gpulab.kubernetes.apt_source", "gpulab.kubernetes.apt_packages", "ansible.builtin.apt")


def tasks_in(value: Any) -> Iterator[dict[str, Any]]:
    if isinstance(value, list):
        for each in value:
            yield from tasks_in(each)
    elif isinstance(value, dict):
        yield value
        for part in ("block", "rescue", "always", "tasks", "pre_tasks", "post_tasks"):
            yield from tasks_in(value.get(part, []))


TASKS = [
    pytest.param(path.relative_to(ROOT).parts[1], module, task[module], id=f"{path.relative_to(ROOT)}: {task['name']}")
    for path in sorted([*ROOT.glob("roles/*/tasks/*.yml"), *ROOT.glob("playbooks/**/*.yml")])
    for task in tasks_in(yaml.safe_load(path.read_text()))
    for module in MODULES
    if module in task
]


@pytest.mark.parametrize(("role", "module", "options"), TASKS)
def test_each_apt_task_waits_for_the_lock_and_pins_the_key(role: str, module: str, options: dict[str, Any]) -> None:
    options = {**options.pop("<<", {}), **options}
    assert options["lock_timeout"] == "{{ cluster_apt_lock_timeout }}"
    if module.endswith("apt_source"):
        assert options["key_fingerprints"] == f"{{{{ {role}_repository_key_fingerprints }}}}"


STATES = [
    pytest.param(task["gpulab.kubernetes.host_state"], id=f"{path.relative_to(ROOT)}: {task['name']}")
    for path in sorted(ROOT.glob("roles/*/tasks/*.yml"))
    for task in tasks_in(yaml.safe_load(path.read_text()))
    if "gpulab.kubernetes.host_state" in task
    # The role plan uses the states of all roles.
    if path.parts[-3] == "plan" or "module: apt_" in (path.parents[1] / "vars/main.yml").read_text()
]


@pytest.mark.parametrize("options", STATES)
def test_apt_states_get_the_shared_options(options: dict[str, Any]) -> None:
    assert options["apt"] == "{{ cluster_apt }}"


def test_each_repository_has_a_key_for_each_distribution() -> None:
    repositories = TABLE["cluster_repositories"]
    cuda = repositories.pop("cuda")
    assert set(cuda) == {name.lower().replace(" ", "").replace(".", "") for name in TABLE["cluster_distributions"]}
    for entry in [*repositories.values(), *cuda.values()]:
        assert entry["key"] and list(read_pins(entry["fingerprints"])) == entry["fingerprints"] != []
