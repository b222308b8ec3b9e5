#!/usr/bin/python
# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: temporary_file
short_description: Create a file on the controller that is removed when the run ends
version_added: 0.2.0
author:
  - The gpulab.kubernetes maintainers (@gpulab)
description:
  - Creates an empty file with mode 0600 on the controller. It is removed when C(ansible-playbook) ends for any reason,
    for example if it is interrupted or killed.
  - Later tasks can write to the file or remove it.
options:
  path:
    description: File on the controller. It must not exist yet.
    type: path
    required: true
extends_documentation_fragment:
  - gpulab.kubernetes.attributes
attributes:
  check_mode:
    support: full
    details:
      - The file is created in check mode as well, because it is removed when the run ends.
  diff_mode:
    support: none
  idempotent:
    support: none
    details:
      - The file must not exist yet.
"""

EXAMPLES = r"""
- name: Create a file for a secret that this run needs
  gpulab.kubernetes.temporary_file:
    path: /tmp/secret-7c2e
"""

RETURN = r""" # """

from ansible.module_utils.basic import AnsibleModule


def main() -> None:
    module = AnsibleModule(argument_spec={"path": {"type": "path", "required": True}}, supports_check_mode=True)
    module.fail_json(msg="Error while creating a temporary file: the controller does it, by the action of this name.")


if __name__ == "__main__":
    main()
