# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Callable

DOCUMENTATION = r"""
name: acceptance_nodes
short_description: Combine the hosts that answered with those that did not
version_added: 0.2.0
author:
  - The gpulab.kubernetes maintainers (@gpulab)
description:
  - The result is for P(gpulab.kubernetes.gpu_acceptance#module). A host that failed on the way is part of the report.
positional: _input, hosts, all_hosts
options:
  _input:
    description: What was found on each host, empty for a host that did not answer.
    type: list
    elements: dict
    required: true
  hosts:
    description: Names of these hosts.
    type: list
    elements: str
    required: true
  all_hosts:
    description: Names of all hosts, including those that have failed.
    type: list
    elements: str
    required: true
"""

EXAMPLES = r"""
- name: Show the hosts for the report
  ansible.builtin.debug:
    msg: "{{ [{'name': 'node1'}] | gpulab.kubernetes.acceptance_nodes(['gpu1'], ['gpu1', 'gpu2']) }}"
"""

RETURN = r"""
_value:
  description: What was found, and an entry with the C(state) V(silent) for each of the other hosts.
  type: list
  elements: dict
"""


def acceptance_nodes(
    answers: Sequence[Mapping[str, Any]], hosts: Iterable[str], all_hosts: Iterable[str]
) -> list[Mapping[str, Any]]:
    answered = {host for host, answer in zip(hosts, answers) if answer}
    complaint = "the host failed or did not answer in this run"
    silent = [{"name": host, "state": "silent", "complaint": complaint} for host in all_hosts if host not in answered]
    return [*filter(None, answers), *silent]


class FilterModule:
    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"acceptance_nodes": acceptance_nodes}
