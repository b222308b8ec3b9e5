"""Bring labs up and down, and list them. Every step can be interrupted; the next `up` completes it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from lab import depot, paths, progress
from lab.depot import cache, serve
from lab.nodes import disk, image, inventory, machine, network, podman, state, system, untidy, vm
from lab.nodes.errors import LabError
from lab.nodes.mirror import find
from lab.nodes.spec import DEFAULT, Node, Spec, load
from lab.nodes.state import Member, State

# Two nodes boot in parallel: more would only slow down each other on a small machine.
AT_ONCE = 2
_NAME = re.compile(r"[a-z]([a-z0-9-]{0,28}[a-z0-9])?")
_VERSION = "cluster_kubernetes_version"


def up(name: str, spec_file: Path | None, inventory_file: Path | None, mirror: str, *, with_depot: bool) -> State:
    """Bring up a lab, or its missing parts, and write its inventory. Raises LabError or DepotError."""
    _check_name(name)
    wanted = load(spec_file) if spec_file else None
    system.require()
    with held(name):
        known = _known(name, wanted, inventory_file)
        if known.restoring:
            raise LabError(
                f"Error while bringing up the lab {name}: the saved copy {known.restoring} is restored only in part. "
                f"Run `python -m lab restore {known.restoring} --name {name}` again, or remove the lab."
            )
        spec = known.described()
        if with_depot:
            depot.build([str(spec.vars.get(_VERSION, depot.DEFAULT_KUBERNETES))])
        _networks(known, spec)
        _nodes(known, spec, mirror)
        if with_depot:
            served = serve.ensure_serving(_network(name), network.address(known.subnets["main"], network.DEPOT_HOST))
            known.depot = {"url": served.url, "registry": served.registry}
            known.save()
        write_files(known, spec)
    return known


def check(name: str, spec_file: Path | None, inventory_file: Path | None) -> None:
    """Raise LabError for anything that prevents `up`, before packages and images are built for 15 minutes."""
    _check_name(name)
    _wanted(name, load(spec_file) if spec_file else None, str(inventory_file.absolute()) if inventory_file else "")


def _known(name: str, wanted: Spec | None, inventory_file: Path | None) -> State:
    """Return the state of a lab with the wanted spec. Raises LabError if they are not compatible."""
    place = str(inventory_file.absolute()) if inventory_file else ""
    known = _wanted(name, wanted, place)
    if place and place != known.inventory:
        _remove_inventory(known)
        known.inventory = place
    known.save()
    return known


def _wanted(name: str, wanted: Spec | None, place: str) -> State:
    known = state.load(name)
    if known is None:
        spec = wanted or load(DEFAULT)
        known = State(name, spec.as_dict(), place or str(default_inventory(name)))
    elif wanted:
        _compare(known, wanted)
        known.spec = wanted.as_dict()
    _check_inventory(Path(place or known.inventory), name)
    return known


def _check_inventory(path: Path, name: str) -> None:
    """Check before any change that an existing inventory file was written by this lab."""
    doing = f"Error while choosing the inventory {path}"
    if not path.parent.is_dir():
        raise LabError(f"{doing}: there is no directory {path.parent}. Make it, or name another file with --inventory.")
    if path.exists() and not (path.is_file() and inventory.belongs_to(path.read_text(errors="replace"), name)):
        raise LabError(f"{doing}: it is there and not the inventory of the lab {name}. Choose another --inventory.")


def default_inventory(name: str) -> Path:
    """Return a lab's default inventory path: each lab has its own in the root of the checkout."""
    return paths.REPOSITORY / f"{name}.ini"


def _compare(known: State, wanted: Spec) -> None:
    made = {name: member for name, member in known.nodes.items() if member.ready}
    now = {node.name: node for node in wanted.nodes}
    problems = [f"the node {name} is no longer in the spec" for name in made if name not in now]
    problems += [
        f"the node {name} was made as {_words(member.hardware)}, the spec now says {_words(now[name].hardware())}"
        for name, member in made.items()
        if name in now and member.hardware != now[name].hardware()
    ]
    if problems:
        listed = "\n".join(f"  - {problem}" for problem in problems)
        raise LabError(
            f"Error while bringing up the lab {known.name}: a running lab only takes more nodes.\n{listed}\n"
            f"Remove it first (`python -m lab down --name {known.name}`) or use another --name."
        )


def _words(hardware: dict[str, object]) -> str:
    return ", ".join(f"{key} {value}" for key, value in hardware.items())


def _networks(known: State, spec: Spec) -> None:
    there = podman.networks()
    wanted = {"main": _network(known.name)}
    if any(node.extra_networks for node in spec.nodes):
        wanted["extra"] = _network(known.name, "extra")
    for key, name in wanted.items():
        if name in there:
            known.subnets[key] = there[name][0]
            continue
        with progress.step(f"Making the network {name}") as step:
            avoid = [str(spec.vars.get(f"cluster_{kind}_network", "")) for kind in ("pod", "service")]
            internal = key == "extra" and not any(node.untidy.default_route for node in spec.nodes)
            known.subnets[key] = network.create(name, known.name, avoid=avoid, internal=internal)
            step.note(known.subnets[key])
        known.save()
    known.save()


def _network(lab: str, suffix: str = "") -> str:
    return f"gpulab-{lab}-{suffix}" if suffix else f"gpulab-{lab}"


def _nodes(known: State, spec: Spec, mirror: str) -> None:
    containers = podman.containers(known.name)
    running = {node.name: containers.get(machine.container(known.name, node.name), "") for node in spec.nodes}
    done = {name for name, member in known.nodes.items() if member.ready and running.get(name)}
    make = [node for node in spec.nodes if node.name not in done]
    stopped = [node for node in spec.nodes if node.name in done and running[node.name] != "running"]
    if killed := [node.name for node in stopped if running[node.name] == podman.KILLED]:
        raise LabError(
            f"Error while starting {', '.join(killed)} again: all processes there were killed, and Podman can't start "
            f"such a container again. Remove the lab (`python -m lab down --name {known.name}`) and bring it up anew."
        )
    if not make and not stopped:
        return
    for node in make:
        address = known.nodes[node.name].address if node.name in known.nodes else _free_address(known)
        known.nodes[node.name] = Member(address, node.hardware())
    known.save()
    directory = paths.lab_dir(known.name)
    machine.user_key(directory)
    found = find(mirror) if make else None
    images = {name: image.ensure(name, found) for name in sorted({n.os for n in make})} if found else {}
    for node in make:
        machine.host_key(directory, node.name)
    write_known_hosts(known)
    with ThreadPoolExecutor(AT_ONCE) as pool:
        jobs = [pool.submit(_boot, known, node, images[node.os]) for node in make]
        jobs += [pool.submit(wake, known, node) for node in stopped]
        failures = [error for job in jobs if (error := job.exception())]
    if failures:
        raise failures[0]


def _free_address(known: State) -> str:
    taken = {member.address for member in known.nodes.values()}
    hosts = (network.address(known.subnets["main"], host) for host in range(network.FIRST_NODE, 255))
    return next(address for address in hosts if address not in taken)


def place(known: State, node: Node) -> machine.Place:
    """Return a node's networks and its addresses there."""
    address, main = known.nodes[node.name].address, _network(known.name)
    if not node.extra_networks:
        return machine.Place(known.name, main, address)
    other = network.address(known.subnets["extra"], int(address.rsplit(".", 1)[1]))
    return machine.Place(known.name, main, address, _network(known.name, "extra"), other)


def _boot(known: State, node: Node, image_name: str) -> None:
    member = known.nodes[node.name]
    with progress.step(f"Starting {node.name}") as step:
        machine.remove(known.name, node.name)
        machine.make(node, place(known, node), image_name)
        words = f"{node.os} at {member.address}, systemd {machine.wait(known.name, node.name, member.address)}"
        chosen = node.untidy.chosen()
        if chosen:
            untidy.apply(
                node,
                machine.container(known.name, node.name),
                password=machine.sudo_password(paths.lab_dir(known.name)) if node.untidy.sudo else "",
                depot=f"http://{network.address(known.subnets['main'], network.DEPOT_HOST)}",
            )
        step.note(f"{words}, untidy: {', '.join(chosen)}" if chosen else words)
    member.ready = True
    known.save()


def wake(known: State, node: Node) -> None:
    member = known.nodes[node.name]
    with progress.step(f"Starting {node.name} again") as step:
        machine.start(known.name, node)
        step.note(f"systemd {machine.wait(known.name, node.name, member.address)}")


def write_known_hosts(known: State) -> None:
    directory = paths.lab_dir(known.name)
    keys = ((name, member, directory / f"host_{name}.pub") for name, member in known.nodes.items())
    lines = [f"{m.address},{name} {' '.join(key.read_text().split()[:2])}" for name, m, key in keys if key.is_file()]
    _replace_if_changed(directory / "known_hosts", "".join(f"{line}\n" for line in lines))


def write_files(known: State, spec: Spec) -> None:
    addresses = {name: member.address for name, member in known.nodes.items()}
    contents = depot.contents() if known.depot else depot.Contents()
    text = inventory.render(known.name, spec, addresses, paths.lab_dir(known.name), known.depot, contents)
    _replace_if_changed(Path(known.inventory), text)


def _replace_if_changed(path: Path, text: str) -> None:
    if not path.is_file() or path.read_text() != text or path.stat().st_mode & 0o077:
        state.write_private(path, text)


def down(name: str) -> bool:
    """Remove a lab: its containers, volumes, networks, inventory and state; return whether there were any.

    Also removes an incomplete lab, and one without state. Raises LabError or DepotError.
    """
    _check_name(name)
    system.require_podman()
    directory = paths.labs() / name
    with held(name):
        containers, networks = podman.containers(name), podman.networks(name)
        volumes = podman.volumes(name)
        there = bool(containers or networks or volumes or (directory / "state.json").exists())
        vm.down(name)
        if containers:
            with progress.step(f"Removing the nodes of {name}") as step:
                podman.run("rm", "--force", "--volumes", "--time=0", *containers, doing=f"removing the nodes of {name}")
                step.note(", ".join(sorted(containers)))
        disk.remove_all(name)
        if volumes:
            podman.run("volume", "rm", *podman.volumes(name), doing=f"removing the volumes of {name}")
        for net in networks:
            serve.detach(net)
            podman.run("network", "rm", net, doing=f"removing the network {net}")
        try:
            known = state.load(name)
        except LabError:
            known = None
        _remove_inventory(known or State(name, {}, str(default_inventory(name))))
        cache.remove(directory)
    return there


def _remove_inventory(known: State) -> None:
    path = Path(known.inventory)
    if path.is_file() and inventory.belongs_to(path.read_text(), known.name):
        remove_kubeconfig(known, 0)
        path.unlink()


def remove_kubeconfig(known: State, since: float) -> None:
    """Remove the kubeconfig that site.yml has kept next to the inventory after a time in seconds.

    With it, site.yml would not create a new cluster, but wait for a restore.
    """
    path = Path(known.inventory)
    kept = path.with_name(f"{path.stem}-admin.conf")
    if kept.is_file() and kept.stat().st_mtime > since:
        kept.unlink()


def _check_name(name: str) -> None:
    if not _NAME.fullmatch(name) or name == "depot":
        raise LabError(
            f"Error while reading --name {name!r}: at most 30 small letters, digits and '-', beginning with a letter, "
            "and not depot."
        )


@contextmanager
def held(name: str) -> Iterator[None]:
    """Hold a lab's lock, so that only one command at a time changes it."""
    with cache.lock(f"lab-{name}"):
        yield
