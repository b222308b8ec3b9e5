# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Several states of a host in one process: each with the arguments and the result of the module of its name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible.module_utils.common.arg_spec import ModuleArgumentSpecValidator
from ansible.module_utils.errors import UnsupportedError

from .._errors import REPORTED, DomainError, reported

OPTIONS: dict[str, Any] = {
    "name": {"type": "str", "required": True},
    "module": {"type": "str", "required": True},
    "when": {"type": "bool", "default": True},
    "args": {"type": "dict", "default": {}},
}


def specification(modules: Mapping[str, Any]) -> dict[str, Any]:
    """The option ``states`` of a module that knows the states of ``modules``, by the names of their own modules."""
    options = {**OPTIONS, "module": {**OPTIONS["module"], "choices": list(modules)}}
    return {"type": "list", "elements": "dict", "required": True, "options": options}


def by_name(*states: Any) -> dict[str, Any]:
    return {state.__name__.rpartition(".")[2]: state for state in states}


class Part:
    """The module as one state sees it: its own parameters, all else is the whole module's."""

    def __init__(self, module: Any, params: Mapping[str, Any]) -> None:
        self._whole = module
        self.params = params

    def __getattr__(self, name: str) -> Any:
        return getattr(self._whole, name)


def ensure(module: Any, modules: Mapping[str, Any], common: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Bring one state after the other about. Raises DomainError with the results of those before.

    Stops after a state that requires a reboot: the states after it need the reboot, too.

    ``common`` are arguments of those states that have such an option, unless a state brings its own.
    """
    wanted = [entry for entry in module.params["states"] if entry["when"]]
    parts = [
        (entry["name"], modules[entry["module"]], _part(module, entry, modules[entry["module"]], common or {}))
        for entry in wanted
    ]
    names = [name for name, _state, _part in parts]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise DomainError(f"Error while reading states: {', '.join(twice)}: each needs a unique name")
    results: dict[str, Any] = {}
    for name, state, part in parts:
        try:
            results[name] = {"changed": False, **state.ensure(part)}
        except REPORTED as error:
            said = reported(error)
            raise DomainError(f"{name}: {said}", states=results, failed_state=name, **said.fields) from error
        if results[name].get("reboot_required"):
            break
    changed = [result for result in results.values() if result["changed"]]
    diffs = [diff for result in changed for diff in _listed(result.get("diff") or [])]
    return {"changed": bool(changed), "states": results, "diff": diffs}


def _part(module: Any, entry: Mapping[str, Any], state: Any, common: Mapping[str, Any]) -> Part:
    expected = {k: v for k, v in state.SPECIFICATION.items() if k != "supports_check_mode"}
    shared = {name: value for name, value in common.items() if name in expected["argument_spec"]}
    found = ModuleArgumentSpecValidator(**expected).validate({**shared, **entry["args"]})
    # What a module of its own would keep out of logs and results is kept out of these, too.
    module.no_log_values.update(found._no_log_values)
    if found.error_messages:
        said = [f"unsupported: {e}" if isinstance(e, UnsupportedError) else str(e) for e in found.errors.errors]
        raise DomainError(f"{entry['name']}: {entry['module']}: {'; '.join(said)}")
    return Part(module, found.validated_parameters)


def _listed(diff: Any) -> list[Any]:
    return diff if isinstance(diff, list) else [diff]
