# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Apply several states of a host in one process, each with the arguments and result of its own module."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ansible.module_utils.common.arg_spec import ModuleArgumentSpecValidator
from ansible.module_utils.errors import UnsupportedError

from .._errors import REPORTED, DomainError, reported

Entry = Mapping[str, Any]
OPTIONS: dict[str, Any] = {
    "name": {"type": "str", "required": True},
    "module": {"type": "str", "required": True},
    "when": {"type": "bool", "default": True},
    "args": {"type": "dict", "default": {}},
}


def specification(modules: Mapping[str, Any]) -> dict[str, Any]:
    """Return the option ``states`` of a module that supports the states ``modules``, by their modules' names."""
    options = {**OPTIONS, "module": {**OPTIONS["module"], "choices": list(modules)}}
    return {"type": "list", "elements": "dict", "required": True, "options": options}


def states_in(namespace: Mapping[str, Any]) -> dict[str, Any]:
    """Return the states that a module imports from this package."""
    return {name: value for name, value in namespace.items() if hasattr(value, "SPECIFICATION")}


def select(states: Sequence[Entry], only: Sequence[str] | None, without: Sequence[str] | None) -> list[Entry]:
    """Return the states in ``only``, or all except those in ``without``, in their original order.

    Raise DomainError for duplicate or unknown names, or if no state is selected.
    """
    names = [state["name"] for state in states]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise DomainError(f"Error while reading states: {', '.join(twice)}: each needs a unique name")
    for option, chosen in (("only", only), ("except", without)):
        unknown = [name for name in chosen or [] if name not in names]
        if unknown:
            raise DomainError(
                f"Error while reading {option}: there is no state {', '.join(unknown)}."
                f" Use the names in states: {', '.join(names)}."
            )
    selected = [
        state for state in states if (only is None or state["name"] in only) and state["name"] not in (without or [])
    ]
    if not selected:
        raise DomainError(
            "Error while reading states: none is selected. Specify at least one state in states and only."
        )
    return selected


class ModuleView:
    """A module with the parameters of one state; everything else is the whole module's."""

    def __init__(self, module: Any, params: Mapping[str, Any]) -> None:
        self._whole = module
        self.params = params

    def __getattr__(self, name: str) -> Any:
        return getattr(self._whole, name)


def ensure(module: Any, modules: Mapping[str, Any], common: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Apply the selected states in order. Raise DomainError with the results of earlier states.

    Stop after a state that requires a reboot, because later states need the reboot, too. ``common`` are defaults for
    states with these options.
    """
    selected = select(module.params["states"], module.params.get("only"), module.params.get("except"))
    wanted = [entry for entry in selected if entry["when"]]
    views = [
        (entry["name"], modules[entry["module"]], _view(module, entry, modules[entry["module"]], common or {}))
        for entry in wanted
    ]
    results: dict[str, Any] = {}
    for name, state, view in views:
        try:
            results[name] = {"changed": False, **state.ensure(view)}
        except REPORTED as error:
            said = reported(error)
            raise DomainError(f"{name}: {said}", states=results, failed_state=name, **said.fields) from error
        if results[name].get("reboot_required"):
            break
    changed = [result for result in results.values() if result["changed"]]
    diffs = [diff for result in changed for diff in _listed(result.get("diff") or [])]
    return {"changed": bool(changed), "states": results, "diff": diffs}


def _view(module: Any, entry: Mapping[str, Any], state: Any, common: Mapping[str, Any]) -> ModuleView:
    expected = {k: v for k, v in state.SPECIFICATION.items() if k != "supports_check_mode"}
    shared = {name: value for name, value in common.items() if name in expected["argument_spec"]}
    found = ModuleArgumentSpecValidator(**expected).validate({**shared, **entry["args"]})
    # Mask secret values in logs and results, as the state's own module would.
    module.no_log_values.update(found._no_log_values)
    if found.error_messages:
        said = [f"unsupported: {e}" if isinstance(e, UnsupportedError) else str(e) for e in found.errors.errors]
        raise DomainError(f"{entry['name']}: {entry['module']}: {'; '.join(said)}")
    return ModuleView(module, found.validated_parameters)


def _listed(diff: Any) -> list[Any]:
    return diff if isinstance(diff, list) else [diff]
