# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Pull the images of a control plane."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from .._kubeadm.images import KubeadmImages


def ensure(module: Any) -> dict[str, Any]:
    params = module.params
    images = KubeadmImages(module, params["executable"], params["timeout"], params["root"])
    outcome = images.apply(params["config"] or "", params["images"] or ())
    return asdict(outcome)


SPECIFICATION: dict[str, Any] = {
    "argument_spec": {
        "config": {"type": "str", "no_log": True},
        "images": {"type": "list", "elements": "str"},
        "timeout": {"type": "int", "default": 900},
        "executable": {"type": "str", "default": "kubeadm"},
        "root": {"type": "path", "default": "/"},
    },
    "required_one_of": [("config", "images")],
    "mutually_exclusive": [("config", "images")],
    "supports_check_mode": True,
}
