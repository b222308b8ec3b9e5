"""The disk of a node whose power can be cut: an ext4 file system in a file, which this machine mounts for the node.

It has what a node must find again after a power failure. The rest of the node, for example its packages, is in the
container's layer, which a power cut does not change.
"""

from __future__ import annotations

import fcntl
import os
import time
from pathlib import Path

from lab import paths
from lab.depot import tools
from lab.nodes.errors import LabError

# Directory on the disk -> where the node has it.
PLACES = {
    "etc": "/etc",
    "containerd": "/var/lib/containerd",
    "etcd": "/var/lib/etcd",
    "gpulab": "/var/lib/gpulab",
    "kubelet": "/var/lib/kubelet",
}
_GIB = 12
_FREE_SECONDS = 5.0
# _IOR('X', 125, __u32): what was not written to the disk by now is lost, including the file system's log.
_SHUTDOWN, _WITHOUT_LOG = 0x8004587D, 2


def mount_point(lab: str, node: str) -> Path:
    """Return the directory at which this machine mounts a node's disk."""
    return paths.lab_dir(lab) / "disks" / node


def make(lab: str, node: str) -> None:
    """Make a node's disk and mount it; a former one is removed. Raises LabError or DepotError."""
    remove(lab, node)
    file, place = _file(lab, node), mount_point(lab, node)
    file.parent.mkdir(mode=0o700, exist_ok=True)
    with file.open("wb") as disk:
        disk.truncate(_GIB << 30)
    argv = ["mke2fs", "-q", "-F", "-t", "ext4", "-m", "0", "-E", "lazy_itable_init=1,lazy_journal_init=1", file]
    tools.run(argv, doing=f"making the disk of {node}", log="disk")
    mount(lab, node)
    for name in PLACES:
        (place / name).mkdir(mode=0o755)


def mount(lab: str, node: str) -> None:
    """Mount the disk of a node that is stopped, again if it is mounted.

    That repairs it after a power cut, and otherwise writes everything to it, so that a power cut can't take it. Raises
    LabError if the disk is still in use.
    """
    unmount(lab, node)
    file, place = _file(lab, node), mount_point(lab, node)
    place.mkdir(mode=0o700, exist_ok=True)
    _require_unused(file, f"mounting the disk of {node}")
    # The file is empty where mke2fs has written nothing, so the kernel need not initialize it. With "discard", a power
    # cut would empty blocks of files whose deletion it takes back, which no real disk does.
    tools.run(
        ["mount", "-t", "ext4", "-o", "loop,noinit_itable", file, place],
        doing=f"mounting the disk of {node}",
        log="disk",
    )
    # What the node has deleted is given back to this machine's disk.
    tools.run(["fstrim", place], doing=f"freeing what {node} has deleted", log="disk")


def unmount(lab: str, node: str) -> None:
    """Unmount a node's disk, if it is mounted. Raises DepotError."""
    place = mount_point(lab, node)
    if place.is_mount():
        tools.run(["umount", place], doing=f"unmounting the disk of {node}", log="disk")


def remove(lab: str, node: str) -> None:
    """Remove a node's disk, if it has one. Raises LabError if something still uses it."""
    unmount(lab, node)
    forget_cut(lab, node)
    if _file(lab, node).exists():
        _require_unused(_file(lab, node), f"removing the disk of {node}")
        _file(lab, node).unlink()
    if mount_point(lab, node).is_dir():
        mount_point(lab, node).rmdir()


def remove_all(lab: str) -> None:
    """Remove all disks of a lab."""
    for file in (paths.labs() / lab / "disks").glob("*.ext4"):
        remove(lab, file.stem)


def cut(lab: str, node: str) -> None:
    """Shut the file system down as a power failure does. Raises LabError if the disk is not mounted.

    No other file system may ever be shut down, so what was opened must be the disk, whatever the path was before.
    """
    descriptor = os.open(mount_point(lab, node), os.O_RDONLY | os.O_DIRECTORY)
    try:
        if not _is_on(os.fstat(descriptor).st_dev, _file(lab, node)):
            raise LabError(f"Error while cutting the power of {node}: its disk is not mounted; bring the lab up first.")
        _cut_mark(lab, node).touch()
        fcntl.ioctl(descriptor, _SHUTDOWN, _WITHOUT_LOG.to_bytes(4, "little"))
    finally:
        os.close(descriptor)


def was_cut(lab: str, node: str) -> bool:
    """Return whether a power cut may have changed the disk's content below the times of its files."""
    return _cut_mark(lab, node).exists()


def forget_cut(lab: str, node: str) -> None:
    """Remember that the disk's content agrees with the times of its files again."""
    _cut_mark(lab, node).unlink(missing_ok=True)


def _cut_mark(lab: str, node: str) -> Path:
    return _file(lab, node).with_suffix(".cut")


def _file(lab: str, node: str) -> Path:
    return paths.lab_dir(lab) / "disks" / f"{node}.ext4"


def _is_on(device: int, file: Path) -> bool:
    """Return whether a device is a loop device on a file."""
    about = Path(f"/sys/dev/block/{os.major(device)}:{os.minor(device)}/loop/backing_file")
    try:
        return Path(about.read_text().rstrip("\n")).samefile(file)
    except OSError:
        return False


def _require_unused(file: Path, doing: str) -> None:
    """Raise LabError if a loop device uses a file, also a while after it was unmounted.

    The kernel frees the device only when the last mount namespace has let go of it, for example that of a container
    which is just ending.
    """
    end = time.monotonic() + _FREE_SECONDS
    while used := _loop_devices(file):
        if time.monotonic() > end:
            raise LabError(
                f"Error while {doing}: {used} still uses {file}. A process keeps it mounted in its own mount "
                "namespace; end it and run the same command again."
            )
        time.sleep(0.2)


def _loop_devices(file: Path) -> str:
    argv = ["losetup", "--noheadings", "--output=NAME", f"--associated={file}"]
    return " ".join(tools.run(argv, doing="listing loop devices").split())
