"""A package with headers of the running kernel in a local archive of the node, because Debian may not have them."""

from __future__ import annotations

import hashlib
import re
import tempfile
from pathlib import Path

from lab.depot import apt, deb
from lab.depot.deb import Content, Link

_HERE = "usr/lib/lab-node/archive"
_NAME = re.compile(r"[a-z0-9][a-z0-9.+-]+")


def archive(release: str) -> dict[str, bytes]:
    """Return the files for a node's apt to find linux-headers of a kernel; none for a name that dpkg refuses.

    The headers are only a Makefile: the lab's driver is not compiled.
    """
    name = f"linux-headers-{release}"
    if not _NAME.fullmatch(name):
        return {}
    source = f"/usr/src/{name}"
    files: dict[str, Content] = {
        f"{source}/Makefile": f"# Headers of the kernel {release}.\n",
        f"/lib/modules/{release}/build": Link(source),
    }
    with tempfile.TemporaryDirectory() as work:
        about = f"Headers of the kernel {release}, for the lab"
        package = deb.make(name, "1", out=Path(work), files=files, section="kernel", description=about)
        content, control = package.read_bytes(), apt.control(package).strip()
    digest = hashlib.sha256(content).hexdigest()
    head, mark, description = control.partition("\nDescription:")
    fields = f"\nFilename: ./{package.name}\nSize: {len(content)}\nSHA256: {digest}"
    index = f"{head}{fields}{mark}{description}\n".encode()
    listed = f"SHA256:\n {hashlib.sha256(index).hexdigest()} {len(index)} Packages\n"
    return {
        f"{_HERE}/{package.name}": content,
        f"{_HERE}/Packages": index,
        f"{_HERE}/Release": f"Origin: the lab\nDate: Thu, 01 Jan 2026 00:00:00 GMT\n{listed}".encode(),
        "etc/apt/sources.list.d/kernel-headers.list": f"deb [trusted=yes] file:///{_HERE} ./\n".encode(),
    }
