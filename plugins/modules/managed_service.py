#!/usr/bin/python
# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: managed_service
short_description: Keep a service enabled and running with its present configuration
version_added: 0.1.0
description:
  - Enables and starts a systemd unit. Restarts it only when a file that M(gpulab.kubernetes.managed_files) wrote for it
    has changed since it was started. A restart by anybody else counts.
  - Ask with C(check_mode=true) first whether there would be a restart, where something must be done before one.
author:
  - The gpulab.kubernetes maintainers (@gpulab)
options:
  name:
    description: The unit. A name without a suffix is a service.
    type: str
    required: true
  enabled:
    description: Start it at boot. With V(false) this is left as it is.
    type: bool
    default: true
  when_missing:
    description:
      - What check mode predicts for a unit that does not exist yet. On Debian and Ubuntu most packages enable and start
        the services that they bring, so that this module has nothing left to do; V(changed) is for the others.
    type: str
    choices: [unchanged, changed]
    default: unchanged
  optional:
    description: Leave it when the host has no such unit, instead of failing. RV(state) says so then.
    type: bool
    default: false
    version_added: 0.2.0
  run_dir:
    description: Directory in which M(gpulab.kubernetes.managed_files) notes the services to restart.
    type: path
    default: /run/gpulab
extends_documentation_fragment:
  - gpulab.kubernetes.attributes
attributes:
  check_mode:
    support: full
    details: [A missing unit is no error in check mode; O(when_missing) says what is predicted then.]
  diff_mode:
    support: full
  idempotent:
    support: full
"""

EXAMPLES = r"""
- name: Keep containerd running with its configuration
  gpulab.kubernetes.managed_service:
    name: containerd
"""

RETURN = r"""
actions:
  description: Verbs of C(systemctl) that were run, or would be in check mode.
  returned: always
  type: list
  elements: str
  sample: [restart]
restart:
  description: Whether a running service was restarted, or would be in check mode.
  returned: always
  type: bool
state:
  description: State of the unit before, C(not-found) when there is no such unit.
  returned: always
  type: str
  sample: active
"""

from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ..module_utils._command import Runner
from ..module_utils._errors import DomainError
from ..module_utils._module import run
from ..module_utils._systemd import RUN_DIR, Restarts, Systemd, needed


def run_module(module: AnsibleModule) -> dict[str, Any]:
    systemd = Systemd(Runner(module, timeout=300))
    restarts = Restarts(systemd, Path(module.params["run_dir"]))
    unit = systemd.unit(module.params["name"])
    if not unit.exists:
        if module.params["optional"] and not module.check_mode:
            return {"actions": [], "restart": False, "state": unit.load}
        if not module.check_mode:
            raise DomainError(
                f"Error while starting {unit.name}: this host has no such unit. Install the package that brings it."
            )
        changed = module.params["when_missing"] == "changed"
        return {"changed": changed, "actions": ["start"] if changed else [], "restart": False, "state": unit.load}
    verbs = needed(unit, restarts.pending(unit), module.params["enabled"])
    if not module.check_mode:
        for verb in verbs:
            systemd.do(verb, "" if verb == "daemon-reload" else unit.name)
        restarts.settle(unit)
    return {
        "changed": bool(verbs),
        "actions": verbs,
        "restart": "restart" in verbs,
        "state": unit.active,
        "diff": {
            "before_header": unit.name,
            "after_header": unit.name,
            "before": f"{unit.active}, {unit.file_state}\n",
            "after": "".join(f"{verb}\n" for verb in verbs) or f"{unit.active}, {unit.file_state}\n",
        },
    }


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "name": {"type": "str", "required": True},
            "enabled": {"type": "bool", "default": True},
            "when_missing": {"type": "str", "choices": ["unchanged", "changed"], "default": "unchanged"},
            "optional": {"type": "bool", "default": False},
            "run_dir": {"type": "path", "default": RUN_DIR},
        },
        supports_check_mode=True,
    )
    run(module, run_module)


if __name__ == "__main__":
    main()
