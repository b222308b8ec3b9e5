# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Callable

from ..plugin_utils._backup.files import program_files
from ..plugin_utils._report.origin import collection_version

DOCUMENTATION = r"""
name: backup
short_description: Internal filters for backups
extends_documentation_fragment: gpulab.kubernetes.internal
"""


def backup_settings(settings: dict[str, Any]) -> dict[str, Any]:
    """Add the version of this collection to the settings of the program."""
    return {**settings, "collection": collection_version(Path(__file__).resolve().parents[2])}


def backup_lines(taken: Mapping[str, Any]) -> list[str]:
    """Describe a backup that was taken: the archive, who can decrypt it, and where copies are."""
    recipients, places = taken["recipients"], taken["places"]
    who = [f"encrypted for {each}" for each in recipients] or ["not encrypted: root can read all Secrets in it"]
    where = [f"copy in {place}" for place in places] or ["no copy elsewhere: it is lost with this host (backup_places)"]
    what = f"{taken['archive']}: {taken['size']} bytes, revision {taken['revision']}, {taken['key_count']} keys"
    return [what, "restored on trial, and compared with etcd", *who, *where, "not in it: data in volumes"]


class FilterModule:
    def filters(self) -> dict[str, Callable[..., Any]]:
        return {
            "backup_lines": backup_lines,
            "backup_program": program_files,
            "backup_settings": backup_settings,
        }
