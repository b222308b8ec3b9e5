# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, Callable

from ansible.errors import AnsibleFilterError

DOCUMENTATION = r"""
name: to_toml
short_description: Write a mapping as TOML
version_added: 0.1.0
author:
  - The gpulab.kubernetes maintainers (@gpulab)
description:
  - Writes mappings as tables, one after the other, in the order of their keys. Lists may contain scalars, lists and
    mappings, which are written inline.
  - TOML has no null, so keys with the value null are omitted.
positional: _input
options:
  _input:
    description: The mapping.
    type: dict
    required: true
"""

EXAMPLES = r"""
- name: Show a table
  ansible.builtin.debug:
    msg: "{{ {'version': 3, 'plugins': {'io.containerd.cri.v1.runtime': {'enable_cdi': true}}}
             | gpulab.kubernetes.to_toml }}"
"""

RETURN = r"""
_value:
  description: TOML text with a final newline.
  type: str
"""

_BARE = re.compile(r"\A[A-Za-z0-9_-]+\Z")


def _key(name: str) -> str:
    return name if _BARE.match(name) else _string(name)


def _string(text: str) -> str:
    # A JSON string is a TOML basic string, but for the two escapes that JSON leaves out.
    return json.dumps(str(text), ensure_ascii=False).replace("\x7f", "\\u007f")


def _inline(value: Any, path: str) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float)):
        return str(value)
    if isinstance(value, str):
        return _string(value)
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(_inline(item, path) for item in value) + "]"
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{_key(str(key))} = {_inline(item, path)}" for key, item in value.items()) + "}"
    raise AnsibleFilterError(f"to_toml: {path} is a {type(value).__name__}, which TOML does not support")


def _table(values: Mapping[str, Any], path: tuple[str, ...]) -> Iterator[str]:
    scalars = {key: value for key, value in values.items() if not isinstance(value, Mapping) and value is not None}
    tables = {key: value for key, value in values.items() if isinstance(value, Mapping)}
    name = ".".join(_key(part) for part in path)
    lines = [f"{_key(str(key))} = {_inline(value, f'{name}.{key}'.lstrip('.'))}" for key, value in scalars.items()]
    if path and (lines or not tables):
        lines.insert(0, f"[{name}]")
    if lines:
        yield "\n".join(lines)
    for key, value in tables.items():
        yield from _table(value, (*path, str(key)))


def to_toml(values: Any) -> str:
    if not isinstance(values, Mapping):
        raise AnsibleFilterError(f"to_toml: a mapping is needed, not a {type(values).__name__}")
    return "\n\n".join(_table(values, ())) + "\n"


class FilterModule:
    def filters(self) -> dict[str, Callable[..., str]]:
        return {"to_toml": to_toml}
