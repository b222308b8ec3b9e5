#!/usr/bin/python
# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: managed_service
short_description: Keep a service enabled and running with its current configuration
version_added: 0.1.0
description:
  - Enables and starts a systemd unit. Restarts or reloads it only if a file that M(gpulab.kubernetes.managed_files)
    wrote for it has changed since it was started. A manual restart or a restart by other software also counts.
  - Run it with C(check_mode=true) first if something must be done before a restart.
author:
  - The gpulab.kubernetes maintainers (@gpulab)
options:
  name:
    description: Name of the unit. A name without a suffix is a service.
    type: str
    required: true
  enabled:
    description: Start the unit at boot. With V(false), this is not changed.
    type: bool
    default: true
  start:
    description: Start the unit if it does not run. With V(false), a unit that does not run is left unchanged.
    type: bool
    default: true
    version_added: 0.2.0
  when_missing:
    description:
      - What check mode predicts for a unit that does not exist yet. On Debian and Ubuntu, most packages enable and
        start their services, so nothing is left for this module to do. Use V(changed) for other packages.
    type: str
    choices: [unchanged, changed]
    default: unchanged
  optional:
    description: Do nothing if the unit does not exist, instead of failing. RV(state) is then C(not-found).
    type: bool
    default: false
    version_added: 0.2.0
  stop_if_new:
    description: >-
      Name of a package. If this collection installed it on this host, stop and disable the unit that it started,
      instead of starting it. This happens once, so that the unit can be used for something else later.
    type: str
    version_added: 0.3.0
  run_dir:
    description: Directory in which M(gpulab.kubernetes.managed_files) records pending restarts.
    type: path
    default: /run/gpulab
extends_documentation_fragment:
  - gpulab.kubernetes.attributes
attributes:
  check_mode:
    support: full
    details: [A missing unit is not an error in check mode. O(when_missing) sets the prediction.]
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
  description: Previous state of the unit, C(not-found) if it does not exist.
  returned: always
  type: str
  sample: active
"""

from ansible.module_utils.basic import AnsibleModule

from ..module_utils._module import run
from ..module_utils._states.managed_service import SPECIFICATION, ensure


def main() -> None:
    run(AnsibleModule(**SPECIFICATION), ensure)


if __name__ == "__main__":
    main()
