# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Build ssh's arguments for a tunnel to an API server from Ansible's connection settings. Pure."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from ...module_utils._errors import DomainError
from ...module_utils._kubeadm.kubeconfig import host_port


class TunnelError(DomainError):
    """A tunnel isn't possible with these settings."""


def ssh_arguments(option: Callable[[str], Any], local_port: int, address: str, remote_port: int) -> list[str]:
    """Return the ssh command of a tunnel to an address that is reachable from the host.

    ``option`` returns values of the options of Ansible's connection plugin ssh.
    ssh uses the first value of each option, so ControlMaster and ControlPath come first: a tunnel over an existing
    connection would outlive this one.
    """
    if option("password"):
        raise TunnelError(
            "Ansible connects to the host with a password (ansible_password), but ssh in the background can't use "
            "one. Use an SSH key or an agent"
        )
    argv = [str(option("ssh_executable") or "ssh"), "-N", "-T"]
    for setting in (
        "BatchMode=yes",
        "ControlMaster=no",
        "ControlPath=none",
        "ExitOnForwardFailure=yes",
        "ServerAliveInterval=15",
        "ServerAliveCountMax=4",
    ):
        argv += ["-o", setting]
    argv += shlex.split(str(option("ssh_args") or ""))
    if option("host_key_checking") is False:
        argv += ["-o", "StrictHostKeyChecking=no"]
    for name, setting in (("port", "Port={}"), ("remote_user", 'User="{}"'), ("timeout", "ConnectTimeout={}")):
        if option(name) is not None:
            argv += ["-o", setting.format(option(name))]
    if option("private_key_file"):
        argv += ["-o", f'IdentityFile="{Path(str(option("private_key_file"))).expanduser()}"']
    for name in ("ssh_common_args", "ssh_extra_args"):
        argv += shlex.split(str(option(name) or ""))
    return [*argv, "-L", f"127.0.0.1:{local_port}:{host_port(address, remote_port)}", str(option("host"))]


def connection_options(connection: Any) -> Callable[[str], Any]:
    """Return a function that reads options of a connection plugin, None for one that this version doesn't have."""

    def option(name: str) -> Any:
        try:
            return connection.get_option(name)
        except KeyError:
            return None

    return option


def refuse_other_connections(name: str, host: str, variables: Mapping[str, Any]) -> None:
    """Raise TunnelError unless Ansible reaches the host through OpenSSH."""
    if name != "ssh":
        raise TunnelError(
            f"Ansible connects to {host} with the connection plugin {name}, but the tunnel needs OpenSSH "
            "(ansible_connection=ssh)"
        )
    if variables.get("ansible_ssh_private_key") or variables.get("ansible_private_key"):
        raise TunnelError("a key in a variable (ansible_ssh_private_key) is not supported; use a key file")
