# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Callable

from ansible.errors import AnsibleFilterError

from ..plugin_utils._preflight import cluster as cluster_rules
from ..plugin_utils._preflight import host as host_rules
from ..plugin_utils._preflight.model import Cluster, readings

DOCUMENTATION = r"""
name: preflight_notes
short_description: List what may become a problem on hosts before anything changes
version_added: 0.2.0
author:
  - The gpulab.kubernetes maintainers (@gpulab)
description:
  - Applies those rules whose result is not certain, so that the run is not stopped.
positional: _input, settings
options:
  _input:
    description: As for P(gpulab.kubernetes.preflight_problems#filter).
    type: dict
    required: true
  settings:
    description: As for P(gpulab.kubernetes.preflight_problems#filter).
    type: dict
    required: true
"""

EXAMPLES = r"""
- name: Show what may become a problem
  ansible.builtin.debug:
    msg: "{{ __preflight_readings | gpulab.kubernetes.preflight_notes(_preflight_settings) }}"
"""

RETURN = r"""
_value:
  description: One text for each note.
  type: list
  elements: str
  sample:
    - >-
      gpu1: The host can't reach the API server at 10.0.0.11:6443: no answer within 3 s. A worker joins the cluster
      through this address, and its kubelet uses it afterwards. Allow this connection (TCP).
"""


def preflight_notes(hosts: Mapping[str, Any], settings: Mapping[str, Any]) -> list[str]:
    try:
        cluster = Cluster(readings(hosts), settings)
        found = [note for cluster_rule in cluster_rules.NOTES for note in cluster_rule(cluster)]
        judged = [reading for reading in cluster.read if not reading.left_out]
        found += [note for rule in host_rules.NOTES for reading in judged for note in rule(reading, cluster)]
        return [f"{f'{note.host}: ' if note.host else ''}{note.what}. {note.why}. {note.do}." for note in found]
    except (KeyError, TypeError, AttributeError) as error:
        raise AnsibleFilterError(f"Error while listing the notes of preflight: bad input ({error!r})") from error


class FilterModule:
    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"preflight_notes": preflight_notes}
