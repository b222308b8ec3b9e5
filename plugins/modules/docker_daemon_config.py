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
  - Makes sure that certain settings are in Docker's daemon.json. All other settings stay as they are, in their order.
  - A setting that is there with another value is unmanaged. The module fails then, names every such setting, and
    changes nothing, unless O(replace) allows it.
  - A file that is no JSON is an error with the place in it, and stays as it is.
  - The file keeps its mode and owner, and its indentation. As it was before the first change it stays beside it, with
    the ending C(.gpulab-backup).
options:
  settings:
    description:
      - The settings, as in daemon.json. Those that are null are left out.
      - Objects are merged key by key. Entries of lists are added to those that are there; an entry of the form
        C(name=value), as in C(exec-opts), says otherwise than one with the same name and another value.
      - A runtime whose C(path) is there as the mere name of the wanted program counts as being there, since that is how
        C(nvidia-ctk) writes it.
    type: dict
    required: true
  path:
    description: The file.
    type: path
    default: /etc/docker/daemon.json
  replace:
    description: Whether settings that say otherwise are changed.
    type: bool
    default: false
  service:
    description:
      - Systemd unit that is noted as running with an older configuration when the file changes, so that
        M(gpulab.kubernetes.managed_service) restarts it, or reloads it if that is enough for what has changed.
    type: str
  programs:
    description: Programs that the service looks for when it starts. If one was installed later, a restart is noted.
    type: list
    elements: path
    default: []
  run_dir:
    description: Directory in which the services to restart are noted. It must not outlive a reboot.
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
    details: [Passwords in addresses of proxies are masked.]
  idempotent:
    support: full
"""

EXAMPLES = r"""
- name: Give containers of Docker GPUs, and Docker the cgroup driver of kubelet
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
  description: The settings that were added or changed, or would be in check mode, with dots between the levels.
  returned: success
  type: list
  elements: str
  sample: [runtimes.nvidia, exec-opts]
backup:
  description: The copy of the file from before the first change, null when this run did not change one.
  returned: success
  type: str
  sample: /etc/docker/daemon.json.gpulab-backup
unmanaged_keys:
  description: Settings of the file that O(settings) does not have, at its top level. They stay.
  returned: success
  type: list
  elements: str
  sample: [bip]
restart:
  description: Whether what has changed since the service was started takes a restart, and not only a reload.
  returned: success
  type: bool
  sample: false
newer_programs:
  description: Those of O(programs) that are newer than the service's start.
  returned: success
  type: list
  elements: str
  sample: []
services:
  description: The unit that has to be restarted because of this change, or of that of an interrupted run.
  returned: success
  type: list
  elements: str
  sample: [docker]
contradictions:
  description: The settings that are there and say otherwise.
  returned: failure because of them
  type: list
  elements: dict
  sample: [{key: default-runtime, present: crun, wanted: nvidia}]
default_runtime:
  description: The runtime of containers that name none, as the file has it in the end; null where it is silent.
  returned: success
  type: str
runtimes:
  description: The runtimes that the file has in the end, and their programs.
  returned: success
  type: dict
  sample: {nvidia: /usr/bin/nvidia-container-runtime}
cgroup_driver:
  description: The cgroup driver that the file names in the end; null where it is silent.
  returned: success
  type: str
  sample: systemd
data_root:
  description: Where Docker keeps its data, if the file says so.
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
