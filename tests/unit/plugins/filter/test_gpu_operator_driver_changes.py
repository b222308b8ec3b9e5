# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from typing import Any

import pytest
from ansible.errors import AnsibleFilterError
from ansible_collections.gpulab.kubernetes.plugins.filter.gpu_operator import FilterModule

changes = FilterModule().filters()["gpu_operator_driver_changes"]
DRIVER = {"enabled": True, "version": "580.178.04", "kernelModuleType": "auto", "usePrecompiled": False}
SPEC: dict[str, Any] = {
    "driver": DRIVER,
    "daemonsets": {"tolerations": [{"key": "a"}], "rollingUpdate": {"maxUnavailable": "1"}},
}


def spec(driver: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {**SPEC, "driver": {**DRIVER, **driver}, **more}


def render(wanted: Any) -> list[dict[str, Any]]:
    policy = {"kind": "ClusterPolicy", "metadata": {"name": "cluster-policy"}, "spec": wanted}
    return [{"kind": "CustomResourceDefinition", "metadata": {"name": "x"}}, policy]


@pytest.mark.parametrize(
    ("wanted", "there", "expected"),
    [
        (SPEC, SPEC, []),
        # Omitted values, and the settings of the operator's own upgrades, are not changes of the driver.
        (spec({"upgradePolicy": {"autoUpgrade": False}}), spec({"livenessProbe": {}, "rdma": {"enabled": False}}), []),
        (spec({"version": 580}), spec({"version": "580"}), []),
        (spec({"version": "595.10"}), SPEC, ["driver.version"]),
        (spec({"kernelModuleType": "open", "env": [{"name": "A"}]}), SPEC, ["driver.env", "driver.kernelModuleType"]),
        (SPEC, spec({"repository": "example.org"}), ["driver.repository"]),
        (spec({"enabled": False}), SPEC, ["driver.enabled"]),
        # These values also apply to the driver's pods.
        (spec({}, daemonsets={"tolerations": [{"key": "b"}]}), SPEC, ["daemonsets.tolerations"]),
        (spec({}, hostPaths={"driverInstallDir": "/opt"}), SPEC, ["hostPaths.driverInstallDir"]),
        (spec({}, daemonsets={**SPEC["daemonsets"], "rollingUpdate": {"maxUnavailable": "2"}}), SPEC, []),
        # Pods aren't interrupted if the operator hasn't installed the driver.
        (spec({"version": "595.10"}), spec({"enabled": False}), []),
        (SPEC, {}, []),
        (SPEC, None, []),
    ],
)
def test_changes_of_the_operator_driver_are_listed(
    wanted: dict[str, Any], there: dict[str, Any] | None, expected: list[str]
) -> None:
    policies = {"other": spec({"version": "1"}), **({"cluster-policy": there} if there is not None else {})}
    assert changes(render(wanted), policies) == expected


@pytest.mark.parametrize(("rendered", "policies"), [(7, {}), ([{}], {}), (render("x"), {"cluster-policy": SPEC})])
def test_invalid_input_is_one_error(rendered: Any, policies: Any) -> None:
    with pytest.raises(AnsibleFilterError, match="Error while comparing"):
        changes(rendered, policies)
