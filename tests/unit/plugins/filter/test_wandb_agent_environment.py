# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The configuration of an agent, and its environment."""

from __future__ import annotations

import json
from typing import Any

import pytest
from ansible_collections.gpulab.kubernetes.plugins.filter.wandb_agent_config import wandb_agent_config
from ansible_collections.gpulab.kubernetes.plugins.filter.wandb_agent_environment import wandb_agent_environment

SETTINGS: dict[str, Any] = {
    "resource": "kubernetes",
    "place": "cluster",
    "entity": "my-team",
    "max_jobs": -1,
    "config": {},
}


@pytest.mark.parametrize(
    ("settings", "wanted"),
    [
        ({}, {"max_jobs": -1}),
        ({"place": "host"}, {"max_jobs": -1, "builder": {"type": "docker"}}),
        ({"place": "host", "config": {"builder": {"type": "noop"}}}, {"max_jobs": -1, "builder": {"type": "noop"}}),
        ({"resource": "local-container"}, {"max_jobs": 1, "builder": {"type": "noop"}}),
        ({"resource": "local-container", "max_jobs": "2"}, {"max_jobs": 2, "builder": {"type": "noop"}}),
        ({"config": {"max_jobs": 3, "entity": "x", "verbosity": 1}}, {"max_jobs": 3, "verbosity": 1}),
        ({"config": {"max_jobs": 3}, "max_jobs": 0}, {"max_jobs": 0}),
    ],
)
def test_an_agent_is_configured_for_its_place(settings: Any, wanted: Any) -> None:
    found = wandb_agent_config({**SETTINGS, **settings}, [{"name": "gpu"}, {"name": "cpu"}])
    assert found == {**wanted, "entity": "my-team", "queues": ["gpu", "cpu"]}


PLAIN: dict[str, Any] = {"base_url": "https://api.wandb.ai", "env": {}, "http_proxy": "", "https_proxy": ""}
PLAIN |= {"no_proxy": [".svc", "10.0.0.0/8"], "ca_bundle": "", "ca": "/ca.crt"}
URL = {"WANDB_BASE_URL": "https://api.wandb.ai"}
PROXY = "http://proxy.example.org:3128"
SERVER = json.dumps({"clusters": [{"cluster": {"server": "https://192.168.49.2:8443"}}]})
POD = {"release": "launch-agent", "load": "", "kubeconfig": ""}


def both(**values: str) -> dict[str, str]:
    return {**values, **{name.upper(): value for name, value in values.items()}}


@pytest.mark.parametrize(
    ("settings", "access", "wanted"),
    [
        ({}, {}, {}),
        ({"env": {"A": 1, "WANDB_BASE_URL": "x"}}, {}, {"A": "1"}),
        ({}, POD, {"WANDB_RELEASE_NAME": "launch-agent"}),
        ({}, {**POD, "load": "/run/s"}, {"WANDB_RELEASE_NAME": "launch-agent", "LAUNCH_AGENT_LOAD_IMAGES": "/run/s"}),
        ({"http_proxy": PROXY}, {}, both(http_proxy=PROXY, no_proxy=".svc,10.0.0.0/8")),
        (
            {"https_proxy": PROXY},
            {**POD, "release": ""},
            both(https_proxy=PROXY, no_proxy=".svc,10.0.0.0/8,$(KUBERNETES_SERVICE_HOST)"),
        ),
        (
            {"https_proxy": PROXY, "env": {"https_proxy": "http://other:1"}},
            {"kubeconfig": SERVER},
            {**both(https_proxy=PROXY, no_proxy=".svc,10.0.0.0/8,192.168.49.2"), "https_proxy": "http://other:1"},
        ),
        (
            {"ca_bundle": "ca.pem"},
            {},
            dict.fromkeys(("REQUESTS_CA_BUNDLE", "SSL_CERT_FILE", "GIT_SSL_CAINFO"), "/ca.crt"),
        ),
    ],
)
def test_the_environment_has_server_proxy_and_authorities(settings: Any, access: Any, wanted: Any) -> None:
    assert wandb_agent_environment({**PLAIN, **settings}, access) == {**wanted, **URL}
