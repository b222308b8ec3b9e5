# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Callable
from urllib.parse import urlsplit

from ansible.errors import AnsibleFilterError

from ..module_utils._basic_auth import basic
from ..plugin_utils._containerd.registries import credential_problems, mirror_problems
from .to_toml import to_toml

DOCUMENTATION = r"""
name: containerd_hosts
short_description: Turn registry mirrors and credentials into containerd's hosts.toml files
version_added: 0.1.0
author:
  - The gpulab.kubernetes maintainers (@gpulab)
description:
  - Creates one file per registry, for P(gpulab.kubernetes.managed_files#module). If no mirror responds, containerd uses
    the registry itself.
  - A file with credentials has mode 0600. containerd sends the credentials to that host and to its token server.
positional: _input, directory, credentials
options:
  _input:
    description:
      - Mappings with C(registry), C(endpoint) and optionally C(override_path), C(skip_verify), C(ca). Mirrors of one
        registry are tried in the given order.
    type: list
    elements: dict
    required: true
  directory:
    description: C(config_path) of containerd.
    type: str
    default: /etc/containerd/certs.d
  credentials:
    description:
      - Mappings with C(registry), C(username) and C(password). C(registry) is the host and port of a registry or of a
        mirror.
    type: list
    elements: dict
    default: []
    version_added: 0.2.0
"""

EXAMPLES = r"""
- name: Point containerd to a mirror
  gpulab.kubernetes.managed_files:
    files: "{{ [{'registry': 'docker.io', 'endpoint': 'https://mirror.example.org'}]
               | gpulab.kubernetes.containerd_hosts }}"
"""

RETURN = r"""
_value:
  description: Mappings with C(path) and C(content), or with C(path), C(secret_content) and C(mode).
  type: list
  elements: dict
"""

_HEADER = "# Managed by gpulab.kubernetes (role containerd).\n"
# Docker's registry is named otherwise than it is reached.
_SERVERS = {"docker.io": "https://registry-1.docker.io"}
_OPTIONS = ("override_path", "skip_verify", "ca")


def _host(mirror: Mapping[str, Any], headers: Mapping[str, str]) -> dict[str, Any]:
    return {
        "capabilities": ["pull", "resolve"],
        **{name: mirror[name] for name in _OPTIONS if mirror.get(name)},
        **_header(headers, urlsplit(str(mirror["endpoint"])).netloc),
    }


def _header(headers: Mapping[str, str], *names: str) -> dict[str, dict[str, str]]:
    return next(({"header": {"Authorization": headers[name]}} for name in names if name in headers), {})


def _hosts(registry: str, mirrors: list[Mapping[str, Any]], headers: Mapping[str, str]) -> dict[str, Any]:
    hosts: dict[str, Any] = {}
    if registry != "_default":
        server = _SERVERS.get(registry, f"https://{registry}")
        hosts = {"server": server, **_header(headers, registry, urlsplit(server).netloc)}
    if mirrors:
        hosts["host"] = {str(mirror["endpoint"]): _host(mirror, headers) for mirror in mirrors}
    return hosts


def _file(path: str, hosts: Mapping[str, Any]) -> dict[str, str]:
    text = _HEADER + to_toml(hosts)
    if "header" in hosts or any("header" in host for host in hosts.get("host", {}).values()):
        return {"path": path, "secret_content": text, "mode": "0600"}
    return {"path": path, "content": text}


def _check(mirrors: Any, credentials: Any) -> None:
    for entries, keys, rule in (
        (mirrors, ("registry", "endpoint"), mirror_problems),
        (credentials, ("registry", "username", "password"), credential_problems),
    ):
        words = f"each entry must have {', '.join(keys)}"
        good = all(isinstance(entry, Mapping) and all(key in entry for key in keys) for entry in entries)
        problems = list(rule(entries)) if good else [words]
        if problems:
            raise AnsibleFilterError(f"Error while configuring registries of containerd: {'; '.join(problems)}.")


def containerd_hosts(
    mirrors: Any, directory: str = "/etc/containerd/certs.d", credentials: Sequence[Mapping[str, str]] = ()
) -> list[dict[str, str]]:
    registries: dict[str, list[Mapping[str, Any]]] = {}
    _check(mirrors, credentials)
    for mirror in mirrors:
        registries.setdefault(str(mirror["registry"]), []).append(mirror)
    headers = {str(one["registry"]): basic(str(one["username"]), str(one["password"])) for one in credentials}
    for registry in headers:
        # A directory of its own takes a registry away from the mirrors of all others.
        registries.setdefault(registry, registries.get("_default", []))
    return [
        _file(f"{directory}/{registry}/hosts.toml", _hosts(registry, entries, headers))
        for registry, entries in registries.items()
    ]


class FilterModule:
    def filters(self) -> dict[str, Callable[..., list[dict[str, str]]]]:
        return {"containerd_hosts": containerd_hosts}
