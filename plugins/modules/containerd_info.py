#!/usr/bin/python
# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: containerd_info
short_description: Read containerd's version, configuration and state
version_added: 0.1.0
description:
  - Runs containerd to merge its configuration file with all imported files, as at its next start.
  - Returns the configuration files in the order in which they take effect, even if containerd is not installed.
  - A host without containerd is not an error; C(version) is then empty.
  - The filter P(gpulab.kubernetes.containerd_config#filter) can read both C(files) and C(config_dump).
  - In the texts, passwords, tokens, headers and users in addresses are masked. Comments are left out, and so is
    everything that follows a syntax error.
author:
  - The gpulab.kubernetes maintainers (@gpulab)
options:
  executable:
    description: Name or path of containerd.
    type: str
    default: containerd
  config:
    description: The configuration file.
    type: path
    default: /etc/containerd/config.toml
  drop_ins:
    description: >-
      Pattern of the usual drop-ins. RV(files) also contains drop-ins that O(config) does not import, marked as such.
    type: path
    default: /etc/containerd/conf.d/*.toml
  unit:
    description: Name of the systemd unit.
    type: str
    default: containerd.service
  timeout:
    description: Time limit in seconds for each program.
    type: float
    default: 30
extends_documentation_fragment:
  - gpulab.kubernetes.attributes
  - gpulab.kubernetes.attributes.reader
"""

EXAMPLES = r"""
- name: Read what containerd would start with
  gpulab.kubernetes.containerd_info:
  register: containerd

- name: Show the default runtime
  ansible.builtin.debug:
    msg: "{{ (containerd.files | gpulab.kubernetes.containerd_config(containerd.version)).default_runtime }}"
  when: containerd.version != ''
"""

RETURN = r"""
version:
  description: Version of containerd, empty if it is not installed.
  returned: always
  type: str
  sample: 2.3.6
config_dump:
  description: Merged configuration as TOML, empty if it is not available.
  returned: always
  type: str
config_error:
  description: Reason why containerd can't read its configuration, empty if it can.
  returned: always
  type: str
files:
  description: >-
    Configuration files in the order in which they take effect, followed by drop-ins that are not imported. C(text) is
    null for a file that is imported by name but does not exist.
  returned: always
  type: list
  elements: dict
  sample:
    - path: /etc/containerd/config.toml
      text: |
        version = 4
        imports = ["/etc/containerd/conf.d/*.toml"]
      imported: true
running:
  description: Whether the unit is active.
  returned: always
  type: bool
active_since:
  description: Time at which the unit became active, as in systemd's ActiveEnterTimestamp; empty if it is not active.
  returned: always
  type: str
  sample: Sat 2026-11-21 03:14:15 UTC
"""

from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ..module_utils._command import Runner
from ..module_utils._containerd.info import read_containerd
from ..module_utils._module import run


def run_module(module: AnsibleModule) -> dict[str, Any]:
    runner = Runner(module, timeout=module.params["timeout"])
    names = ("executable", "config", "drop_ins", "unit")
    return read_containerd(runner, *(module.params[name] for name in names))


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "executable": {"type": "str", "default": "containerd"},
            "config": {"type": "path", "default": "/etc/containerd/config.toml"},
            "drop_ins": {"type": "path", "default": "/etc/containerd/conf.d/*.toml"},
            "unit": {"type": "str", "default": "containerd.service"},
            "timeout": {"type": "float", "default": 30},
        },
        supports_check_mode=True,
    )
    run(module, run_module)


if __name__ == "__main__":
    main()
