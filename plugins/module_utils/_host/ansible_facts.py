# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The facts that Ansible's own module setup gathers, for a module that reads a host in one go."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ansible.module_utils.facts.ansible_collector import get_ansible_collector
from ansible.module_utils.facts.collector import CollectorNotFoundError, CycleFoundInFactDeps, UnresolvedFactDep
from ansible.module_utils.facts.default_collectors import collectors
from ansible.module_utils.facts.namespace import PrefixFactNamespace

from .._errors import DomainError

# As in ansible/modules/setup.py of ansible-core 2.19 to 2.21.
_MINIMAL = frozenset(
    [
        *("apparmor", "caps", "cmdline", "date_time", "distribution", "dns", "env", "fips", "local", "lsb", "pkg_mgr"),
        *("platform", "python", "selinux", "service_mgr", "ssh_pub_keys", "user"),
    ]
)


def ansible_facts(module: Any, subset: Sequence[str]) -> dict[str, Any]:
    """Return the facts of a ``gather_subset``, by names with the prefix ``ansible_``, as Ansible wants them."""
    try:
        collector = get_ansible_collector(
            all_collector_classes=collectors,
            namespace=PrefixFactNamespace(namespace_name="ansible", prefix="ansible_"),
            gather_subset=list(subset),
            minimal_gather_subset=_MINIMAL,
        )
    except (TypeError, CollectorNotFoundError, CycleFoundInFactDeps, UnresolvedFactDep) as error:
        raise DomainError(f"Error while gathering facts: gather_subset is {', '.join(subset)}: {error}") from error
    facts: dict[str, Any] = collector.collect(module=module)
    return facts
