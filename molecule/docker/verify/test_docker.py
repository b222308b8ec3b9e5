"""What a person finds afterwards on a machine with Docker."""

from __future__ import annotations

import json
from typing import Any

HELD = {"docker-ce", "docker-ce-cli", "docker-buildx-plugin", "docker-compose-plugin", "containerd.io"}


def test_docker_runs_and_starts_at_boot(machine: Any) -> None:
    assert machine.service("docker").is_running
    assert machine.service("docker").is_enabled


def test_packages_are_held(machine: Any) -> None:
    assert set(machine.check_output("apt-mark showhold").split()) >= HELD


def test_a_user_runs_it_without_sudo_with_its_plugins(machine: Any, inventory: Any) -> None:
    user = inventory.hosts["solo"].variables["ansible_user"]
    assert "docker" in machine.user(user).groups
    info = json.loads(machine.check_output(f"runuser -u {user} -- docker info --format '{{{{json .}}}}'"))
    assert (info["LoggingDriver"], info["CgroupDriver"]) == ("json-file", "systemd")
    assert {plugin["Name"] for plugin in info["ClientInfo"]["Plugins"]} == {"buildx", "compose"}


def test_logs_are_limited(machine: Any) -> None:
    settings = json.loads(machine.file("/etc/docker/daemon.json").content_string)
    assert settings["log-opts"] == {"max-size": "100m", "max-file": "3"}


def test_docker_finds_every_gpu_by_cdi(machine: Any) -> None:
    listed = json.loads(machine.check_output("docker info --format '{{json .DiscoveredDevices}}'"))
    assert {"nvidia.com/gpu=0", "nvidia.com/gpu=1", "nvidia.com/gpu=all"} <= {device["ID"] for device in listed}
