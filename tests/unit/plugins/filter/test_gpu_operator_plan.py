# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible.errors import AnsibleFilterError
from ansible_collections.gpulab.kubernetes.plugins.filter.gpu_operator_plan import FilterModule
from hypothesis import given
from hypothesis import strategies as some

plan = FilterModule().filters()["gpu_operator_plan"]

ROLE = Path(__file__).resolve().parents[4] / "roles" / "gpu_operator"
FILE = str(ROLE / "files" / "values-v26.7.0.yml")
TABLE = yaml.safe_load(Path(FILE).read_text())
FULL = {"host": "gpu1", "driver": "580.178.04", "toolkit": "1.20.1-1"}
BARE = {"host": "gpu2", "source": "operator", "root": "/run/nvidia/driver"}
CONTROL_PLANE = {"key": "node-role.kubernetes.io/control-plane", "operator": "Exists", "effect": "NoSchedule"}
TOLERATIONS = [{"key": "nvidia.com/gpu", "operator": "Exists"}]
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
    found: list[dict[str, str]] = plan(hosts, WANTED, own or {}, FILE)["problems"]
    return found


@pytest.mark.parametrize(
    ("hosts", "more", "expected"),
    [
        # What the hosts have is left alone.
        ([FULL], {}, {"driver.enabled": False, "driver.version": None, "toolkit.enabled": False, "hostPaths": None}),
        ([FULL, {**FULL, "host": "gpu2"}], {}, {"driver.enabled": False, "toolkit.enabled": False}),
        # What they lack is the operator's.
        ([BARE], {}, {"driver.enabled": True, "driver.version": "580.178.04", "driver.kernelModuleType": "auto"}),
        ([BARE], {}, {"toolkit.enabled": True, "hostPaths": None}),
        ([{**FULL, "toolkit": ""}], {}, {"driver.enabled": False, "toolkit.enabled": True}),
        # A driver-installer's driver lies elsewhere.
        (
            [{**FULL, "driver": "", "source": "daemonset", "root": "/opt/nvidia/driver"}],
            {},
            {"driver.enabled": False, "hostPaths.driverInstallDir": "/opt/nvidia/driver"},
        ),
        ([FULL], {"service_monitor": True}, {"dcgmExporter.serviceMonitor.enabled": True}),
        ([FULL], {"service_monitor": False}, {"dcgmExporter.serviceMonitor.enabled": False}),
        (
            [FULL],
            {"service_monitor": True, "dcgm_exporter": False},
            {"dcgmExporter.enabled": False, "dcgmExporter.serviceMonitor.enabled": False},
        ),
        ([FULL], {}, {"mig.strategy": "none", "migManager.enabled": False}),
        ([FULL], {}, {"validator": None, "driver.env": None}),
        ([FULL, {**FULL, "old": True}], {}, {"validator.cuda.env": [{"name": "WITH_WORKLOAD", "value": "false"}]}),
        # What installs the driver fetches headers, and no one else tells it of the proxy.
        (
            [BARE],
            {"proxies": {"http_proxy": "http://p:3128", "https_proxy": ""}},
            {
                "driver.env": [
                    {"name": "HTTP_PROXY", "value": "http://p:3128"},
                    {"name": "http_proxy", "value": "http://p:3128"},
                ]
            },
        ),
        ([FULL], {"proxies": {"http_proxy": "http://p:3128"}}, {"driver.env": None}),
        (
            [FULL],
            {},
            {
                f"node-feature-discovery.{name}.tolerations": [CONTROL_PLANE, *TOLERATIONS]
                for name in ("gc", "master", "worker")
            },
        ),
        (
            [FULL],
            {"configs": {"default": {}, "mig": "flags: {migStrategy: mixed}"}},
            {
                "mig.strategy": "mixed",
                "devicePlugin.config.data": {"default": "{}\n", "mig": "flags: {migStrategy: mixed}"},
            },
        ),
        ([FULL], {}, {"daemonsets.tolerations": TOLERATIONS, "cdi.enabled": True, "nfd.enabled": True}),
        (
            [FULL],
            {"configs": {"a": {"version": "v1"}, "b": {"x": [1]}}, "default_config": "a"},
            {"devicePlugin.config.default": "a", "devicePlugin.config.data": {"a": "version: v1\n", "b": "x:\n- 1\n"}},
        ),
    ],
)
def test_the_values_follow_from_what_the_hosts_have(
    hosts: list[dict[str, Any]], more: dict[str, Any], expected: dict[str, Any]
) -> None:
    found = plan(hosts, {**WANTED, **more}, {}, FILE)
    assert found["problems"] == []
    assert {path: at(found["values"], path) for path in expected} == expected


@pytest.mark.parametrize(
    ("hosts", "words"),
    [
        ([{"host": "gpu1", "toolkit": "1"}], ["gpu1", "no driver that answers", "nvidia_driver_source=operator"]),
        ([FULL, {**FULL, "host": "gpu2", "toolkit": ""}], ["toolkit is on gpu1, and not on gpu2"]),
        ([{**BARE, "toolkit": "1"}], ["gpu2 has a container toolkit of its own"]),
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
def test_hosts_that_do_not_go_together_are_named(hosts: list[dict[str, Any]], words: list[str]) -> None:
    found = problems(hosts)
    assert len(found) == 1, found
    said = " ".join(found[0].values())
    assert all(word in said for word in words), said
    assert all(found[0][field] for field in ("what", "where", "why", "do"))


@pytest.mark.parametrize(
    ("own", "words"),
    [
        (
            {"driver": {"useOpenKernelModules": True}},
            ["useOpenKernelModules is not a value", "driver.kernelModuleType"],
        ),
        ({"operator": {"defaultRuntime": "containerd"}}, ["operator.defaultRuntime is not a value"]),
        ({"operator": {"initContainer": {"version": "1"}}}, ["operator.initContainer is not a value"]),
        ({"psp": {"enabled": True}}, ["psp is not a value", "psa.enabled"]),
        ({"toolkit": {"instalDir": "/x"}}, ["toolkit.instalDir is unknown", "toolkit.installDir looks like it"]),
        ({"dcgmexporter": {"enabled": False}}, ["dcgmexporter is unknown", "dcgmExporter looks like it"]),
        ({"driver": True}, ["driver must be a mapping, not True"]),
        ({"mig": {"strategy": {"a": 1}}}, ["mig.strategy must be a value or a list"]),
        ({"gpuCluster": {"deployCR": True}}, ["GPUCluster (DRA)"]),
        ({"clusterPolicy": {"deployCR": False}}, ["GPUCluster (DRA)"]),
        ({"cdi": {"nriPluginEnabled": True}}, ["needs cdi.enabled and toolkit.enabled"]),
        ({"devicePlugin": {"enabled": False}}, ["nothing would offer the GPUs"]),
        ({"toolkit": {"enabled": True}}, ["gpu1", "second container toolkit"]),
    ],
)
def test_a_value_that_would_do_nothing_or_harm_is_an_error(own: dict[str, Any], words: list[str]) -> None:
    found = problems([FULL], own)
    assert len(found) == 1, found
    said = " ".join(found[0].values())
    assert all(word in said for word in words), said


def test_values_of_ones_own_win_and_lists_are_replaced_as_helm_does_it() -> None:
    own = {"operator": {"repository": "mirror"}, "daemonsets": {"tolerations": []}, "dcgmExporter": {"enabled": False}}
    values = plan([FULL], WANTED, own, FILE)["values"]
    assert at(values, "operator.repository") == "mirror"
    assert at(values, "daemonsets.tolerations") == []
    assert at(values, "dcgmExporter") == {"enabled": False, "serviceMonitor": {"enabled": False}}


def test_the_computed_values_are_ones_that_the_chart_reads() -> None:
    for hosts in ([FULL], [BARE], [{**FULL, "source": "daemonset", "root": "/opt/a"}]):
        assert plan(hosts, WANTED, plan(hosts, WANTED)["values"], FILE)["problems"] == []


def test_without_a_table_no_key_is_checked() -> None:
    assert plan([FULL], WANTED, {"new": {"thing": 1}}, {})["problems"] == []


def test_one_operator_knows_one_mig_strategy() -> None:
    configs = {name: {"flags": {"migStrategy": name}} for name in ("none", "single", "mixed")}
    (found,) = plan([FULL], {**WANTED, "configs": configs}, {}, FILE)["problems"]
    assert "mixed, single" in found["what"]


def test_an_unknown_setting_is_an_error() -> None:
    with pytest.raises(AnsibleFilterError, match="unexpected keyword"):
        plan([FULL], {**WANTED, "other": 1})


def test_what_is_said_to_be_removed_is_not_among_the_keys() -> None:
    for path in TABLE["removed"]:
        above, _dot, name = path.rpartition(".")
        assert name not in (at(TABLE["keys"], above) if above else TABLE["keys"]), path


LEAVES = some.none() | some.booleans() | some.integers() | some.text(max_size=5) | some.lists(some.integers())
NAMES = some.sampled_from(["driver", "enabled", "toolkit", "mig", "strategy", "node-feature-discovery", "x"])
TREES = some.recursive(
    some.dictionaries(NAMES, LEAVES), lambda inner: some.dictionaries(NAMES, inner | LEAVES), max_leaves=8
)


@given(TREES)
def test_any_values_give_an_answer(own: dict[str, Any]) -> None:
    for problem in problems([FULL], own):
        assert all(problem[field] for field in ("what", "where", "why", "do"))


def test_mps_beside_mixed_mig_is_refused() -> None:
    mps = {"version": "v1", "sharing": {"mps": {"resources": [{"name": "nvidia.com/gpu", "replicas": 2}]}}}
    for strategy, kinds in (("mixed", ["mps_with_mixed_mig"]), ("single", []), ("none", [])):
        wanted = {**WANTED, "configs": {"mps": mps, "mig": {"flags": {"migStrategy": strategy}}}}
        assert [each["kind"] for each in plan([FULL], wanted, {}, FILE)["problems"]] == kinds


def test_a_proxy_with_a_password_is_refused_where_the_operator_brings_the_driver() -> None:
    wanted = {**WANTED, "proxies": {"http_proxy": "http://u:S3CRET@p:3128"}}
    (problem,) = plan([BARE], wanted, {}, FILE)["problems"]
    assert problem["kind"] == "proxy_password_for_driver" and "S3CRET" not in str(problem)
    assert plan([FULL], wanted, {}, FILE)["problems"] == []


def test_values_that_this_chart_takes_or_that_undo_partitions() -> None:
    assert problems([FULL], {"dcgmExporter": {"service": {"type": "ClusterIP"}}}) == []
    assert [each["kind"] for each in problems([FULL], {"migManager": {"enabled": True}})] == ["mig_manager_enabled"]
