#!/usr/bin/python
# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: nvidia_mig
short_description: Partition the GPUs of this host into MIG devices
version_added: 0.2.0
description:
  - Turns MIG mode on or off and creates GPU instances, each with its default compute instance.
  - Checks the layout against the placements that each GPU allows before anything changes, and reads the result back,
    because the exit status of nvidia-smi is not reliable.
  - It does not check for pods. First make sure that nothing uses the GPUs.
  - Instances do not survive a reboot. Use RV(gpus[].create) to create them again.
author:
  - The gpulab.kubernetes maintainers (@gpulab)
options:
  layout:
    description:
      - C(all-PROFILE), a list of profiles, or a mapping from GPU index to one of these. GPUs that are not in the
        mapping are not partitioned.
      - If unset, no GPU is partitioned.
    type: raw
  owned:
    description:
      - Whether existing instances may be changed. With V(false), unmanaged instances are an error.
    type: bool
    default: true
  owner_file:
    description:
      - File whose existence shows that this collection created the instances, so that they may be changed. It is
        removed when no GPU is partitioned anymore.
    type: path
  driver_root:
    description: Root directory of the driver's files, as in M(gpulab.kubernetes.nvidia_smi_info).
    type: path
    default: /
  timeout:
    description: Time limit in seconds for each call of nvidia-smi.
    type: int
    default: 120
extends_documentation_fragment:
  - gpulab.kubernetes.attributes
attributes:
  check_mode:
    support: full
    details:
      - The layout is also checked in check mode. On a host without nvidia-smi or without a working driver, nothing can
        be predicted. If no GPU is to be partitioned, such a host is not changed.
  diff_mode:
    support: full
  idempotent:
    support: full
    details:
      - GPUs that already have the instances, in any arrangement, are not changed.
"""

EXAMPLES = r"""
- name: Create seven small MIG devices on each GPU
  gpulab.kubernetes.nvidia_mig:
    layout: all-1g.5gb

- name: Partition the first GPU only
  gpulab.kubernetes.nvidia_mig:
    layout:
      0: [3g.20gb, 2g.10gb, 1g.5gb]
"""

RETURN = r"""
differs:
  description: Whether the GPUs were partitioned differently before.
  returned: always
  type: bool
gpus:
  description: Resulting GPUs, or the prediction in check mode. Empty if nothing could be predicted.
  returned: always
  type: list
  elements: dict
  contains:
    index:
      description: Index of the GPU.
      type: int
    uuid:
      description: UUID of the GPU.
      type: str
    name:
      description: Name of the product.
      type: str
    profiles:
      description: Profiles of its MIG devices, empty if it is not partitioned.
      type: list
      elements: str
    create:
      description: Argument of C(nvidia-smi mig -cgi) that creates these MIG devices.
      type: str
  sample:
    - index: 0
      uuid: GPU-6f2b1c0e-0d0f-4d2c-9f39-0c2f0a8e7a11
      name: NVIDIA A100-SXM4-40GB
      profiles: [2g.10gb, 3g.20gb]
      create: 9:0,14:4
before:
  description: Profiles of the MIG devices of each GPU before the change, in the order of the GPUs.
  returned: always
  type: list
  elements: list
  sample: [[], []]
"""

from ansible.module_utils.basic import AnsibleModule

from ..module_utils._module import run
from ..module_utils._states.nvidia_mig import SPECIFICATION, ensure


def main() -> None:
    run(AnsibleModule(**SPECIFICATION), ensure)


if __name__ == "__main__":
    main()
