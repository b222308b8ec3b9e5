"""Saved copies of a whole lab to go back to, and power cuts. A saved copy that is not complete is never restored."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from lab import paths, progress
from lab.depot import cache
from lab.nodes import disk, machine, park, podman, trees, view, vm
from lab.nodes.errors import LabError
from lab.nodes.spec import Node
from lab.nodes.state import Member, State

_Result = TypeVar("_Result")
_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,30}")
_FILE = "saved.json"
_DISK = "disk"
# Services such as etcd end within seconds; processes of pods that ignore SIGTERM would last until systemd's own limit.
_SHUTDOWN_SECONDS = 20
_STOPPED = ("created", "configured", "exited", podman.KILLED)
_STOP_ROUNDS = 5


def save(name: str, copy: str) -> None:
    """Shut all nodes down, copy their layers, volumes and disks, and start them again. Raises LabError or DepotError.

    A shutdown, because a saved copy is made once and restored often: its nodes then boot without a recovery.
    """
    target, doing = _place(name, copy), f"Error while saving the lab {name}"
    with park.held(name), _files_of(doing):
        known = view.known(name)
        nodes = _running(known, doing)
        _require_space(known, nodes, doing)
        try:
            _stop(known, f"Shutting down {len(nodes)} nodes", _SHUTDOWN_SECONDS)
            with progress.step(f"Saving {copy}"), cache.fresh(target, copy) as work:
                members = _each(nodes, lambda node: _save(known, node, work))
                content = {"spec": known.spec, "subnets": known.subnets, "nodes": members}
                (work / _FILE).write_text(json.dumps(content, indent=1))
        finally:
            there = podman.containers(name)
            stopped = [node for node in nodes if there.get(machine.container(name, node.name)) != "running"]
            _each(stopped, lambda node: park.wake(known, node))


def restore(name: str, copy: str) -> None:
    """Kill all nodes, make them what they were, and start them. Raises LabError or DepotError.

    Killed, because nothing that they could still write is kept. Addresses and keys stay, a node that was removed since
    then is created again, and one that was added is removed. An interrupted restore has to be repeated before `up`.
    """
    source, doing = _place(name, copy), f"Error while restoring {copy}"
    with park.held(name), _files_of(doing):
        known = view.known(name)
        _require_copyable(known, doing)
        found = _read(name, source, known, doing)
        known.restoring = copy
        known.save()
        _stop(known, "Killing the nodes", 0)
        for added in known.nodes.keys() - found["nodes"].keys():
            machine.remove(name, added)
        images = {node: str(member.pop("image")) for node, member in found["nodes"].items()}
        known.spec = found["spec"]
        known.nodes = {node: Member(**member) for node, member in found["nodes"].items()}
        known.save()
        park.write_known_hosts(known)
        spec = known.described()
        with progress.step(f"Restoring {copy}"):
            _each(spec.nodes, lambda node: _restore(known, node, images[node.name], source))
        known.restoring = ""
        known.save()
        park.remove_kubeconfig(known, source.stat().st_mtime)
        park.write_files(known, spec)


def power_cut(name: str, node_name: str, *, off: bool) -> None:
    """Shut a node's disk down without flushing it, kill the node, and start it unless `off`. Raises LabError."""
    doing = f"Error while cutting the power of {node_name}"
    with park.held(name), _files_of(doing):
        known = view.known(name)
        node = view.node(known, node_name)
        _require_whole(known, doing)
        if not node.power_cuts:
            raise LabError(
                f"{doing}: its files are in the memory of this machine. Add "
                "`power_cuts: true` to the node in the spec, remove the lab and bring it up again."
            )
        container = machine.container(name, node_name)
        if podman.containers(name).get(container) != "running":
            raise LabError(f"{doing}: it does not run.")
        disk.cut(name, node_name)
        podman.run("stop", "--time=0", container, doing=f"killing the node {node_name}")
        if not off:
            park.wake(known, node)


def names(lab: str) -> list[str]:
    """Return the names of a lab's complete saved copies."""
    found = [path.parent.name for path in _directory(lab).glob(f"*/{_FILE}")]
    return sorted(name for name in found if not name.startswith("."))


def _directory(lab: str) -> Path:
    return paths.labs() / lab / "saved"


def _place(lab: str, copy: str) -> Path:
    if not _NAME.fullmatch(copy):
        raise LabError(
            f"Error while reading the name of the saved copy {copy!r}: at most 31 small letters, digits and '-'."
        )
    return _directory(lab) / copy


@contextmanager
def _files_of(doing: str) -> Iterator[None]:
    """Report errors of files, for example a full disk, as LabError."""
    try:
        yield
    except OSError as error:
        raise LabError(f"{doing}: {error}") from error


def _require_whole(known: State, doing: str) -> None:
    if known.restoring:
        raise LabError(f"{doing}: the saved copy {known.restoring} is restored only in part. Run the restore again.")


def _require_copyable(known: State, doing: str) -> None:
    """Raise LabError if a lab has something that is in no saved copy: it would not fit the restored nodes."""
    if (paths.labs() / known.name / vm.NODE).is_dir():
        raise LabError(f"{doing}: it has the virtual machine {vm.NODE}, which can't be saved.")
    if shared := [node.name for node in known.described().nodes if node.untidy.nfs]:
        raise LabError(f"{doing}: {', '.join(shared)} have a directory in common (`nfs`), which can't be saved.")


def _running(known: State, doing: str) -> tuple[Node, ...]:
    """Return the nodes of a lab, all of which run. Raises LabError."""
    containers, nodes = podman.containers(known.name), known.described().nodes
    _require_whole(known, doing)
    if stopped := [n.name for n in nodes if containers.get(machine.container(known.name, n.name)) != "running"]:
        raise LabError(f"{doing}: {', '.join(stopped)} must run. Bring the lab up first.")
    _require_copyable(known, doing)
    return nodes


def _require_space(known: State, nodes: Iterable[Node], doing: str) -> None:
    """Raise LabError if a saved copy does not fit, while the nodes still run."""
    wanted = [tree for node in nodes for tree in _trees(known, node, _inspect(known, node)).values()]
    needed, free = sum(map(trees.size, wanted)), shutil.disk_usage(paths.labs()).free
    if needed > free:
        raise LabError(f"{doing}: it needs {needed >> 20} MiB below {paths.labs()}, where {free >> 20} MiB are free.")


def _read(lab: str, source: Path, known: State, doing: str) -> dict[str, Any]:
    try:
        found: dict[str, Any] = json.loads((source / _FILE).read_text())
    except FileNotFoundError:
        there = ", ".join(names(lab)) or "none"
        raise LabError(f"{doing}: the lab {lab} has no such saved copy (there are: {there}).") from None
    if found["subnets"] != known.subnets:
        raise LabError(f"{doing}: it was saved with the networks {found['subnets']}, the lab has {known.subnets}.")
    return found


def _stop(known: State, title: str, seconds: int) -> None:
    """Stop all nodes, also one that Podman is just starting again. Raises LabError if one does not stop."""
    with progress.step(title):
        for _round in range(_STOP_ROUNDS):
            containers = podman.containers(known.name)
            running = [name for name, state in containers.items() if state not in _STOPPED]
            if not running:
                return
            podman.run("stop", f"--time={seconds}", *running, doing=f"stopping the nodes of {known.name}")
        raise LabError(f"Error while stopping the nodes of {known.name}: {', '.join(running)} start again each time.")


def _each(nodes: Iterable[Node], action: Callable[[Node], _Result]) -> dict[str, _Result]:
    """Return the results of all nodes, some at a time; every node is tried before the first failure is raised.

    After an interruption by the user, no further node is begun.
    """
    pool = ThreadPoolExecutor(park.AT_ONCE)
    try:
        jobs = {node.name: pool.submit(action, node) for node in nodes}
        wait(jobs.values())
    finally:
        pool.shutdown(cancel_futures=True)
    return {name: job.result() for name, job in jobs.items()}


def _save(known: State, node: Node, work: Path) -> dict[str, Any]:
    """Copy a node, and return what the saved copy's description says about it."""
    about = _inspect(known, node)
    for name, tree in _trees(known, node, about).items():
        trees.copy(tree, work / node.name / name)
    return {**asdict(known.nodes[node.name]), "image": about["Image"]}


def _restore(known: State, node: Node, image: str, source: Path) -> None:
    name = machine.container(known.name, node.name)
    there = podman.containers(known.name).get(name, podman.KILLED)
    if there == podman.KILLED or _inspect(known, node)["Image"] != image:
        machine.remove(known.name, node.name)
        machine.create(node, park.place(known, node), image)
    if node.power_cuts:
        disk.mount(known.name, node.name)
    on_disk = partial(may_differ, cut=disk.was_cut(known.name, node.name))
    for tree, place in _trees(known, node, _inspect(known, node)).items():
        trees.copy(source / node.name / tree, place, on_disk if tree == _DISK else lambda _path: False)
    disk.forget_cut(known.name, node.name)
    park.wake(known, node)


def may_differ(path: str, *, cut: bool) -> bool:
    """Return whether a file of a disk can have other content than its time says.

    Databases and logs are overwritten in place, and their content reaches the disk before their time. After a power
    cut, so may the files of containers have it; blobs of images are written once, under the hash of their content.
    """
    if cut:
        return not path.startswith("/containerd/io.containerd.content.v1.content/blobs/")
    return not path.startswith("/containerd/") or path.endswith(".db")


def _trees(known: State, node: Node, about: dict[str, Any]) -> dict[str, Path]:
    """Return the directories that a node writes to, by the name that they have in a saved copy."""
    prefix = f"{machine.container(known.name, node.name)}-"
    found = {"layer": Path(about["GraphDriver"]["Data"]["UpperDir"])}
    for mount in about["Mounts"]:
        if mount["Type"] == "volume":
            found[mount["Name"].removeprefix(prefix)] = Path(mount["Source"])
    if node.power_cuts:
        found[_DISK] = disk.mount_point(known.name, node.name)
    return found


def _inspect(known: State, node: Node) -> dict[str, Any]:
    name = machine.container(known.name, node.name)
    (about,) = json.loads(podman.run("inspect", name, doing=f"reading where the files of {node.name} are"))
    found: dict[str, Any] = about
    return found
