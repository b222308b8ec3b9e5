# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Configuration and environment of an agent."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.gpulab.kubernetes.plugins.filter.wandb import wandb_agent_plan

SETTINGS: dict[str, Any] = {
    "resource": "kubernetes",
    "place": "cluster",
    "name": "launch-agent",
    "host": "gpubox",
    "user": "wandb-launch-agent",
    "directory": "/etc/wandb-launch-agent",
    "socket": "/run/s",
    "chart": "",
    "image": "",
    "entity": "my-team",
    "max_jobs": -1,
    "config": {},
    "env": {},
    "base_url": "https://api.wandb.ai",
    "http_proxy": "",
    "https_proxy": "",
    "no_proxy": [".svc", "10.0.0.0/8"],
    "ca_bundle": "",
}
NODE = {
    "metadata": {"name": "gpubox"},
    "status": {
        "addresses": [{"address": "192.0.2.10"}],
        "nodeInfo": {"containerRuntimeVersion": "containerd://2.1"},
    },
}
FOUND: dict[str, Any] = {
    "image_state": "found",
    "accounts": [],
    "nodes": [NODE],
    "slices": [{"ports": [{"name": "https", "port": 8443}], "endpoints": [{"addresses": ["192.168.49.2"]}]}],
    "host": {"name": "gpubox", "addresses": ["192.0.2.10"], "version": "29.8.2", "plugins": ["buildx"]},
}
DOCKER = {"resource": "local-container"}
HOST = {"place": "host"}


@pytest.mark.parametrize(
    ("settings", "wanted"),
    [
        ({}, {"max_jobs": -1}),
        (HOST, {"max_jobs": -1, "builder": {"type": "docker"}}),
        ({**HOST, "config": {"builder": {"type": "noop"}}}, {"max_jobs": -1, "builder": {"type": "noop"}}),
        (DOCKER, {"max_jobs": 1, "builder": {"type": "noop"}}),
        ({**DOCKER, "max_jobs": "2"}, {"max_jobs": 2, "builder": {"type": "noop"}}),
        ({"config": {"max_jobs": 3, "entity": "x", "verbosity": 1}}, {"max_jobs": 3, "verbosity": 1}),
        ({"config": {"max_jobs": 3}, "max_jobs": 0}, {"max_jobs": 0}),
    ],
)
def test_agent_is_configured_for_its_place(settings: Any, wanted: Any) -> None:
    found = wandb_agent_plan({**SETTINGS, **settings}, [{"name": "gpu"}, {"name": "cpu"}], FOUND)
    assert found["config"] == {**wanted, "entity": "my-team", "queues": ["gpu", "cpu"]}


def test_plan_for_docker_queues_needs_no_cluster_settings() -> None:
    of_cluster = ("place", "host", "user", "chart", "image", "socket")
    settings = {name: value for name, value in SETTINGS.items() if name not in of_cluster}
    found = wandb_agent_plan({**settings, **DOCKER}, [], {})
    assert (found["problems"], found["socket_state"]) == ([], "absent")


URL = {"WANDB_BASE_URL": "https://api.wandb.ai"}
PROXY = "http://proxy.example.org:3128"
RELEASE = {"WANDB_RELEASE_NAME": "launch-agent"}
CA = ("REQUESTS_CA_BUNDLE", "SSL_CERT_FILE", "GIT_SSL_CAINFO")


def both(**values: str) -> dict[str, str]:
    return {**values, **{name.upper(): value for name, value in values.items()}}


@pytest.mark.parametrize(
    ("settings", "wanted"),
    [
        (DOCKER, {}),
        ({**DOCKER, "env": {"A": 1, "WANDB_BASE_URL": "x"}}, {"A": "1"}),
        ({}, RELEASE),
        (HOST, {**RELEASE, "LAUNCH_AGENT_LOAD_IMAGES": "/run/s"}),
        ({**DOCKER, "http_proxy": PROXY}, both(http_proxy=PROXY, no_proxy=".svc,10.0.0.0/8")),
        (
            {"https_proxy": PROXY},
            {**both(https_proxy=PROXY, no_proxy=".svc,10.0.0.0/8,$(KUBERNETES_SERVICE_HOST)"), **RELEASE},
        ),
        (
            {**HOST, "https_proxy": PROXY, "env": {"https_proxy": "http://other:1"}},
            {
                **both(https_proxy=PROXY, no_proxy=".svc,10.0.0.0/8,192.168.49.2"),
                "https_proxy": "http://other:1",
                "LAUNCH_AGENT_LOAD_IMAGES": "/run/s",
                **RELEASE,
            },
        ),
        ({**DOCKER, "ca_bundle": "ca.pem"}, dict.fromkeys(CA, "/etc/wandb-launch-agent/ca.crt")),
        ({"ca_bundle": "ca.pem"}, {**dict.fromkeys(CA, "/etc/wandb-ca/ca.crt"), **RELEASE}),
        (
            {**HOST, "ca_bundle": "ca.pem", "config": {"builder": {"type": "noop"}}},
            {**dict.fromkeys(CA, "/etc/wandb-launch-agent/ca.crt"), **RELEASE},
        ),
    ],
)
def test_environment_has_server_proxy_and_certificate_authorities(settings: Any, wanted: Any) -> None:
    assert wandb_agent_plan({**SETTINGS, **settings}, [], FOUND)["environment"] == {**wanted, **URL}
