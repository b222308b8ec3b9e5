#!/usr/bin/python
# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: docker_info
short_description: Read the Docker installation of a host and its running containers
version_added: 0.2.0
author:
  - The gpulab.kubernetes maintainers (@gpulab)
description:
  - Queries Docker through its command line, and looks for Docker as a snap and for rootless Docker.
options:
  users:
    description: Names of users to look up.
    type: list
    elements: str
    default: []
  timeout:
    description: Time limit in seconds for each query.
    type: float
    default: 30
extends_documentation_fragment:
  - gpulab.kubernetes.attributes
  - gpulab.kubernetes.attributes.root
attributes:
  check_mode:
    support: full
  diff_mode:
    support: none
  idempotent:
    support: full
seealso:
  - module: gpulab.kubernetes.docker_daemon_config
"""

EXAMPLES = r"""
- name: Read which Docker the host has
  gpulab.kubernetes.docker_info:
  register: found
"""

RETURN = r"""
configured:
  description: Whether C(/etc/docker/daemon.json) exists, or Docker runs without this file.
  returned: success
  type: bool
  sample: true
installed:
  description: Whether the program docker is installed.
  returned: success
  type: bool
  sample: true
version:
  description: Version of the running daemon, empty if no daemon responds.
  returned: success
  type: str
  sample: 29.8.2
live_restore:
  description: Whether containers keep running while the daemon is restarted.
  returned: success
  type: bool
  sample: false
data_root:
  description: Directory of images and containers.
  returned: success
  type: str
  sample: /var/lib/docker
containers:
  description: Names and images of the running containers.
  returned: success
  type: list
  elements: str
  sample: ["jupyter (jupyter/base-notebook:latest)"]
plugins:
  description: Plugins of the command line, such as C(buildx). Empty if no daemon responds.
  returned: success
  type: list
  elements: str
  sample: [buildx, compose]
rootless:
  description: Users with a rootless Docker, and the file that indicates it.
  returned: success
  type: list
  elements: dict
  sample: []
unknown_users:
  description: Entries of O(users) that are not users of the host.
  returned: success
  type: list
  elements: str
  sample: []
snap:
  description: Whether Docker is installed as a snap.
  returned: success
  type: bool
  sample: false
"""

import pwd
from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ..module_utils._command import Runner
from ..module_utils._docker.daemon import DAEMON_FILE
from ..module_utils._docker.engine import engine, rootless, snap
from ..module_utils._files import under
from ..module_utils._module import run


def run_module(module: AnsibleModule) -> dict[str, Any]:
    root = module.params["root"]
    homes = [(user.pw_name, user.pw_dir) for user in pwd.getpwall()]
    found = engine(Runner(module, timeout=module.params["timeout"]))
    return {
        **found,
        "configured": found["installed"] or under(root, DAEMON_FILE).exists(),
        "rootless": list(rootless(root, homes)),
        "unknown_users": [name for name in module.params["users"] if not _exists(name)],
        "snap": snap(root),
    }


def _exists(name: str) -> bool:
    # The list of all users lacks those of a directory service.
    try:
        return bool(pwd.getpwnam(name))
    except KeyError:
        return False


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "users": {"type": "list", "elements": "str", "default": []},
            "timeout": {"type": "float", "default": 30},
            "root": {"type": "path", "default": "/"},
        },
        supports_check_mode=True,
    )
    run(module, run_module)


if __name__ == "__main__":
    main()
