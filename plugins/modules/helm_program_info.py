#!/usr/bin/python
# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: helm_program_info
short_description: Find helm and return its version
version_added: 0.2.0
author:
  - The gpulab.kubernetes maintainers (@gpulab)
description:
  - Finds helm by name or path, and fails with instructions if it is missing or too old. Charts that
    this collection installs need helm 3.8 or newer.
options:
  helm:
    description: Path of the program, or its name if it is in C(PATH).
    type: str
    default: helm
  chart:
    description: Chart on this host (a directory or an archive) that must exist. Empty means none.
    type: path
    default: ""
  helm_setting:
    description: Name of the variable with the path of the program, which error messages mention.
    type: str
    default: helm
  chart_setting:
    description: Name of the variable with the chart, which error messages mention.
    type: str
    default: chart
extends_documentation_fragment:
  - gpulab.kubernetes.attributes
  - gpulab.kubernetes.attributes.reader
"""

EXAMPLES = r"""
- name: Find helm
  gpulab.kubernetes.helm_program_info:
    helm: /opt/bin/helm
  register: helm
  delegate_to: localhost
"""

RETURN = r"""
path:
  description: Path of the program.
  returned: success
  type: str
  sample: /usr/local/bin/helm
version:
  description: Version of helm.
  returned: success
  type: str
  sample: 3.22.0
"""

from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ..module_utils._cluster.helm import check_version, parse_version
from ..module_utils._command import Runner
from ..module_utils._errors import DomainError
from ..module_utils._module import run


def run_module(module: AnsibleModule) -> dict[str, Any]:
    params = module.params
    wanted, chart = params["helm"], params["chart"]
    runner = Runner(module, timeout=60)
    path = runner.find(wanted)
    if path is None:
        raise DomainError(
            f"Error while looking for helm: there is no program {wanted} on this host. Install Helm 3.8 "
            f"or newer (https://helm.sh/docs/intro/install) and set {params['helm_setting']} to its path, or set "
            "cluster_api_delegate to a host that has it."
        )
    version = parse_version(runner.check([path, "version", "--short"], f"asking {path} for its version").stdout)
    check_version(path, version, params["helm_setting"])
    if chart and not ((Path(chart) / "Chart.yaml").is_file() or Path(chart).is_file()):
        raise DomainError(
            f"Error while looking for the chart {chart}: there is neither an archive of this name on this host, "
            f"nor a directory with a Chart.yaml. Correct {params['chart_setting']}."
        )
    return {"path": path, "version": version}


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "helm": {"type": "str", "default": "helm"},
            "chart": {"type": "path", "default": ""},
            "helm_setting": {"type": "str", "default": "helm"},
            "chart_setting": {"type": "str", "default": "chart"},
        },
        supports_check_mode=True,
    )
    run(module, run_module)


if __name__ == "__main__":
    main()
