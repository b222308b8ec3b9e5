# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from typing import Any

import pytest
from ansible.errors import AnsibleFilterError
from ansible_collections.gpulab.kubernetes.plugins.filter.variable_problems import FilterModule

find = FilterModule().filters()["variable_problems"]

GOOD: dict[str, Any] = {
    "cluster_kubernetes_version": "1.36.4",
    "cluster_expected_gpus": "4",
    "cluster_http_proxy": "",
    "cluster_https_proxy": "http://user:secret@proxy.example.org:3128",
    "cluster_no_proxy": [".example.org", "192.0.2.0/24"],
    "cluster_api_endpoint": "[2001:db8::1]:6443",
    "cluster_dns_domain": "cluster.local",
    "kubeadm_repository_url": "file:///srv/debs",
    "nvidia_driver_reboot": "true",
    "containerd_registry_mirrors": [{"registry": "docker.io", "endpoint": "http://r:5000", "override_path": True}],
    # Names of others.
    "ansible_host": "192.0.2.1",
    "cluster_name": "prod",
    "containerd_config": {},
}


def test_good_variables_have_no_problems() -> None:
    assert find({"cp1": GOOD}, ["cp1"]) == []


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("cluster_expected_gpus", "four", "converted to an int"),
        ("cluster_expected_gpus", -1, "negative: -1"),
        ("flannel_timeout", "-5", "negative: -5"),
        ("cluster_disruption_policy", "maybe", "must be one of: refuse, drain, ignore, got: maybe"),
        ("nvidia_driver_source", "cuda", "must be one of: cuda_repository, distribution, preinstalled, operator"),
        ("nvidia_driver_reboot", "maybe", "not a valid boolean"),
        ("cluster_no_proxy", ".a,.b", "cluster_no_proxy is no list: '.a,.b'"),
        ("host_sysctls", "vm.max_map_count=1", "host_sysctls is no mapping"),
        ("cluster_pod_network", ["10.0.0.0/8"], "cluster_pod_network is no text"),
        ("cluster_kubeconfig", None, "cluster_kubeconfig is empty (null)"),
        ("cluster_http_proxy", "proxy:3128", "must be a URL, such as http://proxy.example.org:3128, not 'proxy:3128'"),
        ("containerd_repository_url", "mirror.example.org/docker", "must be a URL"),
        ("cluster_api_endpoint", "https://api:6443", "must be host:port"),
        ("cluster_dns_domain", "Cluster_Local", "must be a DNS domain"),
        ("containerd_registry_mirrors", [{"registry": "docker.io"}], "missing required arguments: endpoint"),
        (
            "containerd_registry_mirrors",
            [{"registry": "a", "endpoint": "http://b", "mirror": 1}],
            "unknown key containerd_registry_mirrors.mirror",
        ),
        ("nvidia_device_plugin_sharing", {"mode": "mps"}, "nvidia_device_plugin_sharing: replicas is not set"),
        ("cluster_pod_netwrok", "10.0.0.0/8", "There is no variable cluster_pod_netwrok"),
    ],
)
def test_wrong_variable_is_named_once_with_what_to_do(name: str, value: Any, words: str) -> None:
    problems = find({"gpu1": {**GOOD, name: value}}, ["gpu1"])
    assert [(problem["host"], problem["where"]) for problem in problems] == [("gpu1", name)]
    assert words in problems[0]["what"]
    assert all(problems[0].values())


def test_password_of_a_proxy_is_not_shown() -> None:
    problems = find({"gpu1": {"cluster_http_proxy": "user:secret@proxy:3128"}}, ["gpu1"])
    assert len(problems) == 1 and "secret" not in str(problems)


def test_only_the_hosts_that_are_asked_for_are_looked_at() -> None:
    hostvars = {"cp1": {}, "other": {"flannel_timeout": "x"}}
    assert find(hostvars, ["cp1"]) == []
    with pytest.raises(AnsibleFilterError, match="there is no host gone"):
        find(hostvars, ["gone"])
