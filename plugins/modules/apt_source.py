#!/usr/bin/python
# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: apt_source
short_description: Add a signed apt repository
version_added: 0.1.0
description:
  - Writes a deb822 source with its key and fetches the index of this source alone. It needs neither C(python3-debian)
    nor C(gnupg) nor C(curl) on the host.
  - The key is fetched once, and again when O(key_url) changes or the file is missing.
  - An enabled source of another hand that names the same address (and suite) is an error, because apt stops working
    altogether when one address has two keys. O(replace_conflicting) has such an entry commented out.
  - When the index can't be fetched, all files are put back as they were.
author:
  - The gpulab.kubernetes maintainers (@gpulab)
options:
  name:
    description: Name of the source, from which the names of its files are made.
    type: str
    required: true
  state:
    description: Whether the source is there.
    type: str
    choices: [present, absent]
    default: present
  uris:
    description: Address of the repository. Required when O(state=present).
    type: str
    aliases: [uri]
  suites:
    description: Suites. A suite that ends in a slash (C(/)) is the path of a flat repository.
    type: list
    elements: str
    default: [/]
  components:
    description: Components, none for a flat repository.
    type: list
    elements: str
    default: []
  architectures:
    description: Architectures to fetch.
    type: list
    elements: str
    default: [amd64]
  key_url:
    description: Address of the repository's public key, armoured or binary. Required when O(state=present).
    type: str
  replace_conflicting:
    description: Comment out entries of another hand that name the same address, instead of stopping.
    type: bool
    default: false
  lock_timeout:
    description: Seconds that another package manager may hold apt's lock.
    type: float
    default: 300
  etc_dir:
    description: Directory of apt's configuration.
    type: path
    default: /etc/apt
  lists_dir:
    description: Directory of apt's indexes.
    type: path
    default: /var/lib/apt/lists
extends_documentation_fragment:
  - gpulab.kubernetes.attributes
  - gpulab.kubernetes.proxies
attributes:
  check_mode:
    support: full
    details: [Says what would be written. The key is not fetched.]
  diff_mode:
    support: full
    details: [Shows every file that is written.]
  idempotent:
    support: full
    details: [A second run starts no program and opens no connection.]
"""

EXAMPLES = r"""
- name: Add the Kubernetes packages
  gpulab.kubernetes.apt_source:
    name: gpulab-kubernetes
    uris: https://pkgs.k8s.io/core:/stable:/v1.36/deb/
    suites: [/]
    key_url: https://pkgs.k8s.io/core:/stable:/v1.36/deb/Release.key

- name: Add Docker's packages, of which containerd.io is one
  gpulab.kubernetes.apt_source:
    name: gpulab-containerd
    uris: https://download.docker.com/linux/debian
    suites: [bookworm]
    components: [stable]
    key_url: https://download.docker.com/linux/debian/gpg
"""

RETURN = r"""
path:
  description: The source's file.
  returned: always
  type: str
  sample: /etc/apt/sources.list.d/gpulab-kubernetes.sources
key_path:
  description: The key's file.
  returned: always
  type: str
  sample: /etc/apt/keyrings/gpulab-kubernetes.asc
refreshed:
  description: Whether the index was fetched, or would be in check mode.
  returned: always
  type: bool
disabled:
  description: Files of another hand in which entries were commented out.
  returned: always
  type: list
  elements: str
"""

from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.gpulab.kubernetes.plugins.module_utils._apt import Apt
from ansible_collections.gpulab.kubernetes.plugins.module_utils._apt_source import Wanted, apply, plan, remove
from ansible_collections.gpulab.kubernetes.plugins.module_utils._command import Runner
from ansible_collections.gpulab.kubernetes.plugins.module_utils._errors import DomainError
from ansible_collections.gpulab.kubernetes.plugins.module_utils._fetch import PROXY_OPTIONS, use_proxies


def _wanted(params: dict[str, Any]) -> Wanted:
    return Wanted(
        name=params["name"],
        uris=params["uris"] or "",
        suites=tuple(params["suites"]),
        components=tuple(params["components"]),
        architectures=tuple(params["architectures"]),
        key_url=params["key_url"] or "",
        etc=Path(params["etc_dir"]),
        lists=Path(params["lists_dir"]),
    )


def run_module(module: AnsibleModule) -> None:
    wanted = _wanted(module.params)
    present = module.params["state"] == "present"
    todo = plan(wanted, module.params["replace_conflicting"]) if present else remove(wanted)
    if todo.changed and not module.check_mode:
        use_proxies(module.params)
        apply(wanted, todo, Apt(Runner(module), module.params["lock_timeout"]))
    module.exit_json(
        changed=todo.changed,
        diff=todo.diffs(wanted.key_path, wanted.key_url),
        path=str(wanted.path),
        key_path=str(wanted.key_path),
        refreshed=todo.refresh,
        disabled=sorted(str(path) for path in todo.files if path not in (wanted.path, wanted.key_path)),
    )


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "name": {"type": "str", "required": True},
            "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
            "uris": {"type": "str", "aliases": ["uri"]},
            "suites": {"type": "list", "elements": "str", "default": ["/"]},
            "components": {"type": "list", "elements": "str", "default": []},
            "architectures": {"type": "list", "elements": "str", "default": ["amd64"]},
            "key_url": {"type": "str", "no_log": False},
            "replace_conflicting": {"type": "bool", "default": False},
            "lock_timeout": {"type": "float", "default": 300},
            "etc_dir": {"type": "path", "default": "/etc/apt"},
            "lists_dir": {"type": "path", "default": "/var/lib/apt/lists"},
            **PROXY_OPTIONS,
        },
        required_if=[("state", "present", ("uris", "key_url"))],
        supports_check_mode=True,
    )
    try:
        run_module(module)
    except DomainError as error:
        module.fail_json(msg=str(error), **error.fields)


if __name__ == "__main__":
    main()
