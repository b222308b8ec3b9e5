# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Callable

from ..module_utils._wandb.queue import declared
from ..plugin_utils._wandb import agent, place
from ..plugin_utils._wandb.problems import Cluster, DockerHost, problems

DOCUMENTATION = r"""
name: wandb
short_description: Internal filters for W&B Launch
extends_documentation_fragment: gpulab.kubernetes.internal
"""


def wandb_agent_kubeconfig(
    secrets: Sequence[Mapping[str, Any]], slices: Sequence[Mapping[str, Any]], namespace: str
) -> str:
    """Create the kubeconfig of a ServiceAccount."""
    return place.kubeconfig(next(iter(secrets), {}), slices, namespace)


def wandb_agent_plan(
    settings: Mapping[str, Any], queues: Sequence[Mapping[str, Any]], found: Mapping[str, Any]
) -> dict[str, Any]:
    """Plan the configuration and the place of a W&B Launch agent."""
    config = agent.config(settings, queues)
    decision, api = place.Decision(), ""
    if settings["resource"] == "kubernetes":
        decision = place.plan_place(settings, config.get("builder") or {}, found)
        api = place.server_name(found["slices"])
    return {
        "config": config,
        "environment": agent.environment(settings, decision.load, api),
        "problems": list(decision.problems),
        "socket_state": "present" if decision.load and decision.load == settings["socket"] else "absent",
    }


def wandb_launch_problems(
    queues: Sequence[Mapping[str, Any]],
    absent: Sequence[str],
    own_namespace: str,
    nodes: Sequence[Mapping[str, Any]] | None = None,
    namespaces: Sequence[Mapping[str, Any]] = (),
    claims: Sequence[Mapping[str, Any]] = (),
    docker: Mapping[str, Any] | None = None,
) -> list[str]:
    """Find what prevents W&B Launch queues from working as declared."""
    cluster = None if nodes is None else Cluster(nodes, namespaces, claims)
    return list(problems(queues, absent, cluster, own_namespace, DockerHost(**docker) if docker else None))


def wandb_queues(
    queues: Sequence[Mapping[str, Any]],
    namespace: str,
    tolerations: Sequence[Mapping[str, Any]],
    env: Mapping[str, Any] | None = None,
    authorities: str = "",
) -> list[dict[str, Any]]:
    """Convert declared W&B Launch queues to arguments of the module wandb_queue."""
    defaults: dict[str, Any] = {"namespace": namespace, "tolerations": list(tolerations)}
    defaults |= {"environment": dict(env or {}), "authorities": authorities}
    return [declared(queue, defaults) for queue in queues]


class FilterModule:
    def filters(self) -> dict[str, Callable[..., Any]]:
        return {
            "wandb_agent_kubeconfig": wandb_agent_kubeconfig,
            "wandb_agent_plan": wandb_agent_plan,
            "wandb_launch_problems": wandb_launch_problems,
            "wandb_queues": wandb_queues,
        }
