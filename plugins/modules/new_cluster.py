#!/usr/bin/python
# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: new_cluster
short_description: Write an inventory, a file of settings and ansible.cfg for a new cluster
version_added: 0.2.0
author:
  - The gpulab.kubernetes maintainers (@gpulab)
description:
  - Writes C(my.ini), C(group_vars/all.yml) and C(ansible.cfg) into a directory on the controller. No machine is
    contacted.
  - Writes nothing if one of these files exists, or if anything is wrong with what was given.
  - Without O(machines), asks for the machines and the user on the terminal.
options:
  directory:
    description: Directory of the files. It is created if it does not exist.
    type: path
    default: .
  machines:
    description:
      - Machines of the cluster, as C(NAME:ADDRESS) or C(NAME:ADDRESS:GPUS), the control plane first. The address is an
        IPv4 address or a DNS name. If SSH finds a machine by its name, C(NAME) is enough.
      - A control plane with a number of GPUs, or without other machines, is also a worker.
      - A list, a text with commas, or a dictionary of names.
    type: raw
  user:
    description: User with sudo rights on all machines. The default is the name of the user who runs Ansible.
    type: str
extends_documentation_fragment:
  - gpulab.kubernetes.attributes
attributes:
  check_mode:
    support: full
  diff_mode:
    support: full
  idempotent:
    support: none
    details:
      - The files must not exist yet.
"""

EXAMPLES = r"""
- name: Write the files of a cluster with one control plane and one GPU host
  gpulab.kubernetes.new_cluster:
    directory: ~/cluster
    machines:
      - cp1:192.0.2.11
      - gpu1:192.0.2.21:4
    user: admin
"""

RETURN = r"""
files:
  description: Paths of the files.
  type: list
  elements: str
  returned: success
closing:
  description: Lines that say what was written, and the next commands.
  type: list
  elements: str
  returned: success
"""

from ansible.module_utils.basic import AnsibleModule


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "directory": {"type": "path", "default": "."},
            "machines": {"type": "raw"},
            "user": {"type": "str"},
        },
        supports_check_mode=True,
    )
    module.fail_json(msg="Error while writing the files: the controller does it, by the action of this name.")


if __name__ == "__main__":
    main()
