# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Several states of a host in one process: each with the arguments and the result of the module of its name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible.module_utils.common.arg_spec import ModuleArgumentSpecValidator
from ansible.module_utils.errors import UnsupportedError

from .._errors import DomainError
from . import (
    apt_packages,
    apt_source,
    kernel_settings,
    kubeadm_images,
    kubeadm_init,
    kubeadm_join,
    managed_files,
    managed_service,
    nvidia_cdi_spec,
    nvidia_driver_module,
    swap,
)

MODULES: dict[str, Any] = {
    state.__name__.rpartition(".")[2]: state
    for state in (
        apt_packages,
        apt_source,
        kernel_settings,
        kubeadm_images,
        kubeadm_init,
        kubeadm_join,
        managed_files,
        managed_service,
        nvidia_cdi_spec,
        nvidia_driver_module,
        swap,
    )
}


class Part:
    """The module as one state sees it: its own parameters, all else is the whole module's."""

    def __init__(self, module: Any, params: Mapping[str, Any]) -> None:
        self._whole = module
        self.params = params

    def __getattr__(self, name: str) -> Any:
        return getattr(self._whole, name)


def ensure(module: Any) -> dict[str, Any]:
    """Bring one state after the other about. Raises DomainError with the results of those before."""
    wanted = [entry for entry in module.params["states"] if entry["when"]]
    parts = [(entry["name"], entry["module"], _part(module, entry)) for entry in wanted]
    names = [name for name, _kind, _args in parts]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise DomainError(f"Error while reading states: {', '.join(twice)}: each needs a name of its own")
    results: dict[str, Any] = {}
    for name, kind, part in parts:
        try:
            results[name] = {"changed": False, **MODULES[kind].ensure(part)}
        except DomainError as error:
            raise DomainError(f"{name}: {error}", states=results, failed_state=name, **error.fields) from error
    changed = [result for result in results.values() if result["changed"]]
    diffs = [diff for result in changed for diff in _listed(result.get("diff") or [])]
    return {"changed": bool(changed), "states": results, "diff": diffs}


def _part(module: Any, entry: Mapping[str, Any]) -> Part:
    specification = {k: v for k, v in MODULES[entry["module"]].SPECIFICATION.items() if k != "supports_check_mode"}
    found = ModuleArgumentSpecValidator(**specification).validate(entry["args"])
    # What a module of its own would keep out of logs and results is kept out of these, too.
    module.no_log_values.update(found._no_log_values)
    if found.error_messages:
        said = [f"unsupported: {e}" if isinstance(e, UnsupportedError) else str(e) for e in found.errors.errors]
        raise DomainError(f"{entry['name']}: {entry['module']}: {'; '.join(said)}")
    return Part(module, found.validated_parameters)


def _listed(diff: Any) -> list[Any]:
    return diff if isinstance(diff, list) else [diff]
