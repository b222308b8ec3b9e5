"""Make a booted node as untidy as its spec requires; the scripts next to this file run on the node as root.

Host name, /tmp, networks and the archive with kernel headers are set up before the first boot: machine.py.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from lab import paths
from lab.nodes import kernel, podman
from lab.nodes.errors import LabError
from lab.nodes.image import USER
from lab.nodes.spec import Node

_SCRIPTS = Path(__file__).resolve().parent
# minikube's node image uses the same file.
_NFS_CLIENT = paths.REPOSITORY / "lab" / "depot" / "kicbase" / "mount.nfs"
# Depot packages that are preinstalled on a machine -> their path in the depot, as in upstream's repositories.
_DEPOT = {
    "cuda-keyring": "developer.download.nvidia.com/compute/cuda/repos/{system}/x86_64/cuda-keyring_*.deb",
    "docker-ce": "download.docker.com/linux/{id}/dists/{codename}/pool/stable/amd64/containerd.io_*.deb",
    "newer-toolkit": "nvidia.github.io/libnvidia-container/stable/deb/amd64/*nvidia-container*.deb",
}
_NEWER = "/root/lab-packages"


@dataclass(frozen=True)
class Step:
    """A script for a node: its description, its file, and its environment."""

    doing: str
    script: str
    environment: dict[str, str] = field(default_factory=dict)


def steps(node: Node, *, password: str = "", depot: str = "") -> list[Step]:
    """Return the steps for a booted node in order: those that need apt come before those that break something."""
    untidy = node.untidy
    found = [Step("turning systemd-resolved on", "resolved.sh")] if untidy.resolved else []
    # The keyring's source is the depot, which doesn't answer yet.
    found += [
        Step(f"putting {name} on", f"{name}.sh", {"DEPOT": depot, "PACKAGES": f"{_NEWER}/{name}"})
        for name in sorted(untidy.preinstalled, key=lambda name: name == "cuda-keyring")
    ]
    if untidy.nfs:
        found.append(Step("simulating an NFS client", "simulated-nfs.sh", {"PROGRAM": _NFS_CLIENT.read_text()}))
    if untidy.without:
        found.append(Step("taking packages away", "without.sh", {"PACKAGES": " ".join(untidy.without)}))
    if untidy.apt_lists:
        found.append(Step("spoiling apt's lists", f"{untidy.apt_lists}-lists.sh"))
    if untidy.sudo:
        found.append(Step("asking for a password", "sudo-password.sh", {"LOGIN": USER, "PASSWORD": password}))
    if untidy.apt_lock_s:
        found.append(Step("locking apt", "apt-lock.sh", {"SECONDS_HELD": str(untidy.apt_lock_s)}))
    return found


def apply(node: Node, container: str, *, password: str = "", depot: str = "") -> None:
    """Run all steps on a booted node. Raises LabError if the depot lacks a package, DepotError if a script fails."""
    if node.untidy.kernel:
        kernel.give(container, node.untidy.kernel)
    for name in sorted(node.untidy.preinstalled):
        for package in _packages(name, container):
            target = f"{container}:{_NEWER}/{name}/{package.name}"
            podman.execute(container, ["mkdir", "-p", f"{_NEWER}/{name}"], doing=f"making room on {node.name}")
            podman.run("cp", package, target, doing=f"giving {node.name} {package.name}")
    for step in steps(node, password=password, depot=depot):
        # In a file that only root can read, rather than in arguments, which all users can see.
        text = "".join(f"export {key}={_quoted(value)}\n" for key, value in step.environment.items())
        script = (text + (_SCRIPTS / step.script).read_text()).encode()
        argv = ["exec", "--interactive", container, "bash", "-eu", "-s"]
        podman.run(*argv, doing=f"{step.doing} on {node.name}", stdin=script)


def _quoted(value: str) -> str:
    return "'" + value.replace("'", "'\\''") + "'"


def _packages(name: str, container: str) -> list[Path]:
    """Return the depot's packages for one name of `preinstalled`."""
    if name not in _DEPOT:
        return []
    release = dict(
        line.split("=", 1)
        for line in podman.execute(container, ["cat", "/etc/os-release"], doing="reading os-release").splitlines()
        if "=" in line
    )
    about = {key: value.strip('"') for key, value in release.items()}
    system = f"{about['ID']}{about['VERSION_ID'].replace('.', '')}"
    key = paths.www() / "download.docker.com" / "linux" / about["ID"] / "gpg"
    pattern = _DEPOT[name].format(id=about["ID"], system=system, codename=about["VERSION_CODENAME"])
    found = sorted(paths.www().glob(pattern))
    if not found:
        raise LabError(
            f"Error while putting {name} on a node: the depot has no {pattern}. `python -m lab build` builds it."
        )
    return [*found, key] if name == "docker-ce" else found
