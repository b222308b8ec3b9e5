#!/usr/bin/python
# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: apt_packages
short_description: Install pinned versions of packages and hold them
version_added: 0.1.0
description:
  - Installs packages in the requested versions with one call of C(apt-get), without recommended packages.
  - Never prompts. Modified configuration files of packages are kept, and C(needrestart) does not restart services.
  - Completes an interrupted dpkg run first, and waits for other package managers.
  - Refreshes the package indexes only if apt does not know a requested version.
author:
  - The gpulab.kubernetes maintainers (@gpulab)
options:
  packages:
    description: Packages to install.
    type: list
    elements: dict
    required: true
    suboptions:
      name:
        description: Name of the package.
        type: str
        required: true
      version:
        description:
          - Full version. If empty, any installed version is accepted.
          - If it ends in an asterisk (V(550.163.01-*)), any installed version with this prefix is accepted. Otherwise
            the newest version with this prefix is installed.
        type: str
        default: ""
      optional:
        description:
          - Skip the package if no repository of the host has it.
          - For an optional package, the indexes are refreshed only if one of them is missing or if they are older than
            a day. In these cases, check mode does not refresh them and assumes that a repository has the package.
        type: bool
        default: false
      hold:
        description: Whether to hold this package. Overrides O(hold).
        type: bool
  follow:
    description:
      - Other packages that belong to the same release, whatever their names. An installed package in one of the
        versions O(follow.replaces) is changed to O(follow.version). If no repository of the host has that version, the
        package is removed, which requires O(allow_removal). These packages are not held.
      - Without this option, packages that depend only on "this version or newer" of another package would keep their
        old version.
    type: dict
    version_added: 0.2.0
    suboptions:
      version:
        description: Version to install.
        type: str
        required: true
      replaces:
        description: Versions to replace.
        type: list
        elements: str
        required: true
  hold:
    description: Hold the packages, so that nothing else upgrades them. With V(false) existing holds are not changed.
    type: bool
    default: true
  allow_downgrade:
    description: Allow a version that is older than the installed one.
    type: bool
    default: false
  allow_change_held:
    description: Allow a held package to be changed to another version.
    type: bool
    default: true
  allow_removal:
    description: Allow apt to remove conflicting packages.
    type: bool
    default: false
  lock_timeout:
    description: >-
      Seconds to wait while another package manager holds the lock. After a long wait, a warning names the program.
    type: float
    default: 900
  dpkg_dir:
    description: Directory of dpkg's database.
    type: path
    default: /var/lib/dpkg
  etc_dir:
    description: Directory of apt's configuration.
    type: path
    default: /etc/apt
    version_added: 0.2.0
  lists_dir:
    description: Directory of apt's indexes.
    type: path
    default: /var/lib/apt/lists
    version_added: 0.2.0
extends_documentation_fragment:
  - gpulab.kubernetes.attributes
  - gpulab.kubernetes.proxies
attributes:
  check_mode:
    support: full
    details:
      - Simulates the installation with apt if apt knows the versions.
      - Otherwise the change is predicted from dpkg's database alone, for example on a host without the repositories.
  diff_mode:
    support: full
    details: Shows the versions of all packages that change, and the holds.
  idempotent:
    support: full
    details: [A second run starts no program.]
"""

EXAMPLES = r"""
- name: Install the Kubernetes packages
  gpulab.kubernetes.apt_packages:
    packages:
      - {name: kubelet, version: 1.36.4-1.1}
      - {name: kubeadm, version: 1.36.4-1.1}
      - {name: kubectl, version: 1.36.4-1.1}

- name: Change all packages of a driver to another version
  gpulab.kubernetes.apt_packages:
    packages:
      - {name: nvidia-open, version: 595.91.07-1}
    follow:
      version: 595.91.07-1
      replaces: [580.178.04-1]
    allow_removal: true
"""

RETURN = r"""
installed:
  description: Versions of the requested packages after the run, by name.
  returned: always
  type: dict
  sample: {kubelet: 1.36.4-1.1}
before:
  description: Versions of the requested packages before the run, by name, without those that were not installed.
  returned: always
  type: dict
  sample: {}
others:
  description: Other packages that were also installed, changed or removed (empty version).
  returned: always
  type: dict
  sample: {conntrack: "1:1.4.7-1+b2"}
held:
  description: Requested packages that are held.
  returned: always
  type: list
  elements: str
missing:
  description: Optional packages that no repository of the host has.
  returned: always
  type: list
  elements: str
"""

from ansible.module_utils.basic import AnsibleModule

from ..module_utils._module import run
from ..module_utils._states.apt_packages import SPECIFICATION, ensure


def main() -> None:
    run(AnsibleModule(**SPECIFICATION), ensure)


if __name__ == "__main__":
    main()
