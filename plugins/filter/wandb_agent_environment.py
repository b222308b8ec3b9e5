# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Callable

from ..plugin_utils._wandb.agent import environment

DOCUMENTATION = r"""
name: wandb_agent_environment
short_description: Create the environment of a W&B Launch agent
version_added: 0.2.0
author:
  - The gpulab.kubernetes maintainers (@gpulab)
description:
  - Creates the environment variables for the server, the proxy and the certificate authorities. The key is not one of
    them.
positional: _input, access
options:
  _input:
    description: >-
      C(base_url), C(env), C(http_proxy), C(https_proxy), C(no_proxy) (a list), C(ca_bundle) (empty if there
      are no own certificate authorities), and C(ca), where the agent finds them.
    type: dict
    required: true
  access:
    description: >-
      For queues of the type C(kubernetes) the C(release), how images are loaded (C(load)), and the C(kubeconfig), which
      is empty in a pod; otherwise empty.
    type: dict
    required: true
"""

EXAMPLES = r"""
- name: Show the environment
  ansible.builtin.debug:
    msg: "{{ settings | gpulab.kubernetes.wandb_agent_environment({}) }}"
"""

RETURN = r"""
_value:
  description: Environment variables by name.
  type: dict
"""


def wandb_agent_environment(settings: Mapping[str, Any], access: Mapping[str, Any]) -> dict[str, str]:
    return environment({**settings, **access})


class FilterModule:
    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"wandb_agent_environment": wandb_agent_environment}
