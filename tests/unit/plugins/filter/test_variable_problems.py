# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible.errors import AnsibleFilterError
from ansible_collections.gpulab.kubernetes.plugins.filter.variables import FilterModule
from ansible_collections.gpulab.kubernetes.plugins.plugin_utils._inventory import cluster, files
from ansible_collections.gpulab.kubernetes.plugins.plugin_utils._inventory.variables import VALUES, specification
from jinja2 import StrictUndefined

find = FilterModule().filters()["variable_problems"]

# Result of a template that refers to a fact.
UNKNOWN = StrictUndefined("ansible_facts")
REMOTES = "backup_places, backup_rclone_config"
RECIPIENT = {"backup_recipients": ["age1" + "x" * 58]}
GOOD: dict[str, Any] = {
    "cluster_kubernetes_version": "1.36.4",
    "cluster_expected_gpus": "4",
    "cluster_http_proxy": "",
    "cluster_https_proxy": "http://user:secret@proxy.example.org:3128",
    "cluster_no_proxy": [".example.org", "192.0.2.0/24"],
    "cluster_apt_credentials": [{"machine": "mirror.example.org/debs", "username": "ci", "password": "a:b@c#d"}],
    "containerd_registry_credentials": [{"registry": "mirror.example.org:5000", "username": "$t", "password": "a b"}],
    "cluster_api_endpoint": "192.0.2.1:6443",
    "cluster_dns_domain": "cluster.local",
    "kubeadm_repository_url": "file:///srv/debs",
    "containerd_repository_url": "https://mirror.example.org/~user@home/docker",
    "containerd_repository_key_fingerprints": ["9DC8 5822 9FC7 DD38 854A  E2D8 8D81 803C 0EBF CD88"],
    "nvidia_driver_repository_key_fingerprints": [],
    "nvidia_driver_reboot": "true",
    "wandb_launch_max_jobs": -1,
    "containerd_registry_mirrors": [{"registry": "docker.io", "endpoint": "http://r:5000/@", "override_path": True}],
    "kubeadm_kubelet_extra_args": {"v": 2, "eviction-hard": "memory.available<5%,nodefs.available<10%", "x": True},
    "minikube_options": ["--extra-config=kubelet.eviction-hard=memory.available<5%", '--a="b c"', "--b='$HOME'"],
    # Variables that belong to others.
    "ansible_host": "192.0.2.1",
    "gpulab_cluster_name": "prod",
    "containerd_config": {},
}


def test_good_variables_have_no_problems() -> None:
    assert find({"cp1": GOOD}, ["cp1"]) == []


@pytest.mark.parametrize(
    ("written", "value", "wrong"),
    [
        ("{{ ansible_facts['os_family'] }}", "Debian", True),
        ("{{ ansible_facts['os_family'] }}", "all", False),
        # Still undefined: it is only evaluated if a role of this host uses it.
        ("{{ ansible_facts['missing'] }}", UNKNOWN, False),
        # Not a template, so the check of the inventory has already reported it.
        ("Debian", "Debian", False),
    ],
)
def test_variables_with_facts_are_checked_when_the_facts_are_known(written: str, value: Any, wrong: bool) -> None:
    class Hosts(dict[str, Any]):
        def raw_get(self, host: str) -> dict[str, Any]:
            return {"nvidia_driver_profiling": written}

    found = FilterModule().filters()["fact_variable_problems"](Hosts(gpu1={"nvidia_driver_profiling": value}), ["gpu1"])
    assert [(each["host"], each["where"]) for each in found] == [("gpu1", "nvidia_driver_profiling")] * wrong


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("cluster_expected_gpus", "four", "converted to an int"),
        ("cluster_expected_gpus", -1, "negative: -1"),
        ("flannel_timeout", "-5", "negative: -5"),
        ("wandb_launch_max_jobs", -2, "negative: -2"),
        ("cluster_lease_duration", "1e3", "cluster_lease_duration is not a whole number in digits: '1e3'"),
        (
            "cluster_disruption_policy",
            "maybe",
            "cluster_disruption_policy must be one of: refuse, drain, wait, signal, defer, ignore, got: maybe",
        ),
        (
            "nvidia_driver_source",
            "cuda",
            "nvidia_driver_source must be one of: cuda_repository, distribution, preinstalled, operator",
        ),
        ("nvidia_driver_reboot", "maybe", "not a valid boolean"),
        ("cluster_no_proxy", ".a,.b", "cluster_no_proxy is not a list: '.a,.b'"),
        ("host_sysctls", "vm.max_map_count=1", "host_sysctls is not a mapping"),
        ("cluster_pod_network", ["10.0.0.0/8"], "cluster_pod_network is not a string"),
        ("cluster_kubeconfig", None, "cluster_kubeconfig is empty (null)"),
        ("cluster_http_proxy", "proxy:3128", "must be a URL, such as http://proxy.example.org:3128, not 'proxy:3128'"),
        ("containerd_repository_url", "mirror.example.org/docker", "must be a URL"),
        ("kubeadm_repository_url", "https://ci:s3cret@mirror.example.org/k8s", "without a user or a password"),
        (
            "kubeadm_repository_url",
            "https://token@mirror.example.org",
            "(cluster_apt_credentials takes them), such as https://mirror.example.org",
        ),
        (
            "kubeadm_repository_key_fingerprints",
            ["9DC85822"],
            "'9DC85822' is not a fingerprint",
        ),
        ("cluster_api_endpoint", "https://api:6443", "must be host:port"),
        ("cluster_dns_domain", "Cluster_Local", "must be a DNS domain"),
        ("containerd_registry_mirrors", [{"registry": "docker.io"}], "missing required arguments: endpoint"),
        (
            "containerd_registry_mirrors",
            [{"registry": "a", "endpoint": "http://b", "mirror": 1}],
            "unknown key containerd_registry_mirrors.mirror",
        ),
        (
            "containerd_registry_mirrors",
            [{"registry": "../../cron.d", "endpoint": "http://m"}],
            "containerd_registry_mirrors: the registry of entry 1 must be a host with or without a port",
        ),
        (
            "containerd_registry_mirrors",
            [{"registry": "nvcr.io", "endpoint": "http://[::1"}],
            "containerd_registry_mirrors: the endpoint of entry 1 must be a URL",
        ),
        ("kubeadm_kubelet_extra_args", {"--v": 2}, "'--v' is not the name of an argument"),
        ("kubeadm_kubelet_extra_args", {"v=2 --x": "a"}, "'v=2 --x' is not the name of an argument"),
        *(
            (
                "kubeadm_kubelet_extra_args",
                {"node-labels": value},
                "the value of node-labels must be a text or a number",
            )
            for value in ('a="b"', "a'b", "a b", "a\nB=c", "a\\", "$HOME", "`id`", None, ["a"], "\x85")
        ),
        *(
            ("minikube_options", ["--a", value], "is empty or contains a character that can't be printed")
            for value in ("", "--a\nExecStartPre=/x", "--a\x00", "--a\u2028")
        ),
        ("cluster_gpu_sharing", {"mode": "mps"}, "cluster_gpu_sharing: replicas is not set"),
        # By its old name.
        ("nvidia_device_plugin_sharing", {"mode": "mps"}, "nvidia_device_plugin_sharing: replicas is not set"),
        ("cluster_pod_netwrok", "10.0.0.0/8", "There is no variable cluster_pod_netwrok"),
        (
            "cluster_node_pool",
            "a b",
            "cluster_node_pool: the label gpulab.io/pool has a value that Kubernetes does not",
        ),
        ("cluster_node_pool", 100, "the value of the label gpulab.io/pool is not a string: 100; put it in quotes"),
        ("cluster_image_digests", {"a:1": "1" * 64}, "is not a digest of a:1; write sha256:"),
        ("cluster_node_labels", {"a b": "x"}, "has a key that Kubernetes does not accept"),
        ("cluster_node_labels", {"a": "x" * 64}, "has a value that Kubernetes does not accept"),
        ("cluster_node_labels", {"nvidia.com/gpu.count": "9"}, "Kubernetes or feature discovery itself"),
        ("cluster_node_labels", {"a": True}, "the value of the label a is not a string: True; put it in quotes"),
        ("cluster_node_labels", {"a": None}, "the value of the label a is not a string: None"),
        ("cluster_node_labels", {"a": 1.5}, "the value of the label a is not a string: 1.5"),
        ("cluster_node_labels", {1: "a"}, "the key of the label 1 is not a string: 1"),
        ("cluster_node_taints", [{"key": "a b"}], "the taint a b= is not valid in Kubernetes"),
        ("cluster_node_taints", [{"key": "node.kubernetes.io/not-ready"}], "is set by Kubernetes itself"),
        ("cluster_node_taints", [{"key": "a", "effect": "NoExecute"}], "must be one of: NoSchedule, PreferNoSchedule"),
        ("cluster_node_taints", [{"key": "a", "value": True}], "the value of the taint a is not a string: True"),
        ("cluster_node_taints", [{"key": "a", "value": None}], "the value of the taint a is not a string: None"),
        ("cluster_node_taints", [{"key": 1}], "the key of the taint 1 is not a string: 1"),
        ("cluster_node_taints", [{"value": "a"}], "missing required arguments: key"),
        (
            "cluster_node_taints",
            [{"key": "a", "value": "x"}, {"key": "a", "effect": "NoSchedule"}],
            "the taint a:NoSchedule occurs twice",
        ),
        ("cluster_node_taints", [None], "cluster_node_taints has an entry that is not a mapping: [None]"),
        ("cluster_node_taints", ["a=b:NoSchedule"], "has an entry that is not a mapping: ['a=b:NoSchedule']"),
        ("cuda_toolkit_versions", ["12.9"], "'12.9' is not a release; write all three numbers, as in 12.9.1"),
        ("cuda_toolkit_versions", [12.9], "12.9 is not a string; write all three numbers, and put it in quotes"),
        (
            "cuda_toolkit_versions",
            ["12.9.1", "12.9.0"],
            "12.9.1 and 12.9.0 can't be installed side by side: both are CUDA 12.9",
        ),
        ("cuda_toolkit_default", 12.9, "12.9 is not a string; write all three numbers, and put it in quotes"),
        ("cuda_toolkit_default", "newest", "'newest' is not a release"),
        ("cuda_toolkit_default", "12.9.1", "cuda_toolkit_default is 12.9.1, which is not among cuda_toolkit_versions"),
        ("cuda_toolkit_remove", [12.10], "12.1 is not a string: a number loses trailing zeros"),
        ("cuda_toolkit_remove", ["12.9.1"], "'12.9.1' is not a minor version; write it as in 12.9"),
        (
            "nvidia_driver_upgrade_serial",
            "0",
            "must be a number of nodes, such as 2, or a percentage from 1% to 100%",
        ),
        ("nvidia_driver_upgrade_serial", "-1", "not '-1'"),
        ("kubeadm_timeouts", {"kubernetesAPICall": "300"}, "kubernetesAPICall must be a duration with a unit"),
        ("kubeadm_timeouts", {"tlsBootstrap": "five minutes"}, "not 'five minutes'"),
        ("kubeadm_timeouts", {"kubernetesApiCall": "5m"}, "kubernetesApiCall"),
        ("kubeadm_timeouts", {1: "5m"}, "kubeadm_timeouts has a key that is not a string: {1: '5m'}"),
        ("kubeadm_timeouts", {"discovery": "0h0m0.0s"}, "discovery is 0h0m0.0s, which leaves kubeadm no time"),
        ("kubeadm_timeout", "1e3", "kubeadm_timeout is not a whole number in digits: '1e3'"),
        ("kubeadm_timeout", "inf", "not a whole number in digits: 'inf'"),
        ("kubeadm_timeout", float("inf"), "not a whole number in digits: inf"),
        ("kubeadm_timeout", True, "not a whole number in digits: True"),
        ("preflight_timeout", 10**30, "is larger than 2147483647"),
        ("nvidia_driver_version", "Auto", "it must be auto, or a version such as 595.91.07, not 'Auto'"),
        ("nvidia_driver_version", "", "not ''"),
        ("nvidia_driver_version", 580, "not '580'"),
        ("kubeadm_resolv_conf", "etc/resolv.conf", "the absolute path of a file, such as /etc/resolv.conf, or empty"),
        ("report_junit", "gpulab.json", "a file that ends with .xml, or empty, not 'gpulab.json'"),
        ("report_metrics", "gpulab.prom", "the absolute path of a file that ends with .prom, or empty"),
        ("report_metrics", "/var/lib/prometheus", "not '/var/lib/prometheus'"),
        ("preflight_disk_mib", {"/usr": "2 GB"}, "/usr must have a whole number of MiB, such as 2000, not '2 GB'"),
        ("preflight_driver_disk_mib", {"/usr": -1}, "not -1"),
        ("preflight_driver_disk_mib", {"usr": 1}, "'usr' is not an absolute path"),
        ("cluster_api_delegate", "", "it is empty; set it to a host in the inventory"),
        ("nfs_cache_server", "nas:/srv", "it must be an address or a name, such as 192.0.2.10"),
        ("nfs_cache_path", "/srv/a b", "it must be an absolute path of letters"),
        ("nfs_cache_path", "/", "it must be an absolute path of letters"),
        ("nfs_cache_capacity", "100 GB", "it must be an amount with a unit, such as 100Gi, not '100 GB'"),
        ("nfs_cache_capacity", "0", "it must be an amount with a unit"),
        ("nfs_cache_namespace", "Team", "it must consist of at most 63 lower-case letters"),
        ("nfs_cache_claim", "-cache", "it must consist of at most 63 lower-case letters"),
        ("nfs_cache_mount_options", ["rw,exec"], "'rw,exec' is not an option of nfs"),
        ("nfs_cache_verify_mib", 0, "it must be 1 to 4096 MiB"),
        ("nfs_server_path", "srv", "it must be an absolute path of letters"),
        ("nfs_server_clients", ["*(rw)"], "'*(rw)' must be an address or a network"),
        ("nfs_server_insecure_clients", ["192.168.49.1/24"], "'192.168.49.1/24' must be an address or a network"),
        ("nfs_server_options", ["no_root_squash"], "set nfs_server_no_root_squash instead"),
        ("backup_directory", "backups", "it must be an absolute path of letters"),
        ("backup_keep_count", 0, "it must be more than 0, not 0"),
        ("backup_keep_days", 0, "it must be more than 0, not 0"),
        ("backup_places", ["sftp://ci:s3cret@nas/a"], "'sftp://********@nas/a' must be REMOTE:PATH"),
        ("backup_schedule", "every hour", "it must be a calendar event as systemd writes it"),
        ("backup_schedule", "", "it must be a calendar event"),
        ("backup_schedule", "*-*-* 03:00\nUnit=x", "it must be a calendar event"),
        ("backup_recipients", ["age1" + "x" * 58, "AGE-SECRET-KEY-1X"], "entry 2 must be a public key, age1... or"),
        ("local_path_directory", "/a/../b", "it must be an absolute path of letters"),
        ("local_path_class", "a_b", "it must consist of at most 63 lower-case letters"),
        ("dcgm_exporter_namespace", "a_b", "it must consist of at most 63 lower-case letters"),
        ("dcgm_exporter_interval", 0, "it must be 1 to 300 seconds, not 0"),
        ("gpu_benchmark_namespace", "a_b", "it must consist of at most 63 lower-case letters"),
        ("cluster_disruption_wait", 0, "it must be 1 to 86400 seconds, not 0"),
        ("cluster_disruption_wait", "30m", "cluster_disruption_wait is of type str and we were unable to"),
        ("gpu_benchmark_timeout", 89, "it must be 90 to 86400 seconds, not 89"),
        ("nvidia_driver_upgrade_serial", "101%", "not '101%'"),
        ("nvidia_driver_upgrade_serial", "0.5", "not '0.5'"),
        ("nvidia_driver_upgrade_serial", "", "not ''"),
        ("nvidia_driver_root", "opt/nvidia", "must be an absolute path without a slash at the end"),
        ("nvidia_driver_root", "/opt/nvidia/", "not '/opt/nvidia/'"),
        (
            "nvidia_driver_root",
            "/opt/nvidia",
            "nvidia_driver_root is /opt/nvidia, but nvidia_driver_source is cuda_rep",
        ),
    ],
)
def test_invalid_variable_is_named_once_with_its_remedy(name: str, value: Any, words: str) -> None:
    problems = find({"gpu1": {**GOOD, name: value}}, ["gpu1"])
    assert [(problem["host"], problem["where"]) for problem in problems] == [("gpu1", name)]
    assert words in problems[0]["what"]
    assert all(problems[0].values())
    assert len(re.findall(rf"\b{name}\b(?!\.)", problems[0]["what"])) == 1, problems[0]["what"]


@pytest.mark.parametrize(
    ("values", "where"),
    [
        ({"nvidia_driver_source": "daemonset"}, "nvidia_driver_installer_image"),
        ({"nvidia_driver_source": "daemonset", "nvidia_driver_installer_image": "i:1"}, ""),
        ({"nvidia_driver_source": "daemonset", "nvidia_driver_installer_image": UNKNOWN}, ""),
        ({"nvidia_driver_source": "operator"}, "nvidia_driver_source, cluster_gpu_manager"),
        ({"nvidia_driver_source": "operator", "cluster_gpu_manager": "gpu_operator"}, ""),
        ({"nvidia_driver_source": "distribution", "nvidia_driver_root": "/opt/a"}, "nvidia_driver_root"),
        ({"nvidia_driver_source": "preinstalled", "nvidia_driver_root": "/opt/a"}, ""),
        ({"nvidia_driver_root": "/"}, ""),
        (
            {"cuda_toolkit_versions": ["12.9.1", "13.0.2"], "cuda_toolkit_remove": ["12.9"]},
            "cuda_toolkit_versions, cuda_toolkit_remove",
        ),
        (
            {"cuda_toolkit_versions": ["12.9.1"], "cuda_toolkit_remove": ["12.8"], "cuda_toolkit_default": "12.9.1"},
            "",
        ),
        ({"cuda_toolkit_versions": ["12.9.1"], "cuda_toolkit_default": "12.9.0"}, "cuda_toolkit_default"),
        ({"cluster_node_pool": "a100", "cluster_node_labels": {"a/b": ""}}, ""),
        ({"nvidia_driver_upgrade_serial": 2}, ""),
        ({"cluster_api_tunnel": "yes"}, ""),
        ({"cluster_api_tunnel": True, "cluster_api_delegate": "cp1"}, "cluster_api_tunnel, cluster_api_delegate"),
        ({"kubeadm_timeouts": {"kubernetesAPICall": "1h30m", "discovery": "1.5m", "tlsBootstrap": "90s"}}, ""),
        ({"nvidia_driver_upgrade_serial": "100%"}, ""),
        ({"cluster_storage": ["nfs_cache"]}, "nfs_cache_server, nfs_cache_path"),
        ({"cluster_storage": ["nfs_cache"], "nfs_cache_server": "nas"}, "nfs_cache_path"),
        ({"cluster_storage": ["nfs_cache"], "nfs_cache_state": "absent"}, ""),
        ({"cluster_storage": ["nfs_cache"], "nfs_cache_server": "2001:db8::1", "nfs_cache_path": "/srv"}, ""),
        ({"cluster_storage": ["local_path"], "nfs_cache_mount_options": ["nfsvers=4.2", "soft", "sec=krb5"]}, ""),
        ({"nfs_server_clients": ["192.0.2.0/24", "*"]}, "nfs_server_clients"),
        ({"nfs_server_insecure_clients": ["::/0"]}, "nfs_server_insecure_clients"),
        ({"nfs_server_clients": ["192.0.2.0/24"], "nfs_server_insecure_clients": ["192.168.49.0/24"]}, ""),
        ({"nfs_server_clients": ["*"], "nfs_server_any_client": True}, ""),
        ({"nvidia_driver_version": "auto", "kubeadm_resolv_conf": "/etc/resolv.conf", "kubeadm_timeout": 5.0}, ""),
        (
            {
                "nvidia_driver_version": 580.126,
                "nvidia_driver_source": "preinstalled",
                "preflight_disk_mib": {"/usr": "10"},
            },
            "",
        ),
        ({"nvidia_driver_version": "580.178.04"}, ""),
        ({"nvidia_driver_version": "550.54.15", "nvidia_driver_source": "distribution"}, ""),
        ({"nvidia_driver_version": "550.54.15", "nvidia_driver_source": UNKNOWN}, ""),
        (
            {"kubeadm_shutdown_grace_period": 10},
            "kubeadm_shutdown_grace_period, kubeadm_shutdown_grace_period_critical_pods",
        ),
        ({"kubeadm_shutdown_grace_period": -1}, "kubeadm_shutdown_grace_period"),
        ({"kubeadm_shutdown_grace_period": 0}, ""),
        ({"backup_places": ["nas:gpulab"]}, "backup_places, backup_recipients"),
        ({"backup_places": ["nas:", "/mnt/a b"], "backup_recipients": ["ssh-ed25519 " + "A" * 68 + " me"]}, ""),
        ({"backup_places": ["nas:x", "/mnt"], **RECIPIENT, "backup_rclone_config": "[nas]\ntype = sftp\n"}, ""),
        ({"backup_places": ["nas:x"], **RECIPIENT, "backup_rclone_config": "[s3]\n"}, REMOTES),
        ({"backup_schedule": "Mon..Fri *-*-* 03:00:00 Europe/Berlin"}, ""),
        ({"backup_schedule": "*:0/15"}, ""),
        ({"backup_schedule": "weekly"}, ""),
        ({"backup_places": ["-nas"], "backup_recipients": ["age1" + "x" * 58]}, "backup_places"),
        ({"kubeadm_shutdown_grace_period": "20"}, ""),
    ],
)
def test_contradictory_values_are_one_problem(values: dict[str, Any], where: str) -> None:
    problems = find({"gpu1": values}, ["gpu1"])
    assert [(problem["host"], problem["where"]) for problem in problems] == ([("gpu1", where)] if where else [])
    assert all(value for problem in problems for value in problem.values())


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("kubeadm_repository_url", ["https://ci:s3cret@mirror.example.org"]),
        ("cluster_http_proxy", {"url": "http://ci:s3cret@proxy.example.org:3128"}),
        ("cluster_no_proxy", "http://ci:s3cret@proxy.example.org:3128"),
        ("cluster_image_digests", {"ci:s3cret@registry.example.org/a:1": ""}),
        ("host_sysctls", "http://ci:s3cret@proxy.example.org:3128"),
        ("cluster_node_taints", ["http://ci:s3cret@proxy.example.org:3128"]),
        ("cluster_api_tunnel", "http://ci:s3cret@proxy.example.org:3128"),
        ("kubeadm_timeout", "http://ci:s3cret@proxy.example.org:3128"),
        ("cluster_disruption_policy", "http://ci:s3cret@proxy.example.org:3128"),
        ("cluster_apt_credentials", ["machine m login ci password s3cret"]),
        ("cluster_apt_credentials", {"machine": "m", "username": "ci", "password": "s3cret"}),
        ("cluster_apt_credentials", "s3cret"),
        ("cluster_apt_credentials", [{"machine": "m", "username": "ci", "password": "s3cret", "pass": "x"}]),
        ("cluster_apt_credentials", [{"machine": "m", "username": "ci", "password": "s3cret two"}]),
        ("containerd_registry_credentials", [["nvcr.io", "ci", "s3cret"]]),
        ("containerd_registry_credentials", [{"registry": "https://nvcr.io", "username": "ci", "password": "s3cret"}]),
        ("containerd_registry_credentials", [{"registry": "nvcr.io", "username": "ci:s3cret", "password": "x"}]),
        ("containerd_registry_credentials", [{"registry": "nvcr.io", "username": "ci", "password": "s3cret"}] * 2),
        ("containerd_registry_mirrors", [{"registry": "nvcr.io", "endpoint": "https://ci:s3cret@mirror.example.org"}]),
    ],
)
def test_password_in_a_value_of_the_wrong_type_is_not_shown(name: str, value: Any) -> None:
    (problem,) = find({"gpu1": {name: value}}, ["gpu1"])
    assert problem["where"] == name
    assert "s3cret" not in str(problem)


TAINT = {"key": "nvidia.com/gpu", "value": "present"}


@pytest.mark.parametrize(
    ("hosts", "words"),
    [
        ({"cp1": {}, "gpu1": {"cluster_gpu_manager": "gpu_operator"}}, "device_plugin for cp1; gpu_operator for gpu1"),
        ({"cp1": {"cluster_gpu_manager": "device_plugin"}, "gpu1": {}}, ""),
        ({"cp1": {"cluster_node_taints": [TAINT]}, "gpu1": {"cluster_node_taints": [TAINT]}}, "Every node would have"),
        ({"cp1": {}, "gpu1": {"cluster_node_taints": [TAINT]}}, ""),
        (
            {
                "cp1": {"cluster_node_taints": [{**TAINT, "effect": "PreferNoSchedule"}]},
                "gpu1": {"cluster_node_taints": [TAINT]},
            },
            "",
        ),
        ({"cp1": {"cluster_node_taints": UNKNOWN}, "gpu1": {"cluster_node_taints": [TAINT]}}, ""),
    ],
)
def test_all_hosts_of_the_cluster_are_compared(hosts: dict[str, Any], words: str) -> None:
    problems = find(hosts, ["gpu1"], list(hosts))
    assert [problem["host"] for problem in problems] == ([""] if words else [])
    assert all(words in problem["what"] for problem in problems)


# The JUnit file requires its own extension.
ANY_NAME = [name for name in files.WRITTEN if name != "report_junit"]


def test_rules_refer_to_existing_variables() -> None:
    assert VALUES.keys() <= specification().keys()


KUBECONFIG = {"kind": "Config", "users": [{"name": "kubernetes-admin", "user": {}}]}


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        *((name, "", "it is empty") for name in ("report_file", "drift_report", "plan_report")),
        *(
            (name, "{}/folder", "/folder is a directory; name a file in it")
            for name in ANY_NAME
            if name != "report_metrics"
        ),
        *((name, "{}/text/x.prom", "/text is not a directory") for name in ANY_NAME),
        *((name, "{}/text/a/b/x.prom", "/text is not a directory") for name in ANY_NAME),
        *((name, "{}/closed/x.prom", "you may not write into ") for name in ANY_NAME),
        *((name, "{}/pipe.prom", "/pipe.prom is not a regular file") for name in ANY_NAME),
        *((name, "{}/new/x.json", "/new on the controller") for name in ("plan_report", "torch_ddp_summary")),
        ("report_file", "{}/new/", "/new is a directory"),
        ("acceptance_report", "{}/new/", "/new is a directory"),
        ("report_file", "{}/gpulab-report.html", "is the name of the page"),
        ("report_junit", "{}/text/x.xml", "/text is not a directory"),
        ("report_junit", "{}/closed/x.xml", "you may not write into "),
        *(("report_junit", value, "") for value in ("", "{}/new/x.xml", "junit.xml")),
        ("report_metrics", "{}/folder.prom", "/folder.prom is a directory"),
        ("cluster_kubeconfig", "{}/text", "/text exists, and is not a kubeconfig with the user kubernetes-admin only"),
        ("cluster_kubeconfig", "{}/bytes", "/bytes exists, and is not a kubeconfig"),
        ("cluster_kubeconfig", "{}/of-two.conf", "/of-two.conf exists, and is not a kubeconfig"),
        ("cluster_kubeconfig", "text", "/text exists, and is not a kubeconfig"),
        *((name, "{}/new/x.prom", "") for name in ("report_file", "report_metrics", "drift_report")),
        *((name, "{}/new/x.conf", "") for name in ("cluster_kubeconfig",)),
        *((name, "{}/text", "") for name in ("report_file", "plan_report", "torch_ddp_benchmark")),
        ("gpu_benchmark_report", "{}/text", ""),
        *((name, "", "") for name in ("cluster_kubeconfig", "torch_ddp_summary", "report_metrics")),
        ("cluster_kubeconfig", "{}/of-one.conf", ""),
        ("cluster_kubeconfig", "{}/empty", ""),
        ("cluster_kubeconfig", "mine.conf", ""),
        *((name, "~no-such-user/x.json", "") for name in ("report_file", "cluster_kubeconfig", "plan_report")),
        ("plan_report", "~/plan.json", ""),
    ],
)
def test_unwritable_file_on_the_controller_is_reported(
    name: str, value: str, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for folder in ("folder", "folder.prom", "closed"):
        (tmp_path / folder).mkdir()
    os.mkfifo(tmp_path / "pipe.prom")
    for file, text in (
        ("text", "notes"),
        ("empty", ""),
        ("of-one.conf", yaml.safe_dump(KUBECONFIG)),
        ("of-two.conf", yaml.safe_dump({**KUBECONFIG, "users": [{"name": "kubernetes-admin"}, {"name": "ada"}]})),
    ):
        (tmp_path / file).write_text(text)
    (tmp_path / "bytes").write_bytes(b"\xff\xfe")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    # The tests may run as root, who may write everywhere.
    monkeypatch.setattr(os, "access", lambda path, _mode: path != tmp_path / "closed")
    found = [problem["what"] for problem in find({"cp1": {name: value.format(tmp_path)}}, ["cp1"])]
    assert len(found) == bool(words)
    assert all(text.startswith(f"{name}: ") and words in text for text in found), found


@pytest.mark.parametrize(
    ("path", "wrong"),
    [
        ("prod/gpulab-report.json", True),
        ("prod/rack/report.json", True),
        ("prod/group_vars/report.json", True),
        ("prod/.reports/report.json", False),
        ("prod/report.json.bak", False),
        ("prod-gpulab-report.json", False),
        ("other/gpulab-report.json", False),
    ],
)
def test_output_file_in_an_inventory_directory_is_refused(path: str, wrong: bool, tmp_path: Path) -> None:
    (tmp_path / "prod").mkdir()
    sources = {"ansible_inventory_sources": [str(tmp_path / "prod"), str(tmp_path / "other/hosts.ini"), "box,"]}
    # The second is an old name.
    for name in ("report_file", "acceptance_report"):
        found = find({"cp1": {name: str(tmp_path / path), **sources}}, ["cp1"])
        assert [(problem["kind"], problem["where"]) for problem in found] == [
            ("file_in_inventory_directory", name)
        ] * wrong, found


MEANT = "Copy the inventory into your own directory, or set cluster_report_prefix, such as ~/gpulab-, and cluster_kube"


@pytest.mark.parametrize(
    ("variables", "what", "do"),
    [
        ({}, "You may not write into {}/closed on the controller", MEANT),
        ({"report_file": "/tmp/x.json"}, "", ""),
        ({"acceptance_report": "/tmp/x.json"}, "", ""),
        ({"cluster_report_prefix": "{}/open/x-"}, "", ""),
        ({"cluster_report_prefix": "{}/new/x-"}, "", ""),
        (
            {"cluster_report_prefix": "{}/closed/x-"},
            "You may not write into {}/closed on the controller",
            "Name a file in",
        ),
        (
            {"cluster_report_prefix": "{}/file/x-"},
            "{}/file is not a directory",
            "Name another one with cluster_report_",
        ),
        ({"report_file": "{}/closed/x.json"}, "report_file: you may not write into", "Correct the value"),
        (
            {"report_file": "{}/closed/new/x.json"},
            "report_file: you may not write into",
            "Correct the value",
        ),
        ({"report_file": "closed/x.json"}, "report_file: you may not write into", "Correct the value"),
        ({"report_file": UNKNOWN}, "", ""),
        ({"inventory_dir": "{}/open"}, "", ""),
        ({"inventory_dir": None, "playbook_dir": "{}/open"}, "", ""),
        ({"inventory_dir": "{}/taken"}, "{}/taken/gpulab-report.json is a directory", "Name a file in it with"),
        (
            {"inventory_dir": "{}/open", "ansible_inventory_sources": ["{}/taken/my.ini"]},
            "{}/taken/my-admin.conf is a",
            "",
        ),
    ],
)
def test_unwritable_default_paths_are_one_error(
    variables: dict[str, Any], what: str, do: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for folder in ("closed", "open", "taken/gpulab-report.json", "taken/my-admin.conf"):
        (tmp_path / folder).mkdir(parents=True)
    for file in ("file", "closed/my.ini", "taken/my.ini"):
        (tmp_path / file).write_text("")
    monkeypatch.chdir(tmp_path)
    # The tests may run as root, who may write everywhere.
    monkeypatch.setattr(os, "access", lambda path, _mode: Path(path) != tmp_path / "closed")
    places = {"inventory_dir": "{}/closed", "ansible_inventory_sources": ["{}/closed/my.ini"]}
    hosts = {"cp1": filled({**places, **variables}, str(tmp_path)), "gpu1": {}}
    groups = {"control_plane": ["cp1"], "workers": ["gpu1"]}
    found = find(hosts, list(hosts), list(hosts), groups)
    assert [what.format(tmp_path) in problem["what"] and do in problem["do"] for problem in found] == [True] * bool(
        what
    )
    elsewhere = ["report_file", "cluster_kubeconfig"]
    found_again = find(hosts, list(hosts), list(hosts), groups, elsewhere)
    assert [problem for problem in found_again if problem["kind"] == "file_not_writable"] == []
    assert find(hosts, list(hosts)) == [problem for problem in found if problem["kind"] == "variable_wrong"]


def filled(value: Any, place: str) -> Any:
    """Return the value with ``place`` inserted into all of its strings."""
    if isinstance(value, dict):
        return {key: filled(entry, place) for key, entry in value.items()}
    if isinstance(value, list):
        return [filled(entry, place) for entry in value]
    return value.format(place) if isinstance(value, str) else value


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("closed/x.json", "you may not write into"),
        ("closed/new/x.json", "you may not write into"),
        ("mine/x.json", ""),
        ("mine/read-only.json", ""),
        ("shared/x.json", ""),
        ("shared/of-root.json", "of-root.json belongs to another user, and"),
        ("hidden/below/x.json", "/hidden"),
    ],
)
def test_permissions_of_an_unprivileged_user_are_checked(path: str, words: str) -> None:
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        place.chmod(0o755)
        for folder, mode in (("closed", 0o755), ("mine", 0o700), ("shared", 0o1777), ("hidden", 0o700)):
            (place / folder).mkdir()
            (place / folder).chmod(mode)
        for file in ("mine/read-only.json", "shared/of-root.json"):
            (place / file).write_text("{}")
            (place / file).chmod(0o444)
        for mine in ("mine", "mine/read-only.json"):
            os.chown(place / mine, NOBODY, NOBODY)
        found = as_nobody(lambda: "; ".join(files.writable(str(place / path))))
        assert bool(found) == bool(words) and words in found, found


NOBODY = 65534


def as_nobody(ask: Callable[[], str]) -> str:
    """Return the result of a function that runs as an unprivileged user."""
    reads, writes = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.setgroups([])
            os.setgid(NOBODY)
            os.setuid(NOBODY)
            os.write(writes, ask().encode())
        finally:
            os._exit(0)
    os.close(writes)
    with os.fdopen(reads) as answer:
        text = answer.read()
    os.waitpid(child, 0)
    return text


def test_proxy_password_is_not_shown() -> None:
    problems = find({"gpu1": {"cluster_http_proxy": "user:secret@proxy:3128"}}, ["gpu1"])
    assert len(problems) == 1 and "secret" not in str(problems)


def test_only_requested_hosts_are_checked() -> None:
    hostvars = {"cp1": {}, "other": {"flannel_timeout": "x"}}
    assert find(hostvars, ["cp1"]) == []
    with pytest.raises(AnsibleFilterError, match="there is no host gone"):
        find(hostvars, ["gone"])


GROUPS = {"control_plane": ["cp1"], "workers": ["gpu1", "gpu2"], "ungrouped": ["localhost"]}
PODS, SERVICES, KUBERNETES = "cluster_pod_network", "cluster_service_network", "cluster_kubernetes_version"


@pytest.mark.parametrize(
    ("variables", "groups", "words"),
    [
        ({}, {}, []),
        ({}, {"control_plane": []}, ["control_plane must contain 1, 3 or 5 hosts, but it has none"]),
        ({}, {"control_plane": ["cp1", "cp2"]}, ["it has 2 (cp1, cp2)"]),
        ({}, {"control_plane": ["cp1", "cp2", "cp3"]}, []),
        ({}, {"control_plane": ["cp1", "cp2", "cp3", "cp4"]}, ["it has 4 (cp1, cp2, cp3, cp4)"]),
        ({}, {"control_plane": ["cp1", "cp2", "cp3", "cp4", "cp5"]}, []),
        ({}, {"control_plane": ["cp1", "cp2", "cp3", "cp4", "cp5", "cp6", "cp7"]}, ["it has 7"]),
        ({}, {"workers": []}, ["The group workers contains no hosts", "misspelled"]),
        ({}, {"ungrouped": ["gpu9"]}, ["gpu9 does not belong to any group", "control_plane or workers"]),
        ({"cluster_workers_group": "nodes"}, {"nodes": ["gpu1"]}, []),
        ({"cluster_workers_group": "nodes"}, {}, ["The group nodes contains no hosts"]),
        ({KUBERNETES: "1.99.0"}, {}, ["1.99.0", "1.35.8, 1.36.4"]),
        ({"containerd_version": "2.1.4"}, {}, ["containerd_version is 2.1.4, which is not in the table"]),
        ({PODS: "10.244.0.1/16"}, {}, ["10.244.0.1/16", "host bits"]),
        ({PODS: "nonsense"}, {}, ["nonsense"]),
        ({PODS: "fd00::/48"}, {}, ["not a valid IPv4 network"]),
        ({PODS: "10.244.0.0/33"}, {}, ["not a valid IPv4 network"]),
        ({PODS: "10.100.0.0/16"}, {}, ["overlap", "10.96.0.0/12"]),
        ({PODS: "10.244.0.0/23"}, {}, ["room for 2 nodes, but the inventory contains 3"]),
        ({SERVICES: "10.128.0.0/10", PODS: "10.0.0.0/16"}, {}, ["from /12 to /28"]),
        ({PODS: UNKNOWN}, {}, []),
        *(({name: UNKNOWN}, {}, []) for name in cluster.GROUP_VARIABLES),
    ],
)
def test_inventory_must_describe_a_valid_cluster(
    variables: dict[str, Any], groups: dict[str, list[str]], words: list[str]
) -> None:
    hosts = dict.fromkeys(("cp1", "gpu1", "gpu2"), variables)
    problems = find(hosts, [], list(hosts), {**GROUPS, **groups})
    assert len(problems) == (1 if words else 0), problems
    text = " ".join(" ".join(problem.values()) for problem in problems)
    assert all(word in text for word in words), text


CACHE = {"cluster_storage": ["nfs_cache"], "nfs_cache_server": "192.0.2.10", "nfs_cache_path": "/srv/gpulab"}
STORE = {"ansible_host": "192.0.2.10"}
GONE = {**STORE, "nfs_server_state": "absent"}


@pytest.mark.parametrize(
    ("cache", "store", "words"),
    [
        ({}, {}, ""),
        (CACHE, STORE, ""),
        ({**CACHE, "nfs_cache_path": "/srv/gpulab/team"}, STORE, ""),
        (
            {**CACHE, "nfs_cache_path": "/srv/data"},
            STORE,
            "nfs_cache_path is /srv/data, but store1 exports /srv/gpulab",
        ),
        ({**CACHE, "nfs_cache_path": "/srv/gpulab2"}, STORE, "store1 exports /srv/gpulab"),
        (CACHE, {**STORE, "nfs_server_path": "/srv/data"}, "store1 exports /srv/data"),
        ({**CACHE, "nfs_cache_path": "/srv/data", "nfs_cache_server": "nas"}, STORE, ""),
        ({**CACHE, "nfs_cache_path": "/srv/data", "nfs_cache_state": "absent"}, STORE, ""),
        (CACHE, GONE, "nfs_server_state is absent, but the cache of the cluster is on store1"),
        (CACHE, {**GONE, "nfs_server_path": "/srv/data"}, "the cache of the cluster is on store1"),
        ({**CACHE, "nfs_cache_server": "store1"}, GONE, "the cache of the cluster is on store1"),
        (CACHE, {"cluster_node_address": "192.0.2.10", "nfs_server_state": "absent"}, "is on store1"),
        ({**CACHE, "nfs_cache_server": "nas"}, GONE, ""),
        ({**CACHE, "nfs_cache_state": "absent"}, GONE, ""),
        ({**CACHE, "cluster_storage": ["local_path"]}, GONE, ""),
        (CACHE, {"ansible_host": UNKNOWN, "nfs_server_state": "absent"}, ""),
        ({**CACHE, "nfs_cache_server": UNKNOWN}, GONE, ""),
    ],
)
def test_cache_must_use_a_directory_exported_by_the_nfs_server(
    cache: dict[str, Any], store: dict[str, Any], words: str
) -> None:
    hosts = {"cp1": cache, "gpu1": cache, "store1": store}
    problems = find(
        hosts, [], ["cp1", "gpu1"], {"control_plane": ["cp1"], "workers": ["gpu1"], "nfs_server": ["store1"]}
    )
    assert [problem["host"] for problem in problems] == (["store1"] if words else [])
    assert all(words in problem["what"] for problem in problems)


def test_more_than_one_nfs_server_is_refused() -> None:
    groups = {"control_plane": ["cp1"], "workers": ["gpu1"], "stores": ["cp1", "gpu1"]}
    hosts = {host: {"cluster_nfs_server_group": "stores"} for host in ("cp1", "gpu1")}
    (problem,) = find(hosts, [], list(hosts), groups)
    assert "The group stores must contain at most one host, but it has 2 (cp1, gpu1)" in problem["what"]


def test_containerd_must_be_recent_enough_for_kubernetes(monkeypatch: pytest.MonkeyPatch) -> None:
    table = {"kubernetes": {"1.36.4": {"containerd_minimum": "2.2.0"}}, "containerd": {"2.1.5": {}}}
    known = cluster._table()
    monkeypatch.setattr(cluster, "_table", lambda: {**known, **table})
    hosts = {"cp1": {"containerd_version": "2.1.5", "cluster_kubernetes_version": "1.36.4"}}
    (problem,) = find(hosts, [], ["cp1"])
    assert "containerd 2.1.5 is too old for Kubernetes 1.36.4" in problem["what"] and "2.2.0" in problem["do"]


def test_unknown_driver_version_is_refused_with_the_known_ones() -> None:
    hosts = {"gpu1": {"nvidia_driver_version": "550.54.15"}, "gpu2": {"nvidia_driver_version": "595.91.07"}, "gpu3": {}}
    (problem,) = find(hosts, list(hosts))
    assert "nvidia_driver_version is 550.54.15 for gpu1, which is not in the table of versions" in problem["what"]
    assert "580.178.04, 595.91.07" in problem["do"]
    assert find(hosts, list(hosts), later=["nvidia_driver_upgrading"]) == []


@pytest.mark.parametrize(
    ("name", "values"), [(PODS, ("10.244.0.0/16", "10.245.0.0/16")), ("flannel_backend", ("vxlan", "host-gw"))]
)
def test_settings_of_the_cluster_must_be_the_same_for_all_hosts(name: str, values: tuple[str, str]) -> None:
    (problem,) = find({"cp1": {name: values[0]}, "gpu1": {name: values[1]}}, [], ["cp1", "gpu1"])
    assert f"{name} differs between hosts of the cluster: {values[0]} for cp1; {values[1]} for gpu1" in problem["what"]


@pytest.mark.parametrize("role", ["kubeadm", "containerd", "nvidia_container_toolkit", "nvidia_driver", "cuda_toolkit"])
@pytest.mark.parametrize(
    ("url", "pins", "refused"),
    [
        ("http://mirror.example.org/debs", [], True),
        ("https://mirror.example.org/debs", [], False),
        ("file:///srv/debs", [], False),
        ("http://mirror.example.org/debs", ["0123456789ABCDEF0123456789ABCDEF01234567"], False),
    ],
)
def test_repository_key_without_https_or_fingerprint_is_refused(
    role: str, url: str, pins: list[str], refused: bool
) -> None:
    name = f"{role}_repository_key_fingerprints"
    values = {f"{role}_repository_url": url, name: pins}
    found = [problem for problem in find({"gpu1": values}, ["gpu1"]) if problem["where"] == name]
    assert [problem["kind"] for problem in found] == ["repository_key_unpinned"] * refused
