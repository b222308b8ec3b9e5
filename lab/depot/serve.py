"""The depot as one container on the networks of all labs: HTTP on port 80, the registry on port 5000."""

from __future__ import annotations

import contextlib
import hashlib
import json
import resource
import tarfile
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lab import paths
from lab.depot import cache, golang, recipes, tools

_IMAGE = "localhost/gpulab-depot"
_SERVER = "depot-server"
_LIMIT = 4096


def container() -> str:
    """Return the name of the container, which differs between caches, so that their labs can run in parallel."""
    own = str(paths.cache_root())
    usual = str(Path.home() / ".cache" / "gpulab")
    return "gpulab-depot" if own == usual else f"gpulab-depot-{hashlib.sha256(own.encode()).hexdigest()[:8]}"


@dataclass(frozen=True)
class Depot:
    """The depot's addresses for a lab's nodes."""

    url: str
    registry: str


def ensure_serving(network: str, ip: str) -> Depot:
    """Make the depot available at an address of a lab's network; start it if it isn't running.

    The container publishes no port of the host. Raises DepotError.
    """
    with cache.lock("serve"):
        image = _image()
        state = _inspect()
        # A new server image, or a killed container: replace the container, and keep its networks.
        others: dict[str, str] = {}
        if state and (state["killed"] or state["image"] != image):
            others = {name: address for name, address in state["networks"].items() if name != network}
            _podman("rm", "--force", "--time=2", container(), doing="replacing the depot's container")
            _remove_image(state["image"], image)
            state = None
        if state is None:
            _start(network, ip, image)
        else:
            _join(state, network, ip)
        for name, address in others.items():
            _podman("network", "connect", f"--ip={address}", name, container(), doing=f"joining {name}")
    return Depot(f"http://{ip}", f"{ip}:5000")


def detach(network: str) -> None:
    """Disconnect from a lab's network; remove the container with its last network. Raises DepotError."""
    with cache.lock("serve"):
        state = _inspect()
        if state is None:
            return
        if set(state["networks"]) <= {network}:
            _podman("rm", "--force", "--time=2", container(), doing="removing the depot's container")
        elif network in state["networks"]:
            _podman("network", "disconnect", "--force", network, container(), doing=f"leaving the network {network}")


def networks() -> dict[str, str]:
    """Return the depot's networks, with its address on each."""
    state = _inspect()
    found: dict[str, str] = state["networks"] if state else {}
    return found


def _start(network: str, ip: str, image: str) -> None:
    argv = ["run", "--detach", f"--name={container()}", f"--network={network}:ip={ip}", "--restart=always"]
    argv += ["--read-only", "--cap-drop=all", "--cap-add=NET_BIND_SERVICE", "--log-driver=k8s-file"]
    argv += [f"--volume={paths.www()}:/files:ro", f"--volume={paths.registry()}:/images:ro"]
    argv += [*_limits(), image, "-files=/files", "-storage=/images"]
    doing = "starting the depot's container"
    try:
        _podman(*argv, doing=doing)
    except cache.DepotError:
        # Otherwise, a container that could not start would remain.
        _podman("rm", "--force", "--ignore", container(), doing=doing)
        raise


def _join(state: dict[str, Any], network: str, ip: str) -> None:
    if state["networks"].get(network) not in (None, ip):
        doing = f"leaving the network {network} for another address"
        _podman("network", "disconnect", "--force", network, container(), doing=doing)
        state["networks"].pop(network)
    if network not in state["networks"]:
        _podman("network", "connect", f"--ip={ip}", network, container(), doing=f"joining the network {network}")
    if not state["running"]:
        _podman("start", container(), doing="starting the depot's container")


def _inspect() -> dict[str, Any] | None:
    listed = _podman(
        "ps", "--all", f"--filter=name=^{container()}$", "--format={{.Names}}", doing="looking for the depot"
    )
    if container() not in listed.split():
        return None
    described = json.loads(_podman("inspect", container(), doing="reading the depot's container"))[0]
    joined = described["NetworkSettings"]["Networks"] or {}
    now = described["State"]
    return {
        "image": described["ImageName"],
        "running": now["Running"],
        "killed": tools.killed(now["Status"], described["Id"], now["Pid"]),
        "networks": {name: about.get("IPAddress", "") for name, about in joined.items()},
    }


def _image() -> str:
    """Return the name of the container's image, which only contains the server."""
    recipe = recipes.server()
    name = f"{_IMAGE}:{recipe.key}"
    known = _podman("images", "--format={{.Repository}}:{{.Tag}}", doing="listing images").split()
    if name in known:
        return name
    server = golang.build(recipe) / _SERVER
    with tempfile.TemporaryDirectory() as work:
        root = Path(work, "root.tar")
        with tarfile.open(root, "w") as tar:
            tar.add(server, arcname=_SERVER)
        entry = f'--change=ENTRYPOINT ["/{_SERVER}"]'
        _podman("import", "--quiet", entry, str(root), name, doing="making the depot's image")
    return name


def _remove_image(former: str, current: str) -> None:
    if former != current and former.startswith(f"{_IMAGE}:"):
        # Another container may still use it; podman's log has the reason.
        with contextlib.suppress(cache.DepotError):
            _podman("rmi", former, doing="removing the depot's former image")


def _limits() -> list[str]:
    # Podman requests more than a caller without CAP_SYS_RESOURCE may set; one server needs little.
    hard = {
        "nofile": resource.getrlimit(resource.RLIMIT_NOFILE)[1],
        "nproc": resource.getrlimit(resource.RLIMIT_NPROC)[1],
    }
    wanted = {name: min(limit, _LIMIT) if limit > 0 else _LIMIT for name, limit in hard.items()}
    return [f"--ulimit={name}={limit}:{limit}" for name, limit in wanted.items()]


def _runtime() -> list[str]:
    # crun refuses to start containers on hosts with hybrid cgroups; runc supports both.
    return ["--runtime=runc"] if Path("/sys/fs/cgroup/unified").is_dir() else []


def _podman(*arguments: str, doing: str) -> str:
    return tools.run(["podman", *_runtime(), *arguments], doing=doing, log="podman")
