# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Build the configuration of an agent and its environment from the settings. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ...module_utils._wandb.queue import AUTHORITIES, CA_VARIABLES

# In a pod, Kubernetes sets this variable to the address of its API.
_API = "$(KUBERNETES_SERVICE_HOST)"


def config(settings: Mapping[str, Any], queues: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return W&B's configuration of the agent. ``settings`` are those of the filter wandb_agent_plan."""
    on_docker = settings["resource"] == "local-container"
    found: dict[str, Any] = {"max_jobs": 1 if on_docker else -1}
    # By default, the agent builds images if it finds a Docker.
    if on_docker or settings["place"] == "host":
        found["builder"] = {"type": "noop" if on_docker else "docker"}
    found |= {**settings["config"], "entity": settings["entity"], "queues": [queue["name"] for queue in queues]}
    if int(settings["max_jobs"]) >= 0:
        found["max_jobs"] = int(settings["max_jobs"])
    return found


def environment(settings: Mapping[str, Any], load: str, api: str) -> dict[str, str]:
    """Return all variables other than the key in the order in which they are set.

    ``load`` is how images get into the cluster, ``api`` the address of the API, each empty if there is none. A pod
    already has the API's address.
    """
    of_cluster = settings["resource"] == "kubernetes"
    in_pod = of_cluster and settings["place"] == "cluster"
    proxies = {name: settings[name] for name in ("http_proxy", "https_proxy") if settings[name]}
    if proxies:
        own = _API if in_pod else api
        proxies["no_proxy"] = ",".join(dict.fromkeys([*settings["no_proxy"], *([own] if own else [])]))
    found = {**proxies, **{name.upper(): value for name, value in proxies.items()}}
    if settings["ca_bundle"]:
        found |= dict.fromkeys(CA_VARIABLES, f"{AUTHORITIES if in_pod else settings['directory']}/ca.crt")
    if of_cluster:
        found["WANDB_RELEASE_NAME"] = settings["name"]
    if load:
        found["LAUNCH_AGENT_LOAD_IMAGES"] = load
    return {
        **found,
        **{name: str(value) for name, value in settings["env"].items()},
        "WANDB_BASE_URL": settings["base_url"],
    }
