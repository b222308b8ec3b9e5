# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from pathlib import Path
from typing import Any, Callable

from ansible import context

from ..plugin_utils._inventory import access

DOCUMENTATION = r"""
name: run_commands
short_description: Complete the commands of messages with the inventory of this run
version_added: 0.2.0
author:
  - The gpulab.kubernetes maintainers (@gpulab)
description:
  - Replaces C(-i INVENTORY) in all texts of a value with the inventories of this run, and with C(-K) if the run was
    given a become password.
positional: _input, is_job
options:
  _input:
    description: A text, or a list or dictionary of texts.
    type: raw
    required: true
  is_job:
    description: Whether the run is a job of AWX. The texts are then unchanged, because the reader has other paths.
    type: bool
    default: false
"""

EXAMPLES = r"""
- name: Show how to verify the GPUs again
  ansible.builtin.debug:
    msg: "{{ 'ansible-playbook gpulab.kubernetes.verify -i INVENTORY' | gpulab.kubernetes.run_commands }}"
"""

RETURN = r"""
_value:
  description: The value with complete commands.
  type: raw
"""


def asks_password() -> bool:
    """Return whether this run was given a become password."""
    return any(context.CLIARGS.get(name) for name in ("become_ask_pass", "become_password_file"))


def run_commands(value: Any, is_job: bool = False) -> Any:
    inventory = [str(each) for each in context.CLIARGS.get("inventory") or ()]
    options = access.run_options([] if is_job else inventory, asks_password(), Path.cwd())
    return access.run_commands(value, options)


class FilterModule:
    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"run_commands": run_commands}
