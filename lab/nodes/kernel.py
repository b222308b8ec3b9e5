"""A node that shows a kernel of its distribution as the running one: DKMS builds for it, but can't load modules."""

from __future__ import annotations

import tempfile
from pathlib import Path

from lab.depot import tools
from lab.nodes import podman

_PACKAGES = {"cloud": "linux-image-cloud-amd64"}

_SOURCE = Path(__file__).resolve().parent / "image" / "uname.c"
_LIBRARY = "/usr/lib/lab-node/uname.so"
_INSTALL = """
set -eu
export DEBIAN_FRONTEND=noninteractive
mkdir -p /etc/initramfs-tools
echo update_initramfs=no >/etc/initramfs-tools/update-initramfs.conf
apt-get update -qq
apt-get install -qq --yes --no-install-recommends -o Dpkg::Options::=--force-confold "$1" >/dev/null
rm -rf /var/lib/apt/lists/*
ls /lib/modules | grep -- '-amd64$' | sort -V | tail -n 1
"""
# Files that programs read instead of calling libc.
_COVER = """
set -eu
. "/boot/config-$1" 2>/dev/null || :
own=/run/lab-node
echo "$1" >"$own/osrelease"
echo "Linux version $1 (debian-kernel@lists.debian.org) ($CONFIG_CC_VERSION_TEXT, GNU ld) #1 SMP PREEMPT_DYNAMIC" \\
	>"$own/version"
mount --bind "$own/osrelease" /proc/sys/kernel/osrelease
mount --bind "$own/version" /proc/version
echo "$2" >/etc/ld.so.preload
"""


def give(container: str, flavor: str) -> str:
    """Install a kernel of the node's distribution, show it as the running one, and return its release.

    Raises DepotError.
    """
    package = _PACKAGES[flavor]
    argv = ["sh", "-c", _INSTALL, "sh", package]
    release = podman.execute(container, argv, doing=f"installing {package} in {container}").split()[-1]
    with tempfile.TemporaryDirectory() as work:
        library = Path(work, "uname.so")
        options = ["-shared", "-fPIC", "-O1", f'-DRELEASE="{release}"', "-o", library]
        tools.run(["gcc", *options, _SOURCE], doing=f"compiling {_SOURCE.name}", log="image")
        podman.run("cp", library, f"{container}:{_LIBRARY}", doing=f"copying {library.name} to {container}")
    argv = ["sh", "-c", _COVER, "sh", release, _LIBRARY]
    podman.execute(container, argv, doing=f"naming the kernel {release} in {container}")
    return release
