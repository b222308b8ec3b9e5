# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, Callable

DOCUMENTATION = r"""
name: driver_installers
short_description: Decide which driver-installer DaemonSets a cluster needs
version_added: 0.2.0
author:
  - The gpulab.kubernetes maintainers (@gpulab)
description:
  - There is one DaemonSet per driver version, for the nodes that need it. Nodes outside the play keep their DaemonSet.
positional: _input, wanted, nodes
options:
  _input:
    description: Existing DaemonSets, as returned by the API.
    type: list
    elements: dict
    required: true
  wanted:
    description: C(node), C(version), C(image) and C(root) of each host of the play that needs an installer.
    type: list
    elements: dict
    required: true
  nodes:
    description: Names of all nodes of the play.
    type: list
    elements: str
    required: true
"""

EXAMPLES = r"""
- name: Show which installers are needed
  ansible.builtin.debug:
    msg: "{{ [] | gpulab.kubernetes.driver_installers([{'node': 'gpu1', 'version': '580.178.04',
      'image': 'mirror.example.org/driver:580.178.04', 'root': '/opt/nvidia/driver'}], ['gpu1', 'cp1']) }}"
"""

RETURN = r"""
_value:
  description: >-
    C(present), the DaemonSets that are needed (C(name), C(version), C(image), C(root), C(nodes)), and C(absent), the
    names of those that are no longer needed.
  type: dict
"""

ANNOTATION = "gpulab.io/driver-installer"


def driver_installers(
    existing: Iterable[Mapping[str, Any]], wanted: Iterable[Mapping[str, str]], nodes: Iterable[str]
) -> dict[str, Any]:
    found: dict[str, dict[str, Any]] = {}
    play, names = set(nodes), set()
    for daemonset in existing:
        names.add(str(daemonset["metadata"]["name"]))
        record = json.loads(daemonset["metadata"].get("annotations", {}).get(ANNOTATION, "{}"))
        left = [node for node in record.get("nodes", []) if node not in play]
        if left:
            found[record["version"]] = {**record, "nodes": left}
    for host in wanted:
        entry = found.setdefault(host["version"], {"version": host["version"], "nodes": []})
        entry.update(name=f"driver-{host['version'].replace('.', '-')}", image=host["image"], root=host["root"])
        entry["nodes"] = sorted({*entry["nodes"], host["node"]})
    present = [found[version] for version in sorted(found)]
    return {"present": present, "absent": sorted(names - {entry["name"] for entry in present})}


class FilterModule:
    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"driver_installers": driver_installers}
