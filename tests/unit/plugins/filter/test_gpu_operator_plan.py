# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from typing import Any

import pytest
from ansible.errors import AnsibleFilterError
from ansible_collections.gpulab.kubernetes.plugins.filter.gpu_operator import FilterModule
from hypothesis import given
from hypothesis import strategies as some

plan = FilterModule().filters()["gpu_operator_plan"]

FULL = {"host": "gpu1", "driver": "580.178.04", "toolkit": "1.20.1-1"}
BARE = {"host": "gpu2", "source": "operator", "root": "/run/nvidia/driver"}
TOLERATIONS = [{"key": "nvidia.com/gpu", "operator": "Exists"}]
CONTROL_PLANE = {"key": "node-role.kubernetes.io/control-plane", "operator": "Exists", "effect": "NoSchedule"}
T4, V100, RTX_4090 = "0x1eb8", "0x1db4", "0x2684"
NO_WORKLOAD = [{"name": "WITH_WORKLOAD", "value": "false"}]
UNPRIVILEGED = [{"name": "ACCEPT_NVIDIA_VISIBLE_DEVICES_ENVVAR_WHEN_UNPRIVILEGED", "value": "false"}]
PROXY = {"http_proxy": "http://p:1", "no_proxy": ["10.0.0.0/8", ".svc"]}
PROXY_ENV = [
    {"name": "HTTP_PROXY", "value": "http://p:1"},
    {"name": "http_proxy", "value": "http://p:1"},
    {"name": "NO_PROXY", "value": "10.0.0.0/8,.svc"},
    {"name": "no_proxy", "value": "10.0.0.0/8,.svc"},
]
WANTED = {
    "configs": {"default": {"version": "v1", "flags": {"migStrategy": "none"}}},
    "default_config": "default",
    "tolerations": TOLERATIONS,
    "driver_version": "580.178.04",
}


def at(values: Any, path: str) -> Any:
    for name in path.split("."):
        values = values.get(name) if isinstance(values, dict) else None
    return values


def problems(hosts: list[dict[str, Any]], own: dict[str, Any] | None = None) -> list[dict[str, str]]:
    found: list[dict[str, str]] = plan(hosts, WANTED, own or {})["problems"]
    return found


@pytest.mark.parametrize(
    ("hosts", "more", "expected"),
    [
        # The operator doesn't install components that the hosts have.
        ([FULL], {}, {"driver.enabled": False, "driver.version": None, "toolkit.enabled": False, "hostPaths": None}),
        ([FULL, {**FULL, "host": "gpu2"}], {}, {"driver.enabled": False, "toolkit.enabled": False}),
        # The operator installs components that the hosts lack.
        ([BARE], {}, {"driver.enabled": True, "driver.version": "580.178.04", "driver.kernelModuleType": "auto"}),
        ([BARE], {}, {"toolkit.enabled": True, "hostPaths": None}),
        ([{**FULL, "toolkit": ""}], {}, {"driver.enabled": False, "toolkit.enabled": True}),
        # A driver installer uses another directory.
        (
            [{**FULL, "driver": "", "source": "daemonset", "root": "/opt/nvidia/driver"}],
            {},
            {"driver.enabled": False, "hostPaths.driverInstallDir": "/opt/nvidia/driver"},
        ),
        # Nothing is installed without GPUs.
        ([], {}, {"driver.enabled": False, "toolkit.enabled": False}),
        ([FULL], {}, {"dcgmExporter.serviceMonitor.enabled": True}),
        (
            [FULL],
            {"dcgm_exporter": False},
            {"dcgmExporter.enabled": False, "dcgmExporter.serviceMonitor.enabled": False},
        ),
        ([FULL], {}, {"mig.strategy": "none", "migManager.enabled": False}),
        ([FULL], {}, {"toolkit.env": None}),
        ([BARE], {}, {"toolkit.env": UNPRIVILEGED}),
        (
            [FULL],
            {"configs": {"default": {}, "mig": "flags: {migStrategy: mixed}"}},
            {
                "mig.strategy": "mixed",
                "devicePlugin.config.data": {"default": "{}\n", "mig": "flags: {migStrategy: mixed}"},
            },
        ),
        (
            [FULL],
            {"configs": {"a": "sharing: {mps: {}}", "b": "flags: {migStrategy: single}"}},
            {"mig.strategy": "single"},
        ),
        ([FULL], {}, {"daemonsets.tolerations": TOLERATIONS, "cdi.enabled": True, "nfd.enabled": True}),
        # The operator's pods tolerate all taints of the nodes.
        (
            [FULL],
            {},
            {
                "node-feature-discovery.gc.tolerations": [CONTROL_PLANE, *TOLERATIONS],
                "node-feature-discovery.worker.tolerations": [CONTROL_PLANE, *TOLERATIONS],
            },
        ),
        # The operator doesn't pass the proxy to its driver container.
        ([BARE], PROXY, {"driver.env": PROXY_ENV}),
        ([FULL], PROXY, {"driver.env": None}),
        ([BARE], {"no_proxy": ["10.0.0.0/8"]}, {"driver.env": None}),
        # The validator's program doesn't support GPUs before Turing; on GeForce, the driver must support its CUDA.
        ([{**FULL, "devices": [T4]}], {}, {"validator": None}),
        ([{**FULL, "devices": [T4]}, {**FULL, "devices": [V100]}], {}, {"validator.cuda.env": NO_WORKLOAD}),
        ([{**BARE, "devices": [V100]}], {"driver_version": ""}, {"validator.cuda.env": NO_WORKLOAD}),
        ([{**BARE, "devices": [T4]}], {"driver_version": ""}, {"validator": None}),
        ([{**FULL, "driver": "550.163.01", "devices": [RTX_4090]}], {}, {"validator.cuda.env": NO_WORKLOAD}),
        ([{**FULL, "devices": [RTX_4090]}], {}, {"validator": None}),
        (
            [FULL],
            {"configs": {"a": {"version": "v1"}, "b": {"x": [1]}}, "default_config": "a"},
            {"devicePlugin.config.default": "a", "devicePlugin.config.data": {"a": "version: v1\n", "b": "x:\n- 1\n"}},
        ),
    ],
)
def test_values_follow_from_the_state_of_the_hosts(
    hosts: list[dict[str, Any]], more: dict[str, Any], expected: dict[str, Any]
) -> None:
    found = plan(hosts, {**WANTED, **more}, {})
    assert found["problems"] == []
    assert {path: at(found["values"], path) for path in expected} == expected


@pytest.mark.parametrize(
    ("hosts", "words"),
    [
        ([{"host": "gpu1", "toolkit": "1"}], ["gpu1", "No driver responds", "nvidia_driver_source=operator"]),
        ([FULL, {**FULL, "host": "gpu2", "toolkit": ""}], ["toolkit is on gpu1, but not on gpu2"]),
        ([{**BARE, "toolkit": "1"}], ["gpu2 already has a container toolkit"]),
        (
            [{**FULL, "source": "daemonset", "root": "/opt/a"}, {**FULL, "host": "gpu2"}],
            ["different directories: /, /opt/a", "nvidia_driver_root"],
        ),
        (
            [{**FULL, "toolkit": "", "source": "daemonset", "root": "/opt/a"}, BARE],
            ["different directories: /opt/a, /run/nvidia/driver"],
        ),
    ],
)
def test_incompatible_hosts_are_named(hosts: list[dict[str, Any]], words: list[str]) -> None:
    found = problems(hosts)
    assert len(found) == 1, found
    said = " ".join(found[0].values())
    assert all(word in said for word in words), said
    assert all(found[0][field] for field in ("what", "where", "why", "do"))


@pytest.mark.parametrize(
    ("own", "words"),
    [
        ({"gpuCluster": {"deployCR": True}}, ["GPUCluster (DRA)"]),
        ({"clusterPolicy": {"deployCR": False}}, ["GPUCluster (DRA)"]),
        ({"cdi": {"nriPluginEnabled": True}}, ["needs cdi.enabled and toolkit.enabled"]),
        ({"devicePlugin": {"enabled": False}}, ["Nothing would offer the GPUs"]),
        ({"migManager": {"enabled": True}}, ["migManager.enabled is true", "cluster_gpu_sharing"]),
        ({"toolkit": {"enabled": True}}, ["gpu1", "second container toolkit"]),
    ],
)
def test_useless_or_harmful_value_is_an_error(own: dict[str, Any], words: list[str]) -> None:
    found = problems([FULL], own)
    assert len(found) == 1, found
    said = " ".join(found[0].values())
    assert all(word in said for word in words), said


@pytest.mark.parametrize(
    ("systems", "own", "kinds"),
    [
        (["Ubuntu 24.04", "Ubuntu 24.04"], {}, []),
        (["Debian 13"], {}, ["driver_image_missing"]),
        (["Ubuntu 24.04", "Ubuntu 22.04"], {}, ["driver_images_differ"]),
        (["Ubuntu 24.04", "Debian 12"], {}, ["driver_image_missing", "driver_images_differ"]),
        (["Debian 13"], {"driver": {"repository": "registry.example.org"}}, []),
        (["Debian 13"], {"driver": {"enabled": False}}, []),
    ],
)
def test_operator_driver_requires_one_release_of_ubuntu(
    systems: list[str], own: dict[str, Any], kinds: list[str]
) -> None:
    hosts = [{**BARE, "host": f"gpu{number}", "system": system} for number, system in enumerate(systems)]
    assert [problem["kind"] for problem in problems(hosts, own)] == kinds
    assert problems([{**FULL, "system": "Debian 13"}]) == []


def test_user_values_override_and_lists_are_replaced_as_in_helm() -> None:
    own = {"operator": {"repository": "mirror"}, "daemonsets": {"tolerations": []}, "dcgmExporter": {"enabled": False}}
    values = plan([FULL], WANTED, own)["values"]
    assert at(values, "operator.repository") == "mirror"
    assert at(values, "daemonsets.tolerations") == []
    assert at(values, "dcgmExporter") == {"enabled": False, "serviceMonitor": {"enabled": True}}


def variables(configs: dict[str, Any], part: str = "devicePlugin") -> dict[str, str]:
    values = plan([FULL], {**WANTED, "configs": configs})["values"]
    return {one["name"]: one["value"] for one in values[part]["env"]}


def test_configuration_overrides_the_environment_of_the_device_plugin() -> None:
    plugin = {"deviceListStrategy": ["cdi-cri", "envvar"], "passDeviceSpecs": False}
    found = variables({"default": {"flags": {"gdsEnabled": False, "plugin": plugin}}})
    found.pop("GPULAB_CONFIGURATION")
    assert found == {"DEVICE_LIST_STRATEGY": "cdi-cri,envvar", "PASS_DEVICE_SPECS": "false", "GDS_ENABLED": "false"}


@pytest.mark.parametrize("part", ["devicePlugin", "gfd"])
def test_changed_configuration_of_the_same_name_replaces_the_pods(part: str) -> None:
    first, same, other = (variables({"default": {"a": value}}, part) for value in (1, 1, 2))
    assert first == same != other


def test_operator_supports_only_one_mig_strategy() -> None:
    configs = {name: {"flags": {"migStrategy": name}} for name in ("none", "single", "mixed")}
    (found,) = plan([FULL], {**WANTED, "configs": configs}, {})["problems"]
    assert "mixed, single" in found["what"]


def test_mps_and_the_mig_strategy_mixed_exclude_each_other() -> None:
    configs = {"mps": "sharing: {mps: {resources: []}}", "mig-mixed": "flags: {migStrategy: mixed}"}
    (found,) = plan([FULL], {**WANTED, "configs": configs}, {})["problems"]
    assert "MPS" in found["what"] and "mixed" in found["what"] and "time slices" in found["do"]


@pytest.mark.parametrize(
    ("hosts", "own", "count"),
    [([BARE], {}, 1), ([BARE], {"driver": {"secretEnv": "proxy"}}, 0), ([FULL], {}, 0)],
)
def test_proxy_password_is_not_shown(hosts: list[dict[str, Any]], own: dict[str, Any], count: int) -> None:
    found = plan(hosts, {**WANTED, "https_proxy": "http://user:secret@p:1"}, own)
    assert "secret@" not in str(found)
    assert len(found["problems"]) == count
    assert all("driver: {secretEnv: NAME}" in problem["do"] for problem in found["problems"])


def test_an_unknown_setting_is_an_error() -> None:
    with pytest.raises(AnsibleFilterError, match="unexpected keyword"):
        plan([FULL], {**WANTED, "other": 1})


LEAVES = some.none() | some.booleans() | some.integers() | some.text(max_size=5) | some.lists(some.integers())
NAMES = some.sampled_from(["driver", "enabled", "toolkit", "mig", "strategy", "node-feature-discovery", "x"])
TREES = some.recursive(
    some.dictionaries(NAMES, LEAVES), lambda inner: some.dictionaries(NAMES, inner | LEAVES), max_leaves=8
)


@given(TREES)
def test_any_values_have_complete_problems(own: dict[str, Any]) -> None:
    for problem in problems([FULL], own):
        assert all(problem[field] for field in ("what", "where", "why", "do"))
