#!/usr/bin/python
# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: helm_chart_info
short_description: Render a Helm chart, and find values that it does not use
version_added: 0.2.0
author:
  - The gpulab.kubernetes maintainers (@gpulab)
description:
  - Renders a chart, and finds values that it does not use. Helm itself accepts any value and does not report values
    that the chart ignores.
  - A value counts as used if it is in the chart's C(values.yaml), or if a different value changes the rendered output.
    Nothing is installed, and the cluster is not contacted.
options:
  helm:
    description: Path of the program helm.
    type: path
    required: true
  chart:
    description: Chart on this host (a directory or an archive), or its name in O(repository).
    type: str
    required: true
  repository:
    description: URL of the chart's repository. Empty for a chart on this host.
    type: str
    default: ""
  version:
    description: Version of the chart in O(repository).
    type: str
    default: ""
  values:
    description: Values for the chart.
    type: dict
    required: true
  namespace:
    description: Namespace for which the chart is rendered.
    type: str
    default: default
  kubernetes_version:
    description: Version of Kubernetes for which the chart is rendered. Empty means helm's default.
    type: str
    default: ""
  check_values:
    description: Whether to find values that the chart does not use.
    type: bool
    default: true
  kinds:
    description: Kinds of rendered objects to return.
    type: list
    elements: str
    default: []
  variable:
    description: Name of the variable to show in messages.
    type: str
    default: release_values
  removed:
    description: Values of earlier versions of the chart, with their replacements.
    type: dict
    default: {}
extends_documentation_fragment:
  - gpulab.kubernetes.attributes
  - gpulab.kubernetes.attributes.reader
"""

EXAMPLES = r"""
- name: Look for misspelled values
  gpulab.kubernetes.helm_chart_info:
    helm: /usr/local/bin/helm
    chart: gpu-operator
    repository: https://helm.ngc.nvidia.com/nvidia
    version: v26.7.1
    values: {driver: {enabled: false, verison: "580"}}
  register: chart
  delegate_to: localhost
"""

RETURN = r"""
objects:
  description: Rendered objects of O(kinds), including resource definitions.
  returned: success
  type: list
  elements: dict
problems:
  description: >-
    Values that the chart does not use, in the form that P(gpulab.kubernetes.preflight_report#filter) accepts.
  returned: success
  type: list
  elements: dict
  sample:
    - kind: chart_value_unread
      what: The chart does not read driver.verison
      where: release_values
      why: Helm accepts any value and does not report those that the chart ignores
      do: Correct it (driver.version looks like it), or remove it
"""

import shutil
import tempfile
from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ..module_utils._cluster.helm import Chart, value_problems
from ..module_utils._command import Runner
from ..module_utils._module import QuietModule, run


def run_module(module: AnsibleModule) -> dict[str, Any]:
    wanted = module.params
    directory = tempfile.mkdtemp(dir=module.tmpdir)
    try:
        runner = Runner(module, timeout=300)
        chart = Chart(runner, wanted["helm"], wanted["chart"], wanted["namespace"], wanted["kubernetes_version"])
        if wanted["repository"]:
            chart = chart.fetched(wanted["repository"], wanted["version"], directory)
        problems = value_problems(chart, wanted["values"], wanted["removed"], wanted["variable"])
        found = [problem.fields() for problem in problems] if wanted["check_values"] else []
        objects = chart.objects(wanted["values"]) if wanted["kinds"] and not found else []
        return {"problems": found, "objects": [made for made in objects if made.get("kind") in wanted["kinds"]]}
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def main() -> None:
    # The values may contain secrets.
    module = QuietModule(
        argument_spec={
            "helm": {"type": "path", "required": True},
            "chart": {"type": "str", "required": True},
            "repository": {"type": "str", "default": ""},
            "version": {"type": "str", "default": ""},
            "values": {"type": "dict", "required": True},
            "namespace": {"type": "str", "default": "default"},
            "kubernetes_version": {"type": "str", "default": ""},
            "check_values": {"type": "bool", "default": True},
            "kinds": {"type": "list", "elements": "str", "default": []},
            "variable": {"type": "str", "default": "release_values"},
            "removed": {"type": "dict", "default": {}},
        },
        supports_check_mode=True,
    )
    run(module, run_module)


if __name__ == "__main__":
    main()
