#!/usr/bin/python
# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: etcd_snapshot
short_description: Save a snapshot of etcd to a file of the host
version_added: 0.2.0
author:
  - The gpulab.kubernetes maintainers (@gpulab)
description:
  - Saves all objects of the cluster as this control plane's member of etcd has them. Neither the Kubernetes API nor a
    quorum of etcd is needed.
  - The file is written under another name in the same directory, checked by C(etcdutl snapshot status), synced, and
    then renamed. If anything fails, an earlier file of this name stays as it was. What a killed run has left is
    removed by the next one.
  - If the space of the file system does not suffice, nothing is written. 256 MiB must stay free.
  - The file contains all Secrets of the cluster. Its mode is 0600.
options:
  path:
    description: Absolute path of the file. A missing directory is created with mode 0700.
    type: path
    required: true
  etcdutl:
    description: Name or path of etcdutl.
    type: str
    default: etcdutl
  save_timeout:
    description: Time limit in seconds for saving the snapshot, and for checking it.
    type: int
    default: 600
extends_documentation_fragment:
  - gpulab.kubernetes.attributes
  - gpulab.kubernetes.etcd
attributes:
  check_mode:
    support: full
    details: [It asks etcd for the size of its database, and checks the space.]
  diff_mode:
    support: none
  idempotent:
    support: none
    details: [Each run saves a new snapshot.]
requirements:
  - etcdutl
"""

EXAMPLES = r"""
- name: Save a snapshot of etcd
  gpulab.kubernetes.etcd_snapshot:
    etcdctl: /usr/local/lib/gpulab/etcd-3.6.8/etcdctl
    etcdutl: /usr/local/lib/gpulab/etcd-3.6.8/etcdutl
    path: /var/lib/gpulab/etcd-snapshot/snapshot.db
"""

RETURN = r"""
db_size:
  description: Size of the database in bytes, before the snapshot.
  returned: success
  type: int
  sample: 20480
snapshot:
  description: What the snapshot contains. Null in check mode.
  returned: success
  type: dict
  contains:
    hash:
      description: Hash of the contents, as C(etcdutl snapshot status) shows it.
      type: str
    revision:
      description: Revision of the last change.
      type: int
    total_keys:
      description: Number of keys, as etcdutl counts them.
      type: int
    size:
      description: Size in bytes.
      type: int
  sample: {hash: f1723956, revision: 2, total_keys: 1, size: 20480}
"""

from dataclasses import asdict
from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ..module_utils._etcd.client import OPTIONS, Etcd
from ..module_utils._etcd.snapshot import check_space, remove_rests, save
from ..module_utils._module import run


def run_module(module: AnsibleModule) -> dict[str, Any]:
    params = module.params
    path = Path(params["path"])
    etcd = Etcd(module)
    db_size = etcd.status().db_size
    if not module.check_mode:
        remove_rests(path)
    check_space(path, db_size)
    snapshot = None if module.check_mode else asdict(save(etcd, params["etcdutl"], path, params["save_timeout"]))
    return {"changed": True, "db_size": db_size, "snapshot": snapshot}


def main() -> None:
    own = {
        "path": {"type": "path", "required": True},
        "etcdutl": {"type": "str", "default": "etcdutl"},
        "save_timeout": {"type": "int", "default": 600},
    }
    run(AnsibleModule(argument_spec={**OPTIONS, **own}, supports_check_mode=True), run_module)


if __name__ == "__main__":
    main()
