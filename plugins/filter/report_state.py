# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Callable

from ansible.errors import AnsibleFilterError

from ..plugin_utils._report.read import ReportError, read_report, read_seen
from ..plugin_utils._report.state import complete

DOCUMENTATION = r"""
name: report_state
short_description: Add to a report what the hosts say about themselves
version_added: 0.2.0
author:
  - The gpulab.kubernetes maintainers (@gpulab)
description:
  - Adds health of the GPUs, versions and their drift, certificates and the time of each phase to the report of a
    verification, and what to do, first things first.
positional: _input, seen, settings
options:
  _input:
    description: The report that M(gpulab.kubernetes.gpu_acceptance) returns, or an earlier one, also as JSON.
    type: raw
    required: true
  seen:
    description:
      - By inventory name a dictionary of C(node) (its name in the cluster), C(roles), C(driver) (the result of
        M(gpulab.kubernetes.nvidia_smi_info)), C(installed) (the result of M(gpulab.kubernetes.gpu_host_info)), C(pins)
        (what is C(wanted), as P(gpulab.kubernetes.drift#filter) takes it), C(certificates)
        (the result of M(gpulab.kubernetes.kubeadm_info)), C(apt_keys) (of M(gpulab.kubernetes.gpu_host_info)), or
        of C(failure), which says why the host is not known.
    type: dict
    required: true
  settings:
    description:
      - C(observed) (the time in words), C(now) (in seconds), C(phases) (by name, when it began, in seconds),
        C(earlier_phases) (those of an earlier report, for a run without any), C(certificate_days), C(api_failure),
        C(launch) (see the role C(wandb_launch)).
    type: dict
    required: true
seealso:
  - plugin: gpulab.kubernetes.report_page
    plugin_type: filter
"""

EXAMPLES = r"""
- name: Know what is wrong
  ansible.builtin.set_fact:
    report: "{{ verification.report | gpulab.kubernetes.report_state(seen, {'certificate_days': 30}) }}"
"""

RETURN = r"""
_value:
  description: The report, see the role C(acceptance).
  type: dict
"""


def report_state(report: Any, seen: Mapping[str, Any], settings: Mapping[str, Any]) -> dict[str, Any]:
    try:
        return complete(read_report(report), read_seen(seen), read_seen(settings))
    except ReportError as error:
        raise AnsibleFilterError(str(error)) from None


class FilterModule:
    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"report_state": report_state}
