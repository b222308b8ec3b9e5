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
    C(--query-gpu), the list of C(-L) and the table are asked for as well, and merged field by field, the earlier ones
    first. For MIG devices C(-L) is asked for their profiles and UUIDs.
  - Each answer is recognised by its content, whatever was asked, also the text of C(nvidia-smi -q); CSV is read by the
    names of its columns.
  - Drivers from 418 to 616 are understood, by the old and the new names of fields, with or without a document type,
    also with warnings, colours and lines of wrapper programs around their output.
  - A value that nvidia-smi doesn't know is null, never a word such as V(N/A) or V([Not Supported]).
  - What is wrong is told in RV(state), which is no failure of the module, unless O(fail_on) says so.
  - With V(xids) in O(gather) it reads the kernel log, too, for the errors that the driver reports as Xids. A critical
    one makes its GPU unhealthy until the next boot, or until the driver says that it needs no recovery any more.
options:
  executable:
    description: Name of nvidia-smi, looked for in PATH and the sbin directories, or its path.
    type: str
    default: nvidia-smi
  driver_root:
    description:
      - Directory below which the driver's files lie. In another one than V(/), as a driver-installer uses it,
        C(usr/bin/nvidia-smi) below it is called with the driver's libraries there, whatever O(executable) says.
    type: path
    default: /
    version_added: 0.2.0
  timeout:
    description:
      - Time limit for each call in seconds, 1 at least. There are 4 calls at most, or a few more with drivers that
        don't know all fields of C(--query-gpu).
      - A call that takes longer is killed with all that it started, nothing else is asked, and the state is V(timeout).
    type: int
    default: 60
  gather:
    description:
      - What to find out. The GPUs themselves are always looked up.
      - V(mig) for the profiles of MIG devices, and with older drivers their UUIDs, which stay null otherwise.
      - V(processes) for RV(gpus[].processes), which stays empty otherwise.
      - V(topology) for RV(topology), which stays null otherwise. It costs a further call.
      - V(xids) for RV(xids), which stays null otherwise, by C(journalctl), or C(dmesg) where there is no journal.
    type: list
    elements: str
    choices: [gpus, mig, processes, topology, xids]
    default: [gpus, mig, processes]
  xids_since:
    description:
      - Leave out Xids before this time, in UTC, such as V(2026-11-22T05:06:25Z). Those of earlier boots never count.
      - Empty means all since the last boot.
    type: str
    default: ""
    version_added: 0.2.0
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

- name: Look for errors that the driver reported since the last boot
  gpulab.kubernetes.nvidia_smi_info:
    gather: [gpus, xids]
  register: nvidia_smi

- name: Insist on a loaded driver, and see how the GPUs are connected
  gpulab.kubernetes.nvidia_smi_info:
    gather: [gpus, topology]
    fail_on: [driver_not_installed, driver_not_loaded, version_mismatch]

- name: Name the GPUs that are not well
  ansible.builtin.debug:
    msg: "GPU {{ item.index }} at {{ item.pci_bus_id }}: {{ item.problems | join(', ') }}"
  loop: "{{ nvidia_smi.gpus | rejectattr('healthy') }}"
"""

RETURN = r"""
state:
  description:
    - V(ok) - every GPU could be read and is well by its own account.
    - V(degraded) - some GPUs could not be read, not in full, or are faulty; see their RV(gpus[].problems).
    - V(no_devices) - the driver runs, and there is no GPU for it.
    - V(driver_not_installed) - there is no nvidia-smi, or none of its libraries.
    - V(driver_not_loaded) - the kernel module doesn't answer.
    - V(version_mismatch) - kernel module and user space are of different versions.
    - V(access_denied) - the device files may not be opened.
    - V(gpu_lost), V(reset_required) - no GPU could be read, for that reason.
    - V(timeout) - nvidia-smi did not come to its end.
    - V(crashed) - nvidia-smi was ended by a signal; RV(gpus) has what it said before.
    - V(unreadable) - anything else that is no list of GPUs.
  returned: always
  type: str
  sample: ok
message:
  description: What nvidia-smi said, and what is wrong with which GPU. Null when the state is V(ok).
  returned: always
  type: str
  sample: "Failed to initialize NVML: Driver/library version mismatch"
rc:
  description: Exit status of the call that decided about the state, negative for a signal.
  returned: when there was one, not without a program or with V(timeout)
  type: int
  sample: 0
advice:
  description: What to do next. Null when the state is V(ok).
  returned: always
  type: str
  sample: Reboot, or unload and load the module when no GPU is in use.
source:
  description:
    - The forms of output that said something, in the order in which they were asked.
    - V(xml), V(csv), V(list) (C(-L)), V(table), V(query_text) (C(-q)), V(processes) (CSV of processes) and V(version).
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
  description:
    - Number of GPUs that the driver knows of, also of those that could not be read.
    - It is higher than the length of RV(gpus) only when nobody can tell which ones are missing there.
  returned: always
  type: int
  sample: 4
gpus:
  description:
    - The GPUs in the order of their indices. A value that nvidia-smi doesn't know is null.
    - A GPU that could not be read, or was left out between the others, keeps its index and its place. It has
      RV(gpus[].problems), and null in place of what is not known.
  returned: always
  type: list
  elements: dict
  contains:
    index:
      description: Index of the GPU. It can change when GPUs are added, or lost. Null when the output doesn't tell it.
      type: int
    minor_number:
      description: Number of the device node C(/dev/nvidiaN).
      type: int
    uuid:
      description: UUID of the GPU. Null when only the table could be read.
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
          description: V(Enabled) or V(Disabled), what it will be after the next reset.
          type: str
        devices:
          description: The MIG devices in their order.
          type: list
          elements: dict
          contains:
            gi:
              description: Id of the GPU instance.
              type: int
            ci:
              description: Id of the compute instance. A GPU instance can be split into several.
              type: int
            profile:
              description: Profile, such as V(1g.5gb), or V(1c.3g.20gb) for a part of a GPU instance.
              type: str
            uuid:
              description: UUID of the device.
              type: str
            memory_total_mib:
              description: Memory in MiB. Compute instances of one GPU instance share it.
              type: int
    ecc:
      description: Error correction.
      type: dict
      contains:
        current:
          description: V(Enabled) or V(Disabled).
          type: str
        pending:
          description: V(Enabled) or V(Disabled), what it will be after the next reset.
          type: str
        uncorrected_aggregate:
          description: Number of uncorrected errors in the life of the GPU.
          type: int
    retired_or_remapped:
      description: Pages of memory that were retired, or with newer GPUs rows that were remapped, because they are bad.
      type: dict
      contains:
        pending:
          description: Whether some wait for the next reset to be taken out of use.
          type: bool
        failure:
          description: Whether a row could not be remapped. Null for GPUs that retire pages.
          type: bool
    fabric:
      description: The NVLink fabric.
      type: dict
      contains:
        state:
          description: State, V(Completed) when the GPU has joined.
          type: str
        status:
          description: How that went, V(Success) when it went well.
          type: str
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
      description: What runs on the GPU.
      type: list
      elements: dict
      contains:
        pid:
          description: Process id.
          type: int
        type:
          description: V(C) (compute), V(G) (graphics), V(C+G), V(M+C) (through the MPS server).
          type: str
        name:
          description: Path or command line. Null for processes of others, and inside of containers.
          type: str
        used_memory_mib:
          description: Memory in use in MiB.
          type: int
        gi:
          description: Id of the GPU instance, on a MIG device.
          type: int
        ci:
          description: Id of the compute instance, on a MIG device.
          type: int
    healthy:
      description: Whether RV(gpus[].problems) is empty.
      type: bool
    problems:
      description: What is wrong with the GPU, in the words of nvidia-smi as far as it has any.
      type: list
      elements: str
      sample: [GPU is lost]
    advice:
      description: What to do about RV(gpus[].problems).
      type: list
      elements: str
      sample: ["Reboot the host. If it happens again, check the GPU's power, seating and cooling."]
    faults:
      description: The same one by one, for programs.
      type: list
      elements: dict
      version_added: 0.2.0
      contains:
        kind:
          description: Identifier, such as V(gpu_lost) or V(xid_79). It stays when words change.
          type: str
        what:
          description: What is wrong, as in RV(gpus[].problems).
          type: str
        do:
          description: What to do about it.
          type: str
problems:
  description: What is wrong with which GPU, a line each, in words that stay the same from call to call.
  returned: always
  type: list
  elements: str
  sample: ["GPU 0: GPU is lost"]
xids:
  description:
    - The Xids in the kernel log, by GPU and number. Null unless asked for, and when the kernel log can't be read.
    - Those of severity V(critical) that are not over are among RV(gpus[].problems).
  returned: always
  type: list
  elements: dict
  contains:
    xid:
      description: The number.
      type: int
    pci_bus_id:
      description: PCI address of the GPU, with a domain of 8 digits, in upper case.
      type: str
    severity:
      description: V(critical) when the GPU has to be reset or worse, V(warning) or V(info).
      type: str
    what:
      description: What the number means.
      type: str
    advice:
      description: What to do about it, after NVIDIA's catalog.
      type: str
    message:
      description: What the driver said last.
      type: str
    count:
      description: How often it said so.
      type: int
    first:
      description: When it said so first, in UTC.
      type: str
    last:
      description: When it said so last, in UTC.
      type: str
    pid:
      description: The process that the driver names, null when it names none.
      type: int
    process:
      description: Its name.
      type: str
    over:
      description: Whether the driver said later that this GPU needs no recovery any more (Xid 154).
      type: bool
xids_failure:
  description: Why the kernel log could not be read. Null when it could, or was not asked for.
  returned: always
  type: str
xids_read:
  description: When the kernel log was asked for, in UTC, by the host's clock. A later O(xids_since) begins there.
  returned: always
  type: str
  sample: "2026-11-22T05:06:25Z"
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

from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ..module_utils._module import run
from ..module_utils._nvidia.gpu_state import gpu_state
from ..module_utils._nvidia_smi.states import OK, STATES


def run_module(module: AnsibleModule) -> dict[str, Any]:
    asked = {name: value for name, value in module.params.items() if name != "fail_on"}
    facts = gpu_state(module, **asked)
    if facts["state"] in module.params["fail_on"]:
        said = facts["message"] or facts["state"]
        module.fail_json(msg=f"Error while reading the GPUs: {facts['state']}: {said}. {facts['advice']}", **facts)
    # Ansible takes a result with an rc other than 0 for a failure unless it's told otherwise.
    return {"failed": False, **facts}


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "executable": {"type": "str", "default": "nvidia-smi"},
            "driver_root": {"type": "path", "default": "/"},
            "timeout": {"type": "int", "default": 60},
            "gather": {
                "type": "list",
                "elements": "str",
                "choices": ["gpus", "mig", "processes", "topology", "xids"],
                "default": ["gpus", "mig", "processes"],
            },
            "xids_since": {"type": "str", "default": ""},
            "fail_on": {
                "type": "list",
                "elements": "str",
                "choices": [state for state in STATES if state != OK],
                "default": [],
            },
        },
        supports_check_mode=True,
    )
    run(module, run_module)


if __name__ == "__main__":
    main()
