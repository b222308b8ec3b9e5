"""What is known of a lab between two runs of the command: one JSON file, written whole or not at all."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from lab import paths
from lab.nodes.errors import LabError
from lab.nodes.spec import Spec, read

_FILE = "state.json"


@dataclass
class Member:
    """A node as it was made; `ready` once it booted and let the user in."""

    address: str
    hardware: dict[str, Any]
    ready: bool = False


@dataclass
class State:
    """A lab: its spec, its networks by what they are for, its nodes, and where its inventory lies."""

    name: str
    spec: dict[str, Any]
    inventory: str
    subnets: dict[str, str] = field(default_factory=dict)
    nodes: dict[str, Member] = field(default_factory=dict)
    depot: dict[str, str] = field(default_factory=dict)

    def described(self) -> Spec:
        """The spec that the lab was made from."""
        return read(self.spec)[0]

    def save(self) -> None:
        """Write the state."""
        write_private(paths.lab_dir(self.name) / _FILE, json.dumps(asdict(self), indent=1) + "\n")


def load(name: str) -> State | None:
    """Return the state of a lab, or None when there is none. Raises LabError when it can't be read."""
    path = paths.labs() / name / _FILE
    if not path.is_file():
        return None
    try:
        content: Mapping[str, Any] = json.loads(path.read_text())
        members = {key: Member(**value) for key, value in content["nodes"].items()}
        return State(**{**content, "nodes": members})
    except (ValueError, KeyError, TypeError) as error:
        raise LabError(
            f"Error while reading the state of lab {name} ({path}): {error}. "
            f"`python -m lab down --name {name}` removes the lab without it."
        ) from error


def names() -> list[str]:
    """Return the names of all labs that have state."""
    return sorted(path.parent.name for path in paths.labs().glob(f"*/{_FILE}"))


def write_private(path: Path, text: str) -> None:
    """Replace a file by one that only its owner reads, whole or not at all."""
    work = path.with_name(f".{path.name}.new")
    work.unlink(missing_ok=True)
    with os.fdopen(os.open(work, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(text)
    hand_over(work)
    work.replace(path)


def hand_over(path: Path) -> None:
    """Give a file to whoever called sudo: Ansible reads inventory and key as that user."""
    user, group = os.environ.get("SUDO_UID"), os.environ.get("SUDO_GID")
    if os.geteuid() == 0 and user and group:
        os.chown(path, int(user), int(group))
