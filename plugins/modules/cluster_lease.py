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
  - Acquires or releases the Lease C(gpulab-kubernetes) in the namespace C(kube-system). If another holder has it, the
    module fails and reports the holder, the time, the purpose, and how to continue.
  - The action of the same name, which C(ansible-playbook) uses, makes the name of the run a part of the holder, so two
    runs of one user don't hold the lease together. Next to the run, it starts a process that renews the lease six times
    in O(duration), and releases it when C(ansible-playbook) ends for any reason.
  - A lease that is not renewed in time counts as released. The action therefore waits if another run holds the lease,
    and fails when that run renews it. After a power failure of the controller, this takes at most O(duration).
  - Runs on a control plane and uses its O(kubeconfig). On a host without this file there is no cluster yet, so the
    module does nothing.
  - If no API server can be connected to for O(patience) seconds, the module only warns, because the purpose of the run
    may be to repair the control plane. If one is there, but refuses, is overloaded or too slow, the module fails,
    unless C(kubeadm init) was never completed on this host, so that there is no cluster to change.
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
    default: 120
  patience:
    description:
      - Seconds for which this is tried again if the API server doesn't answer as it should.
      - By default, 30 seconds to acquire the lease, and 60 to release it.
    type: int
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
api_silent:
  description:
    - Whether the lease is not held because no API server can be connected to, or because C(kubeadm init) was never
      completed on this host and the API server refuses its administrator.
  returned: success
  type: bool
held_by:
  description: Holder because of whom the module failed.
  returned: when another holder has the lease
  type: str
expires:
  description: When that lease expires unless it is renewed, in UTC.
  returned: when another holder has the lease
  type: str
  sample: "2026-11-28T18:07:30.000000Z"
expires_in:
  description: The same in seconds from now.
  returned: when another holder has the lease
  type: float
"""

import contextlib
import time
from collections.abc import Callable
from datetime import datetime, timezone
from typing import Any, TypeVar

from ansible.module_utils.basic import AnsibleModule

from ..module_utils._errors import DomainError
from ..module_utils._files import read_text, under
from ..module_utils._kubeadm.init_evidence import RECORD
from ..module_utils._kubeadm.kubeconfig import KubeconfigError, read_kubeconfig
from ..module_utils._kubeadm.lease import Holder, Lease
from ..module_utils._kubeadm.probe import Api, ApiBusyError, ApiConflictError, ApiRefusedError, ApiSilentError
from ..module_utils._kubeadm.undo import interruption
from ..module_utils._module import run

Result = TypeVar("Result")

_PAUSE = 2
_PATIENCE = {"held": 30, "released": 60}
_WITHOUT_LEASE = "The lease of the cluster could not be {}, so another run could change it at the same time: {}"
# Kubeconfig with the address of this host's API server, if the cluster's address is another.
_LOCAL = "/etc/kubernetes/controller-manager.conf"


def run_module(module: AnsibleModule) -> dict[str, Any]:
    params = module.params
    nothing = {"held": False, "taken_from": "", "api_silent": False, "changed": False}
    text = read_text(under(params["root"], params["kubeconfig"]))
    if text is None:
        return nothing
    held = params["state"] == "held"
    patience = params["patience"] if params["patience"] is not None else _PATIENCE[params["state"]]
    try:
        holders = [Holder(api, params["holder"]) for api in _apis(module, text)]
        if not held:
            return {**nothing, "changed": _tried(holders, patience, Holder.release)}
        before = _tried(holders, patience, lambda holder: _hold(holder, params))
    except (ApiRefusedError, ApiBusyError, ApiConflictError, KubeconfigError) as error:
        # Before kubeadm init has granted the administrator's permissions, there is no cluster to change.
        if held and isinstance(error, ApiRefusedError) and under(params["root"], RECORD).exists():
            module.warn(_WITHOUT_LEASE.format("taken", error))
            return {**nothing, "api_silent": True}
        if held:
            do = "Run this again when the API server answers"
            if isinstance(error, KubeconfigError) and interruption(params["root"])["interrupted"]:
                do = "A change of the control plane was interrupted: run gpulab.kubernetes.renew_certificates first"
            raise DomainError(
                f"Error while taking the lease of the cluster: {error}. Without it, another run could change the "
                f"cluster at the same time. {do}"
            ) from error
        module.warn(_WITHOUT_LEASE.format("released", error))
        return nothing
    except ApiSilentError as error:
        module.warn(_WITHOUT_LEASE.format("taken" if held else "released", error))
        return {**nothing, "api_silent": True}
    mine = before is not None and before.holder == params["holder"]
    taken_from = before.holder if before and not mine else ""
    return {**nothing, "held": not module.check_mode, "taken_from": taken_from, "changed": not mine}


def _apis(module: AnsibleModule, text: str) -> list[Api]:
    """Return the API clients, for the cluster's address and then for this host's."""
    params = module.params
    config = read_kubeconfig(text, params["context"])
    programs = [name for name in config.unsafe if name in ("exec", "auth-provider")]
    if programs:
        raise DomainError(
            f"Error while reading {params['kubeconfig']}: it has {' and '.join(programs)}, which would run a program"
        )
    local = None if params["context"] else read_text(under(params["root"], _LOCAL))
    servers = [config.server]
    if local:
        with contextlib.suppress(KubeconfigError):
            servers.append(read_kubeconfig(local).server)
    return [
        Api(config, module.tmpdir, params["root"], server, read_only=module.check_mode)
        for server in dict.fromkeys(servers)
    ]


def _hold(holder: Holder, params: dict[str, Any]) -> Lease | None:
    """Hold the lease and return the previous one."""
    return holder.hold(params["purpose"], params["duration"], params["break_holder"], datetime.now(timezone.utc))


def _tried(holders: list[Holder], patience: float, action: Callable[[Holder], Result]) -> Result:
    """Return the result of the first server that responds as expected, else raise the last error."""
    deadline = time.monotonic() + patience
    while True:
        found: list[DomainError] = []
        for holder in holders:
            try:
                return action(holder)
            except (ApiRefusedError, ApiSilentError, ApiConflictError) as error:
                found.append(error)
        there = [error for error in found if isinstance(error, (ApiBusyError, ApiConflictError))]
        refused = [error for error in found if isinstance(error, ApiRefusedError)]
        if time.monotonic() >= deadline or (refused and not there):
            raise (there or refused or found)[0]
        time.sleep(_PAUSE)


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "state": {"type": "str", "choices": ["held", "released"], "default": "held"},
            "holder": {"type": "str", "required": True},
            "purpose": {"type": "str", "default": ""},
            "duration": {"type": "int", "default": 120},
            "patience": {"type": "int"},
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
