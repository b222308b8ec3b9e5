# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.gpulab.kubernetes.plugins.plugin_utils._api_tunnel import tunnel

PLAIN = {"host": "192.0.2.11", "ssh_args": "-C -o ControlMaster=auto -o ControlPersist=60s", "timeout": 10}


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, []),
        ({"remote_user": "admin", "port": 2222}, ["-o", "Port=2222", "-o", 'User="admin"']),
        ({"private_key_file": "/k/id"}, ["-o", 'IdentityFile="/k/id"']),
        ({"host_key_checking": False}, ["-o", "StrictHostKeyChecking=no"]),
        ({"host_key_checking": True}, []),
        ({"ssh_common_args": "-o ProxyJump='a b@bastion'"}, ["-o", "ProxyJump=a b@bastion"]),
        ({"ssh_extra_args": "-4", "ssh_executable": "/opt/ssh"}, ["-4"]),
    ],
)
def test_ssh_gets_the_connection_variables_of_the_host(options: dict[str, Any], expected: list[str]) -> None:
    argv = tunnel.ssh_arguments({**PLAIN, **options}.get, 40000, "127.0.0.1", 6443)
    assert argv[0] == options.get("ssh_executable", "ssh")
    assert argv[-3:] == ["-L", "127.0.0.1:40000:127.0.0.1:6443", "192.0.2.11"]
    assert " ".join(expected) in " ".join(argv)
    # The tunnel has its own connection, whatever ansible.cfg says: ssh uses the first of equal options.
    assert argv.index("ControlMaster=no") < argv.index("ControlMaster=auto")
    assert "BatchMode=yes" in argv and "ExitOnForwardFailure=yes" in argv


@pytest.mark.parametrize(("address", "target"), [("192.168.49.2", "192.168.49.2"), ("fd00::2", "[fd00::2]")])
def test_the_api_may_have_an_address_behind_the_host(address: str, target: str) -> None:
    argv = tunnel.ssh_arguments(PLAIN.get, 40000, address, 8443)
    assert argv[-2] == f"127.0.0.1:40000:{target}:8443"


def test_a_password_is_refused() -> None:
    with pytest.raises(tunnel.TunnelError, match="ansible_password"):
        tunnel.ssh_arguments({**PLAIN, "password": "secret"}.get, 1, "127.0.0.1", 2)


@pytest.mark.parametrize("connection", ["local", "paramiko_ssh"])
def test_other_connection_plugins_are_refused(connection: str) -> None:
    with pytest.raises(tunnel.TunnelError, match=connection):
        tunnel.refuse_other_connections(connection, "cp1", {})
