# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What inventory files contain that Ansible does not keep: hosts that it could not read, and hosts with two values.

Reads the files on the controller as far as they are plain, INI or YAML; what it does not understand is left out.
"""

from __future__ import annotations

import codecs
import difflib
import os
import re
import shlex
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import yaml

from ...module_utils._problem import Problem
from .._preflight.model import listing
from .hosts import letters

_SECTION = re.compile(r"\[\s*(?P<name>[^\]:]*?)\s*(?::\s*(?P<kind>\w+)\s*)?\]\s*(?:#.*)?")
_HOST = re.compile(r"[A-Za-z0-9][\w.-]*", re.ASCII)
_IGNORED = ("~", ".orig", ".bak", ".cfg", ".retry", ".pyc", ".pyo", ".rst", ".md", ".txt", ".json", ".html", ".toml")
_MARKS = (codecs.BOM_UTF8, codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
_LARGEST = 4 * 1024 * 1024


@dataclass
class Source:
    """The hosts of a file, and for each host and variable the values with the lines on which they stand."""

    path: Path
    hosts: dict[str, int] = field(default_factory=dict)
    ranges: int = 0
    values: dict[tuple[str, str], dict[str, int]] = field(default_factory=dict)

    def add(self, host: str, line: int, variables: Iterable[Sequence[str]]) -> None:
        self.hosts.setdefault(host, line)
        for name, value in variables:
            self.values.setdefault((host, name), {}).setdefault(value, line)


def problems(sources: Sequence[str], known: Collection[str], groups: Collection[str] = ()) -> Iterator[Problem]:
    """``known`` are the hosts of the inventory as Ansible has read it, ``groups`` its groups, if they are judged."""
    if groups:
        yield from _unused_variables(sources, groups)
    for path in _files(sources):
        try:
            raw = path.read_bytes()
        except OSError as error:
            yield _unread(path, f"it can't be opened ({error.strerror})", "Check the path and who may read it")
            continue
        if len(raw) > _LARGEST:
            continue
        source = _read(path, raw)
        missing = [host for host in source.hosts if host not in known]
        mark = raw.startswith(_MARKS)
        if missing or ((mark or source.ranges) and not known):
            yield _unread(
                path,
                f"it has the hosts {listing(missing[:20])}, which are not in the inventory"
                if missing
                else "no host of it is in the inventory",
                "The file begins with a byte order mark, as editors on Windows write it: save it as UTF-8 without BOM"
                if mark
                else "See Ansible's warning above, which names the line (ansible-inventory -i FILE --list)",
            )
        else:
            yield from _twice(source)


def _files(sources: Sequence[str]) -> Iterator[Path]:
    for source in sources:
        path = Path(source)
        if "," in source or not path.exists():
            continue
        for file in _listed(path) if path.is_dir() else [path]:
            if file.is_file() and not os.access(file, os.X_OK) and file.suffix not in (".json", ".toml"):
                yield file


def _listed(folder: Path) -> list[Path]:
    return sorted(file for file in folder.iterdir() if not file.name.endswith(_IGNORED))


def _unused_variables(sources: Sequence[str], groups: Collection[str]) -> Iterator[Problem]:
    """Files of variables for a group that does not exist, but nearly. Those of other inventories are no mistake."""
    folders = {path if path.is_dir() else path.parent for path in map(Path, sources) if path.exists()}
    for path in sorted(file for folder in folders for file in (folder / "group_vars").glob("*")):
        name = path.name.removesuffix(".yml").removesuffix(".yaml").removesuffix(".json")
        near = [] if name in groups or name.startswith(".") else _near(name, groups)
        if near:
            yield Problem(
                "group_vars_unused",
                f"{path} has no effect, because the inventory has no group {name}",
                str(path),
                "Ansible reads variables of groups from files with exactly their name",
                f"Rename it to {path.with_name(near[0]).name}{path.name.removeprefix(name)}, or the group to {name}",
            )


def _near(name: str, groups: Collection[str]) -> list[str]:
    alike = [group for group in groups if letters(group) == letters(name)]
    near = difflib.get_close_matches(name, groups, n=1, cutoff=0.85)
    return alike or [group for group in near if _is_misspelling(name.lower(), group.lower())]


def _is_misspelling(one: str, other: str) -> bool:
    """Whether they differ in words of letters alone: site1 and site2, or a and b, are two names."""
    pairs = zip(re.split(r"[^a-z0-9]+", one), re.split(r"[^a-z0-9]+", other))
    return all(a == b or (len(a) > 3 and f"{a}{b}".isalpha()) for a, b in pairs)


def _unread(path: Path, what: str, do: str) -> Problem:
    return Problem(
        "inventory_unread",
        f"Ansible could not read the inventory {path}: {what}",
        str(path),
        "Its hosts would be left out of the run",
        do,
    )


def _twice(source: Source) -> Iterator[Problem]:
    for (host, name), values in source.values.items():
        if len(values) > 1:
            places = "; ".join(f"{value} in line {line}" for value, line in values.items())
            shown = places if name == "ansible_host" else f"lines {listing(values.values())}"
            yield Problem(
                "host_twice",
                f"{host} has {len(values)} values of {name}: {shown}",
                str(source.path),
                "Ansible keeps the last one, so a machine that was meant by the other line is not in the cluster",
                "Give each machine its own name, or remove the line that is wrong",
                host,
            )


def _read(path: Path, raw: bytes) -> Source:
    encoding = "utf-16" if raw.startswith(_MARKS[1:]) else "utf-8-sig"
    text = raw.decode(encoding, errors="replace")
    if path.suffix in (".yml", ".yaml"):
        return _read_yaml(path, text)
    return _read_ini(path, text)


def _read_ini(path: Path, text: str) -> Source:
    source, kind = Source(path), ""
    for number, line in enumerate(text.splitlines(), 1):
        section = _SECTION.fullmatch(line.strip())
        if section:
            kind = section["kind"] or ""
        elif line.strip() and line.strip()[0] not in "#;[" and not kind:
            try:
                first, *rest = shlex.split(line, comments=True)
            except ValueError:
                continue
            source.ranges += first[:1].isalnum() and "[" in first
            if _HOST.fullmatch(first) and all("=" in word for word in rest):
                source.add(first, number, [tuple(word.split("=", 1)) for word in rest])
    return source


def _read_yaml(path: Path, text: str) -> Source:
    source = Source(path)
    try:
        root = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.YAMLError:
        return source
    if isinstance(root, yaml.MappingNode) and not any(pair[0].value == "plugin" for pair in root.value):
        for pair in root.value:
            _read_group(source, pair[1])
    return source


def _read_group(source: Source, node: yaml.Node) -> None:
    for key, value in node.value if isinstance(node, yaml.MappingNode) else []:
        if not isinstance(value, yaml.MappingNode):
            continue
        for name, inner in value.value:
            if key.value == "children":
                _read_group(source, inner)
            elif key.value == "hosts" and _HOST.fullmatch(str(name.value)):
                variables = inner.value if isinstance(inner, yaml.MappingNode) else []
                pairs = [(k.value, v.value) for k, v in variables if isinstance(v, yaml.ScalarNode)]
                source.add(name.value, name.start_mark.line + 1, pairs)
