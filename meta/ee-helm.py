"""Fetch the archive of helm from an address, verify its SHA-256, and put the program into /usr/local/bin.

For the build of an execution environment; it needs no packages besides Python.
"""

from __future__ import annotations

import hashlib
import io
import sys
import tarfile
import urllib.request
from pathlib import Path

PROGRAM = Path("/usr/local/bin/helm")


def main(address: str, expected: str) -> None:
    with urllib.request.urlopen(address, timeout=300) as answer:
        archive = answer.read()
    found = hashlib.sha256(archive).hexdigest()
    if found != expected:
        sys.exit(f"Error while fetching {address}: its SHA-256 is {found}, not {expected}.")
    with tarfile.open(fileobj=io.BytesIO(archive)) as unpacked:
        names = [name for name in unpacked.getnames() if Path(name).name == "helm"]
        program = unpacked.extractfile(names[0]) if names else None
        if program is None:
            sys.exit(f"Error while unpacking {address}: it holds no program helm.")
        PROGRAM.write_bytes(program.read())
    PROGRAM.chmod(0o755)


if __name__ == "__main__":
    main(*sys.argv[1:])
