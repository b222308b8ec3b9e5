"""Runs minikube.yml for one host of a lab, with settings of the role minikube."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from support.hosts import Host
from support.lab import Lab
from support.play import Run, play

PLAYBOOK = "playbooks/minikube.yml"
# Replaces the image of minikube's container: lab/depot/kicbase.
KICBASE = "ghcr.io/gpulab/kicbase:1"
# A simulated mount.nfs mounts subdirectories of this directory, on the host and in minikube's container.
SHARED = "/var/lib/lab-nfs"


def minikube(inventory: Path, *arguments: str, **settings: object) -> Run:
    extra = json.dumps({f"minikube_{name}": value for name, value in settings.items()})
    return play(inventory, "--extra-vars", extra, *arguments, playbook=PLAYBOOK)


def in_docker(lab: Lab, user: str) -> dict[str, Any]:
    """Return settings of the role minikube for the driver docker and a user of the host."""
    registry = re.findall(r"^docker_check_image='?([^/]+)/", lab.path.read_text(), re.MULTILINE)[0]
    options = ["--cache-images=false", "--preload=false", f"--insecure-registry={registry}"]
    options.append(f"--mount-string={SHARED}:{SHARED}")
    return {"driver": "docker", "user": user, "base_image": f"{registry}/{KICBASE}", "options": options}


def write_inventory(directory: Path, lab: Lab, host: Host, without: str = "#", **settings: object) -> Path:
    """Write an inventory with the lab's host in the group minikube only. ``without``: a lab variable to omit."""
    text = lab.path.read_text()
    line = next(line for line in text.splitlines() if line.startswith(f"{host.name} "))
    shared = [line for line in text[text.index("[all:vars]") :].splitlines() if not line.startswith(f"{without}=")]
    own = [f"minikube_{name}={value!r}" for name, value in settings.items()]
    path = directory / "my.ini"
    path.write_text("\n".join(["[minikube]", line, "", *shared, *own, ""]))
    return path
