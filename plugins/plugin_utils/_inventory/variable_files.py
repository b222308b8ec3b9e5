# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Find files in group_vars and host_vars that Ansible does not read, because no group or host has their name.

Only names are checked, because the files may be encrypted.
"""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path

from ansible.inventory.manager import IGNORED

from ...module_utils._problem import Problem
from .._progress.text import names as names_of
from .access import inventory_paths
from .hosts import letters

_EXTENSIONS = (".yml", ".yaml", ".json")
# Copies and notes, in addition to the files that Ansible ignores in an inventory.
_NOT_VARIABLES = re.compile(r"\..*|README|.*\.(?:old|save|sample|example|dist|disabled|tmp|j2|ini|toml|adoc)")
_LARGEST = 256 * 1024
_WHY = "Ansible reads the variables of groups and hosts from files with exactly their names"


def find(
    sources: Sequence[str],
    playbook_directory: str,
    groups: Collection[str],
    hosts: Collection[str],
    are_errors: bool,
) -> Iterator[Problem]:
    """Yield the files that were meant for a group or host of this inventory, or the others."""
    inventories = inventory_paths(sources)
    folders = {*map(_directory, inventories), *map(Path, [playbook_directory] if playbook_directory else [])}
    for folder in sorted(folders):
        for kind, names, others in (("group", groups, hosts), ("host", [*hosts, "localhost"], groups)):
            for path, name in _unread(folder / f"{kind}_vars", names):
                do = _meant(path, name, kind, names, others)
                if bool(do) == are_errors and not _is_of_another_inventory(folder, name, inventories):
                    what = f"{path} has no effect, because the inventory has no {kind} {name}"
                    why, do = (_WHY, do) if do else ("", f"{_listed(kind, names)}. Rename it, or remove it")
                    yield Problem("group_vars_unused", what, str(path), why, do)


def of_importing_playbooks(
    playbooks: Sequence[str], sources: Sequence[str], playbook_directory: str
) -> Iterator[Problem]:
    """Yield directories next to the command's playbooks; Ansible does not read them for imported playbooks."""
    inventories = [path.absolute() for path in inventory_paths(sources)]
    read = {Path(playbook_directory), *map(_directory, inventories)}
    for folder in dict.fromkeys(Path(playbook).absolute().parent for playbook in playbooks):
        for path in (folder / "group_vars", folder / "host_vars"):
            if path.is_dir() and folder not in read and inventories:
                yield Problem(
                    "group_vars_unused",
                    f"{path} has no effect on the playbooks of this collection",
                    str(path),
                    "Ansible reads it for the plays of the playbook next to it, and not for those that it imports",
                    f"Move it next to the inventory, to {_directory(inventories[0]) / path.name}",
                )


def _directory(inventory: Path) -> Path:
    return inventory if inventory.is_dir() else inventory.parent


def _unread(folder: Path, names: Collection[str]) -> Iterator[tuple[Path, str]]:
    """Yield each file and directory of variables that has the name of no group or host, with that name."""
    for path in sorted(folder.glob("*")):
        name = next((path.name.removesuffix(end) for end in _EXTENSIONS if path.name.endswith(end)), path.name)
        ignored = _NOT_VARIABLES.fullmatch(path.name) or IGNORED.search(os.fsencode(path.name))
        if not ignored and path.name not in names and name not in names:
            yield path, name


def _meant(path: Path, name: str, kind: str, names: Collection[str], others: Collection[str]) -> str:
    """Return what to do about a file whose group or host can be guessed, empty if it can't."""
    if name in others:
        other = "host" if kind == "group" else "group"
        return f"Move it to {path.parent.with_name(f'{other}_vars') / path.name}, because {name} is a {other}"
    near = _near(name, names)
    if near:
        return f"Rename it to {near}{path.name.removeprefix(name)}, or the {kind} to {name}"
    return ""


def _listed(kind: str, names: Iterable[str]) -> str:
    shown = [name for name in names if name not in ("all", "ungrouped", "localhost")]
    return f"The {kind}s are {names_of(shown, 10)}" if shown else f"There are no {kind}s"


def _near(name: str, names: Collection[str]) -> str:
    # Without their dots, different addresses may be equal.
    alike = [other for other in names if letters(other) == letters(name) and not name[0].isdigit()]
    near = difflib.get_close_matches(name, names, n=1, cutoff=0.85)
    return next(iter(alike or [other for other in near if _is_misspelling(name.lower(), other.lower())]), "")


def _is_misspelling(one: str, other: str) -> bool:
    """Return whether the names differ only in words of letters: site1 and site2, or a and b, are different names."""
    pairs = zip(re.split(r"[^a-z0-9]+", one), re.split(r"[^a-z0-9]+", other))
    return all(a == b or (len(a) > 3 and f"{a}{b}".isalpha()) for a, b in pairs)


def _is_of_another_inventory(folder: Path, name: str, inventories: Collection[Path]) -> bool:
    """Return whether another file in the directory has a line that begins with this name of a group or host."""
    line = re.compile(rf"^\s*\[?{re.escape(name)}(?:[\]:\s]|$)", re.MULTILINE)
    others = (path for path in folder.glob("*") if path not in inventories and path.is_file())
    read = (path for path in others if path.stat().st_size < _LARGEST and os.access(path, os.R_OK))
    return any(line.search(path.read_text(encoding="utf-8", errors="replace")) for path in read)
