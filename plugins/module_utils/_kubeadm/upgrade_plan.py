# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reads C(kubeadm upgrade plan): the text of all versions, and JSON or YAML since 1.27 (two shapes).

Forms: kubernetes cmd/kubeadm/app/cmd/upgrade/plan.go and its history, cmd/kubeadm/app/apis/output.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from .text import columns, is_remark, json_objects, plain, unreadable
from .yaml_block import read_yaml

_WHAT = "upgrade plan"
_TABLE = re.compile(r"\s*COMPONENT\s{2,}(?:NODE\s{2,})?CURRENT\s{2,}(?:AVAILABLE|TARGET)\s*")
_CONFIGS = re.compile(r"\s*API GROUP\s{2,}CURRENT VERSION\s{2,}PREFERRED VERSION\s{2,}MANUAL UPGRADE REQUIRED\s*")
_DESCRIPTION = re.compile(r"\s*Upgrade to the latest (.+):\s*")
_APPLY = re.compile(r"\s*kubeadm upgrade apply (v\S+)(?: --\S+)*\s*")
_NOTED = re.compile(r"\s*\[upgrade/versions\] (Cluster|kubeadm) version: v?(\d\S*)\s*")
_UP_TO_DATE = re.compile(r"\s*Awesome, you're up-to-date")
# Since 1.19 nothing at all follows it when there is no upgrade.
_LAST_NOTE = re.compile(r"\s*\[upgrade/versions\] Latest version in the .+ series: v\d")
_FATAL = re.compile(r"\s*\[upgrade/[a-z]+\] FATAL")
_COUNTED = re.compile(r"(\d{1,6}) x (\S+)", re.ASCII)
_YAML = re.compile(r"(?:apiVersion|kind|availableUpgrades|components|configVersions):")
_SERVER = "kube-apiserver"
# As the tables had them until 1.18.
_OLD_NAMES = {
    "API Server": _SERVER,
    "Controller Manager": "kube-controller-manager",
    "Scheduler": "kube-scheduler",
    "Kube Proxy": "kube-proxy",
    "Kube DNS": "kube-dns",
    "Etcd": "etcd",
    "Kubelet": "kubelet",
}


@dataclass(frozen=True)
class Component:
    """``count``: on how many nodes, where kubeadm counts them and names none; ``node`` where it names one.

    ``current`` or ``target`` is None for one that comes or goes.
    """

    name: str
    current: str | None
    target: str | None
    node: str | None = None
    count: int | None = None


@dataclass(frozen=True)
class Upgrade:
    """One of the upgrades that are possible: to ``version``, such as V(v1.36.4)."""

    version: str
    description: str | None
    components: tuple[Component, ...]


@dataclass(frozen=True)
class ConfigVersion:
    """The version of a component's configuration, None where it is not known."""

    group: str
    current: str | None
    preferred: str | None
    manual_upgrade: bool


@dataclass(frozen=True)
class UpgradePlan:
    """No ``upgrades``: the cluster is up to date. The versions are such as V(v1.36.4), None where it doesn't tell."""

    upgrades: tuple[Upgrade, ...]
    config_versions: tuple[ConfigVersion, ...]
    cluster_version: str | None = None
    kubeadm_version: str | None = None


def upgrade_plan(text: str) -> UpgradePlan:
    """What C(kubeadm upgrade plan) says, whatever its C(-o). Raises KubeadmTextError, also when it was cut off."""
    text = plain(text)
    try:
        objects = json_objects(text) or list(_yaml_objects(text))
        return _from_objects(objects) if objects else _Text().read(text.split("\n"))
    except ValueError as error:
        raise unreadable(_WHAT, str(error)) from error


def _yaml_objects(text: str) -> Iterator[dict[str, Any]]:
    lines = text.split("\n")
    start = next((number for number, line in enumerate(lines) if _YAML.match(line)), len(lines))
    for document in re.split(r"(?m)^---$", "\n".join(lines[start:])):
        if document.strip():
            try:
                data = read_yaml(document)
            except RecursionError as error:
                raise ValueError("it is nested too deeply") from error
            if not isinstance(data, dict):
                raise ValueError("the YAML is not an UpgradePlan")
            yield data


def _from_objects(objects: list[dict[str, Any]]) -> UpgradePlan:
    upgrades: list[Upgrade] = []
    configs: tuple[ConfigVersion, ...] = ()
    for data in objects:
        if data.get("kind") != "UpgradePlan":
            raise ValueError("there is no UpgradePlan in it")
        # v1alpha2 has one object for each upgrade.
        offered = [data] if "components" in data else _objects(data, "availableUpgrades")
        upgrades += [_upgrade(_text(entry, "description"), _objects(entry, "components")) for entry in offered]
        configs = tuple(_config(entry) for entry in _objects(data, "configVersions"))
    return UpgradePlan(tuple(upgrades), configs)


def _upgrade(description: str | None, components: list[dict[str, Any]]) -> Upgrade:
    keys = ("name", "currentVersion", "newVersion", "nodeName")
    return _checked(description, tuple(_component(*(_text(each, key) or "" for key in keys)) for each in components))


def _component(name: str, current: str, target: str, node: str) -> Component:
    if not name or not (current or target):
        raise ValueError("a component has no name or no version")
    counted = _COUNTED.fullmatch(current)
    number = int(counted[1]) if counted else None
    return Component(
        _OLD_NAMES.get(name, name), (counted[2] if counted else current) or None, target or None, node or None, number
    )


def _checked(description: str | None, components: tuple[Component, ...]) -> Upgrade:
    versions = {component.target or "" for component in components if component.name == _SERVER}
    if len(versions) != 1 or not re.fullmatch(r"v\d\S*", min(versions)):
        raise ValueError(f"an upgrade names no one version of {_SERVER}")
    return Upgrade(versions.pop(), description, components)


def _config(entry: dict[str, Any]) -> ConfigVersion:
    manual = entry.get("manualUpgradeRequired")
    if manual not in (True, False, "true", "false"):
        raise ValueError("a configuration does not show whether it must be upgraded by hand")
    group = _text(entry, "group")
    if group is None:
        raise ValueError("a configuration names no group")
    current, preferred = _text(entry, "currentVersion"), _text(entry, "preferredVersion")
    return ConfigVersion(group, current, preferred, manual in (True, "true"))


def _objects(data: dict[str, Any], key: str) -> list[dict[str, Any]]:
    value = data.get(key)
    value = [] if value is None else value
    if not isinstance(value, list) or not all(isinstance(entry, dict) for entry in value):
        raise ValueError(f"{key} is not a list of objects")
    return value


def _text(data: dict[str, Any], key: str) -> str | None:
    value = data.get(key)
    if not isinstance(value, (str, type(None))):
        raise ValueError(f"{key} is not a string")
    return value or None


def _ends_with_notes(lines: list[str]) -> bool:
    noted = [number for number, line in enumerate(lines) if _LAST_NOTE.match(line)]
    return bool(noted) and all(is_remark(line) for line in lines[noted[-1] :])


class _Text:
    """Gathers what the lines of the text say."""

    def __init__(self) -> None:
        self._upgrades: list[Upgrade] = []
        self._components: list[Component] = []
        self._configs: list[ConfigVersion] = []
        self._description: str | None = None
        self._versions: dict[str, str] = {}
        self._up_to_date = False

    def read(self, lines: list[str]) -> UpgradePlan:
        position = 0
        while position < len(lines):
            line = lines[position]
            position += 1
            if _TABLE.fullmatch(line) or _CONFIGS.fullmatch(line):
                position = self._table(lines, position)
            else:
                self._line(line)
        if self._components or self._description is not None:
            raise ValueError("it was cut off in an upgrade")
        if not self._upgrades and not self._up_to_date and not _ends_with_notes(lines):
            shown = next((line for line in reversed(lines) if not is_remark(line)), "")
            raise unreadable(_WHAT, "it neither offers an upgrade nor reports that there is none", shown)
        versions = self._versions
        return UpgradePlan(
            tuple(self._upgrades), tuple(self._configs), versions.get("Cluster"), versions.get("kubeadm")
        )

    def _line(self, line: str) -> None:
        noted, description, apply = _NOTED.fullmatch(line), _DESCRIPTION.fullmatch(line), _APPLY.fullmatch(line)
        if noted:
            self._versions[noted[1]] = f"v{noted[2]}"
        elif description:
            self._description = description[1]
        elif apply:
            upgrade = _checked(self._description, tuple(self._components))
            if upgrade.version != apply[1]:
                raise ValueError(f"an upgrade is to {upgrade.version} and to {apply[1]}")
            self._upgrades.append(upgrade)
            self._components, self._description = [], None
        elif _FATAL.match(line):
            raise unreadable(_WHAT, "kubeadm has failed", line)
        self._up_to_date = self._up_to_date or bool(_UP_TO_DATE.match(line))

    def _table(self, lines: list[str], position: int) -> int:
        known = columns(lines[position - 1])
        name = ""
        while position < len(lines) and lines[position].strip(" \t_"):
            cells = known.cells(lines[position])
            if cells is None:
                raise unreadable(_WHAT, "a row does not fit the head of its table", lines[position])
            first, *middle, last = (cells[column] for column in known.names)
            if known.names[0] == "COMPONENT":
                # Further versions of the same component come without its name.
                name = first or name
                node = middle[0] if len(middle) == 2 else ""
                self._components.append(_component(name, middle[-1], last, node))
            elif last in ("yes", "no"):
                current, preferred = (value if value != "-" else None for value in middle)
                self._configs.append(ConfigVersion(first, current, preferred, last == "yes"))
            else:
                raise unreadable(_WHAT, "a row does not fit the head of its table", lines[position])
            position += 1
        return position
