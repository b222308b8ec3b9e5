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
  - Acquires, renews or releases the Lease C(gpulab-kubernetes) in the namespace C(kube-system). If another holder has
    it, the module fails and reports the holder, the time, the purpose, and how to continue.
  - A lease that is not renewed in time counts as released, so a killed run blocks other runs for at most O(duration).
  - Runs on a control plane and uses its O(kubeconfig). On a host without this file there is no cluster yet, so the
    module does nothing. If the API does not answer, the module only warns, because the purpose of the run may be to
    repair it.
author:
  - The gpulab.kubernetes maintainers (@gpulab)
options:
  state:
    description: Whether to acquire or to release the lease.
    type: str
    choices: [held, released]
    default: held
  holder:
    description: Name of the holder. A holder can reacquire its own lease.
    type: str
    required: true
  purpose:
    description: Purpose of the run, shown to runs that are refused.
    type: str
    default: ""
  duration:
    description: Seconds after which the lease expires if it is not renewed.
    type: int
    default: 900
  break_holder:
    description: Holder whose lease may be taken over because its run is known to have ended.
    type: str
    default: ""
  kubeconfig:
    description: Path of the administrator's kubeconfig on the host.
    type: path
    default: /etc/kubernetes/admin.conf
  context:
    description: Name of the context in O(kubeconfig). The default is the current context.
    type: str
    default: ""
extends_documentation_fragment:
  - gpulab.kubernetes.attributes
  - gpulab.kubernetes.attributes.root
attributes:
  check_mode:
    support: full
    details:
      - Fails if another holder has the lease, but does not acquire it.
  diff_mode:
    support: none
  idempotent:
    support: full
    details:
      - Renewing the lease does not count as a change.
"""

EXAMPLES = r"""
- name: Hold the cluster's lease
  gpulab.kubernetes.cluster_lease:
    holder: alice@laptop
    purpose: Change the driver, node by node
"""

RETURN = r"""
held:
  description: Whether the lease is held now. Always false without a cluster and in check mode.
  returned: success
  type: bool
taken_from:
  description: Previous holder, if its lease had expired or was broken; empty otherwise.
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
    text = read_text(under(params["root"], params["kubeconfig"]))
    if text is None:
        return nothing
    held = params["state"] == "held"
    try:
        api = Api(read_kubeconfig(text, params["context"]), module.tmpdir, params["root"], read_only=module.check_mode)
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
            "kubeconfig": {"type": "path", "default": "/etc/kubernetes/admin.conf"},
            "context": {"type": "str", "default": ""},
            "root": {"type": "path", "default": "/"},
        },
        supports_check_mode=True,
    )
    run(module, run_module)


if __name__ == "__main__":
    main()
