# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Callable

from ansible.errors import AnsibleFilterError

from ..module_utils._storage import local_path
from ..plugin_utils import _nfs

DOCUMENTATION = r"""
name: storage
short_description: Internal filters for NFS and local storage
extends_documentation_fragment: gpulab.kubernetes.internal
"""


def local_path_plan(found: Sequence[Mapping[str, Any]], wanted: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Decide whether a StorageClass for local directories can be created, and what of it to remove."""
    # asdict fails because it copies containers by type, and Ansible's types don't support that.
    plan = local_path.plan(found, wanted)
    return {"obstacle": plan.obstacle, "refused": plan.refused, "removed": list(plan.removed), "kept": plan.kept}


def nfs_clients(hostvars: Mapping[str, Any], hosts: Sequence[str]) -> list[str]:
    """List the node addresses of hosts, for the exports of an NFS server."""
    try:
        return _nfs.clients(hostvars, hosts)
    except ValueError as error:
        raise AnsibleFilterError(
            f"Error while listing the nodes that may mount: {error}. Nothing was changed."
        ) from error


def nfs_export(
    path: str,
    clients: Sequence[str],
    options: Sequence[str],
    no_root_squash: bool = False,
    insecure_clients: Sequence[str] = (),
    any_client: bool = False,
) -> str:
    """Write the line of exports(5) for a directory."""
    try:
        return _nfs.export(path, clients, options, no_root_squash, insecure_clients, any_client)
    except ValueError as error:
        raise AnsibleFilterError(f"Error while exporting {path}: {error}. Nothing was changed.") from error


class FilterModule:
    def filters(self) -> dict[str, Callable[..., Any]]:
        return {
            "local_path_plan": local_path_plan,
            "nfs_clients": nfs_clients,
            "nfs_export": nfs_export,
            "nfs_export_differences": _nfs.differences,
        }
