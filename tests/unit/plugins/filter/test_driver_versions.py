# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Version that nvidia_driver_version=auto selects for each host of a pool."""

from __future__ import annotations

from typing import Any

import pytest
from ansible.errors import AnsibleFilterError
from ansible_collections.gpulab.kubernetes.plugins.filter.driver import driver_versions

OLD, NEW = "580.178.04", "595.91.07"
EVERYWHERE = ("Debian 12", "Debian 13", "Ubuntu 22.04", "Ubuntu 24.04", "Ubuntu 26.04")
TABLE = {
    OLD: {"packages": dict.fromkeys(("Debian 12", "Ubuntu 22.04", "Ubuntu 24.04"), f"{OLD}-1")},
    NEW: {"packages": dict.fromkeys(EVERYWHERE, f"{NEW}-1")},
}
# The newest version must be selected regardless of the table's order.
WITHOUT_NEW = {OLD: TABLE[OLD], "570.1.02": {"packages": {"Debian 12": "570.1.02-1"}}}
T4, V100, B200 = "0x1eb8", "0x1db5", "0x2901"


def host(
    system: str = "Debian 12", gpu: str = T4, version: str = "auto", driver: str = "", pool: str = "", **settings: Any
) -> dict[str, Any]:
    """Return a host's variables after preflight has read it; ``driver`` is the version of NVIDIA's packages."""
    origin = settings.pop("origin", "cuda_repository" if driver else "none")
    facts = {
        "os": {"key": system},
        "gpus": [{"device_id": gpu}] if gpu else [],
        "nvidia_driver": {
            "loaded_version": driver,
            "packages": {"nvidia-open": f"{driver}-1"} if driver and origin != "other" else {},
            "origin": origin,
        },
    }
    reading = {"facts": facts, "settings": {"nvidia_driver_version": version, **settings}}
    return {"__preflight_reading": reading, "cluster_node_pool": pool}


def chosen(hosts: dict[str, Any], table: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    found: dict[str, Any] = driver_versions(list(hosts), hosts, table or TABLE, **more)
    return found


def versions(hosts: dict[str, Any], table: dict[str, Any] | None = None) -> dict[str, str]:
    return {name: choice["version"] for name, choice in chosen(hosts, table)["hosts"].items()}


@pytest.mark.parametrize(
    ("hosts", "expected"),
    [
        ({"a": host()}, {"a": NEW}),
        ({"a": host(), "b": host("Debian 13")}, {"a": NEW, "b": NEW}),
        ({"a": host("Ubuntu 26.04"), "b": host("Ubuntu 22.04")}, {"a": NEW, "b": NEW}),
        # 580 is the last branch for Volta, and all hosts of a pool get the same version.
        ({"a": host(gpu=V100), "b": host()}, {"a": OLD, "b": OLD}),
        ({"a": host(gpu=V100, pool="old"), "b": host()}, {"a": OLD, "b": NEW}),
        # An explicit version only applies to its host; hosts without GPUs are ignored.
        ({"a": host(version=OLD), "b": host()}, {"a": OLD, "b": NEW}),
        ({"a": host(gpu="", system="Debian 13"), "b": host()}, {"b": NEW}),
        # The installed version is kept, and new hosts of the pool get the same one.
        ({"a": host(driver=OLD)}, {"a": OLD}),
        ({"a": host(driver=OLD), "b": host()}, {"a": OLD, "b": OLD}),
        ({"a": host(driver=OLD, pool="x"), "b": host(pool="y")}, {"a": OLD, "b": NEW}),
        # After an interrupted upgrade, no host is changed, and new hosts get the newer version.
        ({"a": host(driver=OLD), "b": host(driver=NEW), "c": host()}, {"a": OLD, "b": NEW, "c": NEW}),
        # Drivers that are not in the table, or of another origin, are ignored.
        ({"a": host(driver="570.1.02"), "b": host()}, {"a": NEW, "b": NEW}),
        ({"a": host(driver=OLD, origin="distribution"), "b": host()}, {"a": NEW, "b": NEW}),
        ({"a": host(driver=OLD, origin="other"), "b": host()}, {"a": NEW, "b": NEW}),
    ],
)
def test_hosts_of_a_pool_get_one_version(hosts: dict[str, Any], expected: dict[str, str]) -> None:
    assert versions(hosts) == expected


def test_newest_version_is_chosen_in_any_order_of_the_table() -> None:
    assert versions({"a": host()}, WITHOUT_NEW) == {"a": OLD}


def test_newest_version_with_proprietary_modules_is_chosen() -> None:
    table = {OLD: TABLE[OLD], "615.71.09": {"packages": {"Debian 12": "615.71.09-1"}}}
    assert versions({"a": host()}, table) == {"a": "615.71.09"}
    assert versions({"a": host(nvidia_driver_modules="proprietary")}, table) == {"a": OLD}


@pytest.mark.parametrize(
    ("hosts", "name", "words"),
    [
        (
            {"a": host(gpu=V100), "b": host("Debian 13")},
            "b",
            [f"a: {OLD} (Debian 12)", f"b: {NEW} (Debian 13)", "cluster_node_pool"],
        ),
        ({"a": host("Debian 11")}, "a", ["no version in the table is for Debian 11", "Install a distribution"]),
        (
            {"a": host(driver=OLD), "b": host("Debian 13")},
            "b",
            [f"run {OLD}", f"this host (Debian 13) supports only {NEW}", "playbook gpulab.kubernetes.upgrade_driver"],
        ),
        (
            {"a": host(nvidia_driver_source="distribution")},
            "a",
            ["whose versions are not in the table", "apt list -a nvidia-open-kernel-dkms"],
        ),
        (
            {"a": host("Ubuntu 24.04", nvidia_driver_source="distribution")},
            "a",
            ["apt list -a 'nvidia-headless-*-server-open'"],
        ),
        (
            {"a": host(nvidia_driver_source="daemonset", nvidia_driver_installer_image="r/installer:latest")},
            "a",
            ["the tag of nvidia_driver_installer_image contains no version"],
        ),
    ],
)
def test_pool_without_a_common_version_is_reported(hosts: dict[str, Any], name: str, words: list[str]) -> None:
    choice = chosen(hosts)["hosts"][name]
    text = f"{choice['why']} {choice['advice']}"
    assert choice["version"] == "" and all(word in text for word in words), text


@pytest.mark.parametrize(
    ("settings", "version"),
    [
        ({"nvidia_driver_source": "preinstalled", "driver": "570.1.02", "origin": "other"}, "570.1.02"),
        ({"nvidia_driver_source": "operator"}, ""),
        ({"nvidia_driver_source": "daemonset", "nvidia_driver_installer_image": "r:5000/i:580.1.02-cos"}, "580.1.02"),
        ({"nvidia_driver_source": "daemonset", "nvidia_driver_installer_image": "r/i:580.1.02@sha256:0a"}, "580.1.02"),
        ({"nvidia_driver_source": "distribution", "driver": "550.1.02", "origin": "distribution"}, "550.1.02"),
    ],
)
def test_other_sources_need_no_version_from_the_table(settings: dict[str, Any], version: str) -> None:
    choice = chosen({"a": host(**settings), "b": host()})["hosts"]
    assert choice["a"] == {"version": version, "why": "", "advice": ""} and choice["b"]["version"] == NEW


def test_hosts_outside_the_run_are_read_for_an_undecided_version() -> None:
    """With --limit, the version must be the same as without it if the other hosts can be reached."""
    left_out: dict[str, Any] = {"cluster_node_pool": ""}
    elsewhere = {"cluster_node_pool": "other"}
    explicit = {"nvidia_driver_version": OLD}
    hosts = {"a": host(), "b": left_out, "c": elsewhere, "d": explicit}
    assert chosen(hosts)["unread"] == ["b"]
    assert chosen({**hosts, "a": host(driver=OLD)})["unread"] == []
    assert chosen({**hosts, "a": host(version=OLD)})["unread"] == []
    answer = {"item": "b", **host(driver=OLD)["__preflight_reading"]["facts"]}
    assert chosen(hosts, further=[answer])["hosts"]["a"]["version"] == OLD
    # A host that didn't answer is ignored.
    assert chosen(hosts, further=[{"item": "b", "unreachable": True}])["hosts"]["a"]["version"] == NEW


def test_invalid_facts_are_an_error() -> None:
    broken = host()
    del broken["__preflight_reading"]["facts"]["os"]
    with pytest.raises(AnsibleFilterError, match="bad input"):
        chosen({"a": broken})


@pytest.mark.parametrize(
    ("system", "gpu", "words"),
    [
        (
            "Debian 13",
            V100,
            [
                "branch 580 or older with the proprietary",
                f"Debian 13 has {NEW}",
                "Debian 12",
                "distribution",
                "preinstalled",
            ],
        ),
        ("Debian 12", "0x102d", ["branch 470 or older", "nvidia_driver_source=preinstalled"]),
        ("Debian 12", "0x06c0", ["Fermi GPUs need branch 390 or older"]),
    ],
)
def test_host_without_a_suitable_version_does_not_affect_others(system: str, gpu: str, words: list[str]) -> None:
    found = chosen({"a": host(system, gpu=gpu), "b": host()})["hosts"]
    assert found["b"]["version"] == NEW
    text = f"{found['a']['why']} {found['a']['advice']}"
    assert found["a"]["version"] == "" and all(word in text for word in words), text
    assert "pool" not in text


def test_ignored_gpus_do_not_affect_the_version() -> None:
    both = host(gpu=V100, ignored_gpus=["10de:1db5"])
    both["__preflight_reading"]["facts"]["gpus"].append(
        {"address": "0000:02:00.0", "device_id": "0x1eb8", "driver": ""}
    )
    for gpu in both["__preflight_reading"]["facts"]["gpus"]:
        gpu.setdefault("address", "0000:01:00.0")
    assert versions({"a": both}) == {"a": NEW}
