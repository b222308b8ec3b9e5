"""A node: a container that boots systemd, with as little access to the host as a Kubernetes node allows.

Tested on a hybrid cgroup v1 with runc. On cgroup v2, the same flags are used with Podman's own runtime: untested.
"""

from __future__ import annotations

import io
import platform
import secrets
import subprocess
import tarfile
import time
import uuid
from dataclasses import dataclass
from pathlib import Path

from lab import gpusim, paths
from lab.depot import tools
from lab.nodes import disk, headers, inventory, mirror, network, podman, state, system, trees
from lab.nodes.errors import LabError
from lab.nodes.image import USER
from lab.nodes.spec import Node

_SECCOMP = Path(__file__).resolve().parent / "image" / "seccomp.json"
_VOLUMES = ("containerd", "docker", "kubelet", "etcd")
# SYS_ADMIN is required, so seccomp.json blocks swapon.
_DROPPED = ("SYS_MODULE", "SYS_TIME", "SYS_RAWIO", "WAKE_ALARM", "BLOCK_SUSPEND", "MAC_ADMIN", "MAC_OVERRIDE")
_BOOT_SECONDS = 90
_UP = ("running", "degraded")
_OWN = "usr/lib/lab-node"


@dataclass(frozen=True)
class Place:
    """A node's lab, and its addresses on the cluster's network and on the extra one, if any."""

    lab: str
    network: str
    address: str
    extra_network: str = ""
    extra_address: str = ""

    def gateway(self, route: str) -> str:
        """Return the gateway of the default route's network, which is the first address of that network."""
        address = self.extra_address if route == "extra" else self.address
        return f"{address.rpartition('.')[0]}.{network.GATEWAY_HOST}"


def container(lab: str, node: str) -> str:
    """Return the name of a node's container."""
    return f"gpulab-{lab}-{node}"


def make(node: Node, place: Place, image: str) -> None:
    """Create and start a node. Raises LabError or DepotError."""
    create(node, place, image)
    start(place.lab, node)


def create(node: Node, place: Place, image: str) -> None:
    """Create a node with its volumes and its disk, if it has one. Raises LabError or DepotError."""
    name = container(place.lab, node.name)
    label = f"--label={podman.LABEL}={place.lab}"
    for volume in volumes(node):
        podman.run("volume", "create", label, f"{name}-{volume}", doing=f"making the volumes of {node.name}")
    if node.power_cuts:
        disk.make(place.lab, node.name)
    podman.run("create", label, *_options(node, place), image, doing=f"making the node {node.name}")
    podman.run("cp", "-", f"{name}:/", doing=f"giving {node.name} its identity", stdin=_identity(node, place))
    if node.power_cuts:
        _fill_disk(node, place)


def _fill_disk(node: Node, place: Place) -> None:
    """Copy what the image has at the places of the disk, which the container doesn't see below it."""
    name, doing = container(place.lab, node.name), f"filling the disk of {node.name}"
    root = Path(podman.run("mount", name, doing=doing).strip())
    try:
        for directory, target in disk.PLACES.items():
            if (root / target.lstrip("/")).is_dir():
                trees.copy(root / target.lstrip("/"), disk.mount_point(place.lab, node.name) / directory)
    finally:
        podman.run("umount", name, doing=doing)


def start(lab: str, node: Node) -> None:
    """Start a node that is stopped. Raises LabError or DepotError."""
    if node.power_cuts:
        disk.mount(lab, node.name)
    podman.run("start", container(lab, node.name), doing=f"starting the node {node.name}")


def volumes(node: Node) -> list[str]:
    """Return the names of a node's volumes, which are mounted below /var/lib."""
    return [name for name in _VOLUMES if not (node.power_cuts and name in disk.PLACES)]


def remove(lab: str, node: str) -> None:
    """Remove a node's container and its volumes, as far as they exist. Raises DepotError."""
    name = container(lab, node)
    # Two labs may have the same container name ("a", "b-c" and "a-b", "c"): only remove one with this lab's label.
    if name in podman.containers(lab):
        podman.run("rm", "--force", "--volumes", "--time=0", name, doing=f"removing the node {node}")
    disk.remove(lab, node)
    there = podman.volumes(lab)
    for volume in (f"{name}-{suffix}" for suffix in _VOLUMES):
        if volume in there:
            podman.run("volume", "rm", volume, doing=f"removing the volume {volume}")


def _options(node: Node, place: Place) -> list[str]:
    name = container(place.lab, node.name)
    options = [f"--name={name}", f"--hostname={node.hostname()}", "--no-hosts"]
    # systemd-resolved manages /etc/resolv.conf, which Podman would otherwise mount.
    options += ["--dns=none"] if node.untidy.resolved else ["--dns-search=."]
    options += ["--restart=always", "--stop-signal=SIGRTMIN+3", "--systemd=false", "--cgroupns=private"]
    options += ["--pids-limit=-1", "--log-opt=max-size=10mb"]
    options += ["--cap-add=ALL", *(f"--cap-drop={capability}" for capability in _DROPPED)]
    options += [f"--security-opt=seccomp={_SECCOMP}", "--security-opt=apparmor=unconfined"]
    # Containers of the node need any device rule; its /dev still contains none of the host's devices.
    options += ["--security-opt=label=disable", "--device-cgroup-rule=a *:* rwm", "--device=/dev/kmsg"]
    tmp = "noexec,size=64m" if node.untidy.tmp == "noexec" else "exec"
    options += ["--tmpfs=/run:exec,mode=755", "--tmpfs=/run/lock", f"--tmpfs=/tmp:{tmp}"]
    options += [f"--volume={name}-{volume}:/var/lib/{volume}:dev,exec,suid" for volume in volumes(node)]
    if node.power_cuts:
        where = disk.mount_point(place.lab, node.name)
        options += [f"--volume={where}/{name}:{target}:dev,exec,suid" for name, target in disk.PLACES.items()]
    if node.untidy.nfs:
        # The simulated NFS client of each node mounts parts of this directory.
        shared = paths.lab_dir(place.lab) / "nfs"
        shared.mkdir(parents=True, exist_ok=True)
        options.append(f"--volume={shared}:/var/lib/lab-nfs")
    options += [f"--volume={source}:{target}:ro" for source, target in _silicon(node, place).items()]
    return [*options, *system.limits(), *_networks(node, place)]


def _silicon(node: Node, place: Place) -> dict[Path, str]:
    # A node without GPUs has an empty PCI directory, which hides the host's GPUs.
    model, count = (node.gpus.model, node.gpus.count) if node.gpus else ("", 0)
    return gpusim.silicon(model, count, f"{place.lab}-{node.name}").mounts


def _networks(node: Node, place: Place) -> list[str]:
    if not place.extra_network:
        return [f"--network={place.network}:ip={place.address},alias={node.name},interface_name=eth0"]
    # The first interface is isolated, so that using "the first address" instead of the default route's fails.
    return [
        f"--network={place.extra_network}:ip={place.extra_address},interface_name=eth0",
        f"--network={place.network}:ip={place.address},alias={node.name},interface_name=eth1",
    ]


def _identity(node: Node, place: Place) -> bytes:
    """Return a tar of the files that identify a machine."""
    directory = paths.lab_dir(place.lab)
    key = host_key(directory, node.name)
    names = " ".join(dict.fromkeys([node.hostname(), node.hostname().partition(".")[0]]))
    hosts = f"127.0.0.1 localhost\n::1 localhost ip6-localhost ip6-loopback\n{place.address} {names}\n"
    files: dict[str, tuple[str | bytes, int]] = {
        "etc/hosts": (hosts, 0o644),
        "etc/machine-id": (f"{uuid.uuid4().hex}\n", 0o444),
        "etc/ssh/ssh_host_ed25519_key": (key.read_text(), 0o600),
        "etc/ssh/ssh_host_ed25519_key.pub": (key.with_suffix(".pub").read_text(), 0o644),
        f"home/{USER}/.ssh/authorized_keys": ((directory / "id_ed25519.pub").read_text(), 0o600),
        f"{_OWN}/modules.builtin": (system.modules_builtin(), 0o644),
    }
    if mirror.proxy():
        depot = f"{place.address.rpartition('.')[0]}.{network.DEPOT_HOST}"
        files["etc/apt/apt.conf.d/91depot"] = (f'Acquire::http::Proxy::{depot} "DIRECT";\n', 0o644)
    if place.extra_network:
        files[f"{_OWN}/default-route"] = (f"{place.gateway(node.untidy.default_route)}\n", 0o644)
    if node.untidy.resolved:
        files["etc/resolv.conf"] = (f"nameserver {place.gateway('')}\n", 0o644)
    if node.untidy.headers != "absent":
        files |= {name: (content, 0o644) for name, content in headers.archive(platform.release()).items()}
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as tar:
        ssh = tarfile.TarInfo(f"home/{USER}/.ssh")
        ssh.type, ssh.mode = tarfile.DIRTYPE, 0o700
        tar.addfile(ssh)
        for name, (text, mode) in files.items():
            data = text.encode() if isinstance(text, str) else text
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode, entry.mtime = len(data), mode, int(time.time())
            tar.addfile(entry, io.BytesIO(data))
    return packed.getvalue()


def host_key(directory: Path, node: str) -> Path:
    """Return the SSH host key of a node, created once, so that it is known before the node first answers."""
    return _key(directory / f"host_{node}", comment=node)


def user_key(directory: Path) -> Path:
    """Return the SSH key for the nodes of a lab, created once."""
    return _key(directory / "id_ed25519", comment=f"gpulab-{directory.name}")


def sudo_password(directory: Path) -> str:
    """Return the password for sudo on nodes that require one, created once."""
    path = directory / inventory.PASSWORD_FILE
    if not path.is_file():
        state.write_private(path, f"{secrets.token_urlsafe(12)}\n")
    return path.read_text().strip()


def _key(path: Path, comment: str) -> Path:
    if not path.with_suffix(".pub").is_file():
        path.unlink(missing_ok=True)
        argv = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", comment, "-f", path]
        tools.run(argv, doing=f"making the SSH key {path}", log="ssh")
    for own in (path.parent, path):
        state.hand_over(own)
    return path


def wait(lab: str, node: str, address: str) -> str:
    """Wait until a node has booted and accepts logins; return its systemd state. Raises LabError."""
    name = container(lab, node)
    end = time.monotonic() + _BOOT_SECONDS
    now = said = ""
    while time.monotonic() < end:
        if now not in _UP:
            now = podman.answers(name, "systemctl", "is-system-running")[1]
        if now in _UP:
            done = subprocess.run(ssh(lab, address, "true"), capture_output=True, text=True, check=False)
            if done.returncode == 0:
                return now if now == "running" else f"{now} ({_failed(name)})"
            said = done.stderr.strip()
        time.sleep(0.3)
    what = f"ssh said: {said}" if now in _UP else f"systemd says: {now or 'nothing'}"
    raise LabError(
        f"Error while waiting for the node {node}: not usable after {_BOOT_SECONDS} s, {what}. "
        f"See `podman logs {name}` and `podman exec {name} journalctl -b`; "
        f"`python -m lab up --name {lab}` makes it anew."
    )


def _failed(container_name: str) -> str:
    listed = podman.answers(container_name, "systemctl", "list-units", "--failed", "--plain", "--no-legend")[1]
    return ", ".join(line.split()[0] for line in listed.splitlines() if line) or "no unit any more"


def ssh(lab: str, address: str, *command: str, terminal: bool = False) -> list[str]:
    """Return the command line that runs a command on a node as its user, or opens a shell there."""
    directory = paths.lab_dir(lab)
    options = inventory.ssh_options(directory)
    how = ["-t"] if terminal else ["-oBatchMode=yes"]
    return ["ssh", *how, "-oConnectTimeout=5", *options, f"-i{directory / 'id_ed25519'}", f"{USER}@{address}", *command]
