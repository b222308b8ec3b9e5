#!/usr/bin/python
# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: nvidia_smi_info
short_description: Get the NVIDIA GPUs of a host, and the state they are in
version_added: 0.1.0
author:
  - The gpulab.kubernetes maintainers (@gpulab)
description:
  - Asks C(nvidia-smi) for the GPUs of a host and changes nothing.
  - The XML of C(nvidia-smi -q -x) is asked for first. When it is missing, cut off or lacks a GPU, the CSV of
    C(--query-gpu), the list of C(-L) and the table are asked for as well, and merged field by field. For MIG devices
    C(-L) is asked for their profiles and UUIDs. Each answer is recognised by its content.
  - Drivers from 418 on are understood, also with warnings, colours and lines of wrapper programs around their output.
  - What is wrong is told in RV(state), which is no failure of the module, unless O(fail_on) says so.
options:
  executable:
    description: Name or path of nvidia-smi.
    type: str
    default: nvidia-smi
  timeout:
    description: Time limit for each call in seconds. A call that takes longer is killed, and the state is V(timeout).
    type: int
    default: 60
  gather:
    description:
      - What to find out besides the GPUs themselves.
      - Without V(mig) the profiles of MIG devices, and their UUIDs with older drivers, stay null.
    type: list
    elements: str
    choices: [gpus, mig, processes, topology]
    default: [gpus, mig, processes]
  fail_on:
    description: States that make the module fail. The return values are the same.
    type: list
    elements: str
    choices:
      - degraded
      - no_devices
      - driver_not_installed
      - driver_not_loaded
      - version_mismatch
      - access_denied
      - gpu_lost
      - reset_required
      - timeout
      - crashed
      - unreadable
    default: []
extends_documentation_fragment:
  - gpulab.kubernetes.attributes.reader
"""

EXAMPLES = r"""
- name: Look at the GPUs
  gpulab.kubernetes.nvidia_smi_info:
  register: nvidia_smi

- name: Insist on a loaded driver, and see how the GPUs are connected
  gpulab.kubernetes.nvidia_smi_info:
    gather: [gpus, topology]
    fail_on: [driver_not_installed, driver_not_loaded, version_mismatch]
"""

RETURN = r"""
state:
  description:
    - V(ok) - every GPU could be read and is well by its own account.
    - V(degraded) - some GPUs could not be read, not in full, or are faulty; see their RV(gpus[].problems).
    - V(no_devices) - the driver runs, and there is no GPU for it.
    - V(driver_not_installed), V(driver_not_loaded), V(version_mismatch) (kernel module and user space differ),
      V(access_denied).
    - V(gpu_lost), V(reset_required) - no GPU could be read, for that reason.
    - V(timeout), V(crashed) - nvidia-smi did not come to its end, or only after a signal.
    - V(unreadable) - anything else that is no list of GPUs.
  returned: always
  type: str
  sample: ok
message:
  description: What nvidia-smi said, and what is wrong with which GPU. Null when the state is V(ok).
  returned: always
  type: str
rc:
  description: Exit status of the call that decided about the state. Null when there was none.
  returned: always
  type: int
  sample: 0
advice:
  description: What to do next. Null when the state is V(ok).
  returned: always
  type: str
source:
  description: The forms of output that were used, out of xml, csv, list, table, query_text, processes and version.
  returned: always
  type: list
  elements: str
  sample: [xml]
driver_version:
  description: Version of the driver.
  returned: always
  type: str
  sample: 580.178.04
cuda_version:
  description: Highest version of CUDA that the driver supports by itself.
  returned: always
  type: str
  sample: "13.0"
count:
  description: Number of GPUs, also of those that could not be read.
  returned: always
  type: int
  sample: 4
gpus:
  description: The GPUs in the order of their indices. A value that nvidia-smi doesn't know is null.
  returned: always
  type: list
  elements: dict
  contains:
    index:
      description: Index of the GPU. It can change when GPUs are added, or lost.
      type: int
    minor_number:
      description: Number of the device node C(/dev/nvidiaN).
      type: int
    uuid:
      description: UUID of the GPU.
      type: str
    name:
      description: Name of the product. Shortened with dots when only the table could be read.
      type: str
    brand:
      description: Brand of the product.
      type: str
    architecture:
      description: Architecture, such as V(Turing).
      type: str
    pci_bus_id:
      description: PCI address with a domain of 8 digits, in upper case.
      type: str
    memory_total_mib:
      description: Memory in MiB.
      type: int
    memory_used_mib:
      description: Memory in use in MiB.
      type: int
    compute_mode:
      description: V(Default), V(Exclusive_Process) or V(Prohibited).
      type: str
    persistence_mode:
      description: V(Enabled) or V(Disabled).
      type: str
    mig:
      description: Multi-Instance GPU.
      type: dict
      contains:
        capable:
          description: Whether the GPU can do it.
          type: bool
        current:
          description: V(Enabled) or V(Disabled).
          type: str
        pending:
          description: What it will be after the next reset.
          type: str
        devices:
          description: The MIG devices in their order, each with gi and ci (ids of its instances), profile, uuid and
            memory_total_mib.
          type: list
          elements: dict
    ecc:
      description: Error correction, with current and pending (V(Enabled) or V(Disabled)) and uncorrected_aggregate, the
        number of uncorrected errors in the life of the GPU.
      type: dict
    retired_or_remapped:
      description: Whether pages or rows of memory wait to be taken out of use (pending), and whether that failed
        (failure).
      type: dict
    fabric:
      description: State and status of the NVLink fabric.
      type: dict
    temperature_c:
      description: Temperature in degrees Celsius.
      type: int
    power_draw_w:
      description: Power draw in watts.
      type: float
    power_limit_w:
      description: Power limit in watts.
      type: float
    utilization_gpu_pct:
      description: Utilization in percent.
      type: int
    processes:
      description: What runs on the GPU, each with pid, type (V(C), V(G), V(C+G)), name, used_memory_mib, and gi and ci
        on a MIG device.
      type: list
      elements: dict
    healthy:
      description: Whether RV(gpus[].problems) is empty.
      type: bool
    problems:
      description: What is wrong with the GPU, in the words of nvidia-smi.
      type: list
      elements: str
topology:
  description: How the GPUs are connected. Null unless asked for, and when nvidia-smi can't tell.
  returned: always
  type: dict
  contains:
    gpus:
      description: Names of the GPUs, such as V(GPU0).
      type: list
      elements: str
    nics:
      description: Names of the network devices, such as V(NIC0).
      type: list
      elements: str
    matrix:
      description: For each device the connection to each other one, such as V(NV12), V(PIX) or V(SYS).
      type: dict
    cpu_affinity:
      description: For each GPU the CPUs it is near to.
      type: dict
    numa_affinity:
      description: For each GPU the NUMA node it is near to.
      type: dict
    gpu_numa_id:
      description: For each GPU the NUMA node that its memory is.
      type: dict
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.gpulab.kubernetes.plugins.module_utils._command import Runner
from ansible_collections.gpulab.kubernetes.plugins.module_utils._nvidia_smi import NvidiaSmi
from ansible_collections.gpulab.kubernetes.plugins.module_utils._nvidia_smi_state import OK, STATES


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "executable": {"type": "str", "default": "nvidia-smi"},
            "timeout": {"type": "int", "default": 60},
            "gather": {
                "type": "list",
                "elements": "str",
                "choices": ["gpus", "mig", "processes", "topology"],
                "default": ["gpus", "mig", "processes"],
            },
            "fail_on": {
                "type": "list",
                "elements": "str",
                "choices": [state for state in STATES if state != OK],
                "default": [],
            },
        },
        supports_check_mode=True,
    )
    params = module.params
    runner = Runner(module, timeout=params["timeout"])
    facts = NvidiaSmi(lambda arguments: runner.run([params["executable"], *arguments])).facts(params["gather"])
    if facts["state"] in params["fail_on"]:
        said = facts["message"] or facts["state"]
        module.fail_json(msg=f"Error while reading the GPUs: {facts['state']}: {said}. {facts['advice']}", **facts)
    # Ansible takes a result with an rc other than 0 for a failure unless it's told otherwise.
    module.exit_json(changed=False, failed=False, **facts)


if __name__ == "__main__":
    main()
