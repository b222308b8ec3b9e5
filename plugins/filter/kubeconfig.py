# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Callable

import yaml

from ..module_utils._cluster import kubeconfig
from ..module_utils._kubeadm.kubeconfig import Kubeconfig, KubeconfigError


def safe_kubeconfig(
    text: str,
    context: str = "",
    addresses: Sequence[str] = (),
    tunnel_port: int = 0,
    control_planes: Mapping[str, str] | None = None,
    current: str = "",
    api_name: str = "",
) -> dict[str, Any]:
    """Build a kubeconfig from the fields of another one."""
    found: dict[str, Kubeconfig] = {}
    try:
        config = kubeconfig.read(str(text), str(context))
        if control_planes and api_name and (config.host, config.port) == (str(api_name), 6443):
            found = {str(name): kubeconfig.by_address(config, str(one)) for name, one in control_planes.items()}
            current = str(current) if str(current) in found else next(iter(found))
            config = found[current]
        else:
            config = kubeconfig.read(str(text), str(context), [str(address) for address in addresses if address])
    except KubeconfigError as error:
        # Not an error: Ansible would wrap it in what it was doing, and no_log would hide it.
        problem = str(error).removeprefix("Error while reading a kubeconfig: ")
        return {"problem": problem, "content": "", "host": "", "port": 0}
    many = found and not tunnel_port
    whole = kubeconfig.build_contexts(found, current) if many else kubeconfig.build(config, int(tunnel_port))
    content = yaml.safe_dump(whole, sort_keys=False)
    return {"problem": "", "content": content, "host": config.host, "port": config.port}


class FilterModule:
    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"safe_kubeconfig": safe_kubeconfig}
