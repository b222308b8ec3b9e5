# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read plain inventory files (INI, YAML): hosts with their lines in the file, and hosts that Ansible reads."""

from __future__ import annotations

import codecs
import re
import shlex
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml
from ansible import constants
from ansible.inventory.data import InventoryData
from ansible.parsing.dataloader import DataLoader
from ansible.plugins.loader import inventory_loader

_SECTION = re.compile(r"\[\s*(?P<name>[^\]:]*?)\s*(?::\s*(?P<kind>\w+)\s*)?\]\s*(?:#.*)?")
_HOST = re.compile(r"[A-Za-z0-9][\w.-]*", re.ASCII)
# Lines that settings files contain, but inventories don't.
_SETTING = re.compile(r"[^\s=]+\s*=")
_HOSTS_KEY = re.compile(r"^[ \t]+hosts:[ \t]*(?:#.*)?$", re.MULTILINE)
_MARKS = (codecs.BOM_UTF8, codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
YAML = (".yml", ".yaml")
# Plugins of ansible-core. Others may read files in any format.
_OF_CORE = {"advanced_host_list", "auto", "constructed", "generator", "host_list", "ini", "script", "toml", "yaml"}
_CLASS = re.compile(r"\"?<class '(?:[\w.]*\.)?(?:_AnsibleTagged)?(\w+)'>\"?")


@dataclass
class Source:
    """The hosts of a file, and for each host and variable the values with their line numbers.

    ``ranges`` counts lines with a host range; ``broken`` are lines that look like a host, but are invalid.
    """

    path: Path
    hosts: dict[str, int] = field(default_factory=dict)
    ranges: int = 0
    broken: list[int] = field(default_factory=list)
    is_plugin: bool = False
    values: dict[tuple[str, str], dict[str, int]] = field(default_factory=dict)

    def add(self, host: str, line: int, variables: Iterable[Sequence[str]]) -> None:
        self.hosts.setdefault(host, line)
        for name, value in variables:
            self.values.setdefault((host, name), {}).setdefault(value, line)


@dataclass(frozen=True)
class Outcome:
    """What Ansible reads from a file: its hosts, or the error."""

    hosts: frozenset[str] = frozenset()
    error: str = ""


def encoding_problem(raw: bytes) -> str:
    """Return what to do about an encoding that Ansible can't read, empty for UTF-8 without a byte order mark."""
    if raw.startswith(_MARKS):
        return "The file begins with a byte order mark, as editors on Windows write it: save it as UTF-8 without BOM"
    return "The file is in UTF-16, as editors on Windows write it: save it as UTF-8" if _utf16(raw) else ""


def _utf16(raw: bytes) -> str:
    """Return the UTF-16 encoding of a file without a byte order mark if every other byte is 0."""
    start = raw[:512]
    for first, name in ((1, "utf-16-le"), (0, "utf-16-be")):
        if len(start) > 1 and start[first::2].count(0) > 0.8 * len(start[first::2]) and any(start[1 - first :: 2]):
            return name
    return ""


def decode(raw: bytes) -> str:
    encoding = "utf-16" if raw.startswith(_MARKS[1:]) else _utf16(raw) or "utf-8-sig"
    return raw.decode(encoding, errors="replace")


def has_content(text: str) -> bool:
    lines = (line.strip() for line in text.splitlines())
    return any(line and line[0] not in "#;" and line not in ("---", "...", "{}") for line in lines)


def written(path: Path, text: str) -> Source:
    """Return the hosts of a file with their lines; lines that are not understood are skipped."""
    is_yaml = path.suffix in YAML
    root = _composed(text) if is_yaml or not path.suffix else None
    if is_yaml or isinstance(root, yaml.MappingNode):
        return _read_yaml(path, text, root)
    return _read_ini(path, text)


def as_ansible(path: Path, text: str) -> Outcome | None:
    """Read a file with Ansible's yaml and ini plugins; None if another plugin could read it."""
    enabled = [str(name).removeprefix("ansible.builtin.") for name in constants.INVENTORY_ENABLED]
    if not _OF_CORE.issuperset(enabled):
        return None
    found = []
    for name in ("yaml", "ini"):
        plugin: Any = inventory_loader.get(name) if name in enabled else None
        if plugin and plugin.verify_file(str(path.absolute())):
            inventory = InventoryData()
            try:
                plugin.parse(inventory, DataLoader(), str(path.absolute()), cache=False)
                return Outcome(frozenset(inventory.hosts))
            # Ansible may raise any exception for an unreadable file, such as RecursionError.
            except Exception as unread:
                found.append((name, unread))
    if not found or any(_keeps_hosts(error) for _name, error in found):
        return None
    is_yaml = path.suffix in YAML or "hosts:" in text
    error = next((error for name, error in found if (name == "yaml") == is_yaml), found[-1][1])
    message = _CLASS.sub(r"\1", " ".join(str(error).split())).replace("Tagged", "")
    return Outcome(error=message.removeprefix("Failed to parse inventory: ").rstrip("."))


def _keeps_hosts(error: Exception) -> bool:
    """Return whether the error is about groups that other sources may define; Ansible still reads the file's hosts."""
    return "undefined group" in f"{error} {error.__cause__}"


def _read_ini(path: Path, text: str) -> Source:
    source, kind, sections, settings = Source(path), "", 0, 0
    for number, line in enumerate(text.splitlines(), 1):
        section = _SECTION.fullmatch(line.strip())
        if section:
            kind = section["kind"] or ""
            sections += 1
        elif line.strip() and line.strip()[0] not in "#;[" and not kind:
            try:
                first, *rest = shlex.split(line, comments=True)
            except ValueError:
                source.broken.append(number)
                continue
            source.ranges += first[:1].isalnum() and "[" in first
            if _SETTING.match(line.strip()):
                settings += 1
            elif not all("=" in word for word in rest):
                source.broken.append(number)
            elif _HOST.fullmatch(first):
                source.add(first, number, [tuple(word.split("=", 1)) for word in rest])
    if settings or not sections:
        source.broken.clear()
    return source


def _composed(text: str) -> yaml.Node | None:
    try:
        node: yaml.Node | None = yaml.compose(text, Loader=yaml.SafeLoader)
    except (yaml.YAMLError, RecursionError):
        return None
    return node


def _read_yaml(path: Path, text: str, root: yaml.Node | None) -> Source:
    source = Source(path)
    if root is None:
        source.broken = [text.count("\n", 0, found.start()) + 1 for found in _HOSTS_KEY.finditer(text)]
    if isinstance(root, yaml.MappingNode):
        source.is_plugin = any(key.value == "plugin" for key, _value in root.value)
        for group in [] if source.is_plugin else _groups(root):
            for key, value in group.value:
                if key.value == "hosts":
                    _add_hosts(source, value)
    return source


def _groups(root: yaml.MappingNode) -> Iterator[yaml.MappingNode]:
    """Yield all groups below the root once, because an alias can contain itself."""
    left, seen = [value for _name, value in root.value], set()
    while left:
        node = left.pop(0)
        if isinstance(node, yaml.MappingNode) and id(node) not in seen:
            seen.add(id(node))
            yield node
            left += [
                group
                for key, value in node.value
                if key.value == "children" and isinstance(value, yaml.MappingNode)
                for _name, group in value.value
            ]


def _add_hosts(source: Source, hosts: yaml.Node) -> None:
    if isinstance(hosts, yaml.MappingNode):
        entries = hosts.value
    else:
        entries = [(node, None) for node in hosts.value] if isinstance(hosts, yaml.SequenceNode) else []
    for name, inner in entries:
        if isinstance(name, yaml.ScalarNode) and _HOST.fullmatch(name.value):
            variables = inner.value if isinstance(inner, yaml.MappingNode) else []
            pairs = [(key.value, value.value) for key, value in variables if isinstance(value, yaml.ScalarNode)]
            pairs = [(variable, value) for variable, value in pairs if value]
            source.add(name.value, name.start_mark.line + 1, pairs)
