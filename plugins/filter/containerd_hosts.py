# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Callable

from ansible.errors import AnsibleFilterError

from .to_toml import to_toml

DOCUMENTATION = r"""
name: containerd_hosts
short_description: Turn registry mirrors into containerd's hosts.toml files
version_added: 0.1.0
author:
  - The gpulab.kubernetes maintainers (@gpulab)
description:
  - Makes one file per registry, as P(gpulab.kubernetes.managed_files#module) takes them. When no mirror answers,
    containerd goes on to the registry itself.
positional: _input, directory
options:
  _input:
    description:
      - Mappings with C(registry), C(endpoint) and optionally C(override_path), C(skip_verify), C(ca). Mirrors of one
        registry are tried in the order in which they stand.
    type: list
    elements: dict
    required: true
  directory:
    description: Containerd's C(config_path).
    type: str
    default: /etc/containerd/certs.d
"""

EXAMPLES = r"""
- name: Point containerd to a mirror
  gpulab.kubernetes.managed_files:
    files: "{{ [{'registry': 'docker.io', 'endpoint': 'https://mirror.example.org'}]
               | gpulab.kubernetes.containerd_hosts }}"
"""

RETURN = r"""
_value:
  description: Mappings with C(path) and C(content).
  type: list
  elements: dict
"""

_HEADER = "# Managed by gpulab.kubernetes (role containerd).\n"
# Docker's registry is named otherwise than it is reached.
_SERVERS = {"docker.io": "https://registry-1.docker.io"}
_OPTIONS = ("override_path", "skip_verify", "ca")


def _host(mirror: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "capabilities": ["pull", "resolve"],
        **{name: mirror[name] for name in _OPTIONS if mirror.get(name)},
    }


def _hosts(registry: str, mirrors: list[Mapping[str, Any]]) -> dict[str, Any]:
    hosts: dict[str, Any] = {}
    if registry != "_default":
        hosts["server"] = _SERVERS.get(registry, f"https://{registry}")
    hosts["host"] = {str(mirror["endpoint"]): _host(mirror) for mirror in mirrors}
    return hosts


def containerd_hosts(mirrors: Any, directory: str = "/etc/containerd/certs.d") -> list[dict[str, str]]:
    registries: dict[str, list[Mapping[str, Any]]] = {}
    for mirror in mirrors:
        if not isinstance(mirror, Mapping) or not mirror.get("registry") or not mirror.get("endpoint"):
            raise AnsibleFilterError(f"containerd_hosts: {mirror!r} needs a registry and an endpoint")
        registries.setdefault(str(mirror["registry"]), []).append(mirror)
    return [
        {"path": f"{directory}/{registry}/hosts.toml", "content": _HEADER + to_toml(_hosts(registry, entries))}
        for registry, entries in registries.items()
    ]


class FilterModule:
    def filters(self) -> dict[str, Callable[..., list[dict[str, str]]]]:
        return {"containerd_hosts": containerd_hosts}
