# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs torchrun in every pod of a job, all of them in step: none runs beside one that has ended.

The first pod coordinates. Every pod connects to it; when all are there, all start torchrun. When one torchrun fails, or
a pod is lost, all stop theirs and start anew together, so that no rendezvous mixes processes of two attempts and no
collective waits for a process that is gone. A torchrun that fails uses up one of the restarts; a pod that is lost does
not, that is for the Job's backoffLimit.

Environment: LAUNCH_INDEX, LAUNCH_NODES, LAUNCH_HOST, LAUNCH_PORT, LAUNCH_RESTARTS, LAUNCH_PATIENCE (seconds until all
pods must be there). The command comes as arguments. Exit status: 0, 80 where the command failed, 81 where that of
another pod did. Standard library only, Python 3.8 and newer.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import queue
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from pathlib import Path

FAILED, FAILED_ELSEWHERE = 80, 81
_SIOCGIFADDR = 0x8915
# torchrun gives its processes 30 s to end.
_GRACE = 40
# cgroup v2, then v1: both files have a line "oom_kill N".
_OOM = ("/sys/fs/cgroup/memory.events", "/sys/fs/cgroup/memory/memory.oom_control")


def say(text: str) -> None:
    sys.stdout.write(f"launch: {text}\n")
    sys.stdout.flush()


def watched(connection: socket.socket) -> socket.socket:
    """Let a peer whose machine is gone be noticed within half a minute."""
    for level, option, value in (
        (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
        (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 10),
        (socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 5),
        (socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 4),
        (socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, 30_000),
    ):
        connection.setsockopt(level, option, value)
    return connection


def send(connection: socket.socket, *words: object) -> None:
    with contextlib.suppress(OSError):
        connection.sendall((" ".join(map(str, words)) + "\n").encode())


class Coordinator:
    """Tells all pods when to start, stop and finish. One thread reads each connection, one decides."""

    def __init__(self, port: int, nodes: int, restarts: int) -> None:
        self._nodes, self._restarts = nodes, restarts
        self._events: queue.Queue[tuple[socket.socket, list[str]]] = queue.Queue()
        self._members: dict[socket.socket, int] = {}
        self._ready: set[socket.socket] = set()
        self._done: set[socket.socket] = set()
        self._running, self._finished, self._failures, self._attempt = False, False, 0, 0
        self._all_gone = threading.Event()
        self._server = socket.create_server(("", port))
        threading.Thread(target=self._accept, daemon=True).start()
        threading.Thread(target=self._decide, daemon=True).start()

    def wait(self, seconds: float) -> None:
        """Wait until all pods have heard the end."""
        self._all_gone.wait(seconds)

    def _accept(self) -> None:
        while True:
            connection, _address = self._server.accept()
            threading.Thread(target=self._read, args=(watched(connection),), daemon=True).start()

    def _read(self, connection: socket.socket) -> None:
        with contextlib.suppress(OSError), connection.makefile() as lines:
            for line in lines:
                self._events.put((connection, line.split()))
        self._events.put((connection, ["lost"]))

    def _decide(self) -> None:
        while True:
            connection, (word, *rest) = self._events.get()
            if word == "ready":
                self._welcome(connection, int(rest[0]))
            elif word == "ended" and connection in self._members:
                self._ended(connection, *map(int, rest))
            elif word == "lost" and connection in self._members:
                self._lost(connection)

    def _welcome(self, connection: socket.socket, index: int) -> None:
        for old in [old for old, known in self._members.items() if known == index and old is not connection]:
            self._lost(old)
        self._members[connection] = index
        self._ready.add(connection)
        if len(self._ready) < self._nodes:
            return
        self._attempt, self._running = self._attempt + 1, True
        self._ready, self._done = set(), set()
        for member in self._members:
            send(member, "start", self._attempt)

    def _ended(self, connection: socket.socket, attempt: int, status: int, final: int) -> None:
        if not self._running or attempt != self._attempt:
            return
        if status == 0:
            self._done.add(connection)
            if len(self._done) == self._nodes:
                self._finish(connection, 0)
            return
        self._failures += 1
        if final or self._failures > self._restarts:
            self._finish(connection, FAILED)
        else:
            say(f"pod {self._members[connection]} failed, restart {self._failures} of {self._restarts}")
            self._stop()

    def _lost(self, connection: socket.socket) -> None:
        index = self._members.pop(connection)
        self._ready.discard(connection)
        connection.close()
        if self._finished:
            if not self._members:
                self._all_gone.set()
            return
        say(f"pod {index} is lost, waiting for another in its place")
        if self._running:
            self._stop()

    def _stop(self) -> None:
        self._running = False
        for member in self._members:
            send(member, "stop")

    def _finish(self, cause: socket.socket, status: int) -> None:
        self._running, self._finished = False, True
        for member in self._members:
            send(member, "finish", status if member is cause or not status else FAILED_ELSEWHERE)


class Member:
    """This pod's torchrun."""

    def __init__(self, command: list[str], index: int, address: tuple[str, int], patience: float) -> None:
        self._command, self._index, self._address, self._patience = command, index, address, patience
        self._process: subprocess.Popen[bytes] | None = None
        self._ooms = out_of_memory()

    def run(self) -> int:
        """Do what the coordinator says until it says that all is over; return the exit status for this pod."""
        while True:
            with self._connect() as connection:
                send(connection, "ready", self._index)
                with contextlib.suppress(OSError), connection.makefile() as lines:
                    for line in lines:
                        word, *rest = line.split()
                        if word == "finish":
                            self.stop()
                            return int(rest[0])
                        if word == "start":
                            self._start(connection, int(rest[0]))
                        elif word == "stop":
                            self.stop()
                            send(connection, "ready", self._index)
            self.stop()
            say("the first pod is lost, waiting for another in its place")

    def stop(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        for how in (signal.SIGTERM, signal.SIGKILL):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, how)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(_GRACE)
        if os.getpid() == 1:
            # In a container of its own: nothing that torchrun started may live on beside the next attempt.
            with contextlib.suppress(ProcessLookupError):
                os.kill(-1, signal.SIGKILL)

    def _connect(self) -> socket.socket:
        """Until the first pod has a name, an address and a listener, there is no connection."""
        end = time.monotonic() + self._patience
        while True:
            try:
                connection = watched(socket.create_connection(self._address, timeout=10))
                connection.settimeout(None)
                return connection
            except OSError as error:
                if time.monotonic() >= end:
                    say(f"the first pod, {self._address[0]}, can't be reached after {self._patience:.0f} s: {error}")
                    raise SystemExit(FAILED_ELSEWHERE) from None
                time.sleep(1)

    def _start(self, connection: socket.socket, attempt: int) -> None:
        self.stop()
        say(f"pod {self._index}, attempt {attempt}: {' '.join(self._command)}")
        process = self._process = subprocess.Popen(self._command, start_new_session=True)
        threading.Thread(target=self._wait, args=(process, connection, attempt), daemon=True).start()

    def _wait(self, process: subprocess.Popen[bytes], connection: socket.socket, attempt: int) -> None:
        status = process.wait()
        if self._process is process:
            killed = out_of_memory() > self._ooms
            if status:
                say(f"pod {self._index} failed with exit status {status}" + (", out of memory" if killed else ""))
            send(connection, "ended", attempt, status, int(killed))


def out_of_memory() -> int:
    """How many processes of this container the kernel has killed for memory, as far as it tells."""
    for path in _OOM:
        with contextlib.suppress(OSError, ValueError), Path(path).open() as lines:
            return sum(int(line.split()[1]) for line in lines if line.startswith("oom_kill "))
    return 0


def interface(address: str) -> str:
    """The network interface that has an IPv4 address, empty when none has it."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        for _number, name in socket.if_nameindex():
            with contextlib.suppress(OSError):
                told = fcntl.ioctl(probe.fileno(), _SIOCGIFADDR, struct.pack("256s", name.encode()[:15]))
                if socket.inet_ntoa(told[20:24]) == address:
                    return name
    return ""


def main() -> None:
    environ = os.environ
    index, nodes, port = (int(environ[f"LAUNCH_{name}"]) for name in ("INDEX", "NODES", "PORT"))
    for name in ("NCCL_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME"):
        found = environ.get(name) or interface(environ.get("POD_IP", ""))
        if found:
            environ[name] = found
    coordinator = Coordinator(port, nodes, int(environ["LAUNCH_RESTARTS"])) if index == 0 else None
    address = ("127.0.0.1" if index == 0 else environ["LAUNCH_HOST"], port)
    member = Member(sys.argv[1:], index, address, float(environ["LAUNCH_PATIENCE"]))

    def leave(number: int, _frame: object) -> None:
        member.stop()
        raise SystemExit(128 + number)

    signal.signal(signal.SIGTERM, leave)
    status = member.run()
    if coordinator:
        coordinator.wait(_GRACE)
    raise SystemExit(status)


if __name__ == "__main__":
    main()
