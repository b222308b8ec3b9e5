# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Callable

import yaml

from ..module_utils._cluster import kubeconfig
from ..module_utils._kubeadm.kubeconfig import KubeconfigError


def safe_kubeconfig(
    text: str, context: str = "", addresses: Sequence[str] = (), tunnel_port: int = 0
) -> dict[str, Any]:
    """Build a kubeconfig from the fields of another one."""
    try:
        config = kubeconfig.read(str(text), str(context), [str(address) for address in addresses if address])
    except KubeconfigError as error:
        # Not an error: Ansible would wrap it in what it was doing, and no_log would hide it.
        problem = str(error).removeprefix("Error while reading a kubeconfig: ")
        return {"problem": problem, "content": "", "host": "", "port": 0}
    content = yaml.safe_dump(kubeconfig.build(config, int(tunnel_port)), sort_keys=False)
    return {"problem": "", "content": content, "host": config.host, "port": config.port}


class FilterModule:
    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"safe_kubeconfig": safe_kubeconfig}
