"""Files on hosts and on the controller in which a secret could be left, and the secrets of a cluster."""

from __future__ import annotations

import base64
import contextlib
import io
import os
import stat
import tarfile
from collections.abc import Iterator
from pathlib import Path

from support.cluster import Cluster
from support.hosts import Host

PLACES = "/etc /tmp /var/tmp /run /root /home"
# A run writes no larger files.
LARGEST = 4 * 1024 * 1024


def files(host: Host, places: str = PLACES) -> dict[str, tuple[int, bytes]]:
    """Return mode and content of the files below directories of a host."""
    find = f"find {places} -xdev -type f -size -{LARGEST}c -print0"
    packed = host.run(f"{find} | tar -C / --null -T - -czf - 2>/dev/null | base64 -w0")
    with tarfile.open(fileobj=io.BytesIO(base64.b64decode(packed)), mode="r:gz") as archive:
        taken = [(member, archive.extractfile(member)) for member in archive.getmembers()]
        return {member.name: (member.mode & 0o777, file.read()) for member, file in taken if file}


def tokens(cluster: Cluster) -> list[bytes]:
    """Return the secret halves of all bootstrap tokens."""
    secrets = cluster.get("secrets", "--namespace=kube-system", "--field-selector=type=bootstrap.kubernetes.io/token")
    return [base64.b64decode(item["data"]["token-secret"]) for item in secrets["items"]]


def recent(place: Path, begun: float) -> Iterator[tuple[Path, bytes]]:
    """Yield the files below a directory of this machine that were written since a time, with their content."""
    for folder, folders, names in os.walk(place):
        folders[:] = [name for name in folders if not Path(folder, name).is_mount()]
        for path in (Path(folder, name) for name in names):
            # Files of other programs may have been deleted meanwhile.
            with contextlib.suppress(OSError):
                state = path.lstat()
                if stat.S_ISREG(state.st_mode) and state.st_mtime >= begun and state.st_size < LARGEST:
                    yield path, path.read_bytes()
