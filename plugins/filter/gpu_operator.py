# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Callable

from ansible.errors import AnsibleFilterError

from ..module_utils._errors import DomainError
from ..module_utils._mappings import merged
from ..plugin_utils import _gpu_operator

DOCUMENTATION = r"""
name: gpu_operator
short_description: Internal filters for the GPU Operator
extends_documentation_fragment: gpulab.kubernetes.internal
"""

_PARTS = ("driver", "daemonsets", "hostPaths")
# Settings for the replacement of pods; changing them doesn't replace pods.
_PASSED_OVER = {"driver.upgradePolicy", "driver.rollingUpdate", "daemonsets.updateStrategy", "daemonsets.rollingUpdate"}


def gpu_operator_driver_changes(rendered: Iterable[Mapping[str, Any]], policies: Mapping[str, Any]) -> list[str]:
    """Find changes to the driver that the GPU Operator has installed."""
    changed: set[str] = set()
    try:
        for policy in rendered:
            there = policies.get(policy["metadata"]["name"]) or {} if policy["kind"] == "ClusterPolicy" else {}
            if (there.get("driver") or {}).get("enabled"):
                found, wanted = _driver_fields(there), _driver_fields(policy.get("spec") or {})
                changed |= {name for name in found | wanted if found.get(name) != wanted.get(name)}
    except (AttributeError, KeyError, TypeError) as error:
        raise AnsibleFilterError(f"Error while comparing the GPU Operator's drivers: {error!r}") from error
    return sorted(changed)


def _driver_fields(spec: Mapping[str, Any]) -> dict[str, Any]:
    found = {f"{part}.{name}": _comparable(value) for part in _PARTS for name, value in (spec.get(part) or {}).items()}
    return {name: value for name, value in found.items() if value and name not in _PASSED_OVER}


def _comparable(value: Any) -> Any:
    """Return the value without empty or false entries, which the API and the chart may omit, and scalars as strings."""
    if isinstance(value, Mapping):
        made = {name: _comparable(each) for name, each in value.items()}
        return {name: each for name, each in made.items() if each}
    if isinstance(value, list):
        return [_comparable(each) for each in value]
    return str(value) if value else ""


def gpu_operator_plan(
    hosts: Iterable[Mapping[str, Any]],
    wanted: Mapping[str, Any],
    own: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Compute the values of the GPU Operator's chart, and find problems."""
    try:
        found = [_gpu_operator.Host(**host) for host in hosts]
        settings = _gpu_operator.Wanted(**wanted)
        values = merged(_gpu_operator.computed(found, settings), own or {})
    except (TypeError, DomainError) as error:
        raise AnsibleFilterError(f"Error while computing the GPU Operator's values: {error}") from error
    problems = [
        *_gpu_operator.host_problems(found),
        *_gpu_operator.sharing_problems(settings),
        *_gpu_operator.relation_problems(values),
        *_gpu_operator.image_problems(values, found),
        *_gpu_operator.toolkit_problems(values, found),
        *_gpu_operator.proxy_problems(values, settings),
    ]
    return {"values": values, "problems": [problem.fields() for problem in problems]}


class FilterModule:
    def filters(self) -> dict[str, Callable[..., Any]]:
        return {
            "gpu_operator_driver_changes": gpu_operator_driver_changes,
            "gpu_operator_plan": gpu_operator_plan,
        }
