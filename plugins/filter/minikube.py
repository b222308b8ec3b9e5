# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Callable

from ..plugin_utils._docker import problems as docker
from ..plugin_utils._minikube import problems as minikube
from ..plugin_utils._minikube.settings import resolve_settings

DOCUMENTATION = r"""
name: minikube
short_description: Internal filters for minikube and Docker
extends_documentation_fragment: gpulab.kubernetes.internal
"""

minikube_settings = resolve_settings


def docker_problems(found: Mapping[str, Any], *settings: Any) -> list[str]:
    """Find what prevents the declared installation of Docker on a host."""
    return list(docker.problems(found, *settings))


def minikube_problems(settings: Mapping[str, Any], *found: Any) -> list[str]:
    """Find what prevents the declared setup of minikube on a host."""
    return list(minikube.problems(settings, *found))


class FilterModule:
    def filters(self) -> dict[str, Callable[..., Any]]:
        return {
            "docker_problems": docker_problems,
            "minikube_problems": minikube_problems,
            "minikube_settings": minikube_settings,
        }
