# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Callable

from ansible.errors import AnsibleFilterError

from ..module_utils._errors import DomainError
from ..plugin_utils._containerd import conflicts
from ..plugin_utils._containerd.config import Configuration, File, merge, parse, parse_release

DOCUMENTATION = r"""
name: containerd_config
short_description: Read a configuration of containerd
version_added: 0.1.0
author:
  - The gpulab.kubernetes maintainers (@gpulab)
description:
  - Reads what containerd's configuration says about runtimes, whatever version it is written in (1 to 4).
  - Given files, it merges them as containerd does, and finds what stands between them.
  - What C(containerd config dump) prints is one merged text. It shows no file names, and from containerd 2.2 on its
    C(imports) names C(/etc/containerd/conf.d/*.toml) also where the configuration file does not import it. It also
    prints a configuration that imports a file that does not exist, with which containerd would not start.
positional: _input
options:
  _input:
    description:
      - The configuration as TOML, one text, or a list of files in the order in which they take effect, as
        M(gpulab.kubernetes.containerd_info) returns them. A file is a dictionary of C(path), C(text) (null for one
        that is imported and does not exist) and C(imported) (default V(true)).
    type: raw
    required: true
  release:
    description:
      - The version of containerd. What is on by default, which versions it knows and how it merges files depends on
        it. Empty stands for the newest, with null for what can't be known then.
    type: str
    default: ""
"""

EXAMPLES = r"""
- name: Read what containerd would start with
  gpulab.kubernetes.containerd_info:
  register: containerd

- name: Refuse a configuration that containerd would start with to no good end
  ansible.builtin.assert:
    that: conflicts | selectattr('level', 'eq', 'problem') | length == 0
    fail_msg: "{{ conflicts | map(attribute='text') | join('; ') }}"
  vars:
    conflicts: "{{ (containerd.files | gpulab.kubernetes.containerd_config(containerd.version)).conflicts }}"
"""

RETURN = r"""
_value:
  description: What the configuration says; null and empty where it says nothing.
  type: dict
  contains:
    version:
      description: Version of the configuration (of its first file), 1 when there is none in it.
      type: int
    root:
      description: Where containerd keeps its data.
      type: str
    state:
      description: Where containerd keeps what does not outlive a reboot.
      type: str
    cri:
      description: Whether the CRI plugin is on.
      type: bool
    cri_table:
      description: The table in which the settings of CRI's runtimes are, by the name that the configuration uses.
      type: str
      sample: io.containerd.cri.v1.runtime
    default_runtime:
      description: The runtime of pods that name none. It is V(runc) where the configuration is silent.
      type: str
    runtimes:
      description:
        - By name their C(handler) (what a RuntimeClass calls it), C(type), C(binary) and C(systemd_cgroup), null where
          the configuration is silent. C(binary) may come from C(BinaryName), C(Runtime) or C(runtime_engine).
      type: dict
      sample:
        nvidia:
          handler: nvidia
          type: io.containerd.runc.v2
          binary: /usr/bin/nvidia-container-runtime
          systemd_cgroup: true
    sandbox_image:
      description: The pause image.
      type: str
    cdi:
      description: Whether containerd injects CDI devices; null when neither the configuration nor O(release) tell.
      type: bool
    enable_cdi:
      description: What the configuration itself says about it.
      type: bool
    registry_config_path:
      description: Where the registries' hosts.toml files are.
      type: str
    imports:
      description: Files that are imported, as the configuration names them.
      type: list
      elements: str
    disabled_plugins:
      description: Plugins that are switched off.
      type: list
      elements: str
    conflicts:
      description: Settings that do not fit together.
      type: list
      elements: dict
      contains:
        kind:
          description:
            - C(version_unsupported), containerd refuses the file.
            - C(version_above_base), a file of a higher version than the one that imports it.
            - C(drop_ins_not_imported), C(import_missing).
            - C(table_ignored), a table whose name belongs to another version.
            - C(cri_disabled), C(default_runtime_missing), C(cdi_disabled).
            - C(systemd_cgroup), it is true for some runtimes only.
            - C(runtime_twice), two files define one runtime. It is a note when they agree.
            - C(registry_mirrors), the old mirrors beside C(config_path).
            - C(runtime_engine), C(systemd_cgroup_of_v1), settings of containerd's first runtime for another one.
          type: str
        level:
          description: V(problem), or V(note) for what does no harm.
          type: str
        text:
          description: A sentence about it.
          type: str
        files:
          description: The files that say so.
          type: list
          elements: str
      sample:
        - kind: systemd_cgroup
          level: problem
          text: All runtimes must use the same cgroup driver; SystemdCgroup is true, but not for nvidia
          files: [/etc/containerd/conf.d/99-nvidia.toml]
"""


def containerd_config(files: Any, release: str = "") -> dict[str, Any]:
    try:
        configuration = merge([_file(entry) for entry in _entries(files)], parse_release(str(release or "")))
        return _fields(configuration)
    except DomainError as error:
        raise AnsibleFilterError(str(error)) from None


def _entries(files: Any) -> Sequence[Any]:
    if isinstance(files, str):
        return [{"path": "", "text": files}]
    if isinstance(files, Sequence):
        return files
    raise AnsibleFilterError(f"containerd_config: a text or a list of files is needed, not a {type(files).__name__}")


def _file(entry: Any) -> File:
    if not isinstance(entry, Mapping) or not {"path", "text"} <= entry.keys():
        raise AnsibleFilterError("containerd_config: a file is a dictionary with path and text")
    text = None if entry["text"] is None else str(entry["text"])
    return parse(str(entry["path"]), text, imported=bool(entry.get("imported", True)))


def _fields(configuration: Configuration) -> dict[str, Any]:
    view = configuration.view
    found = conflicts.find(configuration)
    return {
        "version": configuration.version,
        "root": configuration.root,
        "state": configuration.state,
        "cri": all(conflict.kind != "cri_disabled" for conflict in found),
        "cri_table": configuration.cri_table,
        "default_runtime": view.default_runtime,
        "runtimes": {
            name: {
                "handler": name,
                "type": runtime.type,
                "binary": runtime.binary,
                "systemd_cgroup": runtime.systemd_cgroup,
            }
            for name, runtime in view.runtimes.items()
        },
        "sandbox_image": view.sandbox_image,
        "cdi": configuration.cdi,
        "enable_cdi": view.enable_cdi,
        "registry_config_path": view.registry_config_path,
        "imports": list(configuration.imports),
        "disabled_plugins": sorted(configuration.disabled_plugins),
        "conflicts": [conflict.fields() for conflict in found],
    }


class FilterModule:
    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"containerd_config": containerd_config}
