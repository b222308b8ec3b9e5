# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Callable

import tomllib
from ansible.errors import AnsibleFilterError

DOCUMENTATION = r"""
name: containerd_config
short_description: Read a configuration of containerd
version_added: 0.1.0
author:
  - The gpulab.kubernetes maintainers (@gpulab)
description:
  - Reads what containerd's configuration says about runtimes, whatever version it is written in (1 to 4).
  - Give it the merged configuration (C(containerd config dump)); a file alone does not show what it imports.
positional: _input
options:
  _input:
    description: The configuration, TOML.
    type: str
    required: true
"""

EXAMPLES = r"""
- name: Refuse a configuration that containerd would start with to no good end
  ansible.builtin.assert:
    that: (containerd.config_dump | gpulab.kubernetes.containerd_config).conflicts | length == 0
"""

RETURN = r"""
_value:
  description: What the configuration says; null and empty where it says nothing.
  type: dict
  contains:
    version:
      description: Version of the configuration, 1 when there is none in it.
      type: int
    cri:
      description: Whether the CRI plugin is on.
      type: bool
    default_runtime:
      description: The runtime of pods that name none.
      type: str
    runtimes:
      description: By name their C(type), C(binary) and C(systemd_cgroup) (null where the configuration is silent).
      type: dict
      sample: {nvidia: {type: io.containerd.runc.v2, binary: /usr/bin/nvidia-container-runtime, systemd_cgroup: true}}
    sandbox_image:
      description: The pause image.
      type: str
    cdi:
      description: Whether CDI devices are on; null where the configuration is silent.
      type: bool
    registry_config_path:
      description: Where the registries' hosts.toml files are.
      type: str
    imports:
      description: Files that are imported.
      type: list
      elements: str
    disabled_plugins:
      description: Plugins that are switched off.
      type: list
      elements: str
    plugins:
      description: The tables of the plugins as they are.
      type: dict
    conflicts:
      description: Sentences about settings that do not fit together.
      type: list
      elements: str
"""

_RUNTIME_TABLES = ("io.containerd.cri.v1.runtime", "io.containerd.grpc.v1.cri", "cri")
_IMAGE_TABLES = ("io.containerd.cri.v1.images", *_RUNTIME_TABLES[1:])
_CRI_PLUGINS = {"cri", "io.containerd.grpc.v1.cri", "io.containerd.cri.v1.runtime", "io.containerd.cri.v1.images"}


def containerd_config(text: str) -> dict[str, Any]:
    try:
        config: dict[str, Any] = tomllib.loads(str(text))
    except tomllib.TOMLDecodeError as error:
        raise AnsibleFilterError(f"Error while reading containerd's configuration: {error}") from error
    runtime, images = _table(config, _RUNTIME_TABLES), _table(config, _IMAGE_TABLES)
    containerd = _at(runtime, "containerd")
    runtimes = {
        name: {
            "type": table.get("runtime_type"),
            "binary": _at(table, "options").get("BinaryName"),
            "systemd_cgroup": _at(table, "options").get("SystemdCgroup"),
        }
        for name, table in _at(containerd, "runtimes").items()
        if isinstance(table, Mapping)
    }
    disabled = set(_strings(config.get("disabled_plugins")))
    result = {
        "version": config.get("version", 1),
        "cri": not disabled & _CRI_PLUGINS,
        "default_runtime": containerd.get("default_runtime_name"),
        "runtimes": runtimes,
        "sandbox_image": images.get("sandbox_image") or _at(images, "pinned_images").get("sandbox"),
        "cdi": runtime.get("enable_cdi"),
        "registry_config_path": _at(images, "registry").get("config_path"),
        "imports": _strings(config.get("imports")),
        "disabled_plugins": sorted(disabled),
        "plugins": _at(config, "plugins"),
    }
    return {**result, "conflicts": _conflicts(result)}


def _conflicts(config: Mapping[str, Any]) -> list[str]:
    found, runtimes, default = [], config["runtimes"], config["default_runtime"]
    if not config["cri"]:
        found.append("The CRI plugin is switched off (disabled_plugins), and kubelet can't work without it")
    if default and runtimes and default not in runtimes:
        found.append(f"The default runtime {default} is not among the runtimes {', '.join(sorted(runtimes))}")
    cgroups = {name: bool(table["systemd_cgroup"]) for name, table in runtimes.items() if _of_runc(table)}
    if len(set(cgroups.values())) > 1:
        without = ", ".join(sorted(name for name, systemd in cgroups.items() if not systemd))
        found.append(f"All runtimes must manage cgroups alike; SystemdCgroup is true, but not for {without}")
    if config["cdi"] is False:
        found.append("CDI is switched off (enable_cdi = false), and GPUs reach containers through it")
    return found


def _of_runc(table: Mapping[str, Any]) -> bool:
    return str(table["type"] or "io.containerd.runc.v2").startswith("io.containerd.runc.")


def _table(config: Mapping[str, Any], names: tuple[str, ...]) -> Mapping[str, Any]:
    """The first of these plugins that the configuration has."""
    plugins = _at(config, "plugins")
    return next((_at(plugins, name) for name in names if name in plugins), {})


def _strings(value: Any) -> list[str]:
    return [entry for entry in value if isinstance(entry, str)] if isinstance(value, list) else []


def _at(table: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    value = table.get(name)
    return value if isinstance(value, Mapping) else {}


class FilterModule:
    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"containerd_config": containerd_config}
