#!/usr/bin/python
# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: python_environment
short_description: Maintain a Python virtual environment with a pinned version of one package
version_added: 0.2.0
author:
  - The gpulab.kubernetes maintainers (@gpulab)
description:
  - Creates a virtual environment with the host's Python and installs the package and its dependencies. An environment
    that already contains this version is kept; any other environment is created again.
  - Only wheels are installed, since building a package would run its code.
  - Requires C(python3-venv) and a Python package index. No other Python package is needed on the host.
options:
  path:
    description: Directory of the environment. All other files in it are deleted.
    type: path
    required: true
  package:
    description: Name of the package.
    type: str
    required: true
  version:
    description: Version of the package.
    type: str
    required: true
  requirements:
    description:
      - Contents of a requirements file with hashes for the package and everything that it needs. The environment is
        created again if they change. If empty, pip chooses the versions of dependencies.
    type: str
    default: ""
    version_added: 0.2.0
  index_url:
    description:
      - URL of the Python package index. It may contain a user name and a password, which are not shown. An C(http:) URL
        is accepted only if O(requirements) is set.
    type: str
    default: https://pypi.org/simple
  http_proxy:
    description: URL of the proxy for C(http) URLs.
    type: str
    default: ""
  https_proxy:
    description: URL of the proxy for C(https) URLs.
    type: str
    default: ""
  no_proxy:
    description: Hosts and domains to reach without a proxy.
    type: list
    elements: str
    default: []
  timeout:
    description: Time limit in seconds for the installation.
    type: float
    default: 900
extends_documentation_fragment:
  - gpulab.kubernetes.attributes.full
"""

EXAMPLES = r"""
- name: Install W&B's SDK
  gpulab.kubernetes.python_environment:
    path: /opt/wandb
    package: wandb
    version: 0.31.0
"""

RETURN = r"""
version:
  description: Version that was installed before, empty if there was none.
  returned: success
  type: str
  sample: 0.30.2
"""

from typing import Any

from ..module_utils._command import Runner
from ..module_utils._host.python_environment import PythonEnvironment, index
from ..module_utils._module import QuietModule, run


def _pins(requirements: str) -> list[str]:
    """Return the requirements without their hashes."""
    return [line.rstrip(" \\") for line in requirements.splitlines() if line[:1].isalpha()]


def run_module(module: QuietModule) -> dict[str, Any]:
    params = module.params
    source = index(params["index_url"], bool(params["requirements"]))
    environment = PythonEnvironment(Runner(module, timeout=params["timeout"]), params["path"])
    before = environment.version(params["package"])
    wanted, installed = params["requirements"], environment.requirements()
    changed = before != params["version"] or bool(wanted and wanted != installed)
    if changed and not module.check_mode:
        given = {name: params[name] for name in ("http_proxy", "https_proxy") if params[name]}
        environ = {**given, "no_proxy": ",".join(params["no_proxy"]), **source}
        environment.install(params["package"], params["version"], environ, wanted)
    diff = {
        "before": "\n".join([f"{params['package']} {before}", *_pins(installed), ""]),
        "after": "\n".join([f"{params['package']} {params['version']}", *_pins(wanted or installed), ""]),
    }
    return {"changed": changed, "version": before, "diff": diff}


def main() -> None:
    module = QuietModule(
        argument_spec={
            "path": {"type": "path", "required": True},
            "package": {"type": "str", "required": True},
            "version": {"type": "str", "required": True},
            "requirements": {"type": "str", "default": ""},
            "index_url": {"type": "str", "default": "https://pypi.org/simple"},
            "http_proxy": {"type": "str", "default": ""},
            "https_proxy": {"type": "str", "default": ""},
            "no_proxy": {"type": "list", "elements": "str", "default": []},
            "timeout": {"type": "float", "default": 900},
        },
        supports_check_mode=True,
    )
    run(module, run_module)


if __name__ == "__main__":
    main()
