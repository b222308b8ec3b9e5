# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Renamed variables. Their old names still work, because the default of each new one reads its old name."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from ...module_utils._problem import Problem

# Old name -> new name.
RENAMED = {
    "acceptance_report": "report_file",
    "acceptance_report_configmap": "report_configmap",
    "acceptance_report_fail_on": "report_fail_on",
    "acceptance_report_junit": "report_junit",
    "acceptance_report_metrics": "report_metrics",
    "acceptance_report_source": "report_source",
    "nvidia_device_plugin_sharing": "cluster_gpu_sharing",
    "nvidia_driver_packages": "nvidia_driver_extent",
}
REMOVED_IN = "0.4.0"
_OLD = {new: old for old, new in RENAMED.items()}


def name_in_use(name: str, variables: Collection[str]) -> str:
    """Return the old name of a variable if only this one is set, otherwise its name."""
    old = _OLD.get(name, name)
    return old if old in variables and name not in variables else name


def new_name(name: str) -> str:
    return RENAMED.get(name, name)


def find(hosts: Mapping[str, Collection[str]], are_errors: bool) -> Iterator[Problem]:
    """Yield the variables that are set with both names, which are errors, or those with their old name only."""
    for host, variables in hosts.items():
        for old, new in RENAMED.items():
            if old not in variables or (new in variables) != are_errors:
                continue
            if are_errors:
                what, why, do = f"{new} and {old} are both set", f"{old} is the old name of {new}", f"Remove {old}"
            else:
                what, do = f"{old} is now called {new}", "Use the new name"
                why = f"The old name works until release {REMOVED_IN}"
            yield Problem("variable_renamed", what, f"{old}, {new}", why, do, host)
