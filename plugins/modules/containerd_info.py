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
  - Has containerd itself merge its configuration file with everything that it imports, as it would at its next start.
  - Finds the files of the configuration in the order in which they take effect, also where there is no containerd.
  - A host without containerd is no error, C(version) is empty there.
  - The filter P(gpulab.kubernetes.containerd_config#filter) reads C(files), as well as C(config_dump).
  - Passwords and tokens of registries are masked.
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
    description: Where drop-ins usually are. Those that O(config) does not import are in RV(files) as well, and say so.
    type: path
    default: /etc/containerd/conf.d/*.toml
  unit:
    description: The systemd unit.
    type: str
    default: containerd.service
  timeout:
    description: Seconds that a program may take.
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
  description: Version, empty where there is no containerd.
  returned: always
  type: str
  sample: 2.3.6
config_dump:
  description: The merged configuration as TOML, empty where it can't be had.
  returned: always
  type: str
config_error:
  description: Why containerd can't read its configuration, empty when it can.
  returned: always
  type: str
files:
  description: >-
    The files of the configuration in the order in which they take effect, then drop-ins that are not imported.
    C(text) is null for a file that is imported by its name and does not exist.
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
  description: When the unit became active, as systemd's ActiveEnterTimestamp has it, empty when it is not.
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
