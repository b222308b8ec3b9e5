# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The files of the program for backups.

The program consists of this collection's own utilities, which run on the host without Ansible.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

PACKAGE = "gpulab_backup"
UTILITIES = (
    *("_command.py", "_errors.py", "_files.py", "_json.py", "_secrets.py", "_words.py"),
    *("_backup/archive.py", "_backup/manifest.py", "_backup/restore_record.py", "_backup/sources.py"),
    *("_backup/state.py", "_etcd/client.py", "_etcd/members.py", "_etcd/quorum.py", "_etcd/snapshot.py"),
    "_kubeadm/x509.py",
)
# As below plugins, because they import each other.
MODULES = (
    *(f"module_utils/{name}" for name in UTILITIES),
    *(f"plugin_utils/_backup/{name}.py" for name in ("copies", "drill", "host", "program")),
)
_HEADER = "# Managed by gpulab.kubernetes (role backup).\n"
_MAIN = f"""{_HEADER}import sys

from {PACKAGE}.plugin_utils._backup.program import main

sys.exit(main(sys.argv))
"""
_PLUGINS = Path(__file__).resolve().parents[2]


def program_files(directory: str) -> list[dict[str, Any]]:
    """Return the files of the program as the module managed_files writes them."""
    texts = {f"{PACKAGE}/{name}": _HEADER + (_PLUGINS / name).read_text(encoding="utf-8") for name in MODULES}
    texts["__main__.py"] = _MAIN
    # Files that only root can read have no contents in a diff: no one reviews a program there.
    return [{"path": f"{directory}/{name}", "content": text, "mode": "0600"} for name, text in texts.items()]
