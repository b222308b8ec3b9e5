#!/usr/bin/python
# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: apt_packages
short_description: Install packages in exact versions and hold them
version_added: 0.1.0
description:
  - Installs packages with one call of C(apt-get), in the versions that are asked for, without recommended packages.
  - Never asks. Changed configuration files of packages stay as they are, and C(needrestart) is kept from restarting
    services.
  - An interrupted dpkg is completed first. Other package managers are waited for.
  - The indexes are refreshed only when apt does not know a wanted version.
author:
  - The gpulab.kubernetes maintainers (@gpulab)
options:
  packages:
    description: The packages.
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
          - The full version. Without it any installed version will do.
          - With an asterisk at its end (V(550.163.01-*)) the installed version will do if it begins so; otherwise the
            newest one that does is installed.
        type: str
        default: ""
      optional:
        description:
          - Leave the package out when no repository of the host holds it.
          - On its behalf alone the indexes are refreshed only when that of a source is missing, or when they are older
            than a day. In check mode, which does not refresh them, the package counts as held by a repository then.
        type: bool
        default: false
      hold:
        description: Whether this package is put on hold, if not as O(hold) says.
        type: bool
  follow:
    description:
      - Further packages that belong to the same release, whatever their names. An installed package in one of the
        versions O(follow.replaces) is brought to O(follow.version), and removed where no repository of the host holds
        it in that version, which takes O(allow_removal). It is not put on hold.
      - Packages that merely ask each other for "this version or newer" would stay behind without it.
    type: dict
    version_added: 0.2.0
    suboptions:
      version:
        description: The version that they are brought to.
        type: str
        required: true
      replaces:
        description: The versions that are left behind.
        type: list
        elements: str
        required: true
  hold:
    description: Put the packages on hold, so that nothing else changes them. With V(false) a hold is left as it is.
    type: bool
    default: true
  allow_downgrade:
    description: Allow a version that is lower than the installed one.
    type: bool
    default: false
  allow_change_held:
    description: Allow another version of a package that is on hold.
    type: bool
    default: true
  allow_removal:
    description: Allow apt to remove packages that are in the way.
    type: bool
    default: false
  lock_timeout:
    description: Seconds that another package manager may hold the lock. A long wait is a warning that names it.
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
      - Has apt simulate the installation when it knows the versions.
      - Otherwise the change is predicted from dpkg's database alone, as on a host whose repositories are not there yet.
  diff_mode:
    support: full
    details: [Shows the versions of all packages that change, and the holds.]
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

- name: Bring a driver with all its parts to another version
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
  description: Version by name of the packages that were asked for, afterwards.
  returned: always
  type: dict
  sample: {kubelet: 1.36.4-1.1}
before:
  description: Version by name of these packages before; absent ones are left out.
  returned: always
  type: dict
  sample: {}
others:
  description: Further packages that were installed, changed or removed (empty version) on the way.
  returned: always
  type: dict
  sample: {conntrack: "1:1.4.7-1+b2"}
held:
  description: Those of the packages that are on hold.
  returned: always
  type: list
  elements: str
missing:
  description: Optional packages that no repository of the host holds.
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
