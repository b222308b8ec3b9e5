# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import re
from typing import Any, Callable

DOCUMENTATION = r"""
name: api_unavailable
short_description: Test whether a task of kubernetes.core failed because the Kubernetes API did not answer
version_added: 0.2.0
author:
  - The gpulab.kubernetes maintainers (@gpulab)
description:
  - True if the API could not be reached, was busy, or had an error of its own, so that the same task may succeed later.
    False for everything that the API refuses, and for a task that has waited for something until its own time limit.
  - The modules of this collection wait for the API themselves.
options:
  _input:
    description: Result of a task.
    type: dict
    required: true
"""

EXAMPLES = r"""
- name: Read the nodes
  kubernetes.core.k8s_info:
    kind: Node
  register: nodes
  until: nodes is not gpulab.kubernetes.api_unavailable
  retries: 30
  delay: 2
"""

RETURN = r"""
_value:
  description: Whether the task failed because the API did not answer.
  type: bool
"""

# In the words of urllib3, of the API's Status, of the kubernetes package and of Go's programs.
_UNAVAILABLE = re.compile(
    r"Max retries exceeded|connection aborted|connection reset|connection refused|remote end closed connection"
    r"|unexpected EOF|TLS handshake timeout|i/o timeout|read timed out"
    r'|"code": ?(429|500|502|503|504)\b|\b(429|500|502|503|504)\)?\s+Reason:'
    r"|Kubernetes cluster unreachable|etcdserver: |the server is currently unable to handle the request"
    # Response of a server to the administrator before it has loaded its authorization rules.
    r'|forbidden: User \\*"kubernetes-admin\\*" cannot ',
    re.IGNORECASE,
)
_REFUSED = re.compile(r"certificate verify failed|x509: |DisruptionBudget", re.IGNORECASE)
_LONGEST = 10000


def api_unavailable(result: Any) -> bool:
    if not isinstance(result, dict) or not result.get("failed"):
        return False
    words = "\n".join(str(result.get(key) or "")[:_LONGEST] for key in ("msg", "stderr"))
    return bool(_UNAVAILABLE.search(words)) and not _REFUSED.search(words)


class TestModule:
    def tests(self) -> dict[str, Callable[..., bool]]:
        return {"api_unavailable": api_unavailable}
