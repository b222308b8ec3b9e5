# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Callable

from ..module_utils._errors import DomainError
from ..plugin_utils._containerd import conflicts
from ..plugin_utils._containerd.config import merge, parse, parse_release

DOCUMENTATION = r"""
name: containerd_state
short_description: Summarize a host's containerd configuration for a report
version_added: 0.2.0
author:
  - The gpulab.kubernetes maintainers (@gpulab)
description:
  - Reads files like P(gpulab.kubernetes.containerd_config#filter), and returns the settings that determine whether pods
    get GPUs.
  - A configuration that can't be read is returned as a conflict and does not cause a failure.
positional: _input
options:
  _input:
    description: Files in the order in which they take effect, as returned by M(gpulab.kubernetes.gpu_host_info).
    type: list
    elements: dict
    required: true
  release:
    description: Version of containerd. Empty means the newest.
    type: str
    default: ""
  own:
    description:
      - Paths of the files that this collection writes. Duplicate definitions that are only in unmanaged files are a
        V(note).
    type: list
    elements: str
    default: []
"""

EXAMPLES = r"""
- name: Read the files of the configuration
  gpulab.kubernetes.gpu_host_info:
    packages: [containerd.io]
    containerd_config: /etc/containerd/config.toml
  register: host

- name: Show the conflicts
  ansible.builtin.debug:
    msg: "{{ (host.containerd_files | gpulab.kubernetes.containerd_state(host.packages['containerd.io'])).conflicts }}"
"""

RETURN = r"""
_value:
  description: >-
    State of the configuration. Values are null or empty if it can't be read, and the state is empty if there is none.
  type: dict
  contains:
    default_runtime:
      description: Default runtime of pods.
      type: str
    cdi:
      description: Whether containerd injects CDI devices.
      type: bool
    systemd_cgroup:
      description: For each runtime, whether it manages cgroups through systemd; null if not set.
      type: dict
    conflicts:
      description:
        - Conflicting settings, each with C(kind), C(level), C(text) and C(files) as in
          P(gpulab.kubernetes.containerd_config#filter).
        - The kind V(unreadable) means that the configuration can't be read.
      type: list
      elements: dict
  sample:
    default_runtime: nvidia
    cdi: true
    systemd_cgroup: {runc: true, nvidia: true}
    conflicts: []
"""


def containerd_state(
    files: Sequence[Mapping[str, Any]], release: str = "", own: Collection[str] = ()
) -> dict[str, Any]:
    if not files:
        return {}
    try:
        read = [parse(file["path"], file["text"], imported=bool(file.get("imported", True))) for file in files]
        configuration = merge(read, parse_release(str(release or "")))
        found = [conflict.fields() for conflict in conflicts.find(configuration)]
    except DomainError as error:
        path = error.fields.get("path")
        unreadable = conflicts.Conflict("unreadable", str(error), (path,) if path else ())
        return {"default_runtime": None, "cdi": None, "systemd_cgroup": {}, "conflicts": [unreadable.fields()]}
    view = configuration.view
    return {
        "default_runtime": view.default_runtime or "runc",
        "cdi": configuration.cdi,
        "systemd_cgroup": {name: runtime.systemd_cgroup for name, runtime in view.runtimes.items()},
        "conflicts": [
            {**each, "level": "note"} if each["kind"] == "runtime_twice" and not set(own) & {*each["files"]} else each
            for each in found
        ],
    }


class FilterModule:
    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"containerd_state": containerd_state}
