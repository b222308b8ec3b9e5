"""The playbooks and inventories of a checked-out project that AWX offers, recognized by their names and lines.

The rules are those of awx/main/utils/ansible.py of AWX 24.6.1.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

_PLAYBOOK = re.compile(r"\s*-?\s*(hosts|(ansible\.builtin\.)?(include|import_playbook)):")
_PASSED_OVER = ("roles", "tasks", "group_vars", "host_vars")


def checkout(repository: Path, target: Path) -> Path:
    """Copy the files of a working tree that git knows, with uncommitted changes, and return the copy."""
    argv = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    listed = subprocess.run(argv, cwd=repository, capture_output=True, text=True, check=True).stdout
    for name in filter(None, listed.split("\0")):
        source = repository / name
        if source.is_symlink() or source.is_file():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, target / name, follow_symlinks=False)
    return target


def playbooks(project: Path) -> list[str]:
    """Return the files that a job template may use."""
    found = (path for path in _files(project) if path.suffix in (".yml", ".yaml"))
    return sorted(str(p.relative_to(project)) for p in found if any(map(_PLAYBOOK.match, p.read_text().splitlines())))


def inventories(project: Path) -> list[str]:
    """Return the files that an inventory source may use, judged by their names only."""
    found = (path for path in _files(project) if path.name in ("inventory", "hosts") or path.suffix == ".ini")
    return sorted(str(path.relative_to(project)) for path in found)


def _files(project: Path) -> Iterator[Path]:
    for directory, names, files in os.walk(project):
        names[:] = [
            n for n in names if not n.startswith(".") and n not in ("roles", "tasks", "group_vars", "host_vars")
        ]
        yield from (Path(directory, name) for name in files)
