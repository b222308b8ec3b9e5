# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs of the launcher of several pods on this machine, with small programs in place of torchrun."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

LAUNCH = Path(__file__).resolve().parents[3] / "roles" / "torch_ddp" / "files" / "launch.py"
# Records each start, and waits until the test tells it an exit status.
PROGRAM = """
import os, pathlib, sys, time
pod = pathlib.Path(sys.argv[1], os.environ["LAUNCH_INDEX"])
pod.mkdir(exist_ok=True)
(pod / f"life-{len(list(pod.glob('life-*')))}-{os.getpid()}").touch()
word = pod / "word"
while not word.exists():
    time.sleep(0.02)
status = int(word.read_text())
word.unlink()
sys.exit(status)
"""


WORD = "d2f0a1" * 10


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return port


def port_is_open(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def until(good: Callable[[], bool], seconds: float = 30) -> None:
    end = time.monotonic() + seconds
    while not good():
        assert time.monotonic() < end, "it did not come to pass"
        time.sleep(0.02)


class Job:
    """Job whose pods are processes of the launcher."""

    def __init__(self, directory: Path, nodes: int = 2, restarts: int = 1) -> None:
        self.directory = directory
        self._nodes, self._restarts, self.port = nodes, restarts, free_port()
        self.pods: dict[int, subprocess.Popen[str]] = {}

    def start(self, index: int, *command: str) -> None:
        environ = {
            **os.environ,
            "LAUNCH_INDEX": str(index),
            "LAUNCH_NODES": str(self._nodes),
            "LAUNCH_HOST": "127.0.0.1",
            "LAUNCH_PORT": str(self.port),
            "LAUNCH_RESTARTS": str(self._restarts),
            "LAUNCH_PATIENCE": "20",
            "LAUNCH_WORD": WORD,
            "POD_IP": "127.0.0.1",
        }
        words = command or (sys.executable, "-c", PROGRAM, str(self.directory))
        with (self.directory / f"log-{index}").open("a") as log:
            self.pods[index] = subprocess.Popen(
                [sys.executable, str(LAUNCH), *words], env=environ, stdout=log, stderr=subprocess.STDOUT, text=True
            )

    def lives(self) -> list[int]:
        """Return the number of times that the program was started, by pod."""
        return [len(list((self.directory / str(index)).glob("life-*"))) for index in range(self._nodes)]

    def pid(self, index: int) -> int:
        """Return the process ID of the last start of the program in a pod."""
        names = [path.name for path in (self.directory / str(index)).glob("life-*")]
        return int(max(names, key=lambda name: int(name.split("-")[1])).split("-")[2])

    def tell(self, index: int, status: int) -> None:
        work = self.directory / f"word-{index}"
        work.write_text(str(status))
        work.replace(self.directory / str(index) / "word")

    def kill(self, index: int) -> None:
        """Kill all processes of a pod, as when its node fails."""
        program = self.pid(index)
        self.pods[index].kill()
        self.pods[index].wait()
        os.killpg(program, signal.SIGKILL)

    def ends(self) -> list[int]:
        return [self.pods[index].wait(60) for index in range(self._nodes)]

    def log(self, index: int) -> str:
        return (self.directory / f"log-{index}").read_text()


@pytest.fixture
def job(tmp_path: Path) -> Iterator[Job]:
    made = Job(tmp_path)
    yield made
    for pod in made.pods.values():
        pod.terminate()
    for pod in made.pods.values():
        pod.wait(60)


def start_all(job: Job) -> None:
    # The second pod starts before the first, to which it has to connect.
    job.start(1)
    job.start(0)
    until(lambda: job.lives() == [1, 1])


def test_programs_start_when_all_pods_are_connected(job: Job) -> None:
    job.start(0)
    until(lambda: "log-0" in {path.name for path in job.directory.iterdir()})
    with pytest.raises(subprocess.TimeoutExpired):
        job.pods[0].wait(1)
    assert job.lives() == [0, 0]


def test_pods_end_together_after_success(job: Job) -> None:
    start_all(job)
    job.tell(0, 0)
    with pytest.raises(subprocess.TimeoutExpired):
        job.pods[0].wait(1)
    job.tell(1, 0)
    assert job.ends() == [0, 0]


@pytest.mark.parametrize("index", [0, 1])
def test_failure_restarts_all_pods(job: Job, index: int) -> None:
    start_all(job)
    job.tell(index, 7)
    until(lambda: job.lives() == [2, 2])
    job.tell(0, 0)
    job.tell(1, 0)
    assert job.ends() == [0, 0]
    assert "exit status 7" in job.log(index)


@pytest.mark.parametrize("index", [0, 1])
def test_lost_pod_restarts_all_pods_without_using_up_a_restart(job: Job, index: int) -> None:
    start_all(job)
    for life in (2, 3):
        job.kill(index)
        # The program only restarts when the lost pod has been replaced.
        until(lambda: "lost" in job.log(1 - index))
        job.start(index)
        until(lambda life=life: job.lives() == [life, life])  # type: ignore[misc]
    job.tell(0, 0)
    job.tell(1, 0)
    assert job.ends() == [0, 0]


@pytest.mark.parametrize("index", [0, 1])
def test_exit_status_shows_which_pod_failed_after_the_last_restart(job: Job, index: int) -> None:
    start_all(job)
    job.tell(index, 7)
    until(lambda: job.lives() == [2, 2])
    job.tell(index, 7)
    wanted = [81, 81]
    wanted[index] = 80
    assert job.ends() == wanted


def test_stopped_program_has_ended_before_the_next_attempt(job: Job) -> None:
    start_all(job)
    first = job.pid(0)
    job.tell(1, 1)
    until(lambda: job.lives() == [2, 2])
    with pytest.raises(ProcessLookupError):
        os.kill(first, 0)


def test_terminated_pod_ends_its_program(job: Job) -> None:
    start_all(job)
    program = job.pid(0)
    job.pods[0].terminate()
    assert job.pods[0].wait(60) == 128 + signal.SIGTERM
    with pytest.raises(ProcessLookupError):
        os.kill(program, 0)


def connect(job: Job) -> socket.socket:
    connection = socket.create_connection(("127.0.0.1", job.port), timeout=30)
    connection.settimeout(30)
    return connection


def is_closed(connection: socket.socket) -> bool:
    with contextlib.suppress(ConnectionError):
        return connection.recv(100) == b""
    return True


@pytest.mark.parametrize(
    "message",
    [
        b"GET /healthz HTTP/1.1\r\nHost: gpu1:29400\r\n\r\n",
        b"\n\n",
        b"ready 1\n",
        b"ended 1 0 0\n",
        b"word\nready 1\n",
        (WORD[:-1] + "\nready 1\n").encode(),
        b"\xff\xfe\n",
        b"x" * 1_000_000,
    ],
    ids=["HTTP probe", "empty lines", "ready", "ended", "wrong word", "incomplete word", "bytes", "long line"],
)
def test_connection_without_the_word_is_closed_and_has_no_effect(job: Job, message: bytes) -> None:
    start_all(job)
    with connect(job) as stranger:
        with contextlib.suppress(ConnectionError):
            stranger.sendall(message)
        assert is_closed(stranger)
    # The message neither replaced pod 1 nor stopped the coordinating thread.
    job.tell(1, 7)
    until(lambda: job.lives() == [2, 2])
    job.tell(0, 0)
    job.tell(1, 0)
    assert job.ends() == [0, 0]
    assert "lost" not in job.log(0) + job.log(1)


def test_silent_connections_are_closed_and_do_not_block_pods(job: Job) -> None:
    job.start(0)
    until(lambda: port_is_open(job.port))
    began = time.monotonic()
    strangers = [connect(job) for _number in range(200)]
    slow = connect(job)
    job.start(1)
    until(lambda: job.lives() == [1, 1])
    # An occasional byte doesn't extend the time limit.
    while time.monotonic() < began + 14:
        with contextlib.suppress(ConnectionError):
            slow.sendall(b"r")
        time.sleep(0.5)
    for stranger in (*strangers, slow):
        assert is_closed(stranger)
        stranger.close()
    job.tell(0, 0)
    job.tell(1, 0)
    assert job.ends() == [0, 0]


def test_invalid_lines_are_ignored_even_after_the_word(job: Job) -> None:
    start_all(job)
    with connect(job) as peer:
        lines = (
            WORD,
            "",
            "ready",
            "ready x",
            "ready 2",
            "ready -1",
            "ended 1 0 0",
            "ended",
            "ready 1 1",
            "lost",
            "ready ²",
        )
        peer.sendall(("\n".join(lines) + "\n").encode())
        time.sleep(0.5)
        job.tell(0, 7)
        until(lambda: job.lives() == [2, 2])
    job.tell(0, 0)
    job.tell(1, 0)
    assert job.ends() == [0, 0]
    assert "lost" not in job.log(0) + job.log(1)


def test_training_script_does_not_receive_the_word(tmp_path: Path) -> None:
    job = Job(tmp_path, nodes=1)
    job.start(0, sys.executable, "-c", "import os; print(dict(os.environ))")
    assert job.ends() == [0]
    assert "LAUNCH_NODES" in job.log(0) and WORD not in job.log(0)


def test_interface_of_the_pod_address_is_passed_to_nccl(tmp_path: Path) -> None:
    job = Job(tmp_path, nodes=1)
    job.start(0, sys.executable, "-c", "import os; print(os.environ['NCCL_SOCKET_IFNAME'])")
    assert job.ends() == [0]
    assert "lo" in job.log(0).split()


def test_missing_first_pod_is_reported(tmp_path: Path) -> None:
    job = Job(tmp_path)
    job.start(1)
    assert job.pods[1].wait(60) == 81
    assert "can't be reached after 20 s" in job.log(1)
