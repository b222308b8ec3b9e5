#!/usr/bin/python
# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: cluster_backup
short_description: Take a backup of the cluster on a control plane
version_added: 0.3.0
author:
  - The gpulab.kubernetes maintainers (@gpulab)
description:
  - Starts the service C(gpulab-backup.service), which the role C(backup) sets up, and waits until it has ended. If the
    timer has just started it, this waits for it, and then takes another backup.
  - The service restores the backup on trial before it becomes an archive.
options:
  timeout:
    description: Seconds to wait for a backup and its copies.
    type: int
    default: 7200
extends_documentation_fragment:
  - gpulab.kubernetes.attributes
  - gpulab.kubernetes.attributes.root
attributes:
  check_mode:
    support: full
    details: [Takes no backup.]
  diff_mode:
    support: none
  idempotent:
    support: none
    details: [Each run takes a new backup.]
seealso:
  - module: gpulab.kubernetes.etcd_snapshot
"""

EXAMPLES = r"""
- name: Take a backup
  gpulab.kubernetes.cluster_backup:
"""

RETURN = r"""
archive:
  description: Path of the archive on the host. Empty in check mode.
  returned: success
  type: str
  sample: /var/lib/gpulab/backups/gpulab-lab-20261128T120000Z.tar.age
taken:
  description: Time of the snapshot.
  returned: success
  type: str
  sample: "2026-11-28T12:00:00Z"
revision:
  description: Revision of etcd in the snapshot.
  returned: success
  type: int
  sample: 4711
key_count:
  description: Number of keys in the snapshot.
  returned: success
  type: int
  sample: 321
size:
  description: Size of the archive in bytes.
  returned: success
  type: int
  sample: 10485760
recipients:
  description: Public keys for which the archive is encrypted.
  returned: success
  type: list
  elements: str
  sample: [age1zqm9hlxh4gzhq7pyvar3rjs2pfzl0geyvgxghswgehua4xswz5tsvtcnhq]
places:
  description: Places with a copy of the archive.
  returned: success
  type: list
  elements: str
  sample: ["nas:gpulab"]
"""

from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ..module_utils._backup.take import take
from ..module_utils._module import run


def run_module(module: AnsibleModule) -> dict[str, Any]:
    return {"changed": True, **take(module)}


def main() -> None:
    options = {"timeout": {"type": "int", "default": 7200}, "root": {"type": "path", "default": "/"}}
    run(AnsibleModule(argument_spec=options, supports_check_mode=True), run_module)


if __name__ == "__main__":
    main()
