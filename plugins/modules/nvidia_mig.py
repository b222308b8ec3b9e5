#!/usr/bin/python
# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: nvidia_mig
short_description: Cut the GPUs of this host into MIG devices as declared
version_added: 0.2.0
description:
  - Turns MIG mode on or off and makes GPU instances, each with its default compute instance.
  - The layout is checked against the places that each GPU allows before anything is touched. The result is read again,
    because the exit status of nvidia-smi says nothing.
  - It looks after no pod. Make sure first that nothing uses the GPUs.
  - Instances do not outlive a reboot; RV(gpus[].create) is what makes them again.
author:
  - The gpulab.kubernetes maintainers (@gpulab)
options:
  layout:
    description:
      - C(all-PROFILE), a list of profiles, or a mapping from the index of a GPU to one of these. GPUs that a mapping
        does not name are whole.
      - Not set means that all GPUs are whole.
    type: raw
  owned:
    description:
      - Whether what is cut now may be cut otherwise. With V(false) instances of another hand are an error.
    type: bool
    default: true
  owner_file:
    description:
      - A file whose presence shows that the instances were made by this collection, which makes them owned. It's
        removed when all GPUs are whole again.
    type: path
  driver_root:
    description: Directory below which the driver's files lie, as in M(gpulab.kubernetes.nvidia_smi_info).
    type: path
    default: /
  timeout:
    description: Time limit for each call of nvidia-smi in seconds.
    type: int
    default: 120
extends_documentation_fragment:
  - gpulab.kubernetes.attributes
attributes:
  check_mode:
    support: full
    details:
      - The layout is checked in check mode, too. On a host without nvidia-smi, or without a driver that answers,
        nothing can be predicted. Where all GPUs shall be whole, such a host is left alone.
  diff_mode:
    support: full
  idempotent:
    support: full
    details:
      - GPUs that have the parts already, in any arrangement, are left alone.
"""

EXAMPLES = r"""
- name: Seven small parts of each GPU
  gpulab.kubernetes.nvidia_mig:
    layout: all-1g.5gb

- name: Cut the first GPU, and leave the others whole
  gpulab.kubernetes.nvidia_mig:
    layout:
      0: [3g.20gb, 2g.10gb, 1g.5gb]
"""

RETURN = r"""
differs:
  description: Whether the GPUs were cut otherwise.
  returned: always
  type: bool
gpus:
  description: The GPUs as they are afterwards, or would be in check mode. Empty when nothing could be predicted.
  returned: always
  type: list
  elements: dict
  contains:
    index:
      description: Index of the GPU.
      type: int
    uuid:
      description: Its UUID.
      type: str
    name:
      description: Name of the product.
      type: str
    profiles:
      description: Profiles of its parts, empty for a whole GPU.
      type: list
      elements: str
    create:
      description: What C(nvidia-smi mig -cgi) takes to make them.
      type: str
  sample:
    - index: 0
      uuid: GPU-6f2b1c0e-0d0f-4d2c-9f39-0c2f0a8e7a11
      name: NVIDIA A100-SXM4-40GB
      profiles: [2g.10gb, 3g.20gb]
      create: 9:0,14:4
before:
  description: Profiles of the parts of each GPU before, in the order of the GPUs.
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
