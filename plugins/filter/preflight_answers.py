# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, Callable

from ansible.errors import AnsibleFilterError

DOCUMENTATION = r"""
name: preflight_answers
short_description: Return the settings that keep the existing state of the hosts, as a file of variables
version_added: 0.2.0
author:
  - The gpulab.kubernetes maintainers (@gpulab)
description:
  - After you have reviewed the text, use it with C(-e @FILE) or in C(group_vars).
  - A setting that concerns only some hosts is a mapping by host. For all other hosts, the default applies.
positional: _input, settings
options:
  _input:
    description: Problems, as returned by P(gpulab.kubernetes.preflight_problems#filter).
    type: list
    elements: dict
    required: true
  settings:
    description: Settings by host, as for P(gpulab.kubernetes.preflight_problems#filter).
    type: dict
    required: true
"""

EXAMPLES = r"""
- name: Write the answers
  ansible.builtin.copy:
    content: "{{ __preflight_problems | gpulab.kubernetes.preflight_answers(__settings) }}"
    dest: answers.yml
    mode: "0644"
"""

RETURN = r"""
_value:
  description: YAML text, empty if no problem has an answer.
  type: str
"""


# What counts for hosts that need no answer, as an expression.
_OTHERS = {
    "cluster_existing_packages": "'refuse'",
    "cluster_existing_sources": "'refuse'",
    "nvidia_driver_source": "'cuda_repository'",
    "cluster_node_name": "(ansible_facts['nodename'] | default('') | lower)",
}


def preflight_answers(problems: Iterable[Mapping[str, Any]], settings: Mapping[str, Mapping[str, Any]]) -> str:
    try:
        answers: dict[str, dict[str, str]] = {}
        whys: dict[str, list[str]] = {}
        for problem in problems:
            for name, value in problem.get("answers", {}).items():
                answers.setdefault(name, {})[problem["host"]] = value
                whys.setdefault(name, []).append(f"{problem['host'] or 'The whole cluster'}: {problem['what']}")
        lines = []
        for name, of_hosts in answers.items():
            tag = ""
            if name in _OTHERS:
                now = {host: str(values[key]) for host, values in settings.items() if (key := _key(name)) in values}
                kept = {host: value for host, value in now.items() if value and f"'{value}'" != _OTHERS[name]}
                mapping = ", ".join(f"{host!r}: {value!r}" for host, value in {**kept, **of_hosts}.items())
                value = f"{{{{ {{{mapping}}}.get(inventory_hostname, {_OTHERS[name]}) }}}}"
            elif len(set(of_hosts.values())) == 1:
                value = next(iter(of_hosts.values()))
                # What was found is a text, also with Jinja's braces in it.
                tag = "!unsafe " if "{" in value else ""
            else:
                continue
            lines += ["", *(f"# {' '.join(why.split())}" for why in dict.fromkeys(whys[name]))]
            # YAML takes JSON.
            lines.append(f"{name}: {tag}{json.dumps(value, ensure_ascii=False)}")
    except (KeyError, TypeError, AttributeError) as error:
        raise AnsibleFilterError(f"Error while writing the answers of preflight: bad input ({error!r})") from error
    head = [
        "---",
        "# Settings that keep what was found, for review. Use it with -e @FILE, or put it into group_vars/all.",
    ]
    return "\n".join([*head, *lines]) + "\n" if lines else ""


def _key(name: str) -> str:
    return name.removeprefix("cluster_")


class FilterModule:
    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"preflight_answers": preflight_answers}
