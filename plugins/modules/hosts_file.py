#!/usr/bin/python
# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: hosts_file
short_description: Keep names in a marked block of /etc/hosts
version_added: 0.3.0
description:
  - Maps names to addresses in a block of C(/etc/hosts) that belongs to this collection. All other lines stay as they
    are.
  - If cloud-init writes C(/etc/hosts) at each boot (C(manage_etc_hosts)), its template gets the same block.
author:
  - The gpulab.kubernetes maintainers (@gpulab)
options:
  names:
    description: Address of each name. The block is removed if there are no names.
    type: dict
    required: true
  root:
    description: Root directory of the host.
    type: path
    default: /
extends_documentation_fragment:
  - gpulab.kubernetes.attributes.full
"""

EXAMPLES = r"""
- name: Let a name resolve to this host
  gpulab.kubernetes.hosts_file:
    names:
      api.lab.internal: 127.0.0.1
"""

RETURN = r"""
files:
  description: Files that were changed, or would be in check mode.
  returned: success
  type: list
  elements: str
  sample: [/etc/hosts]
"""

from ansible.module_utils.basic import AnsibleModule

from ..module_utils._module import run
from ..module_utils._states.hosts_file import SPECIFICATION, ensure


def main() -> None:
    run(AnsibleModule(**SPECIFICATION), ensure)


if __name__ == "__main__":
    main()
