# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Callable

from ..plugin_utils._report.drift import Row, compare, settle

DOCUMENTATION = r"""
name: drift
short_description: Compare hosts with their pinned state
version_added: 0.2.0
author:
  - The gpulab.kubernetes maintainers (@gpulab)
description:
  - Returns every difference with the host, the component, the wanted and the actual value, and how to fix it.
positional: _input
options:
  _input:
    description:
      - A dictionary with C(seen) and C(wanted) for each host name.
      - C(seen) is the result of M(gpulab.kubernetes.gpu_host_info) with C(files) (paths of configuration files that
        differ), or a C(failure).
      - C(wanted) describes the pinned state. If it is empty, nothing is compared.
      - C(wanted.packages) and C(wanted.gpu_packages) contain versions by package name; the latter apply only to hosts
        with GPUs. Packages in C(wanted.loose) don't need to be held. C(wanted.minimums) and C(wanted.existing)
        determine which other versions may stay (see P(gpulab.kubernetes.kept_version#filter)).
      - C(wanted.source) is the source of the driver, and C(wanted.driver) is its version. If the version is V(auto),
        C(wanted.pool) is the host's pool, and C(wanted.versions) lists the driver versions in the version table.
    type: dict
    required: true
"""

EXAMPLES = r"""
- name: Show the differences
  ansible.builtin.debug:
    msg: "{{ {'gpu1': {'seen': gpu_host, 'wanted': cluster_pins}} | gpulab.kubernetes.drift }}"
"""

RETURN = r"""
_value:
  description: >-
    Differences, with C(host), C(component), C(wanted), C(found), C(advice), and a C(text) that combines them.
  type: list
  elements: dict
  sample:
    - host: gpu1
      component: NVIDIA driver's library
      wanted: 580.178.04
      found: 580.200.01
      drift: true
      advice: >-
        Install the same version on all nodes: ansible-playbook gpulab.kubernetes.upgrade_driver -i INVENTORY.
      text: >-
        gpu1: NVIDIA driver's library: expected 580.178.04, found 580.200.01. Install the same
        version on all nodes: ansible-playbook gpulab.kubernetes.upgrade_driver -i INVENTORY.
"""


def drift(hosts: Mapping[str, Mapping[str, Any]]) -> list[dict[str, Any]]:
    found = ((host, row) for host, entry in settle(hosts).items() for row in _rows(entry) if row.drift)
    return [{"host": host, **row.fields(), "text": f"{host}: {row.text}. {row.advice}"} for host, row in found]


def _rows(entry: Mapping[str, Any]) -> Iterator[Row]:
    failure = entry["seen"].get("failure")
    if failure:
        yield Row("host", "an answer", failure, advice="Make the host reachable, and run this again.")
    else:
        yield from compare(entry["seen"], entry["wanted"])


class FilterModule:
    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"drift": drift}
