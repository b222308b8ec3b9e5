# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.gpulab.kubernetes.plugins.filter.report import report_failure, report_targets

ERROR = {"severity": "error", "host": "gpu1", "what": "GPU 0 is unhealthy"}
WARNING = {"severity": "warning", "host": "", "what": "a certificate expires in 9 days"}
START = "Error while reporting the present state: "


@pytest.mark.parametrize(
    ("actions", "fail_on", "expected"),
    [
        ([ERROR, WARNING], "never", ""),
        ([], "warning", ""),
        ([WARNING], "error", ""),
        ([ERROR, WARNING], "error", "1 problem (report_fail_on is error): gpu1: GPU 0 is unhealthy."),
        (
            [ERROR, WARNING],
            "warning",
            "2 problems (report_fail_on is warning): gpu1: GPU 0 is unhealthy; "
            "cluster: a certificate expires in 9 days.",
        ),
    ],
)
def test_failure_message_names_the_relevant_problems(
    actions: list[dict[str, str]], fail_on: str, expected: str
) -> None:
    assert report_failure({"actions": actions}, fail_on) == (START + expected if expected else "")


@pytest.mark.parametrize(
    ("report", "settings", "written"),
    [
        ({"problems": []}, {}, {"config_map", "junit", "metrics"}),
        ({"problems": []}, {"verified": True}, {"config_map", "junit", "metrics", "changed"}),
        ({"problems": []}, {"metrics": ""}, {"config_map", "junit"}),
        ({"problems": []}, {"junit": ""}, {"config_map", "metrics"}),
        ({"problems": []}, {"config_map": False}, {"junit", "metrics"}),
        ({"problems": []}, {"api_failure": "no answer"}, {"junit", "metrics"}),
        # report.yml reads no kubeconfig. Check mode without a cluster predicts the verification.
        ({"problems": []}, {"kubeconfig": None}, {"junit", "metrics"}),
        ({}, {"kubeconfig": ""}, {"changed"}),
        ({}, {}, set()),
    ],
)
def test_report_is_written_to_the_configured_targets(
    report: dict[str, Any], settings: dict[str, Any], written: set[str]
) -> None:
    usual = {"junit": "a.xml", "metrics": "a.prom", "config_map": True, "kubeconfig": "/tmp/k"}
    targets = report_targets(report, {**usual, "verified": False, "api_failure": "", **settings})
    assert {name for name, value in targets.items() if value} == written
