# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import pytest
from ansible_collections.gpulab.kubernetes.plugins.module_utils._docker.logs import driver, problems, supported_options

LIMITS = {"max-size": "100m", "max-file": "3"}
LIMITED = ("json-file", "local")
# An option of each driver, with the options that the driver requires.
OWN = {
    "json-file": {"compress": "true"},
    "local": {"compress": "true"},
    "journald": {"tag": "x"},
    "syslog": {"syslog-address": "udp://10.0.0.9:514"},
    "gelf": {"gelf-address": "udp://10.0.0.9:12201"},
    "fluentd": {"fluentd-address": "10.0.0.9:24224"},
    "awslogs": {"awslogs-group": "x"},
    "gcplogs": {"gcp-project": "x"},
    "splunk": {"splunk-url": "https://splunk.example.org"},
}


@pytest.mark.parametrize("name", [*OWN, "none", "vendor/plugin:1"])
def test_limits_are_omitted_for_drivers_without_a_file(name: str) -> None:
    options = {**LIMITS, "env": "A"}
    assert supported_options(name, options) == (options if name in LIMITED else {"env": "A"})


@pytest.mark.parametrize("name", OWN)
def test_each_driver_accepts_its_own_options_only(name: str) -> None:
    common = {"mode": "non-blocking", "max-buffer-size": "4m", "cache-disabled": "true", "cache-max-size": "1m"}
    assert list(problems(name, {**OWN[name], **common})) == []
    wrong = list(problems(name, {**OWN[name], **LIMITS}))
    assert (wrong == []) == (name in LIMITED)
    assert list(problems(name, {**OWN[name], "of-nobody": "x"})) == [
        f"the log driver {name} does not have the options of-nobody of log-opts"
    ]


def test_a_driver_without_known_options_is_not_checked() -> None:
    assert (
        list(problems("gelf", {})) == list(problems("none", LIMITS)) == list(problems("vendor/plugin:1", LIMITS)) == []
    )
    assert driver({}) == driver({"log-driver": None}) == "json-file"
