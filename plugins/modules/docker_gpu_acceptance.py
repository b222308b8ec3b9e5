#!/usr/bin/python
# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: docker_gpu_acceptance
short_description: Verify that Docker containers can use every GPU of a host
version_added: 0.2.0
author:
  - The gpulab.kubernetes maintainers (@gpulab)
description:
  - Runs a container with all GPUs, and for each GPU a container that requests it by UUID and a container that runs the
    image's check. Compares the GPUs that the containers see with C(nvidia-smi -L) on the host. If a GPU is partitioned,
    its MIG devices are used instead.
  - Also runs a container that requests no GPUs and must not see any.
  - The containers have no network and are removed afterwards. The image is kept.
options:
  image:
    description: Image whose command exits with 0 if the GPU can compute. It must contain C(/bin/sh).
    type: str
    required: true
  timeout:
    description: Time limit in seconds for pulling the image and for each container.
    type: float
    default: 300
extends_documentation_fragment:
  - gpulab.kubernetes.attributes
attributes:
  check_mode:
    support: full
    details: [Runs no container and returns nothing about the GPUs.]
  diff_mode:
    support: none
  idempotent:
    support: full
seealso:
  - module: gpulab.kubernetes.gpu_acceptance
"""

EXAMPLES = r"""
- name: Verify that Docker containers can use every GPU
  gpulab.kubernetes.docker_gpu_acceptance:
    image: nvcr.io/nvidia/k8s/cuda-sample:vectoradd-cuda12.5.0
"""

RETURN = r"""
gpus:
  description: UUIDs of the verified GPUs and MIG devices.
  returned: success
  type: list
  elements: str
  sample: [GPU-5f2b1c9e-0000-4000-8000-000000000001]
simulated:
  description: Whether the check reported that it is simulated.
  returned: success
  type: bool
  sample: false
problems:
  description: Problems that were found.
  returned: failure
  type: list
  elements: str
  sample: ["a container that requests no GPUs has /dev/nvidia0"]
"""

from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ..module_utils._command import Runner
from ..module_utils._docker.acceptance import Acceptance
from ..module_utils._module import run


def run_module(module: AnsibleModule) -> dict[str, Any]:
    if module.check_mode:
        return {"gpus": [], "simulated": False}
    return Acceptance(Runner(module, timeout=module.params["timeout"]), module.params["image"]).verify()


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "image": {"type": "str", "required": True},
            "timeout": {"type": "float", "default": 300},
        },
        supports_check_mode=True,
    )
    run(module, run_module)


if __name__ == "__main__":
    main()
