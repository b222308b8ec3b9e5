"""Images of nodes: a minimal Debian with SSH and Python, prepared as a machine of a lab."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from lab import paths, progress
from lab.depot import cache, debian, sudo_rs, tools
from lab.nodes import podman
from lab.nodes.mirror import Mirror

REPOSITORY = "localhost/gpulab-node"
USER = "gpulab"

_FILES = Path(__file__).resolve().parent / "image"
_HERE = "usr/lib/lab-node"
_PACKAGES = (
    "systemd",
    "systemd-sysv",
    "dbus",
    "openssh-server",
    "python3",
    "python3-apt",
    "sudo",
    "iproute2",
    "kmod",
    "procps",
    "ca-certificates",
)
# System -> its Debian release; for Ubuntu, the release with the most similar apt and Python.
_CODENAMES = {
    "debian12": "bookworm",
    "debian13": "trixie",
    "ubuntu2204-shaped": "bookworm",
    "ubuntu2404-shaped": "bookworm",
    "ubuntu2604-shaped": "trixie",
}
# Ubuntu 25.10 and later: `sudo` is sudo-rs, and the original is `sudo.ws`.
SUDO_RS = ("ubuntu2604-shaped",)
# Consoles and kernel file systems that a container lacks, and timers that would use the disk or hold apt's lock.
_MASKED = (
    "console-getty.service",
    "getty.target",
    "systemd-udevd.service",
    "systemd-udev-trigger.service",
    "dev-hugepages.mount",
    "dev-mqueue.mount",
    "sys-kernel-config.mount",
    "sys-kernel-debug.mount",
    "sys-kernel-tracing.mount",
    "sys-fs-fuse-connections.mount",
    "apt-daily.timer",
    "apt-daily-upgrade.timer",
    "e2scrub_all.timer",
    "fstrim.timer",
)
# All nodes share the same disk: no translations, and no packages or caches are kept.
_APT = 'Acquire::Languages "none";\nAPT::Keep-Downloaded-Packages "false";\nDir::Cache::srcpkgcache "";\n'
_SWAP_FILE = "swap.img"
_FSTAB = "# <file system> <mount point> <type> <options> <dump> <pass>\n/swap.img none swap sw 0 0\n"
_UBUNTU_RELEASE = """PRETTY_NAME="Ubuntu {full}"
NAME="Ubuntu"
VERSION_ID="{release}"
VERSION="{full} ({title})"
VERSION_CODENAME={codename}
ID=ubuntu
ID_LIKE=debian
HOME_URL="https://www.ubuntu.com/"
SUPPORT_URL="https://help.ubuntu.com/"
BUG_REPORT_URL="https://bugs.launchpad.net/ubuntu/"
PRIVACY_POLICY_URL="https://www.ubuntu.com/legal/terms-and-policies/privacy-policy"
UBUNTU_CODENAME={codename}
LOGO=ubuntu-logo
VARIANT="Debian {base} shaped as Ubuntu {release} by the lab"
VARIANT_ID=shaped
"""
_LSB_RELEASE = """DISTRIB_ID=Ubuntu
DISTRIB_RELEASE={release}
DISTRIB_CODENAME={codename}
DISTRIB_DESCRIPTION="Ubuntu {full}"
"""


@dataclass(frozen=True)
class _Shape:
    """The identity of an Ubuntu: its full version, its names, and the Debian version in its base-files."""

    full: str
    codename: str
    title: str
    debian: str


_SHAPES = {
    "ubuntu2204-shaped": _Shape("22.04.5 LTS", "jammy", "Jammy Jellyfish", "bookworm/sid"),
    "ubuntu2404-shaped": _Shape("24.04.3 LTS", "noble", "Noble Numbat", "trixie/sid"),
    "ubuntu2604-shaped": _Shape("26.04 LTS", "resolute", "Resolute Raccoon", "forky/sid"),
}


def ensure(system: str, mirror: Mirror) -> str:
    """Return the name of an operating system's image, which is rebuilt if its recipe changed. Raises DepotError."""
    codename = _CODENAMES[system]
    base = cache.digest(codename, mirror.archive, *_PACKAGES)
    sources = (_FILES, Path(__file__), *([Path(sudo_rs.__file__)] if system in SUDO_RS else []))
    recipe = cache.digest(base, mirror, system, cache.tree_digest(*sources))
    name = f"{REPOSITORY}:{system}-{recipe[:12]}"
    with cache.lock(f"image-{codename}"):
        known = podman.images()
        if name not in known:
            archive = _base(codename, base, mirror)
            with progress.step(f"Making the image of {system}"):
                _make(name, system, archive, mirror)
            _remove_former(system, name, known)
    return name


def _base(codename: str, key: str, mirror: Mirror) -> Path:
    """Return an archive of the minimal root filesystem, created by debootstrap once per recipe."""
    archive = paths.images() / f"{codename}-{key[:12]}.tar"
    if archive.is_file():
        return archive
    with progress.step(f"Fetching Debian {codename} from {mirror.archive}"), _scratch() as work:
        root = work / "root"
        if mirror.proxy:
            os.environ.setdefault("http_proxy", mirror.proxy)
        debian.root_filesystem(root, codename, _PACKAGES, address=mirror.archive)
        _tar("--create", f"--file={work / 'root.tar'}", f"--directory={root}", ".")
        (work / "root.tar").rename(archive)
    for former in paths.images().glob(f"{codename}-*.tar"):
        if former != archive:
            former.unlink()
    return archive


def _make(name: str, system: str, archive: Path, mirror: Mirror) -> None:
    with _scratch() as work:
        root = work / "root"
        root.mkdir(mode=0o755)
        _tar("--extract", f"--file={archive}", f"--directory={root}")
        _furnish(root, system, mirror)
        _tar("--create", f"--file={work / 'image.tar'}", f"--directory={root}", ".")
        options = ["--change=ENV container=podman", f'--change=ENTRYPOINT ["/{_HERE}/init"]']
        podman.run("import", "--quiet", *options, work / "image.tar", name, doing=f"importing the image {name}")


def _furnish(root: Path, system: str, mirror: Mirror) -> None:
    """Turn a minimal root filesystem into that of a machine as an installer leaves it."""
    own = root / _HERE
    own.mkdir(parents=True)
    for source in ("init", "swap", "sysctls"):
        shutil.copy(_FILES / source, own / source)
    for program in ("swapon", "swapoff"):
        _divert(root, f"/sbin/{program}")
        (root / "usr/sbin" / program).symlink_to(f"../lib/{Path(_HERE).name}/swap")
    _chroot(root, "useradd", "--create-home", "--shell=/bin/bash", "--password=*", USER)
    for unit in _MASKED:
        (root / "etc/systemd/system" / unit).unlink(missing_ok=True)
        (root / "etc/systemd/system" / unit).symlink_to("/dev/null")
    for key in (root / "etc/ssh").glob("ssh_host_*"):
        key.unlink()
    (root / "var/log/journal").mkdir(exist_ok=True)
    (root / _SWAP_FILE).write_bytes(bytes(4086) + b"SWAPSPACE2")
    (root / _SWAP_FILE).chmod(0o600)
    _write(root, "etc/fstab", _FSTAB)
    _write(root, "etc/machine-id", "")
    _write(root, "etc/default/locale", "LANG=C.UTF-8\n")
    _write(root, f"etc/sudoers.d/{USER}", f"{USER} ALL=(ALL:ALL) NOPASSWD: ALL\n", 0o440)
    # The kernel log is the host's, and each node would store a copy of it.
    _write(root, "etc/systemd/journald.conf.d/50-lab.conf", "[Journal]\nReadKMsg=no\nSystemMaxUse=200M\n")
    _write(root, "etc/apt/apt.conf.d/90lab", _APT)
    _sources(root, system, mirror)
    if mirror.proxy:
        _write(root, "etc/apt/apt.conf.d/90proxy", f'Acquire::http::Proxy "{mirror.proxy}";\n')
    if system in _SHAPES:
        _shape(root, _SHAPES[system], _CODENAMES[system])
    if system in SUDO_RS:
        _replace_sudo(root)


def _sources(root: Path, system: str, mirror: Mirror) -> None:
    """Write apt's sources in the syntax that the release's installer uses."""
    codename = _CODENAMES[system]
    if system == "debian12":
        lines = [f"deb {mirror.archive} {codename} main", f"deb {mirror.archive} {codename}-updates main"]
        lines += [f"deb {mirror.security} {codename}-security main"] if mirror.security else []
        _write(root, "etc/apt/sources.list", "".join(f"{line}\n" for line in lines))
    else:
        (root / "etc/apt/sources.list").unlink(missing_ok=True)
        _write(root, "etc/apt/sources.list.d/debian.sources", mirror.sources(codename))


def _shape(root: Path, shape: _Shape, base: str) -> None:
    """Give a Debian the identity of an Ubuntu in data files; its packages stay Debian's."""
    words = {**asdict(shape), "release": shape.full[:5], "base": base}
    _divert(root, "/usr/lib/os-release")
    _write(root, "usr/lib/os-release", _UBUNTU_RELEASE.format(**words))
    _write(root, "etc/lsb-release", _LSB_RELEASE.format(**words))
    _write(root, "etc/debian_version", f"{shape.debian}\n")
    _write(root, "etc/issue", f"Ubuntu {shape.full} (shaped) \\n \\l\n\n")


def _replace_sudo(root: Path) -> None:
    program = root / "usr/bin/sudo"
    _chroot(root, "dpkg-divert", "--local", "--rename", "--divert=/usr/bin/sudo.ws", "--add", "/usr/bin/sudo")
    shutil.copy(sudo_rs.provide(), program)
    program.chmod(0o4755)


def _divert(root: Path, path: str) -> None:
    """Divert a file of a package, so that an upgrade of the package does not replace ours."""
    owned = _chroot(root, "dpkg-query", "--listfiles", "mount").split()
    place = f"/usr{path}" if f"/usr{path}" in owned else path
    _chroot(root, "dpkg-divert", "--local", "--rename", f"--divert={place}.distrib", "--add", place)


def _write(root: Path, name: str, text: str, mode: int = 0o644) -> None:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(mode)


def _remove_former(system: str, name: str, known: list[str]) -> None:
    """Remove older images of the same system that no container uses."""
    for other in known:
        if other.startswith(f"{REPOSITORY}:{system}-") and other != name:
            users = podman.run("ps", "--all", "--quiet", f"--filter=ancestor={other}", doing="looking for containers")
            if not users.split():
                podman.run("rmi", other, doing=f"removing the former image {other}")


@contextmanager
def _scratch() -> Iterator[Path]:
    work = Path(tempfile.mkdtemp(prefix=".work-", dir=paths.images()))
    try:
        yield work
    finally:
        # An interrupted debootstrap leaves mounts of the host's own /proc and /sys.
        for name in ("proc", "sys"):
            if (work / "root" / name).is_mount():
                tools.run(["umount", work / "root" / name], doing=f"unmounting {work}/root/{name}")
        tools.run(["rm", "--recursive", "--force", "--one-file-system", work], doing=f"removing {work}")


def _chroot(root: Path, *argv: str) -> str:
    clean = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "DEBIAN_FRONTEND": "noninteractive"}
    return tools.run(["chroot", root, *argv], doing=f"running {argv[0]} in {root}", log="image", env=clean)


def _tar(*arguments: str) -> None:
    tools.run(["tar", "--numeric-owner", *arguments], doing="packing a root file system", log="image", nice=5)
