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
short_description: Read containerd's configuration
version_added: 0.1.0
author:
  - The gpulab.kubernetes maintainers (@gpulab)
description:
  - Reads the runtime settings from containerd's configuration, in any configuration version (1 to 4).
  - If the input is a list of files, merges them like containerd and finds conflicts between them.
  - The output of C(containerd config dump) is one merged text without file names. From containerd 2.2 on, its
    C(imports) contains C(/etc/containerd/conf.d/*.toml) even if the configuration file does not import it. It also
    prints a configuration that imports a missing file, with which containerd would not start.
positional: _input
options:
  _input:
    description:
      - The configuration as a single TOML text, or as a list of files in the order in which they take effect, as
        returned by M(gpulab.kubernetes.containerd_info). A file is a dictionary with C(path), C(text) (null if it is
        imported but does not exist) and C(imported) (default V(true)).
    type: raw
    required: true
  release:
    description:
      - Version of containerd, which determines the defaults, the known configuration versions and how files are merged.
        Empty means the newest version, with null for unknown values.
    type: str
    default: ""
"""

EXAMPLES = r"""
- name: Read what containerd would start with
  gpulab.kubernetes.containerd_info:
  register: containerd

- name: Refuse a configuration with conflicts
  ansible.builtin.assert:
    that: conflicts | selectattr('level', 'eq', 'problem') | length == 0
    fail_msg: "{{ conflicts | map(attribute='text') | join('; ') }}"
  vars:
    conflicts: "{{ (containerd.files | gpulab.kubernetes.containerd_config(containerd.version)).conflicts }}"
"""

RETURN = r"""
_value:
  description: Settings of the configuration; null or empty if the configuration does not contain them.
  type: dict
  contains:
    version:
      description: Version of the configuration (of its first file), 1 if it does not contain one.
      type: int
    root:
      description: Directory of containerd's data.
      type: str
    state:
      description: Directory of containerd's state, which does not survive a reboot.
      type: str
    cri:
      description: Whether the CRI plugin is enabled.
      type: bool
    cri_table:
      description: Name of the table with the settings of the CRI runtimes.
      type: str
      sample: io.containerd.cri.v1.runtime
    default_runtime:
      description: Default runtime of pods. It is V(runc) if the configuration does not set it.
      type: str
    runtimes:
      description:
        - C(handler) (the name in a RuntimeClass), C(type), C(binary) and C(systemd_cgroup) of each runtime, null if not
          set. C(binary) may come from C(BinaryName), C(Runtime) or C(runtime_engine).
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
      description: >-
        Whether containerd injects CDI devices; null if neither the configuration nor O(release) determines it.
      type: bool
    enable_cdi:
      description: Value in the configuration itself.
      type: bool
    registry_config_path:
      description: Directory of the registries' hosts.toml files.
      type: str
    imports:
      description: Imported files, as written in the configuration.
      type: list
      elements: str
    disabled_plugins:
      description: Disabled plugins.
      type: list
      elements: str
    conflicts:
      description: Conflicting settings.
      type: list
      elements: dict
      contains:
        kind:
          description:
            - C(version_unsupported) - containerd refuses the file.
            - C(version_above_base) - a file has a higher version than the file that imports it.
            - C(drop_ins_not_imported) - existing drop-ins are not imported. C(import_missing) - an imported file does
              not exist.
            - C(table_ignored) - the name of a table belongs to another version.
            - C(table_replaced) - with containerd before 2.0, a file replaces a plugin's whole table of an earlier file.
            - C(cri_disabled), C(default_runtime_missing), C(cdi_disabled).
            - C(systemd_cgroup) - it is true for some runtimes only.
            - C(runtime_twice) - two files define the same runtime. It is a note if they agree.
            - C(registry_mirrors) - old mirror settings are used together with C(config_path).
            - C(runtime_engine), C(systemd_cgroup_of_v1) - settings of containerd's v1 runtime are used for a different
              runtime.
          type: str
        level:
          description: V(problem), or V(note) if it is harmless.
          type: str
        text:
          description: Description of the conflict.
          type: str
        files:
          description: Files that contain the settings.
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
