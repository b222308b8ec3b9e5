"""A copy of a backup on the controller, and a control plane that has lost its disk."""

from __future__ import annotations

import base64
from pathlib import Path

from support.hosts import Host

DIRECTORY = "/var/lib/gpulab/backups"
# As on a new disk; the packages are still there.
_DESTROY = """
systemctl stop kubelet
crictl ps --quiet | xargs --no-run-if-empty crictl stop --timeout 1 >/dev/null
crictl pods --quiet | xargs --no-run-if-empty crictl rmp --force >/dev/null
findmnt --raw --noheadings --output TARGET | grep ^/var/lib/kubelet/ | xargs --no-run-if-empty umount
rm -rf /etc/kubernetes /var/lib/gpulab
find /var/lib/etcd /var/lib/kubelet -mindepth 1 -delete
"""


def fetch(host: Host, directory: Path, name: str = "") -> Path:
    """Copy the newest archive to a directory of the controller, under its own name by default."""
    newest = host.run(f"ls -t {DIRECTORY}/gpulab-* | head -1").strip()
    path = directory / (name or Path(newest).name)
    path.write_bytes(base64.b64decode(host.run(f"base64 {newest}", 300)))
    return path


def destroy(host: Host) -> None:
    """Remove what a control plane has of its cluster."""
    host.run(_DESTROY, 300)
