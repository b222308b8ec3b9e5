"""minikube.yml for one host of a lab, with settings of the role minikube."""

from __future__ import annotations

import json
from pathlib import Path

from support.hosts import Host
from support.lab import Lab
from support.play import Run, play

PLAYBOOK = "playbooks/minikube.yml"


def minikube(inventory: Path, *arguments: str, **settings: object) -> Run:
    extra = json.dumps({f"minikube_{name}": value for name, value in settings.items()})
    return play(inventory, "--extra-vars", extra, *arguments, playbook=PLAYBOOK)


def write_inventory(directory: Path, lab: Lab, host: Host, without: str, **settings: object) -> Path:
    """The lab's host in the group minikube, and in no other. ``without``: the lab's variable that is left out."""
    text = lab.path.read_text()
    line = next(line for line in text.splitlines() if line.startswith(f"{host.name} "))
    shared = [line for line in text[text.index("[all:vars]") :].splitlines() if not line.startswith(f"{without}=")]
    own = [f"minikube_{name}={value!r}" for name, value in settings.items()]
    path = directory / "my.ini"
    path.write_text("\n".join(["[minikube]", line, "", *shared, *own, ""]))
    return path
