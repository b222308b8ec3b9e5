"""The state of a lab between commands: one JSON file that is written atomically."""

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
    """A created node; `ready` once it has booted and accepts logins."""

    address: str
    hardware: dict[str, Any]
    ready: bool = False


@dataclass
class State:
    """A lab: its spec, its networks by purpose, its nodes, and the path of its inventory."""

    name: str
    spec: dict[str, Any]
    inventory: str
    subnets: dict[str, str] = field(default_factory=dict)
    nodes: dict[str, Member] = field(default_factory=dict)
    depot: dict[str, str] = field(default_factory=dict)
    # The saved copy that is being restored: until that is complete, no node may start.
    restoring: str = ""

    def described(self) -> Spec:
        """Return the spec with which the lab was created."""
        return read(self.spec)[0]

    def save(self) -> None:
        """Write the state."""
        content = asdict(self)
        if not self.restoring:
            # Checkouts that can't restore a lab then still know this one.
            del content["restoring"]
        write_private(paths.lab_dir(self.name) / _FILE, json.dumps(content, indent=1) + "\n")


def load(name: str) -> State | None:
    """Return the state of a lab, None if there is none. Raises LabError if it can't be read."""
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
    """Atomically replace a file with one that only its owner can read."""
    work = path.with_name(f".{path.name}.new")
    work.unlink(missing_ok=True)
    with os.fdopen(os.open(work, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(text)
    hand_over(work)
    work.replace(path)


def hand_over(path: Path) -> None:
    """Give a file to the user who called sudo, because Ansible reads inventory and key as that user."""
    user, group = os.environ.get("SUDO_UID"), os.environ.get("SUDO_GID")
    if os.geteuid() == 0 and user and group:
        os.chown(path, int(user), int(group))
