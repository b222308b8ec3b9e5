# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, Callable

DOCUMENTATION = r"""
name: proxy_files
short_description: Create the files with the proxy settings of a systemd unit
version_added: 0.2.0
author:
  - The gpulab.kubernetes maintainers (@gpulab)
description:
  - Creates a drop-in of the unit and the file with its variables, for P(gpulab.kubernetes.managed_files#module). Only
    root can read the variables, because a proxy's URL may contain a password, and C(systemctl show) prints the
    variables of a drop-in to every user.
  - Without a proxy, both files are absent.
positional: _input, http_proxy, https_proxy, no_proxy
options:
  _input:
    description: Name of the service, without C(.service).
    type: str
    required: true
  http_proxy:
    description: URL of the proxy, or empty.
    type: str
    required: true
  https_proxy:
    description: URL of the proxy for HTTPS, or empty.
    type: str
    required: true
  no_proxy:
    description: Hosts and networks to reach without a proxy.
    type: list
    elements: str
    required: true
"""

EXAMPLES = r"""
- name: Set containerd's proxy
  gpulab.kubernetes.managed_files:
    files: "{{ 'containerd' | gpulab.kubernetes.proxy_files('http://proxy.example.org:3128', '', ['10.0.0.0/8']) }}"
"""

RETURN = r"""
_value:
  description: The two files.
  type: list
  elements: dict
"""

_HEADER = "# Managed by gpulab.kubernetes.\n"
# What has a meaning between double quotes in an EnvironmentFile.
_SPECIAL = re.compile(r'(["\\`$])')


def _quoted(value: str) -> str:
    return '"' + _SPECIAL.sub(r"\\\1", value) + '"'


def proxy_files(name: str, http_proxy: str, https_proxy: str, no_proxy: Iterable[str]) -> list[dict[str, Any]]:
    base = f"/etc/systemd/system/{name}.service.d/50-gpulab-proxy"
    state = "present" if http_proxy or https_proxy else "absent"
    values = {"HTTP_PROXY": http_proxy, "HTTPS_PROXY": https_proxy, "NO_PROXY": ",".join(map(str, no_proxy))}
    lines = [f"{key}={_quoted(value)}\n" for key, value in values.items()]
    variables: dict[str, Any] = {"path": f"{base}.env", "mode": "0600"}
    drop_in: dict[str, Any] = {"path": f"{base}.conf"}
    if state == "present":
        variables["secret_content"] = _HEADER + "".join(lines)
        # A unit that did not start would be worse than one without its proxy.
        drop_in["content"] = f"{_HEADER}[Service]\nEnvironmentFile=-{base}.env\n"
    return [{**file, "state": state, "service": name} for file in (variables, drop_in)]


class FilterModule:
    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"proxy_files": proxy_files}
