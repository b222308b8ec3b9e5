"""The specification of a lab: its nodes with operating system, groups and GPUs."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import yaml

from lab.gpusim.models import MODELS
from lab.nodes.errors import LabError

# Operating system in a spec -> the distribution that a node shows.
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
_HOSTNAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?(\.[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?)*")
_NODE_KEYS = ("name", "os", "groups", "gpus", "extra_networks", "power_cuts", "vars")
_MOST_GPUS = 16
_MOST_NODES = 200


@dataclass(frozen=True)
class Gpus:
    """Simulated GPUs of one model."""

    model: str
    count: int


# Key of a node that makes it untidy -> its possible values; the first one is tidy.
CHOICES: Mapping[str, tuple[str, ...]] = {
    "apt_lists": ("", "empty", "old"),
    "default_route": ("", "extra"),
    "headers": ("", "absent"),
    "kernel": ("", "cloud"),
    "nfs": ("", "simulated"),
    "sudo": ("", "password"),
    "tmp": ("", "noexec"),
}
WITHOUT = ("ca-certificates", "gnupg", "iproute2", "python3-apt")
PREINSTALLED = ("cuda-keyring", "docker-ce", "docker.io", "newer-toolkit")
_LISTS = {"without": WITHOUT, "preinstalled": PREINSTALLED}
_LONGEST_LOCK_S = 1800
_LONGEST_HOSTNAME = 63


@dataclass(frozen=True)
class Untidy:
    """Differences of a machine from a fresh installation."""

    resolved: bool = False
    apt_lists: str = ""
    apt_lock_s: int = 0
    without: tuple[str, ...] = ()
    hostname: str = ""
    default_route: str = ""
    tmp: str = ""
    preinstalled: tuple[str, ...] = ()
    headers: str = ""
    kernel: str = ""
    nfs: str = ""
    sudo: str = ""

    def chosen(self) -> dict[str, Any]:
        """Return the values that differ from a tidy machine."""
        tidy = Untidy()
        return {key: value for key, value in vars(self).items() if value != getattr(tidy, key)}


@dataclass(frozen=True)
class Node:
    """One machine of a lab."""

    name: str
    os: str
    groups: tuple[str, ...]
    gpus: Gpus | None = None
    extra_networks: int = 0
    vars: Mapping[str, Any] = field(default_factory=dict)
    untidy: Untidy = field(default_factory=Untidy)
    # Its state is on a disk of its own, see lab.nodes.disk.
    power_cuts: bool = False

    def hardware(self) -> dict[str, Any]:
        """Return the properties that can't be changed after the node was created, as stored in the state."""
        gpus = asdict(self.gpus) if self.gpus else None
        chosen = {key: list(v) if isinstance(v, tuple) else v for key, v in self.untidy.chosen().items()}
        disk = {"power_cuts": True} if self.power_cuts else {}
        return {"os": self.os, "gpus": gpus, "extra_networks": self.extra_networks, **disk, **chosen}

    def hostname(self) -> str:
        """Return the machine's own host name."""
        return self.untidy.hostname or self.name


@dataclass(frozen=True)
class Spec:
    """A lab: its nodes, and variables for all of them."""

    nodes: tuple[Node, ...]
    vars: Mapping[str, Any] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        """Return the spec as plain data that `read` accepts."""
        nodes = [asdict(node) for node in self.nodes]
        for plain, node in zip(nodes, self.nodes, strict=True):
            del plain["untidy"]
            if not node.power_cuts:
                del plain["power_cuts"]
            plain |= node.untidy.chosen()
        return {"nodes": nodes, "vars": dict(self.vars)}


def load(path: Path) -> Spec:
    """Read a spec file. Raises LabError with a list of all its mistakes."""
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
    """Return the spec from plain data, and everything that is wrong with it."""
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
    known = [*_NODE_KEYS, *vars(Untidy())]
    problems += [f"{where}: unknown key {key}, known are {', '.join(known)}" for key in entry if key not in known]
    system = entry.get("os")
    if system not in SYSTEMS:
        problems.append(f"{where}: os must be one of {', '.join(SYSTEMS)}, not {system!r}")
    groups = entry.get("groups")
    if not isinstance(groups, list | tuple) or any(group not in GROUPS for group in groups):
        problems.append(f"{where}: groups must be a list of {' and/or '.join(GROUPS)}, not {groups!r}")
        groups = ()
    networks = entry.get("extra_networks", 0)
    if isinstance(networks, bool) or networks not in (0, 1):
        problems.append(f"{where}: extra_networks must be 0 or 1, not {networks!r}")
    power_cuts = entry.get("power_cuts", False)
    if not isinstance(power_cuts, bool):
        problems.append(f"{where}: power_cuts must be true or false, not {power_cuts!r}")
    gpus = _gpus(entry.get("gpus"), where, problems)
    variables = _variables(entry.get("vars"), f"{where}: vars", problems)
    untidy = _untidy(entry, where, problems)
    extra = int(networks == 1)
    return Node(str(name or ""), str(system), tuple(groups), gpus, extra, variables, untidy, power_cuts is True)


def _untidy(entry: Mapping[str, Any], where: str, problems: list[str]) -> Untidy:
    found: dict[str, Any] = {}
    for key, choices in CHOICES.items():
        if entry.get(key, "") not in choices:
            problems.append(f"{where}: {key} must be {' or '.join(choices[1:])}, not {entry[key]!r}")
        elif key in entry:
            found[key] = entry[key]
    for key, choices in _LISTS.items():
        listed = entry.get(key, ())
        if not isinstance(listed, list | tuple) or any(one not in choices for one in listed):
            problems.append(f"{where}: {key} must be a list of {', '.join(choices)}, not {listed!r}")
        else:
            found[key] = tuple(listed)
    resolved, lock, hostname = entry.get("resolved", False), entry.get("apt_lock_s", 0), entry.get("hostname", "")
    if not isinstance(resolved, bool):
        problems.append(f"{where}: resolved must be true or false, not {resolved!r}")
    if isinstance(lock, bool) or not isinstance(lock, int) or not 0 <= lock <= _LONGEST_LOCK_S:
        problems.append(f"{where}: apt_lock_s must be a number from 0 to {_LONGEST_LOCK_S}, not {lock!r}")
        lock = 0
    if hostname != "" and not (
        isinstance(hostname, str) and len(hostname) <= _LONGEST_HOSTNAME and _HOSTNAME.fullmatch(hostname)
    ):
        problems.append(
            f"{where}: hostname must be letters, digits, '-' and '.', {_LONGEST_HOSTNAME} at most, not {hostname!r}"
        )
        hostname = ""
    untidy = Untidy(**found, resolved=resolved is True, apt_lock_s=lock, hostname=hostname)
    problems += [f"{where}: {clash}" for clash in _clashes(untidy, entry.get("extra_networks", 0))]
    return untidy


def _clashes(untidy: Untidy, extra_networks: object) -> Iterator[str]:
    if untidy.default_route and extra_networks != 1:
        yield "default_route: extra needs extra_networks: 1"
    if untidy.default_route and "iproute2" in untidy.without:
        yield "default_route is set with iproute2, which without takes away"
    if {"docker-ce", "docker.io"} <= set(untidy.preinstalled):
        yield "preinstalled can't have both docker-ce and docker.io"


def _gpus(entry: object, where: str, problems: list[str]) -> Gpus | None:
    if entry is None:
        return None
    if not isinstance(entry, Mapping) or set(entry) != {"model", "count"}:
        problems.append(f"{where}: gpus must have exactly the keys model and count, not {entry!r}")
        return None
    model, count = entry["model"], entry["count"]
    if not isinstance(model, str) or model not in MODELS:
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
