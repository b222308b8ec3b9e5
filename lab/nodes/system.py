"""Check and prepare the lab's host: privileges, packages, limits and kernel."""

from __future__ import annotations

import gzip
import os
import platform
import re
import resource
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

from lab import depot, progress
from lab.depot import tools
from lab.nodes.errors import LabError

# Debian and Ubuntu packages, each with a command that shows that it is installed.
_PACKAGES = {
    "podman": "podman",
    "runc": "runc",
    "netavark": "/usr/lib/podman/netavark",
    "aardvark-dns": "/usr/lib/podman/aardvark-dns",
    "iptables": "iptables",
    "debootstrap": "debootstrap",
    "debian-archive-keyring": "/usr/share/keyrings/debian-archive-keyring.gpg",
    "openssh-client": "ssh-keygen",
    "iproute2": "ip",
    "tar": "tar",
}
_MODULES = (
    "overlay",
    "br_netfilter",
    "vxlan",
    "veth",
    "bridge",
    "nf_conntrack",
    "nf_tables",
    "ip_tables",
    "iptable_nat",
    "xt_comment",
)
# Path of modules in the kernel tree; a kernel without loadable modules has no list of its own.
_BUILT_IN = {
    "overlay": "kernel/fs/overlayfs/overlay.ko",
    "br_netfilter": "kernel/net/bridge/br_netfilter.ko",
    "vxlan": "kernel/drivers/net/vxlan/vxlan.ko",
    "nf_conntrack": "kernel/net/netfilter/nf_conntrack.ko",
    "ip_tables": "kernel/net/ipv4/netfilter/ip_tables.ko",
    "nf_tables": "kernel/net/netfilter/nf_tables.ko",
}
_SIGNS = {
    "overlay": "/sys/module/overlay",
    "br_netfilter": "/proc/sys/net/bridge/bridge-nf-call-iptables",
    "vxlan": "/sys/module/vxlan",
    "nf_conntrack": "/sys/module/nf_conntrack",
    "ip_tables": "/proc/net/ip_tables_names",
    # If built in, it only appears in the kernel's configuration.
    "nf_tables": "",
}
_CONFIGURATION = Path("/proc/config.gz")
_NOT_OURS = re.compile(r"nvidia|nouveau")
_FILES_WANTED = 1048576
_PROCESSES_WANTED = 1048576
_PODMANS_PROCESSES = 32768
_CAP_SYS_RESOURCE = 24
_FREE_GIB = 10
_INOTIFY = {"max_user_instances": 8192, "max_user_watches": 524288}


def require() -> None:
    """Check that the lab can run here: root, packages, kernel modules. Raises LabError."""
    if platform.system() != "Linux" or platform.machine() != "x86_64":
        raise LabError(f"Error while preparing: the lab runs on Linux on x86_64, this is {platform.platform()}.")
    absent = missing_packages()
    if os.geteuid() != 0:
        first = f" First: sudo apt-get install --yes {' '.join(absent)}" if absent else ""
        raise LabError(
            "Error while preparing: the lab needs root. Its nodes make device files of simulated GPUs, use kernel "
            "modules and set parameters of the kernel, which rootless Podman can't allow. Run the same command as "
            f"root: sudo -E make lab, or {_as_root()}. If you may not use sudo, use a virtual machine.{first}"
        )
    if absent:
        install(absent)
    _load_modules()
    _raise_inotify()
    _look_at_disk()


def require_podman() -> None:
    """Check that containers of a lab can be inspected. Raises LabError."""
    if os.geteuid() != 0:
        raise LabError(
            f"Error while looking for the lab: its containers are root's. Run the same command as root: {_as_root()}."
        )
    if not shutil.which("podman"):
        raise LabError(
            "Error while looking for the lab: podman is not installed, so there is none: `apt-get install podman`."
        )


def _as_root() -> str:
    return shlex.join(["sudo", "-E", sys.executable, "-m", "lab", *sys.argv[1:]])


def missing_packages() -> list[str]:
    """Return the host packages for nodes and depot that are not installed."""
    absent = [package for package, sign in _PACKAGES.items() if not _there(sign)]
    others = [package for package in depot.HOST_PACKAGES if package not in _PACKAGES]
    if others and shutil.which("dpkg-query"):
        argv = ["dpkg-query", "--show", "--showformat=${Package} ${db:Status-Abbrev}\n", *others]
        said = subprocess.run(argv, capture_output=True, text=True, check=False).stdout
        installed = {line.split()[0] for line in said.splitlines() if line.split()[1:2] == ["ii"]}
        absent += [package for package in others if package not in installed]
    return absent


def _there(sign: str) -> bool:
    if sign.startswith("/"):
        return Path(sign).exists() or shutil.which(Path(sign).name) is not None
    return shutil.which(sign, path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin") is not None


def install(packages: list[str]) -> None:
    """Install packages of the host's distribution. Raises LabError if there is no apt."""
    command = ["apt-get", "install", "--yes", "--no-install-recommends", *packages]
    if not shutil.which("apt-get"):
        raise LabError(
            f"Error while preparing: these packages (names of Debian) are missing: {' '.join(packages)}. "
            "Install them with your distribution's tool and run again."
        )
    with progress.step(f"Installing {' '.join(packages)}"):
        quiet = {"DEBIAN_FRONTEND": "noninteractive"}
        tools.run(["apt-get", "update"], doing="reading apt's sources", log="apt", env=quiet)
        tools.run(command, doing=f"installing packages ({' '.join(command)})", log="apt", env=quiet)


def _load_modules() -> None:
    """Load kernel modules for the nodes, which may not load any; built-in ones are skipped."""
    if not shutil.which("modprobe") or not Path("/lib/modules", platform.release()).is_dir():
        return
    subprocess.run(["modprobe", "--all", "--quiet", *_MODULES], capture_output=True, check=False)


def _raise_inotify() -> None:
    """Raise the inotify limits that all nodes share as one user: each systemd and kubelet needs dozens."""
    for name, wanted in _INOTIFY.items():
        path = Path("/proc/sys/fs/inotify", name)
        now = int(path.read_text())
        if now < wanted:
            progress.say(f"Raising fs.inotify.{name} of this machine from {now} to {wanted} until its next boot.")
            path.write_text(f"{wanted}\n")


def _look_at_disk() -> None:
    storage = Path("/var/lib/containers")
    free = shutil.disk_usage(storage if storage.is_dir() else "/").free >> 30
    if free < _FREE_GIB:
        progress.warn(f"Only {free} GiB are free below {storage}: a node takes about 2 GiB once it is in a cluster.")


def modules_builtin() -> str:
    """Return a node's modules.builtin: modules of the running kernel, loaded or built in, without GPU drivers."""
    release = Path("/lib/modules", platform.release())
    names = {path.name: f"kernel/lab/{path.name}.ko" for path in Path("/sys/module").iterdir() if _loaded(path)}
    for listing in ("modules.builtin", "modules.dep"):
        path = release / listing
        for line in path.read_text().splitlines() if path.is_file() else ():
            place = re.sub(r"\.ko(\.\w+)?$", ".ko", line.split(":")[0].strip())
            name = Path(place).stem.replace("-", "_")
            if listing == "modules.builtin" or name in names:
                names[name] = place
    names |= {name: place for name, place in _BUILT_IN.items() if name not in names and _built_in(name)}
    return "".join(f"{place}\n" for name, place in sorted(names.items()) if not _NOT_OURS.match(name))


def _built_in(name: str) -> bool:
    if _SIGNS[name]:
        return Path(_SIGNS[name]).exists()
    try:
        return f"\nCONFIG_{name.upper()}=y\n" in gzip.decompress(_CONFIGURATION.read_bytes()).decode()
    except OSError:
        return False


def _loaded(module: Path) -> bool:
    return (module / "initstate").is_file()


def limits() -> list[str]:
    """Return the limits of a node: high if the caller may raise them, else the highest that Podman can pass on.

    Raising needs CAP_SYS_RESOURCE; Podman lowers its own process limit before it starts a container.
    """
    wanted = {"nofile": _FILES_WANTED, "nproc": _PROCESSES_WANTED}
    if not _may_raise_limits():
        hard = {
            "nofile": resource.getrlimit(resource.RLIMIT_NOFILE)[1],
            "nproc": min(resource.getrlimit(resource.RLIMIT_NPROC)[1], _PODMANS_PROCESSES),
        }
        # -1 means "unlimited".
        wanted = {name: min(value, hard[name]) if hard[name] >= 0 else value for name, value in wanted.items()}
    return [f"--ulimit={name}={value}:{value}" for name, value in wanted.items()]


def _may_raise_limits() -> bool:
    status = Path("/proc/self/status").read_text()
    found = re.search(r"^CapEff:\s*([0-9a-f]+)$", status, re.MULTILINE)
    return bool(found and int(found[1], 16) >> _CAP_SYS_RESOURCE & 1)
