# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Gather facts of Ansible's module setup in a module that reads a host in one call."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ansible.module_utils.facts.ansible_collector import get_ansible_collector
from ansible.module_utils.facts.namespace import PrefixFactNamespace
from ansible.module_utils.facts.network.linux import LinuxNetworkCollector
from ansible.module_utils.facts.system.distribution import DistributionFactCollector
from ansible.module_utils.facts.system.platform import PlatformFactCollector

# Importing all collectors, as setup does, takes longer than gathering these facts. LinuxNetwork needs the others.
_COLLECTORS = [DistributionFactCollector, PlatformFactCollector, LinuxNetworkCollector]


def ansible_facts(module: Any, subset: Sequence[str]) -> dict[str, Any]:
    """Return the facts of a ``gather_subset`` with Ansible's names (``ansible_...``)."""
    collector = get_ansible_collector(
        all_collector_classes=_COLLECTORS,
        namespace=PrefixFactNamespace(namespace_name="ansible", prefix="ansible_"),
        gather_subset=["!all", "!min", *subset],
        minimal_gather_subset=frozenset(),
    )
    facts: dict[str, Any] = collector.collect(module=module)
    return facts
