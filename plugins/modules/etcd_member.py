#!/usr/bin/python
# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: etcd_member
short_description: Remove a member of etcd if the others keep a quorum
version_added: 0.2.0
author:
  - The gpulab.kubernetes maintainers (@gpulab)
description:
  - Removes a member from etcd on a control plane that kubeadm set up. The Kubernetes API is not needed. The data and
    the node of the member stay.
  - A member is removed only if the remaining ones keep a quorum. While a member is not healthy, no healthy one is
    removed. The last voter is never removed.
  - To replace a member, remove it before you add another one.
options:
  member:
    description: Name or id of the member. The name of a member that kubeadm added is that of its node.
    type: str
    required: true
  state:
    description: The only supported state is that there is no such member.
    type: str
    choices: [absent]
    default: absent
extends_documentation_fragment:
  - gpulab.kubernetes.attributes.full
  - gpulab.kubernetes.etcd
notes:
  - Run it on a control plane whose own member stays.
seealso:
  - module: gpulab.kubernetes.etcd_info
"""

EXAMPLES = r"""
- name: Remove the member of a machine that is lost
  gpulab.kubernetes.etcd_member:
    etcdctl: /usr/local/lib/gpulab/etcd-3.6.8/etcdctl
    member: cp2
"""

RETURN = r"""
removed:
  description: Id of the member that was removed, or would be in check mode. Empty if there was none.
  returned: success
  type: str
  sample: 5c1ea01b8c5963d4
reason:
  description: How many members may fail after the removal. Empty if there was no such member.
  returned: success
  type: str
  sample: 2 of 2 voters healthy; after this, 0 of 2 may fail
after:
  description: The voters after the removal, as in M(gpulab.kubernetes.etcd_info).
  returned: success
  type: dict
  sample: {voters: 2, healthy: 2, quorum: 2, has_quorum: true, may_fail: 0}
"""

from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ..module_utils._errors import DomainError
from ..module_utils._etcd.client import OPTIONS, Etcd, tolerance
from ..module_utils._etcd.quorum import find, may_remove, standing
from ..module_utils._module import run
from ..module_utils._words import listing


def run_module(module: AnsibleModule) -> dict[str, Any]:
    etcd = Etcd(module)
    members = etcd.members()
    member = find(members, module.params["member"])
    if member is None:
        nameless = [each for each in members if not each.name]
        if nameless:
            module.warn(
                f"No member of etcd is called {module.params['member']}, but these have no name until they start: "
                f"{listing(f'{each.id} ({listing(each.peer_urls)})' for each in nameless)}. To remove one, give its id."
            )
        return {"removed": "", "reason": "", "after": tolerance(standing(members))}
    verdict = may_remove(members, [member.id])
    if not verdict.allowed:
        raise DomainError(f"Error while removing {member.label} from etcd: {verdict.reason} Nothing was changed.")
    if not module.check_mode:
        etcd.remove(member)
    if verdict.warning:
        module.warn(verdict.warning)
    names = [each.label for each in members]
    left = [each.label for each in members if each is not member]
    return {
        "changed": True,
        "removed": member.id,
        "reason": verdict.reason,
        "after": tolerance(verdict.after),
        "diff": {"before": "".join(f"{name}\n" for name in names), "after": "".join(f"{name}\n" for name in left)},
    }


def main() -> None:
    own = {
        "member": {"type": "str", "required": True},
        "state": {"type": "str", "choices": ["absent"], "default": "absent"},
    }
    run(AnsibleModule(argument_spec={**OPTIONS, **own}, supports_check_mode=True), run_module)


if __name__ == "__main__":
    main()
