# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Find hosts in inventory files that Ansible could not read, and hosts with two values for a variable.

Looks at plain files (INI, YAML) on the controller.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path

from ansible.inventory.manager import IGNORED

from ...module_utils._problem import Problem
from ...module_utils._words import listing
from .access import inventory_paths
from .reading import YAML, Source, as_ansible, decode, encoding_problem, has_content, written

_NOT_READ = (".json", ".toml", ".html")
_LARGEST = 4 * 1024 * 1024
# Variables for the address of a host; for other variables, overriding a value is often intended.
_REACHED = ("ansible_host", "ansible_ssh_host", "ansible_port", "ansible_ssh_port", "ansible_connection")


def problems(sources: Sequence[str], known: Collection[str]) -> Iterator[Problem]:
    """Yield lost hosts and repeated values; ``known`` are the hosts of the inventory as Ansible read it."""
    read: dict[Path, list[Source]] = {}
    for path, is_named in _files(sources):
        try:
            raw = path.read_bytes()
        except OSError as error:
            yield _unread(path, f"it can't be opened ({error.strerror})", "Check the path and who may read it")
            continue
        # Ansible may have the password of an encrypted file, and runs scripts.
        if len(raw) > _LARGEST or raw.startswith((b"$ANSIBLE_VAULT", b"#!")):
            continue
        text = decode(raw)
        source = written(path, text)
        lost = _lost(source, text, is_named, encoding_problem(raw), known)
        if lost:
            yield lost
        else:
            # A later source on the command line may override an earlier one.
            read.setdefault(path if is_named else path.parent, []).append(source)
    for together in read.values():
        yield from _twice(together)


def _lost(source: Source, text: str, is_named: bool, encoding: str, known: Collection[str]) -> Problem | None:
    """Return a problem if Ansible has lost hosts of a file.

    A directory may contain other files: they are checked only if they look like an inventory.
    """
    outcome = None if source.is_plugin else as_ansible(source.path, text)
    if outcome is None:
        return None
    missing = [
        host for host in source.hosts if host not in known and (outcome.error or encoding or host in outcome.hosts)
    ]
    is_part_of_name = any(host.startswith("\ufeff") or "\0" in host for host in outcome.hosts)
    is_inventory = has_content(text) if is_named else source.broken or (source.ranges and not known)
    if not (missing or is_part_of_name or (outcome.error and is_inventory)):
        return None
    if missing:
        what = f"it has the hosts {listing(missing[:20])}, which are not in the inventory"
    else:
        what = outcome.error or "no host of it is in the inventory"
    if encoding:
        do = encoding
    elif outcome.error:
        line = source.broken[0] if source.broken and source.path.suffix not in YAML else 0
        do = f"Correct {f'line {line}' if line else 'the file'}: {outcome.error}"
    else:
        do = "See Ansible's warning above, which names the line (ansible-inventory -i FILE --list)"
    return _unread(source.path, what, do)


def _files(sources: Sequence[str]) -> Iterator[tuple[Path, bool]]:
    """Yield each plain file of the inventory, and whether it is named itself rather than in a directory."""
    for path in inventory_paths(sources):
        for file in _listed(path) if path.is_dir() else [path]:
            if file.is_file() and not os.access(file, os.X_OK) and file.suffix not in _NOT_READ:
                yield file, file == path


def absent(sources: Sequence[str]) -> list[str]:
    """Return the sources that are paths of missing files or directories."""
    return [source for source in sources if "," not in source and not Path(source).exists()]


def _listed(folder: Path) -> Iterator[Path]:
    for file in sorted(folder.iterdir()):
        if not IGNORED.search(os.fsencode(file.name)):
            yield from _listed(file) if file.is_dir() else [file]


def _unread(path: Path, what: str, do: str) -> Problem:
    return Problem(
        "inventory_unread",
        f"Ansible could not read the inventory {path}: {what}",
        str(path),
        "Its hosts would be left out of the run",
        do,
    )


def _twice(sources: Sequence[Source]) -> Iterator[Problem]:
    found: dict[tuple[str, str], dict[str, tuple[Path, int]]] = {}
    for source in sources:
        for (host, name), values in source.values.items():
            if name in _REACHED:
                for value, line in values.items():
                    found.setdefault((host, name), {}).setdefault(value, (source.path, line))
    for (host, name), places in found.items():
        if len(places) > 1:
            paths = list(dict.fromkeys(str(path) for path, _line in places.values()))
            several = len(paths) > 1
            shown = "; ".join(
                f"{value} in {f'{path}, ' * several}line {line}" for value, (path, line) in places.items()
            )
            yield Problem(
                "host_twice",
                f"{host} has {len(places)} values of {name}: {shown}",
                listing(paths),
                "Ansible keeps the last one, so a machine that was meant by the other line is not in the cluster",
                "Give each machine its own name, or remove the line that is wrong",
                host,
            )
