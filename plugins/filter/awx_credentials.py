# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Callable

from ansible.errors import AnsibleFilterError

DOCUMENTATION = r"""
name: awx_credentials
short_description: Decide which credentials are created in AWX, and what uses them
version_added: 0.2.0
author:
  - The gpulab.kubernetes maintainers (@gpulab)
description:
  - A credential is created if a file is given for one of its secrets. A credential is used if it is created or already
    exists.
positional: _input, known
options:
  _input:
    description: >-
      Credentials, each with C(name), C(used_by), C(secrets) (the file for each input, or empty), and optionally
      C(required), the setting without which it can't be created.
    type: list
    elements: dict
    required: true
  known:
    description: Names of the credentials that exist in AWX.
    type: list
    elements: str
    required: true
"""

EXAMPLES = r"""
- name: Choose the credentials
  ansible.builtin.set_fact:
    chosen: "{{ awx_configure_credentials | gpulab.kubernetes.awx_credentials(['gpulab machines']) }}"
"""

RETURN = r"""
_value:
  description: >-
    C(made) lists the credentials to create, C(used) the names of the credentials that are used, by what uses them,
    C(left_out) the names of all others, and C(problems) the reasons why credentials can't be created.
  type: dict
"""


def awx_credentials(credentials: Sequence[Mapping[str, Any]], known: Sequence[str]) -> dict[str, Any]:
    try:
        chosen: dict[str, Any] = {"made": [], "used": {}, "left_out": [], "problems": []}
        for each in credentials:
            files = {name: str(Path(path).expanduser()) for name, path in each["secrets"].items() if path}
            there = each["name"] in known
            chosen["problems"] += [
                f"{path}, which should contain {name} of the credential {each['name']}, is not a readable file"
                for name, path in files.items()
                if not os.access(path, os.R_OK) or not Path(path).is_file()
            ]
            if not there and each.get("required") and not files:
                chosen["problems"].append(f"AWX has no credential {each['name']} yet, and {each['required']} is empty")
            if there or files:
                chosen["made"].append(each)
                chosen["used"].setdefault(each["used_by"], []).append(each["name"])
            else:
                chosen["left_out"].append(each["name"])
    except (KeyError, TypeError, AttributeError) as error:
        raise AnsibleFilterError(f"Error while choosing the credentials of AWX: bad input ({error!r})") from error
    return chosen


class FilterModule:
    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"awx_credentials": awx_credentials}
