#!/usr/bin/python
# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: api_tunnel
short_description: Reach the API server of a control plane through SSH
version_added: 0.2.0
author:
  - The gpulab.kubernetes maintainers (@gpulab)
description:
  - Forwards a free port of the controller to the API server on the host of the task, with C(ssh) in the background. It
    uses the same address, user, port, key, jump hosts and other arguments as Ansible for this host.
  - The tunnel closes when the file O(path) is removed, or when C(ansible-playbook) ends for any reason. Until then, a
    broken connection is reopened.
  - The host must use the connection plugin C(ssh) with a key or an agent. Passwords are not supported.
options:
  path:
    description: File on the controller that represents the tunnel. It must not exist yet.
    type: path
    required: true
  address:
    description: Address at which the host reaches the API server.
    type: str
    default: 127.0.0.1
  port:
    description: Port of the API server at this address.
    type: int
    default: 6443
extends_documentation_fragment:
  - gpulab.kubernetes.attributes
attributes:
  check_mode:
    support: full
    details:
      - The tunnel is opened in check mode as well, because it changes nothing.
  diff_mode:
    support: none
  idempotent:
    support: none
    details:
      - Each call opens a new tunnel.
"""

EXAMPLES = r"""
- name: Reach the API through SSH
  gpulab.kubernetes.api_tunnel:
    path: /tmp/tunnel-7c2e
  delegate_to: cp1
  register: tunnel
"""

RETURN = r"""
port:
  description: Port on the controller's loopback address that is forwarded to the API server.
  returned: success
  type: int
  sample: 40123
"""

from ansible.module_utils.basic import AnsibleModule


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "path": {"type": "path", "required": True},
            "address": {"type": "str", "default": "127.0.0.1"},
            "port": {"type": "int", "default": 6443},
        },
        supports_check_mode=True,
    )
    module.fail_json(msg="Error while opening an SSH tunnel: the controller does it, by the action of the same name.")


if __name__ == "__main__":
    main()
