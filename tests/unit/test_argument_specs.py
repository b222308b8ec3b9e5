"""A role's argument specification is its only schema: it and the role's defaults say the same."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.gpulab.kubernetes.plugins.plugin_utils._inventory.variables import specification

ROOT = Path(__file__).resolve().parents[2]
ROLES = sorted(path.parents[1].name for path in ROOT.glob("roles/*/meta/main.yml"))
TYPES: dict[str, type | tuple[type, ...]] = {
    "str": str,
    "path": str,
    "raw": object,
    "int": int,
    "float": (int, float),
    "bool": bool,
    "list": list,
    "dict": dict,
}


def read(path: Path) -> Any:
    return (yaml.safe_load(path.read_text()) if path.is_file() else None) or {}


def options_of(role: str) -> dict[str, dict[str, Any]]:
    specs = read(ROOT / "roles" / role / "meta" / "argument_specs.yml").get("argument_specs", {})
    options: dict[str, dict[str, Any]] = specs.get("settings" if role == "cluster" else "main", {}).get("options") or {}
    return options


def test_there_are_roles() -> None:
    assert "cluster" in ROLES


@pytest.mark.parametrize("role", ROLES)
def test_the_defaults_and_the_specification_agree(role: str) -> None:
    options = options_of(role)
    specified = {name: option["default"] for name, option in options.items() if "default" in option}
    defaults = read(ROOT / "roles" / role / "defaults" / "main.yml")
    # antsibull-docs takes a template for a string, or for a list of strings; the description says such a default.
    templates = {
        name: default
        for name, default in defaults.items()
        if "{{" in str(default)
        and not {"int", "bool", "dict"}.isdisjoint({options[name]["type"], options[name].get("elements")})
    }
    assert defaults == specified | templates


@pytest.mark.parametrize("role", ROLES)
def test_every_variable_is_described_and_named_after_its_role(role: str) -> None:
    for name, option in options_of(role).items():
        assert option.get("description"), f"{name} has no description"
        assert name.startswith(f"{role}_"), f"{name} does not begin with {role}_"


def test_an_example_inventory_sets_only_variables_that_exist() -> None:
    known = specification().keys()
    for path in (ROOT / "inventories").glob("*/group_vars/*.yml"):
        used = {name for name in read(path) if not name.startswith("ansible_")}
        assert used <= known, f"{path.relative_to(ROOT)}: {sorted(used - known)}"


def conditions(tasks: Any) -> list[str]:
    found: list[str] = []
    for task in tasks or []:
        when = task.get("when", [])
        found += [str(one) for one in (when if isinstance(when, list) else [when])]
        found += conditions([inner for part in ("block", "rescue", "always") for inner in task.get(part, [])])
    return found


@pytest.mark.parametrize("role", ROLES)
def test_a_condition_takes_false_in_an_ini_inventory_for_false(role: str) -> None:
    """Ansible reads it as a text there, and with -e, and ``not 'false'`` is false."""
    names = {name for one in ROLES for name, option in options_of(one).items() if option.get("type") == "bool"}
    for path in (ROOT / "roles" / role / "tasks").glob("*.yml"):
        for condition in conditions(read(path)):
            for name in names:
                assert f"{name} | bool" in condition or name not in condition, f"{path.name}: {condition}"


@pytest.mark.parametrize("role", ROLES)
def test_a_default_fits_its_type_and_choices(role: str) -> None:
    for name, option in options_of(role).items():
        if "default" not in option:
            continue
        default, kind = option["default"], option.get("type", "str")
        if not (isinstance(default, str) and "{{" in default):
            assert isinstance(default, TYPES[kind]), f"{name}: {default!r} is no {kind}"
        for each in default if kind == "list" else [default]:
            assert each in option.get("choices", [each]), f"{name}: {each!r} is not a choice"


# A play knows the settings of the roles that it loads. Where that isn't worth a role, their default is repeated.
REPEATED = re.compile(r"\b(\w+) \| default\('([^']*)'\)")
# Empty, not the default: preflight has no node network to compare with before the facts are read.
EMPTY = {"cluster_node_name", "cluster_node_address", "cluster_pod_network"}


def test_a_default_that_is_repeated_is_the_role_s() -> None:
    defaults = {name: option.get("default") for role in ROLES for name, option in options_of(role).items()}
    paths = [path for folder in ("roles", "playbooks") for path in (ROOT / folder).rglob("*.*") if path.is_file()]
    found = {
        (name, default)
        for path in paths
        for name, default in REPEATED.findall(path.read_text())
        if name in defaults and (default or name not in EMPTY)
    }
    assert len(found) > 8
    # Of a default that depends on other settings, the last value is meant.
    assert [(name, default) for name, default in sorted(found) if not str(defaults[name]).endswith(default)] == [
        ("nvidia_driver_root", "/")
    ]
