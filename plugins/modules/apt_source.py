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
  - Writes a deb822 source and its key, and fetches the index of this source only. The host does not need
    C(python3-debian), C(gnupg) or C(curl).
  - Fetches the key once, and again if O(key_url) changes, if the file is missing or contains a key that is not in
    O(key_fingerprints), if the key expires within 60 days, or if apt reports that the index is signed with another key.
    A key that expires soon is replaced when O(key_url) provides it with a later expiry date; until then, each run
    warns, from 30 days before the key expires.
  - An enabled unmanaged source with the same address (and suite) is an error, because apt stops working if one address
    has two keys. O(replace_conflicting) comments out such an entry.
  - If the index can't be fetched, all files are restored.
author:
  - The gpulab.kubernetes maintainers (@gpulab)
options:
  name:
    description: Name of the source. The names of its files are derived from it.
    type: str
    required: true
  state:
    description: Whether the source should exist.
    type: str
    choices: [present, absent]
    default: present
  uris:
    description: Address of the repository. Required when O(state=present).
    type: str
    aliases: [uri]
  suites:
    description: Suites of the repository. A suite that ends in a slash (C(/)) is the path of a flat repository.
    type: list
    elements: str
    default: [/]
  components:
    description: Components. Must be empty for a flat repository.
    type: list
    elements: str
    default: []
  architectures:
    description: Architectures to fetch.
    type: list
    elements: str
    default: [amd64]
  key_url:
    description: Address of the repository's public key, armored or binary. Required when O(state=present).
    type: str
  key_fingerprints:
    description:
      - Fingerprints of the keys that may sign the repository, 40 hex digits each; spaces and case don't matter.
      - A file with none of these keys is refused before anything is written. If the file contains other keys, they are
        dropped, because apt would trust all of them.
      - An empty list accepts any key at O(key_url), with a warning. It is an error if O(key_url) begins with C(http:),
        because anyone on the way could then replace the key.
    type: list
    elements: str
    default: []
    version_added: 0.2.0
  replace_conflicting:
    description: Comment out unmanaged entries with the same address instead of failing.
    type: bool
    default: false
  credentials:
    description:
      - User names and passwords for repositories. They are used to fetch the key, and written for apt to
        C(/etc/apt/auth.conf.d/90gpulab.conf), one file for all sources that only root can read.
      - An empty list removes that file; with null, it is not changed.
    type: list
    elements: dict
    version_added: 0.2.0
    suboptions:
      machine:
        description: >-
          The repositories, as C([protocol://]host[:port][/path]). The first matching entry is used. An entry without a
          protocol applies to https only.
        type: str
        required: true
      username:
        description: User name.
        type: str
        required: true
      password:
        description: Password.
        type: str
        required: true
  lock_timeout:
    description: >-
      Seconds to wait while another package manager holds apt's lock. After a long wait, a warning names the program.
    type: float
    default: 900
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
    details: Predicts the files. The key is not fetched, unless the stored one expires within 60 days.
  diff_mode:
    support: full
    details: Shows every file that is written, but no passwords.
  idempotent:
    support: full
    details: A second run starts no program and opens no connection, unless the key expires within 60 days.
"""

EXAMPLES = r"""
- name: Add the Kubernetes packages
  gpulab.kubernetes.apt_source:
    name: gpulab-kubernetes
    uris: https://pkgs.k8s.io/core:/stable:/v1.36/deb/
    suites: [/]
    key_url: https://pkgs.k8s.io/core:/stable:/v1.36/deb/Release.key
    key_fingerprints: [DE15 B144 86CD 377B 9E87 6E1A 2346 54DA 9A29 6436]

- name: Add Docker's packages, which include containerd.io
  gpulab.kubernetes.apt_source:
    name: gpulab-containerd
    uris: https://download.docker.com/linux/debian
    suites: [bookworm]
    components: [stable]
    key_url: https://download.docker.com/linux/debian/gpg
    key_fingerprints: [9DC8 5822 9FC7 DD38 854A E2D8 8D81 803C 0EBF CD88]
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
key_fingerprints:
  description: Fingerprints of the keys in this file. Empty in check mode if the file does not exist yet.
  returned: always
  type: list
  elements: str
  version_added: 0.2.0
key_expires:
  description: Date on which the last of these keys expires, or null if no key expires or if this is unknown.
  returned: always
  type: str
  sample: "2026-12-29"
  version_added: 0.2.0
refreshed:
  description: Whether the index was fetched, or would be in check mode.
  returned: always
  type: bool
disabled:
  description: Unmanaged files in which entries were commented out.
  returned: always
  type: list
  elements: str
"""

from ansible.module_utils.basic import AnsibleModule

from ..module_utils._module import run
from ..module_utils._states.apt_source import SPECIFICATION, ensure


def main() -> None:
    run(AnsibleModule(**SPECIFICATION), ensure)


if __name__ == "__main__":
    main()
