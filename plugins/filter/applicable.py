# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Callable

from ansible.module_utils.parsing.convert_bool import boolean

DOCUMENTATION = r"""
name: applicable
short_description: Select the entries of a list or dictionary that apply
version_added: 0.2.0
author:
  - The gpulab.kubernetes maintainers (@gpulab)
description:
  - Returns the entries whose C(when) is true or missing, without this key. Templates in the other entries are not
    evaluated.
positional: _input
options:
  _input:
    description: List of dictionaries, or dictionary of dictionaries.
    type: raw
    required: true
"""

EXAMPLES = r"""
- name: Show the packages of this host
  ansible.builtin.debug:
    msg: "{{ packages | gpulab.kubernetes.applicable }}"
  vars:
    packages:
      - name: kubectl
      - name: conntrack
        when: "{{ driver == 'none' }}"
"""

RETURN = r"""
_value:
  description: The entries that apply, in a list or dictionary as the input.
  type: raw
  sample: [{name: kubectl}]
"""


def applicable(entries: Iterable[Any]) -> Any:
    # Ansible evaluates a value of a variable when it is read.
    if isinstance(entries, Mapping):
        return dict(_applying((name, entries[name]) for name in entries))
    return [entry for _index, entry in _applying(enumerate(entries))]


def _applying(entries: Iterable[tuple[Any, Mapping[str, Any]]]) -> Iterator[tuple[Any, dict[str, Any]]]:
    for place, entry in entries:
        if boolean(entry.get("when", True)):
            yield place, {key: entry[key] for key in entry if key != "when"}


class FilterModule:
    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"applicable": applicable}
