# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Check whether another machine can be reached."""

from __future__ import annotations

import socket
from typing import Any

from .._kubeadm.kubeconfig import KubeconfigError, host_port
from .._kubeadm.kubeconfig import endpoint as read_endpoint


def reach(endpoint: str, timeout: float) -> tuple[str, str]:
    """Return the result of a TCP connection to ``host:port`` (IPv6 in brackets), and the system's error.

    The result is answered, refused (packets reach the host and return), silent, unreachable, or unasked for an empty
    endpoint.
    """
    if not endpoint:
        return "unasked", ""
    host, _colon, port = endpoint.rpartition(":")
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout).close()
    except ConnectionRefusedError as error:
        return "refused", str(error.strerror)
    except socket.timeout:
        return "silent", f"no answer within {timeout:g} s"
    except (OSError, ValueError, OverflowError) as error:
        return "unreachable", str(getattr(error, "strerror", None) or error)
    return "answered", ""


def reach_api(endpoint: str, server: str, timeout: float) -> dict[str, Any]:
    """Check whether a worker reaches its kubelet's API server (a URL), or else the wanted one."""
    try:
        own = host_port(*read_endpoint(server)) if server else ""
    except KubeconfigError:
        own = ""
    found, error = reach(own or endpoint, timeout)
    return {"endpoint": own or endpoint, "reach": found, "error": error}
