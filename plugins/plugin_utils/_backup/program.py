# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The files of the program for backups, and what is wrong with its settings. Pure, except that it reads its files.

The program consists of this collection's own utilities, which run on the host without Ansible.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

PACKAGE = "gpulab_backup"
# Below plugins/module_utils.
MODULES = (
    *("_command.py", "_errors.py", "_files.py", "_json.py", "_secrets.py", "_words.py"),
    *("_backup/archive.py", "_backup/copies.py", "_backup/drill.py", "_backup/host.py", "_backup/manifest.py"),
    *("_backup/program.py", "_backup/sources.py", "_backup/state.py"),
    *("_etcd/client.py", "_etcd/members.py", "_etcd/quorum.py", "_etcd/snapshot.py"),
    "_kubeadm/x509.py",
)
_HEADER = "# Managed by gpulab.kubernetes (role backup).\n"
_MAIN = f"""{_HEADER}import sys

from {PACKAGE}._backup.program import main

sys.exit(main(sys.argv))
"""
_UTILITIES = Path(__file__).resolve().parents[2] / "module_utils"
# An X25519 key of age, or a public key of SSH.
_RECIPIENT = re.compile(r"age1[0-9a-z]{10,200}|ssh-(?:rsa|ed25519) [A-Za-z0-9+/=]{20,4000}(?: \S.*)?", re.ASCII)
_PLACE = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+@-]*:[^\x00-\x1f]*|/[^\x00-\x1f]+", re.ASCII)


def program_files(directory: str) -> list[dict[str, Any]]:
    """Return the files of the program as the module managed_files writes them."""
    texts = {f"{PACKAGE}/{name}": _HEADER + (_UTILITIES / name).read_text(encoding="utf-8") for name in MODULES}
    texts["__main__.py"] = _MAIN
    return [{"path": f"{directory}/{name}", "content": text} for name, text in texts.items()]


def problems(recipients: Iterable[Any], places: Iterable[Any], count: Any, days: Any, directory: str) -> Iterator[str]:
    """Yield a sentence for each setting that is not valid, or that would copy secrets in clear."""
    recipients, places = list(recipients), list(places)
    for each in recipients:
        if not isinstance(each, str) or not _RECIPIENT.fullmatch(each):
            # An identity, the secret part, must not be shown.
            hint = "it is a secret identity" if str(each).upper().startswith("AGE-SECRET-KEY") else "it is not valid"
            yield f"backup_recipients: entry {recipients.index(each) + 1}: {hint}. Use age1... or an SSH key."
    for each in places:
        if not isinstance(each, str) or not _PLACE.fullmatch(each):
            yield f"backup_places: {each!r} is neither REMOTE:PATH nor an absolute path."
    if places and not recipients:
        yield "backup_places: copies are never made in clear. Set backup_recipients, too."
    if not isinstance(count, int) or count < 1:
        yield "backup_keep_count: it must be at least 1."
    if not isinstance(days, (int, float)) or days <= 0:
        yield "backup_keep_days: it must be positive."
    if not directory.startswith("/") or directory.rstrip("/").count("/") < 2:
        yield f"backup_directory: {directory!r} is not an absolute path of a directory of its own."
