# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NoReturn

import pytest
from ansible_collections.gpulab.kubernetes.plugins.module_utils._command import CommandNotFoundError
from ansible_collections.gpulab.kubernetes.plugins.module_utils._errors import DomainError
from ansible_collections.gpulab.kubernetes.plugins.module_utils._host.network import addresses, listeners, routes

BUSY = """
import os, socket
server = socket.create_server(("127.0.0.1", 0))
print(server.getsockname()[1], flush=True)
while True:
    opened = [os.open("/dev/null", os.O_RDONLY) for _ in range(50)]
    for one in opened:
        os.close(one)
"""


class Bare:
    """Runs programs on a host that has none."""

    def check(self, argv: list[str], *_: Any) -> NoReturn:
        raise CommandNotFoundError(f"no {argv[0]}", rc=127)


@pytest.mark.parametrize("read", [addresses, routes])
def test_a_host_without_the_program_ip_is_an_error(read: Any) -> None:
    with pytest.raises(DomainError, match="there is no program ip on this host"):
        read(Bare())


@pytest.fixture
def busy() -> Iterator[tuple[int, int]]:
    """Yield (process ID, port) of a program that listens, and constantly opens and closes files."""
    with subprocess.Popen([sys.executable, "-c", BUSY], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield process.pid, int(process.stdout.readline())
        process.kill()


def test_listeners_are_found_while_file_descriptors_disappear(busy: tuple[int, int], tmp_path: Path) -> None:
    pid, port = busy
    (tmp_path / "proc").mkdir()
    for name in (str(pid), "net"):
        (tmp_path / "proc" / name).symlink_to(f"/proc/{name}")
    for _turn in range(300):
        (found,) = listeners(str(tmp_path), [f"{port}/tcp"])
        assert found["pid"] == pid
        assert found["process"] == Path(sys.executable).resolve().name


def test_a_process_that_has_ended_has_no_name(tmp_path: Path) -> None:
    (tmp_path / "proc/net").mkdir(parents=True)
    (tmp_path / "proc/net/tcp").write_text(
        "  sl  local_address ...\n   0: 0100007F:192B 00000000:0000 0A 0:0 00:0 00000000 0 0 4711 1 0 100 0 0 10 0\n"
    )
    (tmp_path / "proc/321/fd").mkdir(parents=True)
    (tmp_path / "proc/321/fd/7").symlink_to("socket:[4711]")
    (found,) = listeners(str(tmp_path), ["6443/tcp"])
    assert (found["pid"], found["process"]) == (321, "")
