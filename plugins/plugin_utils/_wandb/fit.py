# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether the greatest job of a queue fits on a node, as the scheduler counts. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Any

from ...module_utils._cluster import objects
from ...module_utils._cluster.quantities import read_quantity

VARIABLE = re.compile(r"\{\{\s*(\w+)\s*\}\}")
_GPU = "nvidia.com/gpu"
# What the scheduler counts, in words, and the setting.
_RESOURCES = {
    _GPU: ("GPUs", "the maximum of the variable gpus"),
    "cpu": ("CPUs", "cpu, or the maximum of its variable"),
    "memory": ("of memory", "memory, or the values of its variable"),
}
_PASSING = ("node.kubernetes.io/", "node.cloudprovider.kubernetes.io/", "gpulab.io/")


def fit_problems(
    queue: Mapping[str, Any], pod: Mapping[str, Any], labeled: Sequence[Mapping[str, Any]]
) -> Iterator[str]:
    """Say what none of the nodes ``labeled`` has for the greatest pod of the queue."""
    refused = {objects.name(node): taint for node in labeled if (taint := _untolerated(node, pod))}
    nodes = [node for node in labeled if objects.name(node) not in refused]
    if not nodes:
        taints = ", ".join(sorted(set(refused.values())))
        yield (
            f"its jobs do not tolerate {taints}, which every node on which they may run has: add it to tolerations"
            if taints
            else "no node has the labels of node_selector: correct it"
        )
        return
    wanted = {name: _requested(queue, pod, name) for name in _RESOURCES}
    has = {objects.name(node): {name: _offered(node, name) for name in _RESOURCES} for node in nodes}
    short = False
    for name, (words, setting) in _RESOURCES.items():
        greatest = max(amounts[name] for amounts in has.values())
        if wanted[name] > greatest:
            short = True
            yield (
                f"its jobs may request {_shown(name, wanted[name])} {words}, but no node on which they may run has "
                f"more than {_shown(name, greatest)}: lower {setting}, or check node_selector and tolerations"
            )
    if not short and not any(all(wanted[name] <= amounts[name] for name in wanted) for amounts in has.values()):
        together = ", ".join(
            f"{_shown(name, amount)} {_RESOURCES[name][0]}" for name, amount in wanted.items() if amount
        )
        yield f"its jobs may request {together}, but no node on which they may run has all of that: lower one of them"


def _untolerated(node: Mapping[str, Any], pod: Mapping[str, Any]) -> str:
    """Return a taint that keeps the pods away, or empty. Those that Kubernetes sets for a while do not count."""
    for taint in (node.get("spec") or {}).get("taints") or []:
        lasting = taint["effect"] != "PreferNoSchedule" and not taint["key"].startswith(_PASSING)
        if lasting and not any(_tolerates(each, taint) for each in pod.get("tolerations") or []):
            return f"{taint['key']}{'=' * bool(taint.get('value'))}{taint.get('value') or ''}:{taint['effect']}"
    return ""


def _tolerates(toleration: Mapping[str, Any], taint: Mapping[str, Any]) -> bool:
    if toleration.get("effect") not in (None, "", taint["effect"]):
        return False
    if toleration.get("operator") == "Exists":
        return toleration.get("key") in (None, "", taint["key"])
    return (toleration.get("key"), toleration.get("value") or "") == (taint["key"], taint.get("value") or "")


def _offered(node: Mapping[str, Any], name: str) -> Fraction:
    # GPUs that are unhealthy for a while are not allocatable.
    amounts = node["status"].get("capacity" if name == _GPU else "allocatable") or {}
    return read_quantity(str(amounts.get(name, "0"))) or Fraction(0)


def _requested(queue: Mapping[str, Any], pod: Mapping[str, Any], name: str) -> Fraction:
    """Return the most of a resource that a pod may request; what has only a limit requests that."""
    found = Fraction(0)
    for container in pod.get("containers") or []:
        resources = container.get("resources") or {}
        amounts = {**(resources.get("limits") or {}), **(resources.get("requests") or {})}
        found += greatest_amount(queue, amounts.get(name, 0))
    return found


def _shown(name: str, amount: Fraction) -> str:
    return f"{float(amount / 2**30):.4g}Gi" if name == "memory" else f"{float(amount):.4g}"


def greatest_amount(queue: Mapping[str, Any], value: Any) -> Fraction:
    """Return the greatest amount that a value can be, with any value of the variable in it."""
    texts = [str(value)]
    if variable := VARIABLE.search(texts[0]):
        schema = queue["template_variables"].get(variable[1]) or {}
        bounds = [schema.get(key) for key in ("minimum", "default", "maximum")]
        values = schema.get("enum") or [bound for bound in bounds if bound is not None]
        texts = [VARIABLE.sub(str(each), texts[0]) for each in values]
    return max((amount for text in texts if (amount := read_quantity(text))), default=Fraction(0))
