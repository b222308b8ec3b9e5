# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Callable

from ..plugin_utils._report.drift import rows, settle

DOCUMENTATION = r"""
name: drift
short_description: Compare what hosts have with what is pinned for them
version_added: 0.2.0
author:
  - The gpulab.kubernetes maintainers (@gpulab)
description:
  - Names every host that differs from its pins, the component, what is wanted and found, and what mends it.
positional: _input
options:
  _input:
    description:
      - By host name a dictionary of C(seen) and C(wanted).
      - C(seen) is the result of M(gpulab.kubernetes.installed_versions_info), C(swap) among it, with C(files) (paths of
        configuration files that are not as they should be), or a C(failure).
      - C(wanted) holds C(packages) (name to version), C(loose) (those of them that need no hold), C(driver) (its
        version, empty where it is another's), C(gpus) (whether the host has any), and for the driver V(auto) the host's
        C(pool) and the C(versions) of the table.
    type: dict
    required: true
"""

EXAMPLES = r"""
- name: Show what differs
  ansible.builtin.debug:
    msg: "{{ {'gpu1': {'seen': installed, 'wanted': {'driver': '580.178.04'}}} | gpulab.kubernetes.drift }}"
"""

RETURN = r"""
_value:
  description: The differences, with C(host), C(component), C(wanted), C(found), C(advice), and all of it as C(text).
  type: list
  elements: dict
  sample:
    - host: gpu1
      component: library
      wanted: 580.178.04
      found: 580.200.01
      advice: the playbook gpulab.kubernetes.upgrade_driver brings the nodes to one version
      text: >-
        gpu1: library: wanted is 580.178.04, found is 580.200.01; the playbook gpulab.kubernetes.upgrade_driver brings
        the nodes to one version
"""


def drift(hosts: Mapping[str, Mapping[str, Any]]) -> list[dict[str, str]]:
    found = ((host, entry.get("seen") or {}, entry["wanted"]) for host, entry in settle(hosts).items())
    return [row.fields() for host, seen, wanted in found for row in rows(host, seen, wanted)]


class FilterModule:
    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"drift": drift}
