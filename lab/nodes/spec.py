"""The description of a lab: which nodes, with which operating system, groups and GPUs."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import yaml

from lab.gpusim.models import MODELS
from lab.nodes.errors import LabError

# What a node presents itself as, by the name of its operating system in a spec.
DISTRIBUTIONS = {
    "debian12": "Debian 12",
    "debian13": "Debian 13",
    "ubuntu2204-shaped": "Ubuntu 22.04",
    "ubuntu2404-shaped": "Ubuntu 24.04",
    "ubuntu2604-shaped": "Ubuntu 26.04",
}
SYSTEMS = tuple(DISTRIBUTIONS)
GROUPS = ("control_plane", "workers")
DEFAULT = Path(__file__).resolve().parent.parent / "specs" / "default.yml"

_NAME = re.compile(r"[a-z]([a-z0-9-]{0,30}[a-z0-9])?")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_NODE_KEYS = ("name", "os", "groups", "gpus", "extra_networks", "vars")
_MOST_GPUS = 16
_MOST_NODES = 200


@dataclass(frozen=True)
class Gpus:
    """Simulated GPUs of one model."""

    model: str
    count: int


@dataclass(frozen=True)
class Node:
    """One machine of a lab."""

    name: str
    os: str
    groups: tuple[str, ...]
    gpus: Gpus | None = None
    extra_networks: int = 0
    vars: Mapping[str, Any] = field(default_factory=dict)

    def hardware(self) -> dict[str, Any]:
        """What can't be changed once the node is made."""
        return {"os": self.os, "gpus": asdict(self.gpus) if self.gpus else None, "extra_networks": self.extra_networks}


@dataclass(frozen=True)
class Spec:
    """A lab: its nodes, and variables for all of them."""

    nodes: tuple[Node, ...]
    vars: Mapping[str, Any] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        """The spec as plain data that `read` takes again."""
        return asdict(self)


def load(path: Path) -> Spec:
    """Read a spec file. Raises LabError that lists everything that is wrong with it."""
    doing = f"Error while reading the spec {path}"
    try:
        content = yaml.safe_load(path.read_text())
    except (OSError, UnicodeDecodeError) as error:
        raise LabError(f"{doing}: {error}. Give an existing file with --spec.") from error
    except yaml.YAMLError as error:
        raise LabError(f"{doing}: this is no YAML: {error}") from error
    spec, problems = read(content)
    if problems:
        listed = "\n".join(f"  - {problem}" for problem in problems)
        raise LabError(f"{doing}:\n{listed}\n{DEFAULT} is a spec to start from.")
    return spec


def read(content: object) -> tuple[Spec, list[str]]:
    """Return the spec that plain data describes, and everything that is wrong with it."""
    if not isinstance(content, Mapping):
        return Spec(()), ["the file must be a mapping with the key nodes"]
    problems = [f"{key}: unknown key, nodes and vars are known" for key in content if key not in ("nodes", "vars")]
    listed = content.get("nodes")
    if not isinstance(listed, list | tuple) or not listed:
        return Spec(()), [*problems, "nodes: must be a list of at least one node"]
    if len(listed) > _MOST_NODES:
        problems.append(f"nodes: {len(listed)} of them, a lab has room for {_MOST_NODES}")
    nodes = [_node(entry, f"nodes[{number}]", problems) for number, entry in enumerate(listed)]
    names = [node.name for node in nodes if node.name]
    problems += [f"nodes: the name {name} is used twice" for name in sorted({n for n in names if names.count(n) > 1})]
    return Spec(tuple(nodes), _variables(content.get("vars"), "vars", problems)), problems


def _node(entry: object, where: str, problems: list[str]) -> Node:
    if not isinstance(entry, Mapping):
        problems.append(f"{where}: must be a mapping with name, os and groups")
        return Node("", "", ())
    name = entry.get("name")
    if isinstance(name, str) and _NAME.fullmatch(name):
        where = f"node {name}"
    else:
        problems.append(f"{where}: name must be a host name of at most 32 small letters, digits and '-', not {name!r}")
    problems += [
        f"{where}: unknown key {key}, known are {', '.join(_NODE_KEYS)}" for key in entry if key not in _NODE_KEYS
    ]
    system = entry.get("os")
    if system not in SYSTEMS:
        problems.append(f"{where}: os must be one of {', '.join(SYSTEMS)}, not {system!r}")
    groups = entry.get("groups")
    if not isinstance(groups, list | tuple) or not groups or any(group not in GROUPS for group in groups):
        problems.append(f"{where}: groups must be a list of {' and/or '.join(GROUPS)}, not {groups!r}")
        groups = ()
    networks = entry.get("extra_networks", 0)
    if isinstance(networks, bool) or networks not in (0, 1):
        problems.append(f"{where}: extra_networks must be 0 or 1, not {networks!r}")
    gpus = _gpus(entry.get("gpus"), where, problems)
    variables = _variables(entry.get("vars"), f"{where}: vars", problems)
    return Node(str(name or ""), str(system), tuple(groups), gpus, int(networks == 1), variables)


def _gpus(entry: object, where: str, problems: list[str]) -> Gpus | None:
    if entry is None:
        return None
    if not isinstance(entry, Mapping) or set(entry) != {"model", "count"}:
        problems.append(f"{where}: gpus must have exactly the keys model and count, not {entry!r}")
        return None
    model, count = entry["model"], entry["count"]
    if model not in MODELS:
        problems.append(f"{where}: gpus.model must be one of {', '.join(sorted(MODELS))}, not {model!r}")
    if isinstance(count, bool) or not isinstance(count, int) or not 1 <= count <= _MOST_GPUS:
        problems.append(f"{where}: gpus.count must be a number from 1 to {_MOST_GPUS}, not {count!r}")
        return None
    return Gpus(str(model), count)


def _variables(entry: object, where: str, problems: list[str]) -> Mapping[str, Any]:
    if entry is None:
        return {}
    if not isinstance(entry, Mapping):
        problems.append(f"{where}: must be a mapping of variables, not {entry!r}")
        return {}
    wrong = [name for name in entry if not isinstance(name, str) or not _VARIABLE.fullmatch(name)]
    problems += [f"{where}: {name!r} is no name of a variable" for name in wrong]
    return {name: value for name, value in entry.items() if name not in wrong}
