#!/usr/bin/python
# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: swap
short_description: Turn swap off, now and after a reboot
version_added: 0.1.0
author:
  - The gpulab.kubernetes maintainers (@gpulab)
description:
  - Turns off every swap area in O(proc_swaps) and ensures that none is turned on at the next boot.
  - Comments out lines of type C(swap) in O(fstab), and keeps everything else in the file, its mode and its owner.
    Before the first change, a copy is saved below C(/var/lib/gpulab/first-run/files).
  - Masks systemd swap units that don't come from fstab, including those of C(zram-generator) and of swap partitions
    that systemd detects, and the services of the packages C(dphys-swapfile), C(swapspace), C(systemd-swap),
    C(zram-config) and C(zram-tools).
  - On the system's GPT disk, systemd turns a partition of type swap on as soon as fstab contains no swap. Therefore the
    units are read again after systemd has been reloaded, and the new ones are masked as well. If their names contain
    the disk's sequence number, which can change with each boot, C(swap.target) is masked instead.
  - Disables the swap file that Azure's agent creates at each boot (C(ResourceDisk.EnableSwap) in C(/etc/waagent.conf)),
    and saves a copy of that file next to it.
  - Does not change scripts that turn swap on at boot (C(/etc/rc.local), C(per-boot) scripts of cloud-init); a warning
    names them.
  - If the contents of swap do not fit into memory, the module fails, reports how much memory is missing, and changes
    nothing.
options:
  state:
    description: The only supported state is no swap at all.
    type: str
    choices: [absent]
    default: absent
  fstab:
    description: The file system table.
    type: path
    default: /etc/fstab
  proc_swaps:
    description: The kernel's list of active swap areas.
    type: path
    default: /proc/swaps
extends_documentation_fragment:
  - gpulab.kubernetes.attributes.full
  - gpulab.kubernetes.attributes.root
notes:
  - Swap files and partitions themselves are not deleted.
"""

EXAMPLES = r"""
- name: Turn swap off for good
  gpulab.kubernetes.swap:
    state: absent
"""

RETURN = r"""
active_before:
  description: Swap areas that were active before the run.
  returned: success
  type: list
  elements: dict
  contains:
    name:
      description: Device or file.
      type: str
    type:
      description: V(partition) or V(file).
      type: str
    size_mib:
      description: Size in MiB.
      type: int
    used_mib:
      description: Used size in MiB.
      type: int
    priority:
      description: Priority of the area.
      type: int
  sample: [{name: /swapfile, type: file, size_mib: 2047, used_mib: 12, priority: -2}]
fstab_lines:
  description: Lines of O(fstab) that were commented out, or would be in check mode.
  returned: success
  type: list
  elements: dict
  contains:
    line:
      description: Number of the line, from 1.
      type: int
    text:
      description: Original text of the line.
      type: str
    spec:
      description: First field, the swap area.
      type: str
    file:
      description: Second field, usually V(none).
      type: str
    options:
      description: Fourth field, null if there is none.
      type: str
    fields:
      description: Number of fields.
      type: int
  sample:
    - line: 9
      text: "/swapfile none swap sw 0 0"
      spec: /swapfile
      file: none
      options: sw
      fields: 6
units:
  description: >-
    Systemd units that were masked, or would be in check mode. In check mode, those of swap partitions are missing if
    fstab still contains swap, because systemd creates them only after that.
  returned: success
  type: list
  elements: str
  sample: [dev-zram0.swap]
configuration:
  description: Other files in which swap was disabled, or would be in check mode.
  returned: success
  type: list
  elements: str
  sample: [/etc/waagent.conf]
comes_back_by:
  description: Scripts that will still turn swap on at the next boot, because this module does not change them.
  returned: success
  type: list
  elements: str
  sample: [a script (/etc/rc.local)]
backup:
  description: Copy of O(fstab) from before the first change, null if this run did not change it.
  returned: success
  type: str
  sample: /var/lib/gpulab/first-run/files/etc/fstab
"""

from ansible.module_utils.basic import AnsibleModule

from ..module_utils._module import run
from ..module_utils._states.swap import SPECIFICATION, ensure


def main() -> None:
    run(AnsibleModule(**SPECIFICATION), ensure)


if __name__ == "__main__":
    main()
