# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Callable

from ..plugin_utils._report.origin import collection_version
from ..plugin_utils._report.read import read_report, read_seen
from ..plugin_utils._report.state import complete

DOCUMENTATION = r"""
name: report_state
short_description: Add the current state of the hosts to a report
version_added: 0.2.0
author:
  - The gpulab.kubernetes maintainers (@gpulab)
description:
  - Adds the health of the GPUs, versions and their drift, certificates, the duration of each phase, and the recommended
    actions, most important first, to the report of a verification.
positional: _input, seen, settings
options:
  _input:
    description: Report as returned by M(gpulab.kubernetes.gpu_acceptance), or an earlier report, also as JSON.
    type: raw
    required: true
  seen:
    description:
      - For each inventory name, a dictionary with C(node) (its name in the cluster), C(roles), C(reading) (the result
        of M(gpulab.kubernetes.gpu_host_info)), and C(pins) (the C(wanted) state, as for
        P(gpulab.kubernetes.drift#filter)), or with C(failure), the reason why the host could not be read.
    type: dict
    required: true
  settings:
    description:
      - A dictionary with C(observed) (the current time as text), C(now) (the same in seconds), C(phases) (the start
        time of each phase in seconds), C(earlier_phases) (the phases of an earlier report, for a run without phases),
        C(certificate_days), C(api_failure), and C(launch) (see the role C(wandb_launch)).
      - It also contains C(inventory_sources) and C(cluster_name) (the name of the inventory if the controller has one;
        otherwise, the cluster is named after its inventory file), C(controller) (who runs this), C(options) (what
        stands for C(-i INVENTORY) in commands), and C(earlier) (the text of the report that is replaced, for the
        history and the figures of C(gpu_benchmark); text that is not a report is ignored).
    type: dict
    required: true
seealso:
  - plugin: gpulab.kubernetes.report_page
    plugin_type: filter
"""

EXAMPLES = r"""
- name: Complete the report
  ansible.builtin.set_fact:
    report: "{{ verification.report | gpulab.kubernetes.report_state(seen, {'certificate_days': 30}) }}"
"""

RETURN = r"""
_value:
  description: Report, as described in the README of the role C(report).
  type: dict
"""


def report_state(report: Any, seen: Mapping[str, Any], settings: Mapping[str, Any]) -> dict[str, Any]:
    version = {"collection_version": collection_version(Path(__file__).resolve().parents[2])}
    return complete(read_report(report), read_seen(seen), {**version, **read_seen(settings)})


class FilterModule:
    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"report_state": report_state}
