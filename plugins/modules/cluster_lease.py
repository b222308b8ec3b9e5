#!/usr/bin/python
# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: cluster_lease
short_description: Keep other runs from changing a cluster at the same time
version_added: 0.2.0
description:
  - Takes the Lease C(gpulab-kubernetes) in the namespace C(kube-system), renews one's own, or releases it. Who finds it
    held by somebody else fails with the holder, since when, what for, and how to go on.
  - A lease that was not renewed in time counts as released, so a run that was killed blocks others for
    O(duration) at most.
  - Runs on a control plane, with its own C(admin.conf). On a host without one there is no cluster yet, and nothing to
    hold. When the API does not answer there is a warning, since the run may be there to bring it back.
author:
  - The gpulab.kubernetes maintainers (@gpulab)
options:
  state:
    description: Whether to hold or to release the lease.
    type: str
    choices: [held, released]
    default: held
  holder:
    description: Who one is. The same holder takes up its own lease again.
    type: str
    required: true
  purpose:
    description: What it is held for, for those who find it held.
    type: str
    default: ""
  duration:
    description: Seconds for which it is held unless it is renewed.
    type: int
    default: 900
  break_holder:
    description: The holder whose run is known to have ended, and whose lease may be taken.
    type: str
    default: ""
extends_documentation_fragment:
  - gpulab.kubernetes.attributes
  - gpulab.kubernetes.attributes.root
attributes:
  check_mode:
    support: full
    details:
      - Fails where somebody else holds the lease, and does not take it.
  diff_mode:
    support: none
  idempotent:
    support: full
    details:
      - To renew the lease is no change.
"""

EXAMPLES = r"""
- name: Hold the cluster's lease
  gpulab.kubernetes.cluster_lease:
    holder: alice@laptop
    purpose: Change the driver, node by node
"""

RETURN = r"""
held:
  description: Whether the lease is held now. Never without a cluster or in check mode.
  returned: success
  type: bool
taken_from:
  description: Whose lease was taken because it was over or broken, empty for nobody's.
  returned: success
  type: str
"""

from datetime import datetime, timezone
from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ..module_utils._files import read_text, under
from ..module_utils._kubeadm.kubeconfig import KubeconfigError, read_kubeconfig
from ..module_utils._kubeadm.lease import Holder
from ..module_utils._kubeadm.probe import Api, ApiConflictError, ApiRefusedError, ApiSilentError
from ..module_utils._module import run

_UNREACHED = "The lease of the cluster could not be {}, so another run could change it at the same time: {}"


def run_module(module: AnsibleModule) -> dict[str, Any]:
    params = module.params
    nothing = {"held": False, "taken_from": "", "changed": False}
    text = read_text(under(params["root"], "/etc/kubernetes/admin.conf"))
    if text is None:
        return nothing
    held = params["state"] == "held"
    try:
        api = Api(read_kubeconfig(text), module.tmpdir, params["root"], read_only=module.check_mode)
        holder = Holder(api, params["holder"])
        if not held:
            return {**nothing, "changed": holder.release()}
        before = holder.hold(params["purpose"], params["duration"], params["break_holder"], datetime.now(timezone.utc))
    except (ApiSilentError, ApiRefusedError, ApiConflictError, KubeconfigError) as error:
        module.warn(_UNREACHED.format("taken" if held else "released", error))
        return nothing
    mine = before is not None and before.holder == params["holder"]
    taken_from = before.holder if before and not mine else ""
    return {"held": not module.check_mode, "taken_from": taken_from, "changed": not mine}


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "state": {"type": "str", "choices": ["held", "released"], "default": "held"},
            "holder": {"type": "str", "required": True},
            "purpose": {"type": "str", "default": ""},
            "duration": {"type": "int", "default": 900},
            "break_holder": {"type": "str", "default": ""},
            "root": {"type": "path", "default": "/"},
        },
        supports_check_mode=True,
    )
    run(module, run_module)


if __name__ == "__main__":
    main()
