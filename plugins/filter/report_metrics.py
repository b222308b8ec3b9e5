# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from typing import Any, Callable

from ..plugin_utils._report.metrics import metrics
from ..plugin_utils._report.read import read_report

DOCUMENTATION = r"""
name: report_metrics
short_description: Return a report as metrics for Prometheus
version_added: 0.2.0
author:
  - The gpulab.kubernetes maintainers (@gpulab)
description:
  - Returns totals, the health and the last measured speed of each GPU, drift and the expiry of certificates in
    Prometheus' text format, for the textfile collector of node_exporter. All metrics are gauges with the label
    C(cluster).
  - Input that is not a report is an error.
options:
  _input:
    description: The report, as P(gpulab.kubernetes.report_state#filter) returns it, or as JSON.
    type: raw
    required: true
seealso:
  - plugin: gpulab.kubernetes.report_state
    plugin_type: filter
"""

EXAMPLES = r"""
- name: Write the metrics of a report
  ansible.builtin.copy:
    content: "{{ lookup('ansible.builtin.file', 'gpulab-report.json') | gpulab.kubernetes.report_metrics }}"
    dest: /var/lib/prometheus/node-exporter/gpulab.prom
    mode: "0644"
  delegate_to: localhost
"""

RETURN = r"""
_value:
  description: The metrics, each with its help text and its type.
  type: str
"""


def report_metrics(report: Any) -> str:
    return metrics(read_report(report))


class FilterModule:
    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"report_metrics": report_metrics}
