# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.gpulab.kubernetes.plugins.filter.minikube import docker_problems

FOUND: dict[str, Any] = {"rootless": [], "snap": False, "configured": False, "unknown_users": []}
TABLE = {"29.8.2": {"packages": {"Debian 12": "5:29.8.2-1~debian.12~bookworm"}}}
WANTED: dict[str, Any] = {
    "default_runtime": "",
    "honor_visible_devices": False,
    "kubernetes": False,
    "log_options": {"max-size": "100m"},
    "registry_mirrors": [],
    "data_root": "",
    "daemon_settings": {},
}
ROOTLESS = {"user": "ada", "file": "/home/ada/.config/systemd/user/docker.service"}


@pytest.mark.parametrize(
    ("found", "settings", "words"),
    [
        ({}, {}, []),
        ({"rootless": [ROOTLESS]}, {}, ["User ada has a rootless Docker", "uninstall"]),
        ({"snap": True}, {}, ["snap remove docker"]),
        ({}, {"version": "1.0.0"}, ["Docker 1.0.0 is not in the table", "docker_version to 29.8.2"]),
        ({}, {"system": "Ubuntu 24.04"}, ["for Ubuntu 24.04, only for Debian 12"]),
        ({}, {"default_runtime": "nvidia"}, ["docker_gpus=runtime"]),
        ({}, {"default_runtime": "nvidia", "gpus": "runtime"}, []),
        ({}, {"default_runtime": "crun"}, ["docker_default_runtime is crun", "to runtimes"]),
        ({}, {"default_runtime": "crun", "daemon_settings": {"runtimes": {"crun": {"path": "/usr/bin/crun"}}}}, []),
        ({}, {"daemon_settings": {"default-runtime": "nvidia"}}, ["no runtime of that name", "docker_gpus=runtime"]),
        ({}, {"daemon_settings": {"default-runtime": "nvidia"}, "gpus": "none"}, ["no runtime of that name"]),
        ({}, {"daemon_settings": {"default-runtime": "nvidia"}, "gpus": "runtime"}, []),
        ({}, {"daemon_settings": {"default-runtime": "nvidia", "runtimes": {"nvidia": {"path": "/x"}}}}, []),
        ({"configured": True}, {"daemon_settings": {"default-runtime": "nvidia"}}, []),
        ({}, {"daemon_settings": {"default-runtime": "crun"}}, ["default-runtime is crun", "to runtimes"]),
        ({}, {"daemon_settings": {"default-runtime": "runc"}}, []),
        ({}, {"daemon_settings": {"default-runtime": "io.containerd.runsc.v1"}}, []),
        ({}, {"daemon_settings": {"hosts": ["tcp://0.0.0.0:2375"]}}, ["contains hosts", "does not start"]),
        ({}, {"daemon_settings": {"hosts": None}}, []),
        ({}, {"daemon_settings": {"bip": "10.9.0.1/24"}}, []),
        ({}, {"daemon_settings": "debug=true"}, ["docker_daemon_settings must be a mapping"]),
        ({}, {"log_options": {"max-size": 100}}, ["max-size must be a string, but 100 is not"]),
        ({}, {"log_options": "max-size=5m"}, ["docker_log_options must be a mapping"]),
        ({"unknown_users": ["ada", "bob"]}, {}, ["docker_users contains ada, bob", "no such user"]),
        ({}, {"daemon_settings": {"log-driver": "journald"}}, []),
        ({}, {"daemon_settings": {"log-driver": "journald", "log-opts": {"tag": "x"}}}, []),
        ({}, {"daemon_settings": {"log-driver": "journald", "log-opts": None}}, []),
        (
            {},
            {"daemon_settings": {"log-driver": "journald", "log-opts": {"max-size": "1m"}}},
            ["the log driver journald does not have the options max-size of log-opts", "correct log-driver"],
        ),
        ({}, {"daemon_settings": {"log-opts": ["max-size=1m"]}}, ["log-opts must be a mapping"]),
        ({}, {"log_options": {"gelf-address": "udp://10.0.0.9:12201"}}, ["json-file does not have", "gelf-address"]),
        ({"configured": True}, {"log_options": {"gelf-address": "udp://10.0.0.9:12201"}}, []),
        ({}, {"daemon_settings": {"features": {"cdi": False}}}, ["disables features.cdi", "docker_gpus=none"]),
        ({}, {"daemon_settings": {"features": {"cdi": False}}, "gpus": "none"}, []),
        ({}, {"honor_visible_devices": True, "gpus": "runtime"}, []),
        ({}, {"honor_visible_devices": True, "gpus": "none"}, []),
        ({}, {"honor_visible_devices": True}, ["only the runtime nvidia reads", "set docker_gpus=runtime"]),
        (
            {},
            {"honor_visible_devices": True, "gpus": "runtime", "default_runtime": "nvidia"},
            ["nvidia is the default runtime", "remove docker_default_runtime"],
        ),
        (
            {},
            {"honor_visible_devices": True, "gpus": "runtime", "kubernetes": True},
            ["this host runs Kubernetes", "every pod"],
        ),
        ({}, {"registry_mirrors": ["http://10.0.0.2:5000", "https://mirror.example/"]}, []),
        ({}, {"registry_mirrors": ["mirror.local"]}, ["'mirror.local' must be a URL"]),
        ({}, {"registry_mirrors": ["https://mirror.local/path"]}, []),
        ({}, {"registry_mirrors": ["https://ada:pw@mirror.local"]}, ["must be a URL without a user"]),
        ({}, {"registry_mirrors": "https://mirror.local"}, ["must be a list of URLs"]),
        ({}, {"data_root": "/srv/docker"}, []),
        ({}, {"data_root": "data"}, ["'data' must be an absolute path"]),
        ({}, {"data_root": "/srv/../etc"}, ["without '..'"]),
    ],
)
def test_problems_of_docker_have_a_remedy(found: Any, settings: Any, words: list[str]) -> None:
    usual = {"version": "29.8.2", "system": "Debian 12", "gpus": "cdi"}
    version, system, gpus = (settings.get(name, value) for name, value in usual.items())
    said = docker_problems({**FOUND, **found}, version, TABLE, system, gpus, {**WANTED, **settings})
    assert len(said) == (1 if words else 0)
    for word in words:
        assert word in said[0]


def test_all_problems_of_docker_are_reported_together() -> None:
    found = {**FOUND, "rootless": [ROOTLESS], "snap": True}
    wanted = {**WANTED, "default_runtime": "nvidia", "daemon_settings": {"hosts": [], "containerd": ""}}
    assert len(docker_problems(found, "1", TABLE, "Debian 12", "cdi", wanted)) == 6
