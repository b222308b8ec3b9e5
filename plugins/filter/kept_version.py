# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from typing import Any, Callable

from ..plugin_utils._preflight.existing import kept_version

DOCUMENTATION = r"""
name: kept_version
short_description: Decide which version of a package a host should have
version_added: 0.2.0
author:
  - The gpulab.kubernetes maintainers (@gpulab)
description:
  - Returns the wanted version, unless the policy is V(keep) and the installed version is new enough.
positional: _input, wanted, minimum, policy
options:
  _input:
    description: Installed version of the package, or empty.
    type: str
    required: true
  wanted:
    description: Version that this collection would install.
    type: str
    required: true
  minimum:
    description: Oldest version that may be kept, without epoch and revision.
    type: str
    required: true
  policy:
    description: What to do with existing packages.
    type: str
    choices: [refuse, keep, replace]
    required: true
"""

EXAMPLES = r"""
- name: Show the version that would be installed
  ansible.builtin.debug:
    msg: "{{ '2.3.9-1~debian.12~bookworm' | gpulab.kubernetes.kept_version('2.3.6-1', '2.2.0', 'keep') }}"
"""

RETURN = r"""
_value:
  description: The version.
  type: str
"""


class FilterModule:
    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"kept_version": kept_version}
