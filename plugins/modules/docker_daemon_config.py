#!/usr/bin/python
# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: docker_daemon_config
short_description: Merge settings into Docker's daemon.json
version_added: 0.1.0
author:
  - The gpulab.kubernetes maintainers (@gpulab)
description:
  - Ensures that settings are in Docker's daemon.json. All other settings and their order are kept.
  - If settings exist with different values, the module lists them and fails without changing anything, unless
    O(replace) is set.
  - The module also fails if C(log-opts) has options that the log driver does not have. C(dockerd --validate) does not
    check this.
  - If the file is not valid JSON, the module reports the position of the error and does not change the file.
  - The file keeps its mode, owner and indentation. Before the first change, a copy is saved below
    C(/var/lib/gpulab/first-run/files).
options:
  settings:
    description:
      - Settings, as in daemon.json. Settings with the value null are ignored.
      - Objects are merged key by key. List entries are added to the existing ones. An entry of the form C(name=value),
        as in C(exec-opts), conflicts with an existing entry that has the same name and another value.
      - A runtime whose existing C(path) is only the name of the program counts as equal, because C(nvidia-ctk) writes
        it in this form.
    type: dict
    required: true
  log_options:
    description:
      - Options for C(log-opts). Options in O(settings) override them.
      - C(max-size), C(max-file) and C(compress) are added only if the resulting C(log-driver) is C(json-file) or
        C(local). Docker does not start with an option that the log driver does not have.
    type: dict
    default: {}
    version_added: 0.2.0
  cdi:
    description: >-
      Whether Docker must be able to inject CDI devices. If so, C(features.cdi) with the value false in the file is a
      conflict.
    type: bool
    default: false
    version_added: 0.2.0
  path:
    description: Path of the file.
    type: path
    default: /etc/docker/daemon.json
  replace:
    description: Whether to change settings that have different values.
    type: bool
    default: false
  service:
    description:
      - Systemd unit that uses the file. If the file changes, a pending restart of the unit is recorded, so that
        M(gpulab.kubernetes.managed_service) restarts the unit, or reloads it if that is sufficient.
    type: str
  programs:
    description: >-
      Programs that the service looks up when it starts. If one of them was installed later, a pending restart is
      recorded.
    type: list
    elements: path
    default: []
  record:
    description:
      - File that records which settings this module wrote. Recorded settings that are no longer in O(settings) are
        removed, and recorded settings that have another value there are changed without O(replace), unless something
        else has changed them in the meantime.
    type: path
    version_added: 0.2.0
  run_dir:
    description: Directory in which pending restarts are recorded. It must not persist across reboots.
    type: path
    default: /run/gpulab
extends_documentation_fragment:
  - gpulab.kubernetes.attributes
  - gpulab.kubernetes.attributes.root
attributes:
  check_mode:
    support: full
  diff_mode:
    support: full
    details: [Passwords in proxy URLs are masked.]
  idempotent:
    support: full
"""

EXAMPLES = r"""
- name: Give Docker's containers GPUs, and use the kubelet's cgroup driver
  gpulab.kubernetes.docker_daemon_config:
    settings:
      default-runtime: nvidia
      runtimes:
        nvidia:
          path: /usr/bin/nvidia-container-runtime
      exec-opts: [native.cgroupdriver=systemd]
    service: docker
"""

RETURN = r"""
changed_keys:
  description: Settings that were added, changed or removed, or would be in check mode, with dots between levels.
  returned: success
  type: list
  elements: str
  sample: [runtimes.nvidia, exec-opts]
backup:
  description: Copy of the file from before the first change, null if this run did not change the file or if there was
    none.
  returned: success
  type: str
  sample: /var/lib/gpulab/first-run/files/etc/docker/daemon.json
unmanaged_keys:
  description: Top-level settings of the file that are not in O(settings). They are kept.
  returned: success
  type: list
  elements: str
  sample: [bip]
restart:
  description: Whether the changes since the service was started require a restart instead of a reload.
  returned: success
  type: bool
  sample: false
newer_programs:
  description: Entries of O(programs) that are newer than the start of the service.
  returned: success
  type: list
  elements: str
  sample: []
services:
  description: Unit that must be restarted because of this change, or because of a change by an interrupted run.
  returned: success
  type: list
  elements: str
  sample: [docker]
contradictions:
  description: Existing settings with different values.
  returned: failure caused by such settings
  type: list
  elements: dict
  sample: [{key: default-runtime, present: crun, wanted: nvidia}]
default_runtime:
  description: Default runtime of containers in the resulting file, or null if it is not set.
  returned: success
  type: str
runtimes:
  description: Runtimes in the resulting file, and their programs.
  returned: success
  type: dict
  sample: {nvidia: /usr/bin/nvidia-container-runtime}
cgroup_driver:
  description: Cgroup driver in the resulting file, or null if it is not set.
  returned: success
  type: str
  sample: systemd
data_root:
  description: Docker's data directory, if the file sets it.
  returned: success
  type: str
"""

from ansible.module_utils.basic import AnsibleModule

from ..module_utils._module import run
from ..module_utils._states.docker_daemon_config import SPECIFICATION, ensure


def main() -> None:
    run(AnsibleModule(**SPECIFICATION), ensure)


if __name__ == "__main__":
    main()
