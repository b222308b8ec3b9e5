"""A role's argument specification is its only schema, and agrees with the role's defaults."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible.parsing.dataloader import DataLoader
from ansible.template import Templar, trust_as_template
from ansible_collections.gpulab.kubernetes.plugins.plugin_utils._inventory.renamed import RENAMED
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


def test_roles_are_found() -> None:
    assert "cluster" in ROLES


@pytest.mark.parametrize("role", ROLES)
def test_defaults_and_specifications_agree(role: str) -> None:
    options = options_of(role)
    specified = {name: option["default"] for name, option in options.items() if "default" in option}
    defaults = read(ROOT / "roles" / role / "defaults" / "main.yml")
    # antsibull-docs shows a template as a string or a list of strings; the description states such a default.
    templates = {
        name: default
        for name, default in defaults.items()
        if "{{" in str(default)
        and not {"int", "bool", "dict"}.isdisjoint({options[name]["type"], options[name].get("elements")})
    }
    renamed = {name: defaults[name] for name in RENAMED.values() if name in defaults}
    assert defaults == specified | templates | renamed


@pytest.mark.parametrize(("old", "new"), RENAMED.items())
def test_the_default_of_a_renamed_variable_is_the_value_of_its_old_name(old: str, new: str) -> None:
    (default,) = [
        read(ROOT / "roles" / role / "defaults" / "main.yml").get(new) for role in ROLES if new in options_of(role)
    ]
    known = specification()

    def rendered(text: Any, **variables: Any) -> Any:
        variables |= {"cluster_report_prefix": "my-"}
        return Templar(loader=DataLoader(), variables=variables).template(
            trust_as_template(text) if isinstance(text, str) else text
        )

    assert rendered(default, **{old: {"value": ["of the inventory"]}}) == {"value": ["of the inventory"]}
    assert rendered(default) == rendered(known[new].get("default", False))
    assert known[old]["description"] == f"Deprecated: use C({new})."
    assert "default" not in known[old]
    for key in ("type", "choices", "elements"):
        assert known[old].get(key) == known[new].get(key)


@pytest.mark.parametrize("role", ROLES)
def test_every_variable_is_described_and_named_after_its_role(role: str) -> None:
    for name, option in options_of(role).items():
        assert option.get("description"), f"{name} has no description"
        assert name.startswith(f"{role}_"), f"{name} does not begin with {role}_"


def test_an_example_inventory_only_sets_existing_variables() -> None:
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
def test_a_condition_treats_false_in_an_ini_inventory_as_false(role: str) -> None:
    """There and with -e, Ansible passes it as text, and ``not 'false'`` is false."""
    names = {name for one in ROLES for name, option in options_of(one).items() if option.get("type") == "bool"}
    for path in (ROOT / "roles" / role / "tasks").glob("*.yml"):
        for condition in conditions(read(path)):
            for name in names:
                assert f"{name} | bool" in condition or name not in condition, f"{path.name}: {condition}"


@pytest.mark.parametrize("role", ROLES)
def test_a_default_has_its_type_and_is_one_of_its_choices(role: str) -> None:
    for name, option in options_of(role).items():
        if "default" not in option:
            continue
        default, kind = option["default"], option.get("type", "str")
        if not (isinstance(default, str) and "{{" in default):
            assert isinstance(default, TYPES[kind]), f"{name}: {default!r} is no {kind}"
        for each in default if kind == "list" else [default]:
            assert each in option.get("choices", [each]), f"{name}: {each!r} is not a choice"


# A play that doesn't load a role repeats the defaults of the role's settings.
REPEATED = re.compile(r"\b(\w+) \| default\('([^']*)'\)")
# Deliberately empty: before the facts are read, preflight has no node network to compare.
EMPTY = {"cluster_node_name", "cluster_node_address", "cluster_pod_network"}


def test_a_repeated_default_is_the_default_of_the_role() -> None:
    defaults = {name: option.get("default") for role in ROLES for name, option in options_of(role).items()}
    defaults |= {old: defaults[new] for old, new in RENAMED.items()}
    paths = [path for folder in ("roles", "playbooks") for path in (ROOT / folder).rglob("*.*") if path.is_file()]
    found = {
        (name, default)
        for path in paths
        for name, default in REPEATED.findall(path.read_text())
        if name in defaults and (default or name not in EMPTY)
    }
    assert len(found) > 8
    # If a default depends on other settings, its last value is compared.
    assert [(name, default) for name, default in sorted(found) if not str(defaults[name]).endswith(default)] == [
        ("nvidia_driver_root", "/")
    ]
