"""A worker that is a real virtual machine: its own kernel, cgroup v2, swap and reboots, in QEMU's pure emulation.

It joins the network of a lab whose control plane is a container, because etcd and the API server are too slow in an
emulated machine. The disk is made once per recipe, with the images of a worker unpacked already, and each machine
writes to a sparse copy of its own.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

from lab import paths, progress
from lab.depot import cache, debian, images, recipes, tools, versions
from lab.depot.golang import Recipe
from lab.depot.registry import digests as depot_digests
from lab.nodes import inventory, machine, network, podman, state
from lab.nodes.errors import LabError
from lab.nodes.image import USER
from lab.nodes.mirror import Mirror, find
from lab.nodes.state import State

PROGRAMS = {"qemu-system-x86_64": "qemu-system-x86", "qemu-img": "qemu-utils", "mke2fs": "e2fsprogs"}
NODE = "vm1"

_CODENAME = "trixie"
_PACKAGES = (
    *("systemd", "systemd-sysv", "udev", "dbus", "libpam-systemd", "openssh-server", "python3", "python3-apt", "sudo"),
    *("iproute2", "kmod", "procps", "ca-certificates", "linux-image-cloud-amd64", "initramfs-tools", "zstd", "fdisk"),
)
_HOST = 240
_MEMORY_MIB = 3072
_SWAP_MIB = 256
# As an installer partitions it: systemd finds the swap partition by itself once fstab names no swap.
_DISK_MIB, _ROOT_MIB = 12288, 11776
_ROOT_OFFSET = 1024 * 1024
_PARTITIONS = f"label: gpt\nstart=1MiB, size={_ROOT_MIB}MiB, type=linux\ntype=swap\n"
_BOOT_SECONDS = 900
_MASKED = ("apt-daily.timer", "apt-daily-upgrade.timer", "e2scrub_all.timer", "fstrim.timer", "getty.target")
# QEMU 7.2 emulates cmpxchg16b in a way that kernel 6.12 crashes with, but programs such as HAProxy need it; the timer
# check counts ticks in real time, which a busy machine does not deliver; five-level page tables cost time.
_CPU = "max,la57=off"
_KERNEL = (
    "root=/dev/vda1 rw console=ttyS0 net.ifnames=0 no_timer_check nowatchdog mitigations=off clearcpuid=cx16 "
    "rcupdate.rcu_cpu_stall_timeout=300"
)
# Written on the first boot: mke2fs turns zeroes into holes, and swapon refuses a file with holes.
_SWAP_UNIT = f"""[Unit]
Description=Make the swap file and the swap partition that the installer would have made
ConditionPathExists=!/swapfile
Before=ssh.service

[Service]
Type=oneshot
ExecStart=/bin/dd if=/dev/zero of=/swapfile bs=1M count={_SWAP_MIB}
ExecStart=/bin/chmod 600 /swapfile
ExecStart=/sbin/mkswap /swapfile
ExecStart=/sbin/mkswap /dev/vda2
ExecStart=/sbin/swapon --all

[Install]
WantedBy=multi-user.target
"""


def missing() -> list[str]:
    """Return the Debian packages that a virtual machine needs and that are not there."""
    return sorted({package for program, package in PROGRAMS.items() if not _which(program)})


def up(lab: State, place: Path) -> Path:
    """Start the virtual machine of a lab and write its inventory; return the inventory's path.

    Raises LabError or DepotError.
    """
    if absent := missing():
        raise LabError(
            f"Error while starting {NODE}: programs of QEMU are missing: `apt-get install {' '.join(absent)}`."
        )
    directory = _directory(lab.name)
    address = network.address(lab.subnets["main"], _HOST)
    key = machine.host_key(paths.lab_dir(lab.name), NODE)
    if not _running(directory):
        mirror = find()
        base = _base(mirror, lab.depot["registry"])
        with progress.step(f"Starting {NODE}, an emulated machine") as step:
            directory.mkdir(mode=0o700, exist_ok=True)
            _disk(base, directory, _identity(lab, address, key, mirror))
            _tap(lab, directory)
            _qemu(base, directory)
            (directory / "known_hosts").write_text(
                f"{address} {' '.join(key.with_suffix('.pub').read_text().split()[:2])}\n"
            )
            _wait(lab, address)
            step.note(f"{_CODENAME} at {address}")
    state.write_private(place, _inventory(lab, address))
    return place


def down(name: str) -> None:
    """Stop the virtual machine of a lab, if there is one, and remove what it had."""
    directory = _directory(name)
    if not directory.is_dir():
        return
    with progress.step(f"Stopping {NODE}"):
        if pid := _running(directory):
            os.kill(pid, signal.SIGTERM)
            _until(lambda: not _running(directory), 30, f"QEMU of {NODE} (process {pid}) to end")
        tap = (directory / "tap").read_text() if (directory / "tap").is_file() else ""
        if tap and Path("/sys/class/net", tap).exists():
            tools.run(["ip", "link", "delete", tap], doing=f"removing the interface {tap}", log="vm")
        cache.remove(directory)


def ssh(lab: str, address: str, *command: str) -> list[str]:
    """Return the argv that runs a command on the virtual machine as its user."""
    key = paths.lab_dir(lab) / "id_ed25519"
    options = inventory.ssh_options(_directory(lab))
    return ["ssh", "-oBatchMode=yes", "-oConnectTimeout=20", *options, f"-i{key}", f"{USER}@{address}", *command]


def _directory(name: str) -> Path:
    return paths.labs() / name / NODE


def _which(program: str) -> str | None:
    return shutil.which(program, path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")


def _running(directory: Path) -> int:
    """Return the process of the machine, or 0: the number alone might be another program's by now."""
    try:
        pid = int((directory / "pid").read_text())
        return pid if str(directory) in Path(f"/proc/{pid}/cmdline").read_text() else 0
    except (OSError, ValueError):
        return 0


def _base(mirror: Mirror, registry: str) -> Path:
    """Return the directory with disk.raw, vmlinuz and initrd.img, made once per recipe."""
    wanted = _images()
    own = cache.tree_digest(Path(__file__))
    key = cache.digest(own, mirror, *_PACKAGES, *(f"{image.reference} {image.key}" for image in wanted))
    target = paths.images() / "vm"
    if cache.key_of(target) != key:
        with cache.lock("vm-disk"), cache.fresh(target, key) as work:
            with progress.step(f"Fetching Debian {_CODENAME} with a kernel for {NODE}"):
                root = work / "root"
                debian.root_filesystem(root, _CODENAME, _PACKAGES, address=mirror.archive)
                _furnish(root, mirror)
            with progress.step(f"Unpacking {len(wanted)} images for {NODE}"):
                _fill(root, registry, _names(image.reference for image in wanted))
            with progress.step(f"Making the disk of {NODE}"):
                for name in ("vmlinuz", "initrd.img"):
                    shutil.copy(next((root / "boot").glob(f"{name}-*")), work / name)
                _format(root, work / "disk.raw")
                shutil.rmtree(root)
    return target


def _format(root: Path, disk: Path) -> None:
    """Make a disk with two partitions: the root file system, and one for swap."""
    doing = f"making the disk of {NODE}"
    with (root / "disk.raw").open("wb") as file:
        file.truncate(_DISK_MIB * 1024 * 1024)
    argv: list[object] = ["chroot", root, "/usr/sbin/sfdisk", "--quiet", "/disk.raw"]
    tools.run(argv, doing=doing, log="vm", stdin=_PARTITIONS.encode())
    (root / "disk.raw").rename(disk)
    argv = ["mke2fs", "-q", "-t", "ext4", "-F", "-L", "root", "-d", root, "-E", f"offset={_ROOT_OFFSET}"]
    tools.run([*argv, disk, f"{_ROOT_MIB}M"], doing=doing, log="vm", nice=5)


def _images() -> list[images.Image]:
    """What a worker without GPUs pulls."""
    found = [*images.kubernetes(versions.DEFAULT_KUBERNETES), *images.add_ons()]
    names = ("/pause:", "/kube-proxy:", "/flannel:", "/flannel-cni-plugin:", "/agnhost:")
    return [image for image in found if any(name in image.reference for name in names)]


def _names(references: Iterable[str]) -> list[str]:
    """Each image by its tag, as kubeadm asks for it, and by its digest, as the product does."""
    digests = depot_digests()
    return [name for tag in references for name in (tag, f"{tag.rpartition(':')[0]}@{digests[tag]}")]


def _furnish(root: Path, mirror: Mirror) -> None:
    """Turn a bare root file system into that of a machine as an installer leaves it."""
    clean = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "DEBIAN_FRONTEND": "noninteractive"}
    _write(root, "etc/systemd/system/lab-swap.service", _SWAP_UNIT)
    for argv in (
        ["useradd", "--create-home", "--shell=/bin/bash", "--password=*", USER],
        ["systemctl", "enable", "systemd-networkd.service", "lab-swap.service"],
    ):
        tools.run(["chroot", root, *argv], doing=f"running {argv[0]} in {root}", log="vm", env=clean)
    for unit in _MASKED:
        (root / "etc/systemd/system" / unit).unlink(missing_ok=True)
        (root / "etc/systemd/system" / unit).symlink_to("/dev/null")
    for key in (root / "etc/ssh").glob("ssh_host_*"):
        key.unlink()
    (root / "etc/apt/sources.list").unlink(missing_ok=True)
    _write(root, "etc/apt/sources.list.d/debian.sources", mirror.sources(_CODENAME))
    _write(root, "etc/apt/apt.conf.d/90lab", 'Acquire::Languages "none";\n')
    if mirror.proxy:
        _write(root, "etc/apt/apt.conf.d/90proxy", f'Acquire::http::Proxy "{mirror.proxy}";\n')
    _write(root, "etc/fstab", "/dev/vda1 / ext4 errors=remount-ro 0 1\n/swapfile none swap sw 0 0\n")
    _write(root, "etc/default/locale", "LANG=C.UTF-8\n")
    _write(root, "etc/machine-id", "")
    _write(root, f"etc/sudoers.d/{USER}", f"{USER} ALL=(ALL:ALL) NOPASSWD: ALL\n", 0o440)


def _fill(root: Path, registry: str, references: Sequence[str]) -> None:
    """Unpack images into the store that containerd of the machine will find: emulated, gunzip takes minutes."""
    built = recipes.containerd(max(versions.table()["containerd"]))
    store = root / "var/lib/containerd"
    store.mkdir(mode=0o711, parents=True)
    with tempfile.TemporaryDirectory(prefix="gpulab-vm-") as name:
        work = Path(name)
        for reference in references:
            host = reference.partition("/")[0]
            text = (
                f'[host."http://{registry}/v2/{host}"]\n  capabilities = ["pull", "resolve"]\n  override_path = true\n'
            )
            _write(work, f"hosts/{host}/hosts.toml", text)
        with _containerd(built, store, work) as address:
            for reference in references:
                pull = [built.program("ctr"), "--address", address, "--namespace", "k8s.io", "images", "pull"]
                pull += ["--hosts-dir", work / "hosts", "--label", "io.cri-containerd.image=managed", reference]
                tools.run(pull, doing=f"unpacking {reference}", log="vm")


@contextlib.contextmanager
def _containerd(built: Recipe, store: Path, work: Path) -> Iterator[Path]:
    """Run a containerd of its own with this store, and give its socket."""
    address = work / "containerd.sock"
    _write(work, "config.toml", "version = 3\n")
    argv = [built.program("containerd"), "--config", work / "config.toml", "--address", address]
    argv += ["--root", store, "--state", work / "state"]
    with (paths.logs() / "vm.log").open("ab") as log:
        daemon = subprocess.Popen(list(map(str, argv)), stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        try:
            _until(lambda: _listens(address), 30, "containerd to answer")
            yield address
        finally:
            daemon.terminate()
            daemon.wait(30)


def _listens(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as client:
        return client.connect_ex(str(path)) == 0


def _identity(lab: State, address: str, key: Path, mirror: Mirror) -> dict[str, tuple[str, int]]:
    """Return what makes this machine different from another one: file name, content and mode."""
    subnet = lab.subnets["main"]
    gateway, length = network.address(subnet, 1), subnet.partition("/")[2]
    servers = [line for line in Path("/etc/resolv.conf").read_text().splitlines() if line.startswith("nameserver")]
    reachable = [line for line in servers if not line.split()[1].startswith(("127.", "::1"))]
    files = {
        "etc/hostname": (f"{NODE}\n", 0o644),
        "etc/hosts": (f"127.0.0.1 localhost\n{address} {NODE}\n", 0o644),
        "etc/resolv.conf": ("".join(f"{line}\n" for line in reachable or [f"nameserver {gateway}"]), 0o644),
        "etc/systemd/network/10-eth.network": (
            f"[Match]\nType=ether\nName=eth0\n[Network]\nAddress={address}/{length}\nGateway={gateway}\n",
            0o644,
        ),
        "etc/ssh/ssh_host_ed25519_key": (key.read_text(), 0o600),
        "etc/ssh/ssh_host_ed25519_key.pub": (key.with_suffix(".pub").read_text(), 0o644),
        f"home/{USER}/.ssh/authorized_keys": ((paths.lab_dir(lab.name) / "id_ed25519.pub").read_text(), 0o644),
    }
    if mirror.proxy:
        depot = network.address(lab.subnets["main"], network.DEPOT_HOST)
        files["etc/apt/apt.conf.d/91depot"] = (f'Acquire::http::Proxy::{depot} "DIRECT";\n', 0o644)
    return files


def _disk(base: Path, directory: Path, files: dict[str, tuple[str, int]]) -> None:
    """Make a copy of the base disk that takes no room of its own, with these files in it."""
    disk = directory / "disk.raw"
    tools.run(["cp", "--sparse=always", base / "disk.raw", disk], doing=f"copying the disk of {NODE}", log="vm")
    with tempfile.TemporaryDirectory(dir=directory) as name:
        work = Path(name)
        commands = []
        for number, (file, (text, mode)) in enumerate(files.items()):
            source = work / str(number)
            source.write_text(text)
            if file.startswith(f"home/{USER}/.ssh/"):
                commands.append(f"mkdir /home/{USER}/.ssh")
            commands += [f"rm /{file}", f"write {source} /{file}", f"set_inode_field /{file} mode 0{0o100000 | mode:o}"]
        script = work / "script"
        script.write_text("\n".join(commands) + "\n")
        tools.run(
            ["debugfs", "-w", "-f", script, f"{disk}?offset={_ROOT_OFFSET}"],
            doing=f"giving {NODE} its identity",
            log="vm",
        )


def _tap(lab: State, directory: Path) -> None:
    """Make the interface of the machine, a port of the lab's bridge."""
    described = podman.run(
        "network", "inspect", f"gpulab-{lab.name}", "--format={{.NetworkInterface}}", doing="reading the lab's network"
    )
    name = f"lab{cache.digest(lab.name)[:8]}"
    (directory / "tap").write_text(name)
    for argv in (
        ["tuntap", "add", "dev", name, "mode", "tap"],
        ["link", "set", name, "master", described.strip()],
        ["link", "set", name, "up"],
    ):
        tools.run(["ip", *argv], doing=f"making the interface {name}", log="vm")


def _qemu(base: Path, directory: Path) -> None:
    tap = (directory / "tap").read_text()
    argv: list[object] = ["qemu-system-x86_64", "-machine", "q35", "-accel", "tcg,thread=multi,tb-size=1024"]
    argv += ["-cpu", _CPU, "-smp", "2", "-m", str(_MEMORY_MIB)]
    argv += ["-kernel", base / "vmlinuz", "-initrd", base / "initrd.img", "-append", _KERNEL]
    argv += ["-drive", f"file={directory / 'disk.raw'},if=virtio,format=raw,cache=unsafe,discard=unmap"]
    argv += ["-netdev", f"tap,id=n0,ifname={tap},script=no,downscript=no", "-device", "virtio-net-pci,netdev=n0"]
    argv += ["-device", "virtio-rng-pci", "-serial", f"file:{directory / 'console.log'}", "-display", "none"]
    argv += ["-pidfile", directory / "pid", "-daemonize"]
    tools.run(argv, doing=f"starting {NODE}", log="vm")


def _wait(lab: State, address: str) -> None:
    """Wait until the machine has booted and lets the user in."""
    argv = ssh(lab.name, address, "systemctl", "is-system-running", "--wait")

    def answers() -> bool:
        done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=_BOOT_SECONDS)
        return done.stdout.strip() in ("running", "degraded")

    _until(answers, _BOOT_SECONDS, f"{NODE} to boot; see {_directory(lab.name) / 'console.log'}")


def _until(done: Callable[[], bool], seconds: float, what: str) -> None:
    end = time.monotonic() + seconds
    while not done():
        if time.monotonic() > end:
            raise LabError(f"Error while waiting {seconds} s for {what}.")
        time.sleep(1)


def _inventory(lab: State, address: str) -> str:
    """A second inventory for the same run: what only containers need is taken back for this host."""
    options = " ".join(inventory.ssh_options(_directory(lab.name)))
    return (
        f"# Inventory of {NODE}, a virtual machine of the lab {lab.name}: use it with -i next to the lab's own.\n"
        f"{NODE} ansible_host={address} ansible_ssh_common_args='{options}' "
        "ansible_timeout=300 kubeadm_ignore_preflight_errors='[]' containerd_cri_settings='{}'\n"
        f"\n[workers]\n{NODE}\n"
        # What preflight takes for the difference of clocks has the start of its module in it.
        "\n[all:vars]\npreflight_clock_skew=300\nflannel_timeout=1800\nacceptance_timeout=1800\n"
    )


def _write(root: Path, name: str, text: str, mode: int = 0o644) -> None:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(mode)
