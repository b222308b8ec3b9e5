# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs torchrun in every pod of a job, all of them in step: none runs beside one that has ended.

The first pod coordinates. Every pod connects to it; when all are there, all start torchrun. When one torchrun fails, or
a pod is lost, all stop theirs and start anew together, so that no rendezvous mixes processes of two attempts and no
collective waits for a process that is gone. A torchrun that fails uses up one of the restarts; a pod that is lost does
not, that is for the Job's backoffLimit.

Every pod of the cluster can connect to the first pod. Its first line must be the word of this job, or the connection is
closed.

Environment: LAUNCH_INDEX, LAUNCH_NODES, LAUNCH_HOST, LAUNCH_PORT, LAUNCH_RESTARTS, LAUNCH_PATIENCE (seconds until all
pods must be there), LAUNCH_WORD. The command comes as arguments. Exit status: 0, 80 where the command failed, 81 where
that of another pod did. Standard library only, Python 3.8 and newer.
"""

from __future__ import annotations

import contextlib
import fcntl
import hmac
import os
import re
import selectors
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
# Bytes of the longest line, seconds until a connection must have said the word, connections that have not said it yet.
_LINE, _INTRODUCTION, _STRANGERS = 256, 10, 64
_SENTENCE = re.compile(rb"(ready|ended|start|stop|finish)((?: -?[0-9]{1,9})*)")
_NUMBERS = {"ready": 1, "ended": 3, "start": 1, "stop": 0, "finish": 1}
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


def sentence(line: bytes) -> tuple[str, list[int]]:
    """Return the verb of a line and its numbers, an empty verb if the line is not of the protocol."""
    found = _SENTENCE.fullmatch(line)
    verb, numbers = (found[1].decode(), [int(number) for number in found[2].split()]) if found else ("", [])
    return (verb, numbers) if len(numbers) == _NUMBERS.get(verb) else ("", [])


class Peer:
    """The other end of a connection."""

    def __init__(self, connection: socket.socket) -> None:
        self.connection = connection
        self.deadline = time.monotonic() + _INTRODUCTION
        self._rest = b""

    @property
    def closed(self) -> bool:
        return self.connection.fileno() < 0

    def lines(self) -> list[bytes]:
        """Return the lines that have arrived. OSError: the connection has ended, or a line is too long."""
        try:
            received = self.connection.recv(4096)
        except BlockingIOError:
            return []
        *lines, self._rest = (self._rest + received).split(b"\n")
        if not received or any(len(line) > _LINE for line in (*lines, self._rest)):
            raise ConnectionError
        return lines

    def say(self, *words: object) -> None:
        with contextlib.suppress(OSError):
            self.connection.sendall((" ".join(map(str, words)) + "\n").encode())


class Coordinator:
    """Tells all pods when to start, stop and finish. One thread reads all connections and decides."""

    def __init__(self, port: int, nodes: int, restarts: int, word: str) -> None:
        self._nodes, self._restarts, self._word = nodes, restarts, word.encode()
        # Connected and nothing more, the oldest first.
        self._strangers: list[Peer] = []
        self._members: dict[Peer, int] = {}
        self._ready: set[Peer] = set()
        self._done: set[Peer] = set()
        self._running, self._finished, self._failures, self._attempt = False, False, 0, 0
        self._all_gone = threading.Event()
        self._server = socket.create_server(("", port))
        self._server.setblocking(False)
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._server, selectors.EVENT_READ)
        threading.Thread(target=self._serve, daemon=True).start()

    def wait(self, seconds: float) -> None:
        """Wait until all pods have heard the end."""
        self._all_gone.wait(seconds)

    def _serve(self) -> None:
        while True:
            for key, _events in self._selector.select(timeout=1):
                if key.data is None:
                    self._accept()
                elif not key.data.closed:
                    self._read(key.data)
            for peer in [peer for peer in self._strangers if peer.deadline < time.monotonic()]:
                self._close(peer)

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            connection, _address = self._server.accept()
            connection.setblocking(False)
            peer = Peer(watched(connection))
            self._selector.register(connection, selectors.EVENT_READ, peer)
            self._strangers.append(peer)
        # A pod of this job says the word immediately, so the oldest is none.
        if len(self._strangers) > _STRANGERS:
            self._close(self._strangers[0])

    def _read(self, peer: Peer) -> None:
        try:
            lines = peer.lines()
        except OSError:
            self._close(peer)
            return
        for line in lines:
            if peer.closed:
                return
            if peer not in self._strangers:
                self._obey(peer, *sentence(line))
            elif hmac.compare_digest(line, self._word):
                self._strangers.remove(peer)
            else:
                self._close(peer)

    def _obey(self, peer: Peer, verb: str, numbers: list[int]) -> None:
        if verb == "ready" and 0 <= numbers[0] < self._nodes:
            self._welcome(peer, numbers[0])
        elif verb == "ended" and peer in self._members:
            self._ended(peer, *numbers)

    def _close(self, peer: Peer) -> None:
        self._selector.unregister(peer.connection)
        peer.connection.close()
        if peer in self._strangers:
            self._strangers.remove(peer)
        if peer in self._members:
            self._lost(peer)

    def _welcome(self, peer: Peer, index: int) -> None:
        for old in [old for old, known in self._members.items() if known == index and old is not peer]:
            self._close(old)
        self._members[peer] = index
        self._ready.add(peer)
        if len(self._ready) < self._nodes:
            return
        self._attempt, self._running = self._attempt + 1, True
        self._ready, self._done = set(), set()
        for member in self._members:
            member.say("start", self._attempt)

    def _ended(self, peer: Peer, attempt: int, status: int, final: int) -> None:
        if not self._running or attempt != self._attempt:
            return
        if status == 0:
            self._done.add(peer)
            if len(self._done) == self._nodes:
                self._finish(peer, 0)
            return
        self._failures += 1
        if final or self._failures > self._restarts:
            self._finish(peer, FAILED)
        else:
            say(f"pod {self._members[peer]} failed, restart {self._failures} of {self._restarts}")
            self._stop()

    def _lost(self, peer: Peer) -> None:
        index = self._members.pop(peer)
        self._ready.discard(peer)
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
            member.say("stop")

    def _finish(self, cause: Peer, status: int) -> None:
        self._running, self._finished = False, True
        for member in self._members:
            member.say("finish", status if member is cause or not status else FAILED_ELSEWHERE)


class Member:
    """This pod's torchrun."""

    def __init__(self, command: list[str], index: int, address: tuple[str, int], patience: float, word: str) -> None:
        self._command, self._index, self._address, self._patience = command, index, address, patience
        self._word = word
        self._process: subprocess.Popen[bytes] | None = None
        self._ooms = out_of_memory()

    def run(self) -> int:
        """Do what the coordinator says until it says that all is over; return the exit status for this pod."""
        while True:
            with self._connect() as connection, contextlib.suppress(OSError):
                peer = Peer(connection)
                peer.say(self._word)
                peer.say("ready", self._index)
                while True:
                    for verb, numbers in map(sentence, peer.lines()):
                        if verb == "finish":
                            self.stop()
                            return numbers[0]
                        if verb == "start":
                            self._start(peer, numbers[0])
                        elif verb == "stop":
                            self.stop()
                            peer.say("ready", self._index)
            self.stop()
            say("the first pod is lost, waiting for another in its place")
            time.sleep(1)

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

    def _start(self, peer: Peer, attempt: int) -> None:
        self.stop()
        say(f"pod {self._index}, attempt {attempt}: {' '.join(self._command)}")
        process = self._process = subprocess.Popen(self._command, start_new_session=True)
        threading.Thread(target=self._wait, args=(process, peer, attempt), daemon=True).start()

    def _wait(self, process: subprocess.Popen[bytes], peer: Peer, attempt: int) -> None:
        status = process.wait()
        if self._process is process:
            killed = out_of_memory() > self._ooms
            if status:
                say(f"pod {self._index} failed with exit status {status}" + (", out of memory" if killed else ""))
            peer.say("ended", attempt, status, int(killed))


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
    # Not for the training script.
    word = environ.pop("LAUNCH_WORD")
    coordinator = Coordinator(port, nodes, int(environ["LAUNCH_RESTARTS"]), word) if index == 0 else None
    address = ("127.0.0.1" if index == 0 else environ["LAUNCH_HOST"], port)
    member = Member(sys.argv[1:], index, address, float(environ["LAUNCH_PATIENCE"]), word)

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
