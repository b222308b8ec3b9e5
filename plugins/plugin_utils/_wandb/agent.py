# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The configuration of an agent and its environment, from the settings. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

from ...module_utils._wandb.queue import CA_VARIABLES

# Kubernetes puts the address of its API there, in a pod.
_API = "$(KUBERNETES_SERVICE_HOST)"


def config(settings: Mapping[str, Any], queues: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """``settings`` are resource (of the queues), place, max_jobs, entity and config, which are W&B's own keys."""
    on_docker = settings["resource"] == "local-container"
    found: dict[str, Any] = {"max_jobs": 1 if on_docker else -1}
    # Where the agent finds a Docker it would build images.
    if on_docker or settings["place"] == "host":
        found["builder"] = {"type": "noop" if on_docker else "docker"}
    found |= {**settings["config"], "entity": settings["entity"], "queues": [queue["name"] for queue in queues]}
    if int(settings["max_jobs"]) >= 0:
        found["max_jobs"] = int(settings["max_jobs"])
    return found


def environment(settings: Mapping[str, Any]) -> dict[str, str]:
    """Everything but the key, in the order in which it is set.

    ``settings`` are base_url, env, http_proxy, https_proxy, no_proxy (a list), ca_bundle (empty for none) and ca (where
    the agent finds it); for queues of Kubernetes also release, load and kubeconfig (its text, or empty in a pod).
    """
    proxies = {name: settings[name] for name in ("http_proxy", "https_proxy") if settings[name]}
    if proxies:
        proxies["no_proxy"] = ",".join(dict.fromkeys([*settings["no_proxy"], *_api(settings)]))
    found = {**proxies, **{name.upper(): value for name, value in proxies.items()}}
    if settings["ca_bundle"]:
        found |= dict.fromkeys(CA_VARIABLES, settings["ca"])
    for name, key in (("WANDB_RELEASE_NAME", "release"), ("LAUNCH_AGENT_LOAD_IMAGES", "load")):
        if settings.get(key):
            found[name] = settings[key]
    return {
        **found,
        **{name: str(value) for name, value in settings["env"].items()},
        "WANDB_BASE_URL": settings["base_url"],
    }


def _api(settings: Mapping[str, Any]) -> list[str]:
    if "kubeconfig" not in settings:
        return []
    if not settings["kubeconfig"]:
        return [_API]
    (cluster,) = json.loads(settings["kubeconfig"])["clusters"]
    return [str(urlsplit(cluster["cluster"]["server"]).hostname)]
