# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Callable
from urllib.parse import urlsplit

from ansible.errors import AnsibleFilterError

from ..module_utils._basic_auth import basic
from ..plugin_utils._containerd.registries import credential_problems, mirror_problems
from ..plugin_utils._filter_errors import filter_errors
from ..plugin_utils._nodes.document import read_document
from ..plugin_utils._resolver import resolv_conf
from ..plugin_utils._shutdown import shutdown_periods
from .containerd import to_toml

DOCUMENTATION = r"""
name: files
short_description: Internal filters for the configuration files of hosts
extends_documentation_fragment: gpulab.kubernetes.internal
"""

_HOSTS_HEADER = "# Managed by gpulab.kubernetes (role containerd).\n"
# The name of Docker's registry differs from its address.
_SERVERS = {"docker.io": "https://registry-1.docker.io"}
_OPTIONS = ("override_path", "skip_verify", "ca")
_HEADER = "# Managed by gpulab.kubernetes.\n"
# Special characters between double quotes in an EnvironmentFile.
_SPECIAL = re.compile(r'(["\\`$])')


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


def _hosts_file(path: str, hosts: Mapping[str, Any]) -> dict[str, str]:
    text = _HOSTS_HEADER + to_toml(hosts)
    if "header" in hosts or any("header" in host for host in hosts.get("host", {}).values()):
        return {"path": path, "secret_content": text, "mode": "0600"}
    return {"path": path, "content": text}


def _check_registries(mirrors: Any, credentials: Any) -> None:
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
    """Turn registry mirrors and credentials into containerd's hosts.toml files."""
    registries: dict[str, list[Mapping[str, Any]]] = {}
    _check_registries(mirrors, credentials)
    for mirror in mirrors:
        registries.setdefault(str(mirror["registry"]), []).append(mirror)
    headers = {str(one["registry"]): basic(str(one["username"]), str(one["password"])) for one in credentials}
    for registry in headers:
        # containerd ignores the default mirrors for a registry with its own directory, so they are repeated there.
        registries.setdefault(registry, registries.get("_default", []))
    return [
        _hosts_file(f"{directory}/{registry}/hosts.toml", _hosts(registry, entries, headers))
        for registry, entries in registries.items()
    ]


@filter_errors("choosing a host's settings of the kubelet")
def kubelet_settings(
    host: Mapping[str, Any],
    resolv_conf_wanted: str = "",
    shutdown: int = 0,
    shutdown_critical: int = 0,
    shared: Mapping[str, Any] | None = None,
    arguments: Mapping[str, Any] | None = None,
) -> dict[str, str]:
    """Return the fields of KubeletConfiguration that are a host's own.

    ``shutdown`` is how long a shutdown waits for pods, in seconds, ``shutdown_critical`` its part for critical pods.
    ``shared`` are fields of the KubeletConfiguration of all nodes, ``arguments`` those of the kubelet's command line.
    """
    found, cluster = shared or {}, host["cluster"]
    path = resolv_conf(host["resolver"], resolv_conf_wanted, found.get("resolvConf"), bool(cluster["finished"]))
    own = read_document(cluster.get("kubelet_configuration")) if cluster["finished"] else {}
    periods = shutdown_periods((shutdown, shutdown_critical), found, arguments or {}, own)
    return {"resolvConf": path, **(periods if host["gpus"] else {})}


def _quoted(value: str) -> str:
    return '"' + _SPECIAL.sub(r"\\\1", value) + '"'


def proxy_files(name: str, http_proxy: str, https_proxy: str, no_proxy: Iterable[str]) -> list[dict[str, Any]]:
    """Create the files with the proxy settings of a systemd unit."""
    base = f"/etc/systemd/system/{name}.service.d/50-gpulab-proxy"
    state = "present" if http_proxy or https_proxy else "absent"
    values = {"HTTP_PROXY": http_proxy, "HTTPS_PROXY": https_proxy, "NO_PROXY": ",".join(map(str, no_proxy))}
    lines = [f"{key}={_quoted(value)}\n" for key, value in values.items()]
    variables: dict[str, Any] = {"path": f"{base}.env", "mode": "0600"}
    drop_in: dict[str, Any] = {"path": f"{base}.conf"}
    if state == "present":
        variables["secret_content"] = _HEADER + "".join(lines)
        # With the dash, a missing file doesn't prevent the unit's start.
        drop_in["content"] = f"{_HEADER}[Service]\nEnvironmentFile=-{base}.env\n"
    return [{**file, "state": state, "service": name} for file in (variables, drop_in)]


class FilterModule:
    def filters(self) -> dict[str, Callable[..., Any]]:
        return {
            "containerd_hosts": containerd_hosts,
            "kubelet_settings": kubelet_settings,
            "proxy_files": proxy_files,
        }
