# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.gpulab.kubernetes.plugins.filter.gpu_operator_driver_changes import FilterModule

changes = FilterModule().filters()["gpu_operator_driver_changes"]
DRIVER = {"enabled": True, "version": "580.178.04", "kernelModuleType": "auto", "usePrecompiled": False}


def render(driver: dict[str, Any]) -> list[dict[str, Any]]:
    policy = {"kind": "ClusterPolicy", "metadata": {"name": "cluster-policy"}, "spec": {"driver": driver}}
    return [{"kind": "CustomResourceDefinition", "metadata": {"name": "x"}}, policy]


@pytest.mark.parametrize(
    ("wanted", "there", "expected"),
    [
        (DRIVER, DRIVER, []),
        # What the API adds by itself, and how the operator replaces pods.
        ({**DRIVER, "upgradePolicy": {"autoUpgrade": False}}, {**DRIVER, "livenessProbe": {}}, []),
        ({**DRIVER, "version": "595.10"}, DRIVER, ["version"]),
        ({**DRIVER, "kernelModuleType": "open", "env": [{"name": "A"}]}, DRIVER, ["env", "kernelModuleType"]),
        (DRIVER, {**DRIVER, "env": [{"name": "A"}]}, ["env"]),
        ({**DRIVER, "enabled": False}, DRIVER, ["enabled"]),
        # Nothing is taken from running pods where it has installed none.
        (DRIVER, {**DRIVER, "enabled": False}, []),
        (DRIVER, None, []),
    ],
)
def test_what_the_operator_would_change(
    wanted: dict[str, Any], there: dict[str, Any] | None, expected: list[str]
) -> None:
    drivers = {"other": {"enabled": True, "version": "1"}, **({"cluster-policy": there} if there else {})}
    assert changes(render(wanted), drivers) == expected
