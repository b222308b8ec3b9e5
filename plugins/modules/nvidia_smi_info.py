#!/usr/bin/python
# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: nvidia_smi_info
short_description: Read the NVIDIA GPUs of a host and their state
version_added: 0.1.0
author:
  - The gpulab.kubernetes maintainers (@gpulab)
description:
  - Reads the GPUs of a host with C(nvidia-smi) and changes nothing.
  - It reads the XML of C(nvidia-smi -q -x) first. If this is missing, truncated or lacks a GPU, it also reads the CSV
    of C(--query-gpu), the list of C(-L) and the table, and merges them field by field; earlier sources take precedence.
    The profiles and UUIDs of MIG devices come from C(-L).
  - The format of each output is detected from its contents, including the text of C(nvidia-smi -q). CSV columns are
    identified by name.
  - Drivers from 418 to 616 are supported, with old and new field names, with or without a document type, and with
    warnings, colors and lines of wrapper programs before and after the output.
  - A value that nvidia-smi doesn't provide is null, never a string such as V(N/A) or V([Not Supported]).
  - Problems are reported in RV(state). They make the module fail only if O(fail_on) lists the state.
  - With V(xids) in O(gather) it also reads the driver's errors (Xids) from the kernel log. A critical Xid makes its GPU
    unhealthy until the next boot, or until the driver reports that the GPU no longer needs recovery.
  - If the driver finds no GPU, isn't loaded or can't start its library, the kernel log is read in any case, because it
    often contains the reason. RV(advice) then follows from that reason.
options:
  executable:
    description: Path of nvidia-smi, or its name if it is in PATH or an sbin directory.
    type: str
    default: nvidia-smi
  driver_root:
    description:
      - Root directory of the driver's files. If it is not V(/), for example because a driver installer is used,
        C(usr/bin/nvidia-smi) in this directory is run with the libraries in this directory, and O(executable) is
        ignored.
    type: path
    default: /
    version_added: 0.2.0
  timeout:
    description:
      - Time limit in seconds for each call, at least 1. There are at most 4 calls, or a few more with drivers that
        don't know all fields of C(--query-gpu).
      - A call that takes longer is killed with its child processes, no other call is made, and the state is V(timeout).
    type: int
    default: 60
  gather:
    description:
      - What to read. The GPUs themselves are always read.
      - V(mig) for the profiles of MIG devices, and with older drivers also their UUIDs. Otherwise, they are null.
      - V(processes) for RV(gpus[].processes). Otherwise it is empty.
      - V(topology) for RV(topology), which needs an additional call. Otherwise it is null.
      - V(xids) for RV(xids) and RV(driver_messages), from C(journalctl), or from C(dmesg) if there is no journal.
        Otherwise they are null.
    type: list
    elements: str
    choices: [gpus, mig, processes, topology, xids]
    default: [gpus, mig, processes]
  xids_since:
    description:
      - Ignore Xids before this UTC time, such as V(2026-11-22T05:06:25Z). Xids of earlier boots are always ignored.
      - If empty, all Xids since the last boot are returned. This is also the case if the time is in the future, because
        the clock was set back since then.
    type: str
    default: ""
    version_added: 0.2.0
  ignored_gpus:
    description: >-
      GPUs that are not for Kubernetes, as in M(gpulab.kubernetes.preflight_info). The kernel's messages about these
      GPUs, and about GPUs with the C(vfio-pci) driver, are ignored unless nvidia-smi lists the GPU.
    type: list
    elements: str
    default: []
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
- name: Read the GPUs
  gpulab.kubernetes.nvidia_smi_info:
  register: nvidia_smi

- name: Read the errors that the driver reported since the last boot
  gpulab.kubernetes.nvidia_smi_info:
    gather: [gpus, xids]
  register: nvidia_smi

- name: Require a loaded driver, and read how the GPUs are connected
  gpulab.kubernetes.nvidia_smi_info:
    gather: [gpus, topology]
    fail_on: [driver_not_installed, driver_not_loaded, version_mismatch]

- name: Show the unhealthy GPUs
  ansible.builtin.debug:
    msg: "GPU {{ item.index }} at {{ item.pci_bus_id }}: {{ item.problems | join(', ') }}"
  loop: "{{ nvidia_smi.gpus | rejectattr('healthy') }}"
"""

RETURN = r"""
state:
  description:
    - V(ok) - every GPU could be read and reports no problem.
    - V(degraded) - some GPUs could not be read completely, or are unhealthy; see RV(problems).
    - V(no_devices) - the driver works, but there is no GPU for it.
    - V(driver_not_installed) - nvidia-smi or its libraries are missing.
    - V(driver_not_loaded) - the kernel module doesn't answer.
    - V(version_mismatch) - the kernel module and the user space have different versions.
    - V(access_denied) - access to the device files is denied.
    - V(gpu_lost), V(reset_required) - no GPU could be read, for that reason.
    - V(timeout) - nvidia-smi did not finish in time.
    - V(crashed) - nvidia-smi was killed by a signal; RV(gpus) contains its output until then.
    - V(unreadable) - any other output that is not a list of GPUs.
  returned: always
  type: str
  sample: ok
message:
  description: Message from nvidia-smi, and the problems with each GPU. Null if the state is V(ok).
  returned: always
  type: str
  sample: "Failed to initialize NVML: Driver/library version mismatch"
rc:
  description: Exit status of the call that determined the state, negative for a signal.
  returned: if there was one, not if the program is missing or with V(timeout)
  type: int
  sample: 0
advice:
  description: What to do next. Null if the state is V(ok).
  returned: always
  type: str
  sample: Reboot, or unload and load the module when no GPU is in use.
source:
  description:
    - Output formats that returned data, in the order of the calls.
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
  description: Highest version of CUDA that the driver supports natively.
  returned: always
  type: str
  sample: "13.0"
count:
  description:
    - Number of GPUs that the driver knows, including those that could not be read.
    - It is higher than the length of RV(gpus) only if it is unknown which GPUs are missing from the list.
  returned: always
  type: int
  sample: 4
gpus:
  description:
    - The GPUs in the order of their indices. A value that nvidia-smi doesn't provide is null.
    - A GPU that could not be read, or is missing between other GPUs, keeps its index and its position. Its
      RV(gpus[].problems) are set, and its unknown values are null.
  returned: always
  type: list
  elements: dict
  contains:
    index:
      description: Index of the GPU. It can change if GPUs are added or lost. Null if the output doesn't contain it.
      type: int
    minor_number:
      description: Number of the device node C(/dev/nvidiaN).
      type: int
    uuid:
      description: UUID of the GPU. Null if only the table could be read.
      type: str
    name:
      description: Name of the product. Truncated with dots if only the table could be read.
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
          description: Whether the GPU supports MIG.
          type: bool
        current:
          description: V(Enabled) or V(Disabled).
          type: str
        pending:
          description: V(Enabled) or V(Disabled), the value after the next reset.
          type: str
        devices:
          description: The MIG devices in their order.
          type: list
          elements: dict
          contains:
            gi:
              description: ID of the GPU instance.
              type: int
            ci:
              description: ID of the compute instance. A GPU instance can be split into several.
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
          description: V(Enabled) or V(Disabled), the value after the next reset.
          type: str
        uncorrected_aggregate:
          description: Number of uncorrected errors during the lifetime of the GPU.
          type: int
    retired_or_remapped:
      description: Defective memory pages that were retired, or on newer GPUs, rows that were remapped.
      type: dict
      contains:
        pending:
          description: Whether pages or rows will be retired or remapped at the next reset.
          type: bool
        failure:
          description: Whether a row could not be remapped. Null for GPUs that retire pages.
          type: bool
    fabric:
      description: The NVLink fabric.
      type: dict
      contains:
        state:
          description: State, V(Completed) if the GPU has joined.
          type: str
        status:
          description: Result, V(Success) if there was no problem.
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
      description: Processes on the GPU.
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
          description: Path or command line. Null for processes of other users and inside containers.
          type: str
        used_memory_mib:
          description: Memory in use in MiB.
          type: int
        gi:
          description: ID of the GPU instance, on a MIG device.
          type: int
        ci:
          description: ID of the compute instance, on a MIG device.
          type: int
    healthy:
      description: Whether RV(gpus[].problems) is empty.
      type: bool
    problems:
      description: Problems with the GPU, in the words of nvidia-smi if possible.
      type: list
      elements: str
      sample: [GPU is lost]
    advice:
      description: How to fix RV(gpus[].problems).
      type: list
      elements: str
      sample: ["Reboot the host. If it happens again, check the GPU's power, seating and cooling."]
    faults:
      description: The problems one by one, for programs.
      type: list
      elements: dict
      version_added: 0.2.0
      contains:
        kind:
          description: Identifier, such as V(gpu_lost) or V(xid_79). It is stable across versions.
          type: str
        what:
          description: Problem, as in RV(gpus[].problems).
          type: str
        do:
          description: How to fix it.
          type: str
problems:
  description:
    - Problems with all GPUs, and with what connects them or all of them need (NVSwitches, libcuda), one line each. The
      text of a problem is the same in each call.
  returned: always
  type: list
  elements: str
  sample: ["GPU 0: GPU is lost"]
xids:
  description:
    - Xids in the kernel log, by GPU and number. Null if not requested, or if the kernel log can't be read.
    - Unresolved Xids with the severity V(critical) are also in RV(gpus[].problems).
  returned: always
  type: list
  elements: dict
  contains:
    xid:
      description: Number of the Xid.
      type: int
    pci_bus_id:
      description: PCI address of the GPU, with a domain of 8 digits, in upper case.
      type: str
    severity:
      description: V(critical) if the GPU needs at least a reset, V(warning) or V(info).
      type: str
    what:
      description: Meaning of the number.
      type: str
    advice:
      description: What to do, according to NVIDIA's catalog.
      type: str
    message:
      description: Last message of the driver.
      type: str
    count:
      description: Number of messages. What the driver writes next to an Xid about the same event is not counted.
      type: int
    first:
      description: Time of the first message in UTC.
      type: str
    last:
      description: Time of the last message in UTC.
      type: str
    pid:
      description: ID of the process in the driver's message, null if there is none.
      type: int
    process:
      description: Name of that process.
      type: str
    over:
      description: Whether the driver reported later that this GPU no longer needs recovery (Xid 154).
      type: bool
driver_messages:
  description:
    - What the kernel log contains besides Xids, by device and kind, that is, why the driver can't use a GPU, and errors
      of NVSwitches (SXids). Null if not requested, or if the kernel log can't be read.
    - Messages that explain why nvidia-smi does not list a GPU as healthy, and fatal SXids, are also in RV(problems).
  returned: always
  type: list
  elements: dict
  version_added: 0.2.0
  contains:
    kind:
      description: >-
        Identifier, such as V(open_modules_required), V(bar_not_assigned), V(gpu_init_failed), V(gpu_taken) or
        V(sxid_20034). It is stable across versions.
      type: str
    pci_bus_id:
      description: PCI address of the GPU or NVSwitch, empty if the message has none.
      type: str
    severity:
      description: V(critical), V(warning) or V(info).
      type: str
    what:
      description: Meaning of the message.
      type: str
    advice:
      description: What to do.
      type: str
    message:
      description: Last message of the driver.
      type: str
    count:
      description: Number of messages.
      type: int
    first:
      description: Time of the first message in UTC.
      type: str
    last:
      description: Time of the last message in UTC.
      type: str
xids_failure:
  description: Reason why the kernel log could not be read. Null if it was read or was not requested.
  returned: always
  type: str
xids_read:
  description: >-
    Time in UTC at which the kernel log was read, by the host's clock. Use it as O(xids_since) of a later call.
  returned: always
  type: str
  sample: "2026-11-22T05:06:25Z"
boot_id:
  description: Kernel's ID of this boot of the host. Empty if it can't be read.
  returned: always
  type: str
  sample: 5cd7f7a1-3d2c-4a5f-9e0e-1b6a1c0d7e21
  version_added: 0.2.0
topology:
  description: Connections between the GPUs. Null if not requested, or if nvidia-smi doesn't provide it.
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
      description: Connection of each device to each other device, such as V(NV12), V(PIX) or V(SYS).
      type: dict
    cpu_affinity:
      description: CPUs close to each GPU.
      type: dict
    numa_affinity:
      description: NUMA node close to each GPU.
      type: dict
    gpu_numa_id:
      description: NUMA node of each GPU's own memory.
      type: dict
"""

from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ..module_utils._errors import DomainError
from ..module_utils._module import run
from ..module_utils._nvidia.gpu_state import gpu_state
from ..module_utils._nvidia_smi.states import OK, STATES


def run_module(module: AnsibleModule) -> dict[str, Any]:
    asked = {name: value for name, value in module.params.items() if name != "fail_on"}
    facts = gpu_state(module, **asked)
    if facts["state"] in module.params["fail_on"]:
        said = facts["message"] or facts["state"]
        raise DomainError(f"Error while reading the GPUs: {facts['state']}: {said}. {facts['advice']}", **facts)
    # Ansible considers a result with an rc other than 0 a failure unless ``failed`` is False.
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
            "ignored_gpus": {"type": "list", "elements": "str", "default": []},
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
