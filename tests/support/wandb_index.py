"""An index of Python packages with wandb and its dependencies, for lab hosts that reach no other index."""

from __future__ import annotations

import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

_PLATFORMS = [f"--platform=manylinux{tag}_x86_64" for tag in ("_2_28", "_2_17", "2014")]


class _Handler(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        """Print nothing."""


@contextmanager
def running(address: str, directory: Path, requirements: Path, python: str) -> Iterator[str]:
    """Serve an index with the requirements for a Python release during the block, and yield its URL."""
    argv = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--only-binary=:all:"]
    argv += ["--dest", str(directory), "--implementation=cp", f"--python-version={python}", *_PLATFORMS]
    argv += ["--require-hashes", "--requirement", str(requirements)]
    subprocess.run(argv, check=True)
    for wheel in directory.glob("*.whl"):
        # A directory for each project, by its normalized name (PEP 503).
        project = directory / re.sub(r"[-_.]+", "-", wheel.name.partition("-")[0]).lower()
        project.mkdir(exist_ok=True)
        wheel.rename(project / wheel.name)
    with ThreadingHTTPServer((address, 0), partial(_Handler, directory=str(directory))) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"http://{address}:{server.server_address[1]}"
        finally:
            server.shutdown()
