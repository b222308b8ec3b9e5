# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Callable

from ansible.errors import AnsibleFilterError

DOCUMENTATION = r"""
name: preflight_answers
short_description: Write the settings that keep what preflight found, as a file of variables
version_added: 0.2.0
author:
  - The gpulab.kubernetes maintainers (@gpulab)
description:
  - The text can be given with C(-e @FILE), and be put into C(group_vars) once it was reviewed.
  - What some hosts only need is a mapping from the host, in which the others keep what they have now.
positional: _input, hosts, settings
options:
  _input:
    description: Problems, as P(gpulab.kubernetes.preflight_problems#filter) returns them.
    type: list
    elements: dict
    required: true
  hosts:
    description: The hosts of the run.
    type: list
    elements: str
    required: true
  settings:
    description: By host its settings, as P(gpulab.kubernetes.preflight_problems#filter) takes them.
    type: dict
    required: true
"""

EXAMPLES = r"""
- name: Write the answers
  ansible.builtin.copy:
    content: "{{ __preflight_problems | gpulab.kubernetes.preflight_answers(ansible_play_hosts_all, __settings) }}"
    dest: answers.yml
    mode: "0644"
"""

RETURN = r"""
_value:
  description: YAML, empty when no problem has an answer.
  type: str
"""


def preflight_answers(
    problems: Iterable[Mapping[str, Any]], hosts: Sequence[str], settings: Mapping[str, Mapping[str, Any]]
) -> str:
    try:
        answers: dict[str, dict[str, str]] = {}
        whys: dict[str, list[str]] = {}
        for problem in problems:
            for name, value in problem.get("answers", {}).items():
                of_hosts = answers.setdefault(name, {})
                of_hosts.update(dict.fromkeys([problem["host"]] if problem["host"] else hosts, value))
                whys.setdefault(name, []).append(f"{problem['host'] or 'The whole cluster'}: {problem['what']}")
        lines = []
        for name, of_hosts in answers.items():
            # A control plane that the run leaves out answers for the cluster.
            known = list(dict.fromkeys([*hosts, *of_hosts]))
            now = {host: settings.get(host, {}).get(name.removeprefix("cluster_")) for host in known}
            values = {host: str(value) for host, value in {**now, **of_hosts}.items() if value is not None}
            lines += ["", *(f"# {' '.join(why.split())}" for why in dict.fromkeys(whys[name]))]
            lines.append(f"{name}: {_value(values)}")
    except (KeyError, TypeError, AttributeError) as error:
        raise AnsibleFilterError(f"Error while writing the answers of preflight: bad input ({error!r})") from error
    head = ["---", "# What keeps what was found, for review. Give it with -e @FILE, or put it into group_vars/all."]
    return "\n".join([*head, *lines]) + "\n" if lines else ""


def _value(values: Mapping[str, str]) -> str:
    """YAML takes JSON, and Jinja a mapping of strings."""
    if len(set(values.values())) == 1:
        return json.dumps(next(iter(values.values())), ensure_ascii=False)
    mapping = ", ".join(f"{host!r}: {value!r}" for host, value in values.items())
    return json.dumps(f"{{{{ {{{mapping}}}[inventory_hostname] }}}}", ensure_ascii=False)


class FilterModule:
    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"preflight_answers": preflight_answers}
