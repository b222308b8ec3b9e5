# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Restore a snapshot into a scratch directory, start etcd there, and compare what it returns with the source."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...module_utils._backup.state import Settings
from ...module_utils._command import CommandError
from ...module_utils._errors import DomainError
from ...module_utils._etcd.client import OPTIONS, Etcd

# Followed by the name of the node; the value is the time of its backup.
KEY = "/gpulab.io/backup/"
# Seconds in which the restored etcd must start, after which it is killed.
LIMIT = 10.0
_FIELD = re.compile(r'^"(Revision|Count)" : ([0-9]+)$', re.MULTILINE)
_FILES = {"cert": "server.crt", "key": "server.key", "trusted-ca": "ca.crt"}
_PEER_FILES = {"cert": "peer.crt", "key": "peer.key", "trusted-ca": "ca.crt"}


@dataclass(frozen=True)
class Contents:
    """What etcd contains: its revision, its keys, and the time that the last backup of this node has written."""

    revision: int
    keys: int
    written: str


class _TooSlowError(DomainError):
    """The restored etcd has not answered within LIMIT."""


def contents(etcd: Etcd, node: str, revision: int = 0) -> Contents:
    """Return the contents at a revision, by default the current one. Raise DomainError."""
    at = [f"--rev={revision}"] if revision else []
    count = ["get", "", "--from-key", "--count-only", "--write-out=fields", *at]
    found = dict(_FIELD.findall(etcd.check(count, "counting the keys of etcd", timeout=60)))
    if len(found) < 2:
        raise DomainError("Error while counting the keys of etcd: etcdctl did not show their number")
    value = ["get", f"{KEY}{node}", "--print-value-only", *at]
    written = etcd.check(value, f"reading {KEY}{node} in etcd", timeout=60).strip()
    return Contents(revision or int(found["Revision"]), int(found["Count"]), written)


def drill(module: Any, settings: Settings, pki: str, snapshot: Path, scratch: Path, expected: Contents) -> None:
    """Raise DomainError if a restored copy of the snapshot does not have the expected contents.

    ``scratch`` must not exist; it is removed. The server has etcd's own certificates, because it returns all Secrets.
    """
    client, peer = _free_ports()
    name, url = "drill", f"https://127.0.0.1:{peer}"
    data, log = scratch / "data", scratch / "log"
    scratch.mkdir(mode=0o700)
    try:
        options = {**{key: value["default"] for key, value in OPTIONS.items()}, "timeout": 1, "pki": pki}
        etcd = Etcd(module, {**options, "endpoint": f"https://127.0.0.1:{client}", "etcdctl": settings.etcdctl})
        common = [f"--data-dir={data}", f"--name={name}", f"--initial-advertise-peer-urls={url}"]
        common.append(f"--initial-cluster={name}={url}")
        restore = [settings.etcdutl, "snapshot", "restore", str(snapshot), *common]
        etcd.runner.check(restore, "restoring the snapshot in the drill", timeout=600)
        argv = [settings.etcd, *common, f"--listen-peer-urls={url}", *_addresses(client), *_certificates(pki)]
        found = _started(argv, log, etcd, settings)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    for what in ("revision", "keys", "written"):
        wanted, got = getattr(expected, what), getattr(found, what)
        if wanted != got:
            what = "time of the backup" if what == "written" else what
            raise DomainError(
                f"Error while comparing the restored snapshot with etcd: {what} {got or 'missing'} instead of {wanted}"
            )


def _started(argv: list[str], log: Path, etcd: Etcd, settings: Settings, attempts: int = 2) -> Contents:
    """Start etcd and return its contents. On a busy host, its low priority may make it too slow once."""
    try:
        with _running(argv, log) as process:
            return _first_contents(etcd, settings.node, process, log)
    except _TooSlowError:
        if attempts == 1:
            raise
        return _started(argv, log, etcd, settings, attempts - 1)


def _first_contents(etcd: Etcd, node: str, process: subprocess.Popen[bytes], log: Path) -> Contents:
    deadline, port = time.monotonic() + LIMIT, int(etcd.endpoint.rpartition(":")[2])
    while True:
        if process.poll() is not None:
            raise DomainError(f"Error while starting etcd in the drill: it ended. {_last_line(log)}")
        if time.monotonic() > deadline:
            raise _TooSlowError(
                f"Error while starting etcd in the drill: no answer within {LIMIT:g} s. {_last_line(log)}"
            )
        # etcdctl would wait much longer before it tries again.
        with contextlib.suppress(OSError, CommandError), socket.create_connection(("127.0.0.1", port), timeout=1):
            return contents(etcd, node)
        time.sleep(0.1)


@contextlib.contextmanager
def _running(argv: list[str], log: Path) -> Iterator[subprocess.Popen[bytes]]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("ETCD")}
    with log.open("wb") as output:
        streams = {"stdin": subprocess.DEVNULL, "stdout": output, "stderr": output}
        with subprocess.Popen(argv, cwd=log.parent, env=environment, **streams) as process:  # type: ignore[call-overload]
            try:
                yield process
            finally:
                process.kill()


def _addresses(port: int) -> list[str]:
    return [f"--{kind}-client-urls=https://127.0.0.1:{port}" for kind in ("listen", "advertise")]


def _certificates(pki: str) -> list[str]:
    own = [f"--{name}-file={pki}/{file}" for name, file in _FILES.items()]
    peer = [f"--peer-{name}-file={pki}/{file}" for name, file in _PEER_FILES.items()]
    return [*own, "--client-cert-auth", *peer, "--peer-client-cert-auth"]


def _free_ports() -> tuple[int, int]:
    with socket.socket() as first, socket.socket() as second:
        for each in (first, second):
            each.bind(("127.0.0.1", 0))
        return first.getsockname()[1], second.getsockname()[1]


def _last_line(log: Path) -> str:
    lines = log.read_text(errors="replace").strip().splitlines()
    return lines[-1][:500] if lines else "It printed nothing."
