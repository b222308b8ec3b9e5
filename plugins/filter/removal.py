# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from typing import Any, Callable

from ..plugin_utils import _nfs
from ..plugin_utils._nodes import removal

DOCUMENTATION = r"""
name: removal
short_description: Internal filters for the removal of nodes
extends_documentation_fragment: gpulab.kubernetes.internal
"""


class FilterModule:
    def filters(self) -> dict[str, Callable[..., Any]]:
        return {
            "nfs_export_without": _nfs.without,
            "removal_api_host": removal.api_host,
            "removal_asks_etcd": removal.asks_etcd,
            "removal_names": removal.wanted_names,
            "removal_plan": removal.removal_plan,
            "removal_problem": removal.run_problem,
            "removal_result": removal.removal_result,
            "removal_selectors": removal.selectors,
        }
