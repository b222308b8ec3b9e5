# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Callable

from ansible.errors import AnsibleFilterError

DOCUMENTATION = r"""
name: awx_secrets
short_description: Read the missing secrets of an AWX credential
version_added: 0.2.0
author:
  - The gpulab.kubernetes maintainers (@gpulab)
description:
  - Keys are read unchanged. For all other secrets, the final newline is removed.
positional: _input, there, update
options:
  _input:
    description: File for each input, or empty.
    type: dict
    required: true
  there:
    description: Inputs that the credential already has.
    type: dict
    required: true
  update:
    description: Whether to read inputs that the credential already has.
    type: bool
    default: false
"""

EXAMPLES = r"""
- name: Read the key
  ansible.builtin.set_fact:
    secrets: "{{ {'ssh_key_data': '/home/me/.ssh/id_ed25519'} | gpulab.kubernetes.awx_secrets({}) }}"
  no_log: true
"""

RETURN = r"""
_value:
  description: Secrets by input.
  type: dict
"""


def awx_secrets(files: Mapping[str, str], there: Mapping[str, Any], update: bool = False) -> dict[str, str]:
    try:
        return {name: _read(name, path) for name, path in files.items() if path and (update or not there.get(name))}
    except (OSError, UnicodeDecodeError, TypeError, AttributeError) as error:
        raise AnsibleFilterError(f"Error while reading the secrets for AWX: {error}") from error


def _read(name: str, path: str) -> str:
    text = Path(path).expanduser().read_text(encoding="utf-8")
    return text if name == "ssh_key_data" else text.rstrip("\r\n")


class FilterModule:
    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"awx_secrets": awx_secrets}
