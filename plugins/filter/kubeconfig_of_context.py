# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from typing import Any, Callable

import yaml
from ansible.errors import AnsibleFilterError

DOCUMENTATION = r"""
name: kubeconfig_of_context
short_description: Reduce a kubeconfig to one of its contexts
version_added: 0.2.0
author:
  - The gpulab.kubernetes maintainers (@gpulab)
description:
  - Keeps only the context with its cluster and its user, and makes it the current context.
positional: _input, context
options:
  _input:
    description: The kubeconfig.
    type: str
    required: true
  context:
    description: Name of the context.
    type: str
    required: true
"""

EXAMPLES = r"""
- name: Write a kubeconfig for minikube only
  ansible.builtin.copy:
    content: "{{ content | gpulab.kubernetes.kubeconfig_of_context('minikube') }}"
    dest: /tmp/minikube.conf
    mode: "0600"
"""

RETURN = r"""
_value:
  description: The kubeconfig in YAML.
  type: str
"""


def kubeconfig_of_context(text: str, context: str) -> str:
    try:
        whole = yaml.safe_load(str(text))
        chosen = _named(whole["contexts"], str(context))
        reduced = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [_named(whole["clusters"], chosen["context"]["cluster"])],
            "users": [_named(whole["users"], chosen["context"]["user"])],
            "contexts": [chosen],
            "current-context": str(context),
        }
    except (yaml.YAMLError, KeyError, TypeError) as error:
        # The file holds keys, so no more of it is said.
        raise AnsibleFilterError(
            f"Error while reading a kubeconfig: it has no complete context {context} ({type(error).__name__})."
        ) from None
    return yaml.safe_dump(reduced)


def _named(entries: list[dict[str, Any]], name: str) -> dict[str, Any]:
    for entry in entries:
        if entry["name"] == name:
            return entry
    raise KeyError(name)


class FilterModule:
    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"kubeconfig_of_context": kubeconfig_of_context}
