#!/usr/bin/python
# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: api_reach_info
short_description: Check whether this host can use a Kubernetes API
version_added: 0.2.0
author:
  - The gpulab.kubernetes maintainers (@gpulab)
description:
  - Opens a TCP connection to the address of the API and checks that the required Python packages are installed.
  - If there is no cluster yet, nothing listens at that address. In this case, a refused connection shows that packets
    reach the host and return.
options:
  endpoint:
    description: >-
      Address of the API as C(host:port), with an IPv6 address in brackets. Empty means that no connection is attempted.
    type: str
    default: ""
  timeout:
    description: Time limit for the connection in seconds.
    type: float
    default: 10
extends_documentation_fragment:
  - gpulab.kubernetes.attributes
  - gpulab.kubernetes.attributes.reader
"""

EXAMPLES = r"""
- name: Test whether the API can be reached
  gpulab.kubernetes.api_reach_info:
    endpoint: 10.0.0.10:6443
"""

RETURN = r"""
reach:
  description: >-
    V(answered), V(refused), V(silent) (no answer in time), V(unreachable) (no route, or the name can't be resolved), or
    V(unasked) (no connection was attempted).
  returned: always
  type: str
  sample: refused
error:
  description: Error message of the operating system, empty if the connection was established.
  returned: always
  type: str
python:
  description: Path of the Python interpreter that ran this module.
  returned: always
  type: str
  sample: /usr/bin/python3
packages:
  description: Versions of the Python packages C(kubernetes) and C(yaml), empty if they are not installed.
  returned: always
  type: dict
  sample: {kubernetes: 32.0.1, yaml: 6.0.2}
"""

import sys
from importlib import metadata, util

from ansible.module_utils.basic import AnsibleModule

from ..module_utils._host.reach import reach

# Python distribution of each package.
DISTRIBUTIONS = {"kubernetes": "kubernetes", "yaml": "PyYAML"}


def version(package: str) -> str:
    # Importing the client would take half a second in each run.
    spec = util.find_spec(package)
    if spec is None or spec.origin is None:
        return ""
    try:
        return metadata.version(DISTRIBUTIONS[package])
    except metadata.PackageNotFoundError:
        return "unknown"


def main() -> None:
    module = AnsibleModule(
        argument_spec={"endpoint": {"type": "str", "default": ""}, "timeout": {"type": "float", "default": 10}},
        supports_check_mode=True,
    )
    found, error = reach(module.params["endpoint"], module.params["timeout"])
    packages = {package: version(package) for package in DISTRIBUTIONS}
    module.exit_json(changed=False, reach=found, error=error, python=sys.executable, packages=packages)


if __name__ == "__main__":
    main()
