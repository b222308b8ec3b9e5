#!/usr/bin/python
# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: managed_files
short_description: Write a role's configuration files as one state
version_added: 0.1.0
description:
  - Writes and removes small files in one execution. Missing directories are created.
  - An existing unmanaged file (without O(marker)) is saved below C(/var/lib/gpulab/first-run/files). If a first version
    is already there, or the file is neither in C(/etc) nor in C(/usr/local), it is saved next to the new one with the
    suffix C(.replaced-gpulab).
  - Records which services run with an older configuration. M(gpulab.kubernetes.managed_service) restarts or reloads
    them, even if the run that changed the file was interrupted.
author:
  - The gpulab.kubernetes maintainers (@gpulab)
options:
  files:
    description: Files to write or remove.
    type: list
    elements: dict
    required: true
    suboptions:
      path:
        description: Absolute path.
        type: path
        required: true
      content:
        description: Complete contents. A final newline is added if it is missing.
        type: str
        default: ""
      secret_content:
        description: Contents that must not appear in logs or output, instead of O(files[].content).
        type: str
        default: ""
        version_added: 0.2.0
      state:
        description: Whether the file should exist.
        type: str
        choices: [present, absent]
        default: present
      mode:
        description: Permissions in octal.
        type: str
        default: "0644"
      service:
        description: Systemd unit that reads this file only at startup.
        type: str
      reload:
        description: The unit also reads this file when it is reloaded, so it need not be restarted.
        type: bool
        default: false
        version_added: 0.2.0
      keep_foreign:
        description: Save an unmanaged file before it is replaced. Set V(false) if a package generates the file.
        type: bool
        default: true
      keep_replaced:
        description:
          - Save every replaced file with the suffix C(.replaced-gpulab), overwriting the previous copy. Use it for
            managed files that people edit anyway.
        type: bool
        default: false
        version_added: 0.2.0
  prune:
    description: Directories from which files with the marker are removed if they are not listed in O(files).
    type: list
    elements: dict
    default: []
    suboptions:
      directory:
        description: Absolute path of the directory.
        type: path
        required: true
      pattern:
        description: Glob pattern relative to the directory.
        type: str
        required: true
      age:
        description:
          - Only remove files that the current user owns and that have not changed for this many seconds. V(0) means all
            files.
        type: int
        default: 0
        version_added: 0.2.0
  marker:
    description: Text that every file of this collection contains. If empty, no file counts as unmanaged.
    type: str
    default: Managed by gpulab.kubernetes
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
    details:
      - Shows every file that is written or removed, but not the contents of files that only their owner may read.
  idempotent:
    support: full
"""

EXAMPLES = r"""
- name: Point containerd to the mirrors
  gpulab.kubernetes.managed_files:
    files:
      - path: /etc/containerd/certs.d/registry.k8s.io/hosts.toml
        content: |
          # Managed by gpulab.kubernetes
          server = "https://registry.k8s.io"
      - path: /etc/systemd/system/containerd.service.d/50-gpulab-proxy.conf
        state: absent
        service: containerd
"""

RETURN = r"""
files:
  description: Paths that were written or removed, or would be in check mode.
  returned: always
  type: list
  elements: str
  sample: [/etc/crictl.yaml]
kept:
  description: Paths of saved files, unmanaged or replaced with O(files[].keep_replaced).
  returned: always
  type: list
  elements: str
services:
  description: Units that must be restarted because of these changes, or because of changes by an interrupted run.
  returned: always
  type: list
  elements: str
  sample: [containerd]
"""

from ansible.module_utils.basic import AnsibleModule

from ..module_utils._module import QuietModule, run
from ..module_utils._states.managed_files import SPECIFICATION, ensure


def main() -> None:
    # The host's log would show the files as one text, in which a multi-line secret is not recognized.
    module: AnsibleModule = QuietModule(**SPECIFICATION)
    run(module, ensure)


if __name__ == "__main__":
    main()
