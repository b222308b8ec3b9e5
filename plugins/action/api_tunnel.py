# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Open an SSH tunnel to the API server of the task's host. It ends with its file, or with Ansible."""

from __future__ import annotations

import socket
import time
from pathlib import Path
from typing import Any

from ansible.plugins.action import ActionBase

from ..module_utils._errors import reported
from ..plugin_utils._api_tunnel import tunnel
from ..plugin_utils._keeper.start import start_keeper

# Time in addition to ssh's connection timeout, for keys and jump hosts.
_PATIENCE = 30.0


class ActionModule(ActionBase):  # type: ignore[misc]
    TRANSFERS_FILES = False
    _VALID_ARGS = frozenset(("path", "address", "port"))

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        super().run(tmp, task_vars)
        _checked, args = self.validate_argument_spec(
            {
                "path": {"type": "path", "required": True},
                "address": {"type": "str", "default": "127.0.0.1"},
                "port": {"type": "int", "default": 6443},
            }
        )
        host = self._task.delegate_to or (task_vars or {}).get("inventory_hostname", "")
        try:
            tunnel.refuse_other_connections(self._connection.transport, host, task_vars or {})
            port = _free_port()
            option = tunnel.connection_options(self._connection)
            said = self._open(
                Path(args["path"]), port, tunnel.ssh_arguments(option, port, args["address"], args["port"]), option
            )
        except tunnel.TunnelError as error:
            said = str(error)
        except OSError as error:
            return {"failed": True, "msg": str(reported(error))}
        if said:
            message = f"Error while opening an SSH tunnel to the API server of {host} (cluster_api_tunnel): {said}."
            return {"failed": True, "msg": message}
        return {"changed": False, "port": port}

    def _open(self, state: Path, port: int, argv: list[str], option: Any) -> str:
        """Start the tunnel and wait until it is open; return the error, empty if there is none."""
        keeper = start_keeper(state, argv)
        deadline = time.monotonic() + float(option("timeout") or 10) + _PATIENCE
        while keeper.poll() is None and time.monotonic() < deadline:
            with socket.socket() as probe:
                probe.settimeout(1)
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    state.write_text("up")
                    return ""
            time.sleep(0.1)
        log = Path(f"{state}.log")
        said = " ".join(log.read_text(errors="replace").split()) if log.exists() else ""
        for path in (state, log):
            path.unlink(missing_ok=True)
        return said or f"ssh can't connect ({' '.join(argv)})"


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
