# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Callable

DOCUMENTATION = r"""
name: plan_summary
short_description: Return a plan as a sentence
version_added: 0.2.0
author:
  - The gpulab.kubernetes maintainers (@gpulab)
description:
  - Nothing is pending only if the cluster could be read.
positional: _input
options:
  _input:
    description: >-
      Pending changes of C(hosts) by host, those of the C(cluster), and whether the latter are known
      (C(cluster_is_known)).
    type: dict
    required: true
"""

EXAMPLES = r"""
- name: Show whether anything is pending
  ansible.builtin.debug:
    msg: "{{ {'hosts': {'gpu1': {}}, 'cluster': {}, 'cluster_is_known': true} | gpulab.kubernetes.plan_summary }}"
"""

RETURN = r"""
_value:
  description: The sentence.
  type: str
  sample: Nothing is pending.
"""


def plan_summary(plan: Mapping[str, Any]) -> str:
    if plan["cluster_is_known"] and not plan["cluster"] and not any(plan["hosts"].values()):
        return "Nothing is pending."
    return "site.yml would change what is shown above."


class FilterModule:
    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"plan_summary": plan_summary}
