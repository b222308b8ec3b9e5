#!/usr/bin/python
# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: nfs_volume
short_description: Create a volume on an NFS server and its claim, or remove both and keep the data
version_added: 0.2.0
author:
  - The gpulab.kubernetes maintainers (@gpulab)
description:
  - Creates a PersistentVolume and a PersistentVolumeClaim, bound only to each other, and waits up to 60 seconds until
    they are bound. Pods on all nodes can use the claim at the same time.
  - Volumes and claims that were not created by this module are never changed or removed.
  - Kubernetes can't change the server, path or capacity of a volume. If one of them differs, the module fails before
    anything changes.
options:
  kubeconfig:
    description: Kubeconfig file of the cluster.
    type: path
    required: true
  namespace:
    description: Namespace of the claim. It must exist.
    type: str
    default: default
  claim:
    description: >-
      Name of the claim. The volume is named after the namespace and the claim, such as V(default-gpulab-cache).
    type: str
    required: true
  state:
    description: >-
      With V(absent), both are removed, unless pods use the claim. The data on the server stays, regardless of
      O(reclaim_policy).
    type: str
    choices: [present, absent]
    default: present
  server:
    description: Address or name of the server, as seen from the nodes.
    type: str
  path:
    description: Directory that the server exports.
    type: str
  capacity:
    description: Size of the volume, such as V(100Gi). NFS does not enforce it.
    type: str
  reclaim_policy:
    description: What happens to the data when the claim is deleted.
    type: str
    choices: [Retain, Recycle]
    default: Retain
  mount_options:
    description: >-
      Mount options of the directory on the nodes. They can be changed; pods that already use the claim keep theirs
      until they restart.
    type: list
    elements: str
    default: []
extends_documentation_fragment:
  - gpulab.kubernetes.attributes.full
requirements:
  - kubernetes (Python package)
"""

EXAMPLES = r"""
- name: Give pods a directory on an NFS server
  gpulab.kubernetes.nfs_volume:
    kubeconfig: /run/user/1000/kubeconfig
    claim: datasets
    server: 192.0.2.10
    path: /srv/datasets
    capacity: 500Gi
    mount_options: [nfsvers=4, hard, noatime]
"""

RETURN = r"""
changes:
  description: Kind, name and namespace of each object that was changed or removed.
  returned: success
  type: list
  elements: str
  sample: [PersistentVolume default-datasets, PersistentVolumeClaim default/datasets]
"""

from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ..module_utils._cluster.api import Api
from ..module_utils._module import run
from ..module_utils._storage.nfs_volume import NfsVolume, Wanted


def run_module(module: AnsibleModule) -> dict[str, Any]:
    params = module.params
    wanted = Wanted(
        params["namespace"],
        params["claim"],
        params["server"] or "",
        params["path"] or "",
        params["capacity"] or "",
        params["reclaim_policy"],
        tuple(params["mount_options"]),
    )
    volume = NfsVolume(Api(params["kubeconfig"]), wanted)
    if params["state"] == "absent":
        removed = volume.absent(module.check_mode)
        return {"changed": bool(removed), "changes": removed, "diff": {"before": dict.fromkeys(removed), "after": {}}}
    changes = volume.present(module.check_mode)
    sides = {side: {each.name: getattr(each, side) for each in changes} for side in ("before", "after")}
    return {"changed": bool(changes), "changes": [each.name for each in changes], "diff": sides}


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "kubeconfig": {"type": "path", "required": True},
            "namespace": {"type": "str", "default": "default"},
            "claim": {"type": "str", "required": True},
            "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
            "server": {"type": "str"},
            "path": {"type": "str"},
            "capacity": {"type": "str"},
            "reclaim_policy": {"type": "str", "choices": ["Retain", "Recycle"], "default": "Retain"},
            "mount_options": {"type": "list", "elements": "str", "default": []},
        },
        required_if=[("state", "present", ["server", "path", "capacity"])],
        supports_check_mode=True,
    )
    run(module, run_module)


if __name__ == "__main__":
    main()
