# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read a host's GPUs, the pods that use them, and the installed versions."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

from .._apt.key import ending_keys
from .._backup.info import backup_info
from .._containerd.files import config_files
from .._errors import DomainError
from .._files import deferred, moved_aside
from .._kubeadm.info import certs_info
from .._kubeadm.run import Kubeadm
from .._nvidia.gpu_state import gpu_state
from .._nvidia.installed import read
from .._nvidia.kernel_log import given_back
from .._nvidia.kubelet_devices import held, running_gpu_pods
from .._nvidia.pci import gpus, usable

_NVIDIA_SMI: dict[str, dict[str, Any]] = {
    "driver_root": {"type": "path", "default": "/"},
    "expected_gpus": {"type": "int", "default": 0},
    "xids_since": {"type": "str", "default": ""},
}


def ensure(module: Any) -> dict[str, Any]:
    params, top = module.params, module.params["root"]
    root = Path(top)
    pods = running_gpu_pods(root / "var/lib/kubelet", root / "proc", root / "var/log/pods")
    config, drop_ins = params["containerd_config"], params["containerd_drop_ins"]
    files = config_files(top, config, drop_ins) if config else []
    pci, settled = usable(gpus(top)[0], params["ignored_gpus"])[0], given_back(top)
    return {
        "pci": [{name: gpu[name] for name in ("address", "device_id")} for gpu in pci],
        "held": held(pods),
        "given_back": settled,
        "apt_keys": ending_keys(root / "etc/apt/keyrings", time.time()),
        "moved_aside": moved_aside(top),
        "deferred": deferred(top),
        "backup": backup_info(top),
        **read(top, params["packages"], os.uname().release),
        "containerd_files": files,
        "certificates": _certificates(module) if params["certificates"] else {},
        "nvidia_smi": _nvidia_smi(module, len(pci), settled),
    }


def _nvidia_smi(module: Any, pci: int, settled: str) -> dict[str, Any]:
    asked = module.params["nvidia_smi"]
    if not asked or not max(pci, asked["expected_gpus"]):
        return {}
    since = asked["xids_since"] or settled
    return gpu_state(
        module,
        ["gpus", "mig", "topology", "xids"],
        driver_root=asked["driver_root"],
        xids_since=since,
        ignored_gpus=module.params["ignored_gpus"],
        root=module.params["root"],
    )


def _certificates(module: Any) -> dict[str, Any]:
    try:
        return certs_info(Kubeadm(module, "kubeadm", 120), "/etc/kubernetes/admin.conf")
    except DomainError as error:
        return {"msg": str(error)}


SPECIFICATION: dict[str, Any] = {
    "argument_spec": {
        "packages": {"type": "list", "elements": "str", "default": ["nvidia-container-toolkit"]},
        "containerd_config": {"type": "path"},
        "containerd_drop_ins": {"type": "path", "default": "/etc/containerd/conf.d/*.toml"},
        "certificates": {"type": "bool", "default": False},
        "ignored_gpus": {"type": "list", "elements": "str", "default": []},
        "nvidia_smi": {"type": "dict", "options": _NVIDIA_SMI},
        "root": {"type": "path", "default": "/"},
    },
    "supports_check_mode": True,
}
