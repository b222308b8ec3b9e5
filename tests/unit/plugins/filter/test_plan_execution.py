# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.gpulab.kubernetes.plugins.filter.plan_execution import plan_execution


def host(pending: bool, in_use: bool = False, interrupts: bool = False) -> dict[str, Any]:
    roles = {"containerd": ["packages"]} if pending else {}
    return {"plan_pending": roles, "plan_in_use": in_use, "plan_interrupts": interrupts, "plan_serial": "2"}


BARE, DONE = host(True), host(False, in_use=True)
CHANGED, INTERRUPTED = host(True, in_use=True), host(True, in_use=True, interrupts=True)


@pytest.mark.parametrize(
    ("hosts", "strategy", "serial"),
    [
        ([], "linear", "100%"),
        ([{}], "linear", "100%"),
        ([DONE, DONE], "linear", "100%"),
        ([BARE, BARE], "free", "100%"),
        ([DONE, BARE, {}], "free", "100%"),
        ([BARE, CHANGED], "linear", "100%"),
        ([BARE, CHANGED, INTERRUPTED], "linear", "2"),
        ([INTERRUPTED], "linear", "2"),
    ],
)
def test_hosts_wait_for_each_other_where_nodes_are_in_use(
    hosts: list[dict[str, Any]], strategy: str, serial: str
) -> None:
    assert plan_execution(hosts) == {"strategy": f"ansible.builtin.{strategy}", "serial": serial}
