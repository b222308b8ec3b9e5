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
  - Writes and removes small files, all in one execution. Directories that are missing are made.
  - A file of another hand (one without O(marker)) that is in the way is kept beside the new one, under its name with
    C(.before-gpulab) appended.
  - Notes which services run with an older configuration. M(gpulab.kubernetes.managed_service) restarts them, also when
    the run that changed the file was interrupted.
author:
  - The gpulab.kubernetes maintainers (@gpulab)
options:
  files:
    description: The files.
    type: list
    elements: dict
    required: true
    suboptions:
      path:
        description: Absolute path.
        type: path
        required: true
      content:
        description: The whole text. A newline is added at the end where there is none.
        type: str
        default: ""
      secret_content:
        description: In place of O(files[].content) a text that must not appear in any log or output.
        type: str
        default: ""
        version_added: 0.2.0
      state:
        description: Whether the file is there.
        type: str
        choices: [present, absent]
        default: present
      mode:
        description: Permissions, octal.
        type: str
        default: "0644"
      service:
        description: Systemd unit that reads this file only when it starts.
        type: str
      keep_foreign:
        description: Keep a file of another hand. Set V(false) where a package generates the file.
        type: bool
        default: true
      keep_replaced:
        description:
          - Keep any file that is replaced, with C(.replaced-gpulab) added to its name, in place of the one before. For
            files that people change by hand although they are managed.
        type: bool
        default: false
        version_added: 0.2.0
  prune:
    description: Places in which files that carry the marker and are not listed in O(files) are removed.
    type: list
    elements: dict
    default: []
    suboptions:
      directory:
        description: Absolute path of the directory.
        type: path
        required: true
      pattern:
        description: Glob below the directory.
        type: str
        required: true
      age:
        description:
          - Only files that this user owns and that have not changed for so many seconds. V(0) means all.
        type: int
        default: 0
        version_added: 0.2.0
  marker:
    description: Text that every file of this collection holds. Empty means that no file is taken for foreign.
    type: str
    default: Managed by gpulab.kubernetes
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
    details:
      - Shows every file that is written or removed, but not the text of one that only its owner may read.
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
  description: Where files lie now that were in the way, of another hand or replaced with O(files[].keep_replaced).
  returned: always
  type: list
  elements: str
services:
  description: Units that have to be restarted because of these changes, or of those of an interrupted run.
  returned: always
  type: list
  elements: str
  sample: [containerd]
"""

from ansible.module_utils.basic import AnsibleModule

from ..module_utils._module import QuietModule, run
from ..module_utils._states.managed_files import SPECIFICATION, ensure


def main() -> None:
    # The host's log shows the list of files as one text, in which a secret of several lines would not be recognized.
    module: AnsibleModule = QuietModule(**SPECIFICATION)
    run(module, ensure)


if __name__ == "__main__":
    main()
