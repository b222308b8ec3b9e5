#!/usr/bin/python
# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: nvidia_cdi_spec
short_description: Wait until the CDI specification lists every GPU
version_added: 0.1.0
description:
  - The toolkit's own service C(nvidia-cdi-refresh) writes the specification. This module keeps the service and its path
    unit enabled, and starts the service if the file is missing, does not match the host's GPUs or driver, or lists
    device nodes that do not exist. Then it waits until the specification is complete.
author:
  - The gpulab.kubernetes maintainers (@gpulab)
options:
  count:
    description: Number of GPUs of the host. A GPU in MIG mode counts as one.
    type: int
    required: true
  uuids:
    description: UUIDs of the GPUs, if known.
    type: list
    elements: str
    default: []
  mig_devices:
    description: Number of MIG devices of the host. If unset, they are not counted.
    type: int
    version_added: 0.2.0
  driver_version:
    description: Version of the driver whose libraries the specification must list. Empty means any.
    type: str
    default: ""
  path:
    description: Path of the specification.
    type: path
    default: /var/run/cdi/nvidia.yaml
  kind:
    description: Kind of the devices in the specification.
    type: str
    default: nvidia.com/gpu
  unit:
    description: Service that writes the specification.
    type: str
    default: nvidia-cdi-refresh.service
  path_unit:
    description: Unit that triggers the service when the driver or the toolkit changes.
    type: str
    default: nvidia-cdi-refresh.path
  timeout:
    description: Seconds to wait.
    type: float
    default: 120
extends_documentation_fragment:
  - gpulab.kubernetes.attributes
attributes:
  check_mode:
    support: full
    details:
      - In check mode a host without C(nvidia-ctk) is reported as unchanged, because the package that installs it also
        triggers the service.
  diff_mode:
    support: none
  idempotent:
    support: full
"""

EXAMPLES = r"""
- name: Wait until CDI lists the four GPUs
  gpulab.kubernetes.nvidia_cdi_spec:
    count: 4
    driver_version: 580.178.04
"""

RETURN = r"""
devices:
  description: Names of the devices in the specification.
  returned: always
  type: list
  elements: str
  sample: ["0", GPU-6f2b1c0e-0d0f-4d2c-9f39-0c2f0a8e7a11, all]
actions:
  description: Arguments of systemctl calls that were made, or would be in check mode.
  returned: always
  type: list
  elements: str
  sample: [start nvidia-cdi-refresh.service]
"""

from ansible.module_utils.basic import AnsibleModule

from ..module_utils._module import run
from ..module_utils._states.nvidia_cdi_spec import SPECIFICATION, ensure


def main() -> None:
    run(AnsibleModule(**SPECIFICATION), ensure)


if __name__ == "__main__":
    main()
