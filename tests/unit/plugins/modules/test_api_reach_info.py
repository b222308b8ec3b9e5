# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import socket
from typing import Any

import pytest


@pytest.fixture
def listener() -> Any:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server


def test_a_reachable_api_server_is_reported_with_the_installed_packages(run_module: Any, listener: Any) -> None:
    port = listener.getsockname()[1]
    result = run_module("api_reach_info", {"endpoint": f"127.0.0.1:{port}"}, check=True)
    assert (result["changed"], result["reach"], result["error"]) == (False, "answered", "")
    assert result["packages"]["kubernetes"] and result["packages"]["yaml"]
    listener.close()
    assert run_module("api_reach_info", {"endpoint": f"127.0.0.1:{port}"})["reach"] == "refused"


@pytest.mark.parametrize(
    ("endpoint", "reach"),
    [("", "unasked"), ("no.such.name.invalid:6443", "unreachable"), ("127.0.0.1:x", "unreachable")],
)
def test_a_refused_connection_and_an_unknown_name_are_distinguished(run_module: Any, endpoint: str, reach: str) -> None:
    assert run_module("api_reach_info", {"endpoint": endpoint})["reach"] == reach


def test_an_invalid_time_limit_is_an_error(run_module: Any) -> None:
    assert run_module("api_reach_info", {"endpoint": "127.0.0.1:1", "timeout": 1e300})["reach"] == "unreachable"


def test_a_server_that_does_not_respond_is_reported_as_silent(run_module: Any) -> None:
    """A full queue accepts no further connection, like a packet filter that drops packets."""
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen(0)
        waiting = []
        for _number in range(4):
            client = socket.socket()
            client.setblocking(False)
            client.connect_ex(server.getsockname())
            waiting.append(client)
        result = run_module("api_reach_info", {"endpoint": f"127.0.0.1:{server.getsockname()[1]}", "timeout": 0.5})
        assert (result["reach"], result["error"]) == ("silent", "no answer within 0.5 s")
        for client in waiting:
            client.close()
