"""The image of the container in which minikube's driver docker runs Kubernetes: `build --with kicbase`.

Upstream's can't be had everywhere. This one is Debian with upstream's own files and the programs that the depot builds,
but for cri-dockerd, in whose place there is Kubernetes' former dockershim, for mount.nfs, which is simulated as on
nodes, and for CRI-O, Podman and BuildKit.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from lab import paths
from lab.depot import docker, golang, images, recipes, tools, versions
from lab.depot.debian_image import DebianImage
from lab.depot.oci import Settings

REFERENCE = "ghcr.io/gpulab/kicbase:1"
_FILES = Path(__file__).resolve().parent
# What else nodes of a lab keep to themselves.
_SYSCTLS = paths.REPOSITORY / "lab" / "nodes" / "image" / "sysctls"
_SUITE = "bookworm"
_PACKAGES = (
    *("systemd", "systemd-sysv", "dbus", "openssh-server", "sudo", "ca-certificates", "curl", "procps", "kmod"),
    *("conntrack", "iptables", "iproute2", "ethtool", "ebtables", "socat", "pigz", "lz4", "rsync"),
)
# As deploy/kicbase/Dockerfile of minikube removes them.
_REMOVED = (
    "lib/systemd/system/sysinit.target.wants/systemd-tmpfiles-setup.service",
    *(f"lib/systemd/system/{name}.target.wants/*" for name in ("multi-user", "local-fs", "basic")),
    *(f"lib/systemd/system/sockets.target.wants/*{name}*" for name in ("udev", "initctl")),
    "etc/systemd/system/*.wants/*",
)
_ENABLED = ("ssh", "docker", "minikube-automount")
# What would mount or set something of the machine below.
_MASKED = (
    *("systemd-binfmt.service", "systemd-udevd.service", "systemd-sysctl.service", "proc-sys-fs-binfmt_misc.automount"),
    *(f"sys-{name}.mount" for name in ("kernel-config", "kernel-debug", "kernel-tracing", "fs-fuse-connections")),
)
_SETTINGS = Settings(
    entrypoint=("/usr/local/sbin/init", "/sbin/init"),
    environment={"container": "docker"},
    labels={
        "org.opencontainers.image.title": "kicbase",
        "org.opencontainers.image.description": "A node image for minikube in a lab, not upstream's.",
    },
)
# minikube's addon has a version of its own.
_DEVICE_PLUGIN = "v0.18.2"

_MINIKUBE = recipes.minikube(versions.minikube())
_CONTAINERD, _DOCKER = next(iter(versions.RUNC)), next(iter(versions.DOCKER))
_PROGRAMS = (
    recipes.containerd(_CONTAINERD),
    recipes.runc(_CONTAINERD),
    recipes.docker_engine(_DOCKER),
    recipes.docker_cli(_DOCKER),
    recipes.dockershim(),
    recipes.crictl(versions.crictl("v1.36.0")),
    recipes.container_toolkit(list(versions.table()["nvidia_container_toolkit"])[-1]),
)
_CNI = recipes.cni_plugins("v1.9.1")


def build() -> None:
    """Make the image and those that minikube runs in it; what is there already costs nothing. Raises DepotError."""
    docker.build()
    plugin = recipes.device_plugin(_DEVICE_PLUGIN)
    for recipe in (_MINIKUBE, *_PROGRAMS, _CNI, plugin):
        golang.provide(recipe)
    _IMAGE.build()
    images.device_plugin(plugin).build()


def _furnish(root: Path) -> None:
    for pattern in _REMOVED:
        for path in root.glob(pattern):
            path.unlink()
    for recipe in _PROGRAMS:
        for name in recipe.programs:
            _copy(recipe.program(name), root / "usr/bin" / name, 0o755)
    for name in _CNI.programs:
        _copy(_CNI.program(name), root / "opt/cni/bin" / name, 0o755)
    for name in ("init", "runc", "proc-hook"):
        _copy(_FILES / name, root / "usr/local/sbin" / name, 0o755)
    # What upstream's image has of nfs-common, simulated.
    _copy(_FILES / "mount.nfs", root / "usr/sbin/mount.nfs", 0o755)
    _copy(_SYSCTLS, root / "usr/local/lib/sysctls")
    upstream, units = _MINIKUBE.source("deploy/kicbase"), root / "usr/lib/systemd/system"
    _copy(upstream / "entrypoint", root / "usr/local/bin/entrypoint", 0o755)
    _copy(upstream / "automount/minikube-automount", root / "usr/sbin/minikube-automount", 0o755)
    _copy(upstream / "automount/minikube-automount.service", units / "minikube-automount.service")
    _copy(upstream / "containerd.toml", root / "etc/containerd/config.toml")
    for name in ("cri-docker.service", "cri-docker.socket"):
        _copy(_FILES / name, units / name)
    engine = recipes.docker_engine(_DOCKER)
    for name in ("docker.service", "docker.socket"):
        _copy(engine.source(f"contrib/init/systemd/{name}"), units / name)
    text = recipes.containerd(_CONTAINERD).source("containerd.service").read_text()
    (units / "containerd.service").write_text(text.replace("/usr/local/bin/", "/usr/bin/"))
    _system(root)


def _system(root: Path) -> None:
    """The user of minikube, what runs from the start, and the directory that the entrypoint writes to."""
    for argv in (
        ["groupadd", "--system", "docker"],
        ["useradd", "--create-home", "--shell=/bin/bash", "--gid=docker", "--groups=sudo", "--password=*", "docker"],
        ["install", "--directory", "--owner=docker", "--group=docker", "--mode=0700", "/home/docker/.ssh"],
    ):
        tools.run(["chroot", root, *argv], doing=f"running {argv[0]} in {root}", log="image")
    sudoers = root / "etc/sudoers.d/20-passwordless-sudo"
    sudoers.write_text("%sudo ALL=(ALL) NOPASSWD:ALL\n")
    sudoers.chmod(0o440)
    (root / "kind").mkdir()
    (root / "etc/kubernetes/manifests").mkdir(parents=True)
    wants = root / "etc/systemd/system/multi-user.target.wants"
    wants.mkdir(parents=True, exist_ok=True)
    for name in _ENABLED:
        (wants / f"{name}.service").symlink_to(f"/usr/lib/systemd/system/{name}.service")
    for name in _MASKED:
        (root / "etc/systemd/system" / name).symlink_to("/dev/null")
    (root / "etc/systemd/journald.conf.d").mkdir(exist_ok=True)
    (root / "etc/systemd/journald.conf.d/50-lab.conf").write_text("[Journal]\nReadKMsg=no\n")


def _copy(source: Path, target: Path, mode: int = 0o644) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source, target)
    target.chmod(mode)


_IMAGE = DebianImage(
    REFERENCE,
    "kicbase",
    _SUITE,
    _PACKAGES,
    _SETTINGS,
    _FILES,
    _furnish,
    (_MINIKUBE, *_PROGRAMS, _CNI),
)
